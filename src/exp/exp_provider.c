/* SPDX-License-Identifier: MIT */
/* ibv_exp_get_provider_func(): returns the verbs themselves. */
#include "exp/exp.h"

AV_EXPORT void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name)
{
	if (!av_ours(context))
		return av_exp_absent_null(AV_VERB_EXP_GET_PROVIDER_FUNC);
	switch (name) {
	case IBV_EXP_POST_SEND_FUNC:
		return (void *)ibv_exp_post_send;
	case IBV_EXP_POLL_CQ_FUNC:
		return (void *)ibv_exp_poll_cq;
	case IBV_POST_SEND_FUNC:
		return (void *)context->ops.post_send;
	case IBV_POLL_CQ_FUNC:
		return (void *)context->ops.poll_cq;
	case IBV_POST_RECV_FUNC:
		return (void *)context->ops.post_recv;
	}
	return av_exp_absent_null(AV_VERB_EXP_GET_PROVIDER_FUNC);
}
