/* SPDX-License-Identifier: MIT */
/*
 * Verbs that this device does not have: dynamically connected transport, cross-channel, families of
 * verbs.
 */
#include "exp/exp.h"

#define ABSENT(id, name, ...)                           \
	AV_EXPORT int name(__VA_ARGS__)                 \
	{                                               \
		return av_exp_absent(AV_VERB_EXP_##id); \
	}

ABSENT(DESTROY_DCT, ibv_exp_destroy_dct, struct ibv_exp_dct *dct)
ABSENT(QUERY_DCT, ibv_exp_query_dct, struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr)
ABSENT(ARM_DCT, ibv_exp_arm_dct, struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr)
ABSENT(POST_TASK, ibv_exp_post_task, struct ibv_context *context, struct ibv_exp_task *task,
       struct ibv_exp_task **bad_task)
ABSENT(RELEASE_INTF, ibv_exp_release_intf, struct ibv_context *context, void *intf,
       struct ibv_exp_release_intf_params *params)

AV_EXPORT struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context,
						 struct ibv_exp_dct_init_attr *attr)
{
	return av_exp_absent_null(AV_VERB_EXP_CREATE_DCT);
}

AV_EXPORT int ibv_exp_poll_dc_info(struct ibv_context *context, struct ibv_exp_dc_info_ent *ents,
				   int nent, int port)
{
	return av_fail_fd(AV_VERB_EXP_POLL_DC_INFO, ENOSYS);
}

/* Programs print @status without checking errno; other providers leave it alone. */
AV_EXPORT void *ibv_exp_query_intf(struct ibv_context *context,
				   struct ibv_exp_query_intf_params *params,
				   enum ibv_exp_query_intf_status *status)
{
	if (av_ours(context) && status)
		*status = IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED;
	return av_exp_absent_null(AV_VERB_EXP_QUERY_INTF);
}
