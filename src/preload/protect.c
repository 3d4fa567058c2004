/* SPDX-License-Identifier: MIT */
/* Code and protection keys are for private pages, and rights do not change while pages move. */
#include <stdint.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "memory/heap_region.h"

AV_EXPORT int mprotect(void *start, size_t bytes, int prot)
{
	return av_heap_protect((uintptr_t)start, bytes, prot, -1);
}

/* No key is the same as mprotect(), also on kernels without keys. */
AV_EXPORT int pkey_mprotect(void *start, size_t bytes, int prot, int key)
{
	return av_heap_protect((uintptr_t)start, bytes, prot, key);
}
