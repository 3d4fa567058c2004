/* SPDX-License-Identifier: MIT */
/* Where experimental values begin, and the checks of comp_mask that programs may use, too. */
#ifndef INFINIBAND_EXP_BASE_H
#define INFINIBAND_EXP_BASE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
#define IBV_EXP_BEGIN_DECLS_ extern "C" {
#define IBV_EXP_END_DECLS_   }
#else
#define IBV_EXP_BEGIN_DECLS_
#define IBV_EXP_END_DECLS_
#endif

#ifndef DEPRECATED
#define DEPRECATED __attribute__((deprecated))
#endif

__extension__ enum ibv_exp_start_values {
	IBV_EXP_START_ENUM = 0x40,
	IBV_EXP_START_FLAG_LOC = 0x20,
	IBV_EXP_START_FLAG = 1ULL << IBV_EXP_START_FLAG_LOC,
};

/* Masks are compared as numbers: one unknown high bit makes a mask invalid, a hole in the known
 * bits does not. */
#define IBV_EXP_RET_ON_INVALID_COMP_MASK(val, valid_mask, ret)                                  \
	if ((val) > (valid_mask)) {                                                             \
		fprintf(stderr,                                                                 \
			"%s: invalid comp_mask !!! (comp_mask = 0x%llx valid_mask = 0x%llx)\n", \
			__func__, (unsigned long long)(val), (unsigned long long)(valid_mask)); \
		errno = EINVAL;                                                                 \
		return ret;                                                                     \
	}
#define IBV_EXP_RET_NULL_ON_INVALID_COMP_MASK(val, valid_mask) \
	IBV_EXP_RET_ON_INVALID_COMP_MASK(val, valid_mask, NULL)
#define IBV_EXP_RET_EINVAL_ON_INVALID_COMP_MASK(val, valid_mask) \
	IBV_EXP_RET_ON_INVALID_COMP_MASK(val, valid_mask, EINVAL)
#define IBV_EXP_RET_ZERO_ON_INVALID_COMP_MASK(val, valid_mask) \
	IBV_EXP_RET_ON_INVALID_COMP_MASK(val, valid_mask, 0)

/* Objects that only pointers to are used of. */
struct ibv_exp_peer_direct_attr;
struct ibv_exp_rx_hash_conf;
struct ibv_exp_send_wr;
struct ibv_exp_dct;

#endif
