/* SPDX-License-Identifier: MIT */
/*
 * Each verb translates its arguments and calls src/verbs/. Checks come in the real library's order:
 * whose device, then comp_mask (device memory: the other way round), then the rest.
 */
#ifndef AV_EXP_EXP_H
#define AV_EXP_EXP_H

#include <infiniband/verbs_exp.h>

#include "verbs/next.h"
#include "verbs/objects.h"

/* A verb's first statement, which returns if @object is NULL, EINVAL, or not of ours, ENOSYS. */
#define AV_EXP_OURS(fail, id, object)                                                           \
	do {                                                                                    \
		if (!(object))                                                                  \
			return fail(AV_VERB_##id, av_refuse(EINVAL, AV_CHECK_NO_OBJECT, 0, 0)); \
		if (!av_ours((object)->context))                                                \
			return fail(AV_VERB_##id, ENOSYS);                                      \
	} while (0)

/* Leaves a record if @mask has a bit not below @reserved, and returns as the real library does. */
#define AV_EXP_KNOWN(ret, id, mask, reserved)                                                  \
	do {                                                                                   \
		const uint32_t known_ = (uint32_t)(reserved)-1;                                \
		if ((mask) > known_)                                                           \
			(void)av_refused(AV_VERB_##id,                                         \
					 av_refuse(EINVAL, AV_CHECK_COMP_MASK, mask, known_)); \
		IBV_EXP_RET_ON_INVALID_COMP_MASK(mask, known_, ret);                           \
	} while (0)

/* Rights as plain flags and AV_ACCESS_TUNNELED. Return: 0, or EINVAL: one has no counterpart. */
AV_MUST_USE int av_exp_access(uint64_t exp, unsigned int *plain);

#endif
