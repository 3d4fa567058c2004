/* SPDX-License-Identifier: MIT */
/* ibv_fork_init(3): the system's library does it; ours only takes note (memory/fork_guard.h). */
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/uncancelled.h"
#include "memory/fork_guard.h"
#include "verbs/next.h"

AV_EXPORT int ibv_fork_init(void)
{
	AV_UNCANCELLED;
	int ret = AV_NEXT(ibv_fork_init, "IBVERBS_1.1")();

	if (ret == 0)
		av_fork_asked();
	return ret;
}
