/* SPDX-License-Identifier: MIT */
/* XRC domains. ibv_open_xrcd(3). */
#ifndef AV_VERBS_IBV_XRCD_H
#define AV_VERBS_IBV_XRCD_H

#include "verbs/objects.h"

struct ibv_xrcd *av_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int av_close_xrcd(struct ibv_xrcd *xrcd);

#endif
