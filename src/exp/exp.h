/* SPDX-License-Identifier: MIT */
/*
 * What the experimental verbs share. A verb translates its arguments for src/verbs/. It checks in
 * MLNX_OFED's order: whose device it is, comp_mask (device memory: vice versa), the rest.
 */
#pragma once

#include <infiniband/verbs_exp.h>

#include "verbs/next.h"
#include "verbs/objects.h"

/*
 * A verb's first statement: it is not cancelled from here on. Returns from the verb if @object is
 * NULL (EINVAL) or another provider's (ENOSYS). @fail: av_fail_errno() or its like
 */
#define AV_EXP_OURS(fail, id, object)                                                           \
	AV_UNCANCELLED;                                                                         \
	do {                                                                                    \
		if (!(object))                                                                  \
			return fail(AV_VERB_##id, av_refuse(EINVAL, AV_CHECK_NO_OBJECT, 0, 0)); \
		if (!av_ours((object)->context))                                                \
			return fail(AV_VERB_##id, ENOSYS);                                      \
	} while (0)

/*
 * Returns @ret from the verb if @mask has a bit not below @reserved. Sets errno and writes to
 * stderr as MLNX_OFED's library does, and leaves a record.
 */
#define AV_EXP_KNOWN(ret, id, mask, reserved)                                                  \
	do {                                                                                   \
		const uint32_t known_ = (uint32_t)(reserved)-1;                                \
		if ((mask) > known_)                                                           \
			(void)av_refused(AV_VERB_##id,                                         \
					 av_refuse(EINVAL, AV_CHECK_COMP_MASK, mask, known_)); \
		IBV_EXP_RET_ON_INVALID_COMP_MASK(mask, known_, ret);                           \
	} while (0)

/* Translate rights. @plain: out, with AV_ACCESS_TUNNELED. Return: 0; EINVAL: no counterpart */
AV_MUST_USE int av_exp_access(uint64_t exp, unsigned int *plain);
