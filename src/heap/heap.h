/* SPDX-License-Identifier: MIT */
/*
 * The shared heap: memory of the program that is born shared (docs/SHARED_HEAP.md). It is a library
 * of its own, libanyverbs-heap.so.1, which only "anyverbs run --shared-heap" preloads: nobody
 * else's malloc() is touched. It knows nothing of verbs; this is all that the other library knows of
 * it.
 *
 * Every block is a shared mapping of one memfd, and lies in one window of the address space: byte n
 * of the file is at begin + n, or nowhere.
 */
#ifndef AV_HEAP_HEAP_H
#define AV_HEAP_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AV_HEAP_BYTES (64ull << 30) /* of the file, which is sparse, and of the window */

struct av_heap_share {
	uint64_t begin; /* of the window; 0: there is no shared heap yet, or never will be */
	uint64_t inode; /* of the file */
	int fd;
	/* Blocks become private, before a fork(): from true to false nobody else may store there,
	 * and afterwards they are not in the file. Set by the other library; may be NULL. */
	_Atomic(void (*)(bool begins)) moving;
};

/* NULL unless the library is preloaded. */
__attribute__((visibility("default"))) struct av_heap_share *anyverbs_heap_share(void)
	__attribute__((weak));

#endif
