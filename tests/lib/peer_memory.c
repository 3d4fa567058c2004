/* SPDX-License-Identifier: MIT */
#include "lib/peer_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/sanitized.h"

#if SANITIZED
#include "base/compiler.h"
#include "heap/blocks.h"

static bool is_wanted(void)
{
	return getenv("TEST_PEER_MEMORY") != NULL;
}

/* The library of verbs finds this. */
AV_EXPORT const struct av_shared_heap *anyverbs_shared_heap(const struct av_shared_heap_user *user)
{
	return is_wanted() ? av_block_begin(user) : NULL;
}

static void *take(size_t bytes)
{
	return av_block_take(bytes, 1, true);
}

int peer_memory_unmap(void *p, size_t bytes)
{
	bool blocks = av_block_unmap_begin(p, bytes);
	int ret = munmap(p, bytes);

	if (blocks)
		av_block_unmap_end(p, bytes, ret ? AV_BLOCK_STAYS : AV_BLOCK_GONE);
	return ret;
}
#else
static bool is_wanted(void)
{
	return true;
}

static void *take(size_t bytes)
{
	(void)bytes;
	return NULL;
}

int peer_memory_unmap(void *p, size_t bytes)
{
	return munmap(p, bytes);
}
#endif

bool has_peer_memory(void)
{
	return is_wanted() && dlsym(RTLD_DEFAULT, "anyverbs_shared_heap") != NULL;
}

void need_peer_memory(void)
{
	if (has_peer_memory())
		return;
	puts("SKIPPED: the shared heap is not preloaded");
	exit(77);
}

void *peer_memory_map(size_t bytes)
{
	void *p = take(bytes);

	return p ? p
		 : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
