/* SPDX-License-Identifier: MIT */
/*
 * mlockall(2) with a device open: the kernel would bring in all pages of all mappings, and fill the
 * holes of segments, which are 16 GiB each. So it locks pages as they come; then each mapping of
 * the program's is locked, which brings in its pages.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/next.h"
#include "base/uncancelled.h"
#include "segment/layout.h"

AV_FIND_NEXT(mlockall);

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

/* Is it a mapping of a whole segment, of its tables, or of a peer's heap? Its own blocks are not.
 */
static bool is_sparse(const char *line, uint64_t bytes)
{
	return (bytes >= AV_TABLES_OFFSET && strstr(line, " /memfd:anyverbs-")) ||
	       (bytes == AV_TABLES_BYTES && strstr(line, "/anyverbs-") && strstr(line, "/tables"));
}

/* @lock: unlock what is sparse, and lock all else, as far as may be. Return: is there any? */
static bool any_sparse(bool lock)
{
	AV_UNCANCELLED;
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL, *rest;
	size_t room = 0;
	bool ret = false;

	while (maps && getline(&line, &room, maps) > 0) {
		uint64_t begin = strtoul(line, &rest, 16);
		uint64_t end = *rest == '-' ? strtoul(rest + 1, NULL, 16) : begin;
		bool sparse = is_sparse(line, end - begin);

		ret |= sparse;
		if (lock)
			(void)syscall(sparse ? SYS_munlock : SYS_mlock, begin, end - begin);
	}
	free(line);
	if (maps)
		fclose(maps);
	return ret;
}

AV_EXPORT int mlockall(int flags)
{
	int saved = errno;

	if (!(flags & MCL_CURRENT) || !any_sparse(false)) {
		errno = saved;
		return AV_NEXT_OF(mlockall)(flags);
	}
	if (AV_NEXT_OF(mlockall)(flags | MCL_ONFAULT))
		return -1;
	if (!(flags & MCL_ONFAULT)) {
		(void)any_sparse(true);
		if (flags & MCL_FUTURE) /* what comes later, as it was asked for */
			(void)AV_NEXT_OF(mlockall)(MCL_FUTURE);
	}
	errno = saved;
	return 0;
}
