/* SPDX-License-Identifier: MIT */
/* Verbs outside of memory access that this device does not have: dynamically connected transport,
 * cross-channel. */
#include "exp/exp.h"

AV_EXPORT struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context,
						 struct ibv_exp_dct_init_attr *attr)
{
	return av_exp_absent_null();
}

AV_EXPORT int ibv_exp_destroy_dct(struct ibv_exp_dct *dct)
{
	return av_exp_absent();
}

AV_EXPORT int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
				struct ibv_exp_task **bad_task)
{
	return av_exp_absent();
}
