/* SPDX-License-Identifier: MIT */
/* Mapping parts of a shared file so that its huge pages can be used. */
#ifndef AV_SEGMENT_MAP_FILE_H
#define AV_SEGMENT_MAP_FILE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * av_map_file() - map [offset, offset + bytes) of a file, shared, without reserving memory
 * @wanted: page-aligned address; or NULL for any, if possible one that equals @offset modulo the
 *          size of a huge page
 *
 * Return: address, or NULL and errno: EEXIST if something is mapped at @wanted, else that of mmap()
 */
void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset);

/*
 * The same for private memory. @huge: from the system's pool of huge pages; @bytes is then a
 * multiple of their size.
 */
void *av_map_private(void *wanted, uint64_t bytes, bool huge);

/*
 * Private memory whose address equals @like modulo the size of a huge page, so that its huge pages
 * can be moved there as such. @bytes: whole pages. Return: address, or NULL.
 */
void *av_map_private_like(uint64_t bytes, uint64_t like);

#endif
