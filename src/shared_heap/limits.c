/* SPDX-License-Identifier: MIT */
#include "shared_heap/limits.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#define MUCH (1ull << 30) /* no machine has less, so that small blocks need not ask */

/* vm.overcommit_memory=0 refuses what can never be there. */
static bool exceeds_all(uint64_t bytes)
{
	struct sysinfo info;

	return bytes > MUCH && sysinfo(&info) == 0 &&
	       bytes / info.mem_unit > info.totalram + info.totalswap;
}

bool av_limits_apply(uint64_t bytes)
{
	struct rlimit data;

	return getrlimit(RLIMIT_DATA, &data) || data.rlim_cur != RLIM_INFINITY ||
	       exceeds_all(bytes);
}
