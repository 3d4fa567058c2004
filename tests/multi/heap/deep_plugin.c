/* SPDX-License-Identifier: MIT */
/* A plugin for test_heap_plugin.c, which opens it so that its calls reach the C library first. */
#include <stdlib.h>
#include <sys/mman.h>

#include "deep_plugin.h"

static void *map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

const struct deep_plugin deep_plugin = {malloc, realloc, free, map, munmap};
