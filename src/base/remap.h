/* SPDX-License-Identifier: MIT */
/* What mremap(2) is asked for, where pages of the program are ones of a file of ours. */
#ifndef AV_BASE_REMAP_H
#define AV_BASE_REMAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/checked.h"

struct av_remap {
	bool by_number; /* the system call, not the C library's function */
	void *p;
	size_t had, bytes; /* av_remap_round(): whole pages */
	int flags;
	void *wanted; /* with MREMAP_FIXED */
};

/* As the C library's function is called. @more: behind @flags */
static inline struct av_remap av_remap_of(void *p, size_t had, size_t bytes, int flags,
					  va_list more)
{
	return (struct av_remap){.p = p,
				 .had = had,
				 .bytes = bytes,
				 .flags = flags,
				 .wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL};
}

static inline void av_remap_round(struct av_remap *r, uint64_t page)
{
	r->had = av_round_up(r->had, page);
	r->bytes = av_round_up(r->bytes, page);
}

/*
 * What the kernel refuses with EINVAL whatever the memory, or would only do for shared memory: that
 * is what it takes ours for. The lengths are whole pages.
 */
static inline bool av_remap_refused(const struct av_remap *r, uint64_t page)
{
	uint64_t from = (uintptr_t)r->p, to = (uintptr_t)r->wanted;
	bool fixed = r->flags & MREMAP_FIXED, leaves = r->flags & MREMAP_DONTUNMAP;

	return (r->flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)) ||
	       ((fixed || leaves) && !(r->flags & MREMAP_MAYMOVE)) ||
	       (leaves && r->had != r->bytes) || from % page || !r->had || !r->bytes ||
	       (fixed && (to % page || (to < from + r->had && from < to + r->bytes)));
}

#endif
