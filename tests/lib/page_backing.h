/* SPDX-License-Identifier: MIT */
/* What pages memory is on: by their physical addresses where those may be seen, else as the kernel
 * sums them up. */
#ifndef TEST_PAGE_BACKING_H
#define TEST_PAGE_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUGE_BYTES (2ul << 20)

/* Can a shared file be given huge pages here at all? Asks the kernel, not the library. */
bool pages_huge_possible(void);

/* May this process see physical addresses? */
bool pages_physical(void);

/*
 * Touch the range, and count the pieces of HUGE_BYTES from its beginning that are physically
 * contiguous (without physical addresses: bytes that are mapped as huge pages, in such pieces).
 */
size_t pages_huge(const void *addr, size_t bytes);

/* Bytes of this process that are mapped as huge pages of shared memory. */
size_t pages_mapped_huge(void);

/* Is that address in a private mapping? */
bool pages_private(const void *addr);

/* Offset in its file of the mapping that begins at that address. */
size_t pages_offset(const void *addr);

/* Is something mapped there? */
bool pages_mapped(const void *addr);

/* Huge pages that the system has in its pool and nobody uses. */
size_t pages_in_pool(void);

/* Bytes of the process' address space. */
size_t pages_vm_size(void);

#endif
