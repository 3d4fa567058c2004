/* SPDX-License-Identifier: MIT */
/* Mapping part of a shared file so that its huge pages can be mapped as such. */
#ifndef AV_SEGMENT_MAP_FILE_H
#define AV_SEGMENT_MAP_FILE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * av_map_file() - map [offset, offset + bytes) of a file, shared, without reserving memory
 * @wanted: page-aligned address, or NULL: anywhere, by preference where offset and address are
 * equal modulo the size of a huge page Return: address, or NULL and errno: EEXIST if something is
 * mapped in the wanted place, else of mmap()
 */
void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset);

/* The same, of private memory of the process' own; with @huge, from the system's pool of huge
 * pages, @bytes whole ones. */
void *av_map_private(void *wanted, uint64_t bytes, bool huge);

/* Private memory whose address equals @like modulo the size of a huge page: its huge pages can be
 * moved there as such. @bytes: whole pages. Return: address, or NULL */
void *av_map_private_like(uint64_t bytes, uint64_t like);

#endif
