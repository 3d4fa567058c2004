/* SPDX-License-Identifier: MIT */
/* Blocks of the shared heap (heap/heap.h). Thread-safe; blocks on a mutex; not async-signal-safe. */
#ifndef AV_HEAP_WINDOW_H
#define AV_HEAP_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AV_HEAP_LEAST (4096u) /* bytes of the smallest block */
#define AV_HEAP_PAGE  4096u

/* Is that address in the window? No lock. */
bool av_window_has(const void *p);

/**
 * av_window_take() - a new block of zeros that may be read and written
 * @bytes: rounded up to whole pages; @align: a power of two
 * Return: NULL: no room, or no shared heap in this process; errno is kept
 */
void *av_window_take(size_t bytes, size_t align);

/* The block that begins at @p: its bytes, 0: there is none. */
size_t av_window_bytes(const void *p);

/* Have the block that begins at @p end elsewhere, at whole pages. Return: false: there is something
 * else behind it */
bool av_window_resize(void *p, size_t bytes);

/* Unmap the block that begins at @p. */
void av_window_free(void *p);

/* The program has unmapped a range: what was blocks there is free. @reused: something else is
 * mapped there now. */
void av_window_gone(const void *p, size_t bytes, bool reused);

#endif
