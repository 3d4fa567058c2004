/* SPDX-License-Identifier: MIT */
/* What pages memory is on: by their physical addresses where those may be seen, else as the kernel
 * sums them up. */
#ifndef TEST_PAGE_BACKING_H
#define TEST_PAGE_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUGE_BYTES (2ul << 20)

/* Can a shared file have huge pages here? Asks the kernel, not the library. */
bool pages_huge_possible(void);

/* May this process see physical addresses? */
bool pages_physical(void);

/*
 * Touch the range and count its HUGE_BYTES pieces that are physically contiguous. Without physical
 * addresses, counts bytes mapped as huge pages, in units of such pieces.
 */
size_t pages_huge(const void *addr, size_t bytes);

/* Bytes of this process mapped as huge pages of shared memory. */
size_t pages_mapped_huge(void);

/* Is the address in a private mapping? */
bool pages_private(const void *addr);

/* File offset of the mapping that begins at the address. */
size_t pages_offset(const void *addr);

/* What the kernel says of the mapping there, behind @name. Return: false: nothing. */
bool pages_line(const void *addr, const char *name, char *rest, size_t room);

/* Is the mapping there so? Two letters, see proc_pid_smaps(5). */
bool pages_flag(const void *addr, const char *letters);

/* Is something mapped at the address? */
bool pages_mapped(const void *addr);

/* Unused huge pages in the system's pool. */
size_t pages_in_pool(void);

/* Size of the process's address space in bytes. */
size_t pages_vm_size(void);

#endif
