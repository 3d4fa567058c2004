/* SPDX-License-Identifier: MIT */
/* What a context offers beside its objects: clock, settings, domains, functions; what it lacks. */
#include "exp/exp.h"

#include <stdlib.h>

#include "base/clock.h"
#include "verbs/between.h"
#include "verbs/ops.h"

/* --- the clock: the host's monotonic one; a cycle is a nanosecond ---------------- */

AV_EXPORT int ibv_exp_query_values(struct ibv_context *context, int q_values,
				   struct ibv_exp_values *values)
{
	uint64_t now;

	if (!av_ours(context))
		return -av_fail_errno(AV_VERB_EXP_QUERY_VALUES, ENOSYS);
	if (q_values & ~(IBV_EXP_VALUES_RESERVED - 1))
		return -av_fail_errno(AV_VERB_EXP_QUERY_VALUES,
				      av_refuse(EINVAL, AV_CHECK_FLAGS, (uint32_t)q_values,
						IBV_EXP_VALUES_RESERVED - 1));
	now = av_now_ns();
	values->comp_mask = (uint32_t)q_values;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK_NS)
		values->hwclock_ns = now;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK)
		values->hwclock = now;
	if (q_values & IBV_EXP_VALUES_CLOCK_INFO)
		values->clock_info = (struct ibv_exp_clock_info){
			.cycles = now,
			.nsec = now,
			.mask = UINT64_MAX,
			.mult = 1,
		};
	return 0;
}

/* The shorter way round the counter: backwards if the time stamp precedes the reading. */
AV_EXPORT uint64_t ibv_exp_cqe_ts_to_ns(struct ibv_exp_clock_info *info, uint64_t cqe_ts)
{
	uint64_t after = (cqe_ts - info->cycles) & info->mask;

	IBV_EXP_RET_ZERO_ON_INVALID_COMP_MASK(info->comp_mask, 0);
	if (after <= info->mask / 2)
		return info->nsec + ((after * info->mult + info->frac) >> info->shift);
	return info->nsec -
	       ((((info->cycles - cqe_ts) & info->mask) * info->mult - info->frac) >> info->shift);
}

/* --- settings: its own once it has asked for them, until then the process's ------ */

AV_EXPORT int ibv_exp_use_priv_env(struct ibv_context *context)
{
	int err = av_ours(context) ? av_environment_detach(av_context_of(context)) : ENOSYS;

	return err ? av_fail_fd(AV_VERB_EXP_USE_PRIV_ENV, err) : 0;
}

AV_EXPORT int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value,
			     int overwrite)
{
	int err;

	if (!av_ours(context))
		return setenv(name, value, overwrite);
	err = av_environment_set(av_context_of(context), name, value, overwrite);
	return err ? av_fail_fd(AV_VERB_EXP_SETENV, err) : 0;
}

/* --- resource domains: thread domains under another name; nothing needs them ----- */

static_assert(sizeof(struct ibv_exp_res_domain) == sizeof(struct ibv_td), "one object, two names");

bool av_exp_domain_valid(const struct ibv_context *context, struct ibv_exp_res_domain *domain)
{
	return domain && domain->context == context && av_td_find((struct ibv_td *)domain);
}

AV_EXPORT struct ibv_exp_res_domain *
ibv_exp_create_res_domain(struct ibv_context *context, struct ibv_exp_res_domain_init_attr *attr)
{
	struct ibv_td_init_attr plain = {.comp_mask = 0};

	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN, ENOSYS);
	AV_EXP_KNOWN_OR_NULL(EXP_CREATE_RES_DOMAIN, attr->comp_mask, IBV_EXP_RES_DOMAIN_RESERVED);
	if ((attr->comp_mask & IBV_EXP_RES_DOMAIN_THREAD_MODEL) &&
	    attr->thread_model > IBV_EXP_THREAD_SINGLE)
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN,
				    av_refuse(EINVAL, AV_CHECK_RES_MODEL, attr->thread_model, 0));
	if ((attr->comp_mask & IBV_EXP_RES_DOMAIN_MSG_MODEL) &&
	    attr->msg_model > IBV_EXP_MSG_FORCE_LOW_LATENCY)
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN,
				    av_refuse(EINVAL, AV_CHECK_RES_MODEL, attr->msg_model, 0));
	return (struct ibv_exp_res_domain *)av_alloc_td(context, &plain);
}

AV_EXPORT int ibv_exp_destroy_res_domain(struct ibv_context *context,
					 struct ibv_exp_res_domain *res_dom,
					 struct ibv_exp_destroy_res_domain_attr *attr)
{
	if (!av_ours(context))
		return av_fail_errno(AV_VERB_EXP_DESTROY_RES_DOMAIN, ENOSYS);
	if (attr)
		AV_EXP_KNOWN_OR_EINVAL(EXP_DESTROY_RES_DOMAIN, attr->comp_mask,
				       IBV_EXP_DESTROY_RES_DOMAIN_RESERVED);
	return av_exp_domain_valid(context, res_dom)
		       ? av_dealloc_td((struct ibv_td *)res_dom)
		       : av_fail_errno(AV_VERB_EXP_DESTROY_RES_DOMAIN,
				       av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0));
}

/* --- functions: the verbs themselves --------------------------------------------- */

AV_EXPORT void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name)
{
	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_GET_PROVIDER_FUNC, ENOSYS);
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
	return av_fail_null(AV_VERB_EXP_GET_PROVIDER_FUNC, ENOSYS);
}

/* --- what the device lacks: DCT, cross-channel, families of verbs ---------------- */

#define ABSENT(id, name, ...)                                   \
	AV_EXPORT int name(__VA_ARGS__)                         \
	{                                                       \
		return av_fail_errno(AV_VERB_EXP_##id, ENOSYS); \
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
	return av_fail_null(AV_VERB_EXP_CREATE_DCT, ENOSYS);
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
	return av_fail_null(AV_VERB_EXP_QUERY_INTF, ENOSYS);
}
