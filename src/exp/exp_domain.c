/* SPDX-License-Identifier: MIT */
/* Resource domains are thread domains under another name: promises that nothing here needs. */
#include "exp/exp.h"

#include "verbs/ibv_pd.h"

static_assert(sizeof(struct ibv_exp_res_domain) == sizeof(struct ibv_td), "one object, two names");

bool av_exp_domain_valid(const struct ibv_context *context, struct ibv_exp_res_domain *domain)
{
	return domain && domain->context == context && av_td_valid((struct ibv_td *)domain);
}

AV_EXPORT struct ibv_exp_res_domain *
ibv_exp_create_res_domain(struct ibv_context *context, struct ibv_exp_res_domain_init_attr *attr)
{
	struct ibv_td_init_attr plain = {.comp_mask = 0};

	if (!av_ours(context))
		return av_exp_absent_null(AV_VERB_EXP_CREATE_RES_DOMAIN);
	AV_EXP_KNOWN_OR_NULL(attr->comp_mask, IBV_EXP_RES_DOMAIN_RESERVED);
	if ((attr->comp_mask & IBV_EXP_RES_DOMAIN_THREAD_MODEL) &&
	    attr->thread_model > IBV_EXP_THREAD_SINGLE)
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN, EINVAL);
	if ((attr->comp_mask & IBV_EXP_RES_DOMAIN_MSG_MODEL) &&
	    attr->msg_model > IBV_EXP_MSG_FORCE_LOW_LATENCY)
		return av_fail_null(AV_VERB_EXP_CREATE_RES_DOMAIN, EINVAL);
	return (struct ibv_exp_res_domain *)av_alloc_td(context, &plain);
}

AV_EXPORT int ibv_exp_destroy_res_domain(struct ibv_context *context,
					 struct ibv_exp_res_domain *res_dom,
					 struct ibv_exp_destroy_res_domain_attr *attr)
{
	if (!av_ours(context))
		return av_exp_absent(AV_VERB_EXP_DESTROY_RES_DOMAIN);
	if (attr)
		AV_EXP_KNOWN_OR_EINVAL(attr->comp_mask, IBV_EXP_DESTROY_RES_DOMAIN_RESERVED);
	return av_exp_domain_valid(context, res_dom)
		       ? av_dealloc_td((struct ibv_td *)res_dom)
		       : av_fail_errno(AV_VERB_EXP_DESTROY_RES_DOMAIN, EINVAL);
}
