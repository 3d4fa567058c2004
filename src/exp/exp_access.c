/* SPDX-License-Identifier: MIT */
/* Translates experimental access flags to plain ones. */
#include "exp/exp.h"

#include "memory/key.h"

static const struct {
	uint64_t exp;
	unsigned int plain;
} pair[] = {
	{IBV_EXP_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE},
	{IBV_EXP_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE},
	{IBV_EXP_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
	{IBV_EXP_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC},
	{IBV_EXP_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND},
	{IBV_EXP_ACCESS_MW_ZERO_BASED, IBV_ACCESS_ZERO_BASED},
	{IBV_EXP_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND},
	{IBV_EXP_ACCESS_TUNNELED_ATOMIC, AV_ACCESS_TUNNELED},
	{IBV_EXP_ACCESS_RELAXED_ORDERING, IBV_ACCESS_RELAXED_ORDERING},
};

int av_exp_access(uint64_t exp, unsigned int *plain)
{
	*plain = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(pair); i++) {
		if (exp & pair[i].exp)
			*plain |= pair[i].plain;
		exp &= ~pair[i].exp;
	}
	return exp ? EINVAL : 0;
}
