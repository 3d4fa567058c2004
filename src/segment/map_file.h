/* SPDX-License-Identifier: MIT */
/* Mapping parts of a shared file so that its huge pages can be used. */
#ifndef AV_SEGMENT_MAP_FILE_H
#define AV_SEGMENT_MAP_FILE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Map [offset, offset + bytes) of a file, shared, without reserving memory, at @wanted
 * (page-aligned), or if NULL at an address that if possible equals @offset modulo the size of a
 * huge page. Return: address, or NULL and errno: EEXIST if something is mapped at @wanted, else
 * that of mmap().
 */
void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset);

/*
 * Reserve address space that begins at @offset modulo @align, a power of two. Return: address, or
 * NULL
 */
void *av_map_place(uint64_t bytes, uint64_t offset, uint64_t align);

/*
 * Give rights to what av_map_file() has mapped with none, NULL included: a sparse file as a whole.
 * In a program that locks all it maps (mlockall(2)) its holes stay holes; the kernel would fill
 * them. Return: @p, or NULL: it is unmapped
 */
void *av_map_sparse(void *p, uint64_t bytes, int prot);

/* The same for private memory; @huge: from the system's pool of huge pages. */
void *av_map_private(void *wanted, uint64_t bytes, bool huge);

#endif
