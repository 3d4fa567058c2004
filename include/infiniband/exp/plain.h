/* SPDX-License-Identifier: MIT */
/*
 * Names that MLNX_OFED added to <infiniband/verbs.h> itself. Macros, since the enumerations they
 * belonged to are another header's here; with a cast where C++ programs assign them to the
 * enumeration and its range allows it.
 */
#ifndef INFINIBAND_EXP_PLAIN_H
#define INFINIBAND_EXP_PLAIN_H

#include <infiniband/verbs.h>

#ifndef IBV_QPT_XRC
#define IBV_QPT_XRC ((enum ibv_qp_type)5)
#endif
#ifndef IBV_QPT_RAW_ETH
#define IBV_QPT_RAW_ETH IBV_QPT_RAW_PACKET
#endif
#define IBV_EXP_QP_TYPE_START 32
#define IBV_EXP_QPT_DC_INI    ((enum ibv_qp_type)IBV_EXP_QP_TYPE_START)

#define IBV_EXP_EVENT_DCT_KEY_VIOLATION 32
#define IBV_EXP_EVENT_DCT_ACCESS_ERR	33
#define IBV_EXP_EVENT_DCT_REQ_ERR	34

#define IBV_EXP_NODE_MIC	32
#define IBV_EXP_TRANSPORT_SCIF	32
#define IBV_EXP_LINK_LAYER_SCIF 32

#ifndef IBV_REREG_MR_KEEP_VALID
#define IBV_REREG_MR_KEEP_VALID (1 << 3)
#endif

#ifndef ETHERNET_LL_SIZE
#define ETHERNET_LL_SIZE 6
#endif

#endif
