/* SPDX-License-Identifier: MIT */
/*
 * Memory of the program that peers map: the shared heap's (docs/SHARED_HEAP.md). The library that
 * answers mmap() by such memory is preloaded for some tests. Beside a sanitizer it refuses;
 * these have a heap of their own there, without malloc(), if TEST_PEER_MEMORY is in the
 * environment.
 */
#ifndef TEST_PEER_MEMORY_H
#define TEST_PEER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Is there a heap in this process, or will there be? */
bool has_peer_memory(void);
/* End the test as skipped if not. */
void need_peer_memory(void);

/* As mmap(2) of private memory without a file, and munmap(2); after the first device is open. */
void *peer_memory_map(size_t bytes);
int peer_memory_unmap(void *p, size_t bytes);

#endif
