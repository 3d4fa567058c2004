/* SPDX-License-Identifier: MIT */
/*
 * What the files of src/exp/ share. Each exported verb here translates its arguments and calls what
 * src/verbs/ has; the objects are the plain ones. The order of checks is the real library's: whose
 * device is it, then comp_mask (device memory: the other way round), then the rest.
 */
#ifndef AV_EXP_EXP_H
#define AV_EXP_EXP_H

#include <infiniband/verbs_exp.h>

#include "verbs/fail.h"
#include "verbs/objects.h"

/* The answers of a library that has no such verb, on another provider's device. */
static inline int av_exp_absent(enum av_verb verb)
{
	return av_fail_errno(verb, ENOSYS);
}

static inline void *av_exp_absent_null(enum av_verb verb)
{
	return av_fail_null(verb, ENOSYS);
}

/**
 * av_exp_access() - rights of a region or window as plain access flags, and AV_ACCESS_TUNNELED
 * @exp: those of enum ibv_exp_access_flags that have counterparts; others are refused
 * Return: 0 or EINVAL
 */
AV_MUST_USE int av_exp_access(uint64_t exp, unsigned int *plain);

/* Is it a resource domain of that context? */
bool av_exp_domain_valid(const struct ibv_context *context, struct ibv_exp_res_domain *domain);

#endif
