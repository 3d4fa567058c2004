/* SPDX-License-Identifier: MIT */
/* XRC domains. ibv_open_xrcd(3). */
#ifndef AV_VERBS_IBV_XRCD_H
#define AV_VERBS_IBV_XRCD_H

#include "verbs/ibv_context.h"

struct av_xrcd {
	struct ibv_xrcd ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t handle;
	uint32_t number; /* of the domain, among all processes */
	bool shared;	 /* identified by an inode */
	_Atomic uint32_t users;
};

struct ibv_xrcd *av_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int av_close_xrcd(struct ibv_xrcd *xrcd);

/* The domain, if it belongs to the context; otherwise NULL. */
struct av_xrcd *av_xrcd_find(const struct av_context *ctx, struct ibv_xrcd *xrcd);

#endif
