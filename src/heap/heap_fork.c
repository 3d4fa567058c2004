/* SPDX-License-Identifier: MIT */
#include "heap/blocks.h"

#include <string.h>

#include "memory/region.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

typedef void exchange_fn(uint64_t addr, uint64_t bytes, bool begins);

/* Without the file: new private memory, the same bytes. What threads store meanwhile is lost. */
static void copy_private(uint64_t at, uint64_t bytes)
{
	void *p = av_heap_map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

	if (p == MAP_FAILED)
		return;
	memcpy(p, av_heap_pointer(at), bytes);
	AV_RAW(SYS_mremap, p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
}

/* One page costs less by a store that changes nothing than by a system call. */
AV_RACY static bool populate(uint64_t at, uint64_t bytes)
{
	_Atomic uint8_t *byte = (void *)at;
	uint8_t value = 0;

	if (bytes > AV_SPARSE_PAGE)
		return AV_RAW(SYS_madvise, at, bytes, MADV_POPULATE_WRITE) == 0;
	while (!atomic_compare_exchange_weak(byte, &value, value))
		;
	return true;
}

/* Have private copies of the file's pages. Return: false: not of all */
static bool populate_heap_copies(uint64_t at, uint64_t end)
{
	uint64_t pos = av_heap_offset(at), part_end;
	bool all = true;

	for (; all && av_sparse_next(av_heap_shown.file.fd, &pos, av_heap_offset(end), &part_end);
	     pos = part_end)
		all = populate(av_heap_shown.begin + pos, part_end - pos);
	return all;
}

/*
 * Threads may store at any moment: a private mapping of the same pages takes their place in one
 * step, so that a store is in the page before or in the private copy after. Then all of it is
 * copied, and the file's pages go, so that what the program discards later reads as zeros. Holes of
 * the file stay holes: nobody stores there any more.
 */
static void map_private(uint64_t at, uint64_t end, bool keep)
{
	if (av_heap_map(at, end - at, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE) != MAP_FAILED &&
	    populate_heap_copies(at, end) && !keep)
		av_heap_punch(at, end);
}

static void privatise(const struct av_vma *vma, uint64_t at, uint64_t end, exchange_fn *exchange,
		      bool keep)
{
	int prot = av_vma_rights(vma);

	exchange(at, end - at, true);
	if (!av_heap_has_file())
		copy_private(at, end - at);
	else
		map_private(at, end, keep);
	if (prot != (PROT_READ | PROT_WRITE))
		AV_RAW(SYS_mprotect, at, end - at, prot);
	exchange(at, end - at, false);
}

/* The first mapping of the file in [at, end), which is [*at, *until) from then on. */
static bool next_mapping(int maps, uint64_t *at, uint64_t end, uint64_t *until, struct av_vma *vma)
{
	while (*at < end && av_vma_next(maps, *at, vma) && vma->begin < end) {
		*at = vma->begin > *at ? vma->begin : *at;
		*until = vma->end < end ? vma->end : end;
		if (vma->shared && av_vma_is_of(vma, &av_heap_shown.file))
			return true;
		*at = vma->end;
	}
	return false;
}

static bool is_block_shared(const struct av_block *b)
{
	return b->kind == AV_BLOCK_SHARED && !b->going;
}

/*
 * Block @i and those right behind it up to @end, at once: they may be one mapping, and there may be
 * no room for two. Return: index of the next block
 */
static uint32_t privatise_blocks(int maps, uint32_t i, uint64_t end, exchange_fn *exchange,
				 bool keep)
{
	struct av_block_list *l = &av_blocks.list;
	uint64_t at = l->block[i].begin, until, last;
	struct av_vma vma;

	do {
		last = l->block[i].end;
		l->block[i++].kind = AV_BLOCK_PRIVATE;
	} while (i < l->count && last < end && l->block[i].begin == last &&
		 is_block_shared(&l->block[i]));
	for (; next_mapping(maps, &at, last, &until, &vma); at = until)
		privatise(&vma, at, until, exchange, keep);
	return i;
}

/* For a child, if the blocks stay. Not by the program's mapping, which it may have protected. */
static void copy_block(struct av_block *b)
{
	uint64_t bytes = b->end - b->begin;
	void *p = av_heap_map(0, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (p == MAP_FAILED)
		return;
	if (av_sparse_read(av_heap_shown.file.fd, av_heap_offset(b->begin), bytes, p))
		b->copy = (uintptr_t)p;
	else
		AV_RAW(SYS_munmap, p, bytes);
}

static void drop_copy(struct av_block *b)
{
	if (b->copy)
		AV_RAW(SYS_munmap, b->copy, b->end - b->begin);
	b->copy = 0;
}

/* Without a copy the child gets a private mapping, which may show what the parent stores later. */
static void use_copy(const struct av_vma *vma, uint64_t at, uint64_t end, uint64_t copy)
{
	int prot = av_vma_rights(vma);

	if (copy && AV_RAW(SYS_mprotect, copy, end - at, prot) == 0 &&
	    AV_RAW(SYS_mremap, copy, end - at, end - at, MREMAP_MAYMOVE | MREMAP_FIXED, at) != -1)
		return;
	(void)!av_heap_map(at, end - at, prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE);
}

/* Without a descriptor to see mappings by, all of it becomes readable and writable. */
static void use_copies(int maps, struct av_block *b)
{
	struct av_vma vma = {.readable = true, .writable = true};
	uint64_t until;

	if (maps < 0)
		use_copy(&vma, b->begin, b->end, b->copy);
	for (uint64_t at = b->begin; maps >= 0 && next_mapping(maps, &at, b->end, &until, &vma);
	     at = until)
		use_copy(&vma, at, until, b->copy ? b->copy + (at - b->begin) : 0);
	drop_copy(b); /* what found no place */
	b->kind = AV_BLOCK_PRIVATE;
}

/* The lock is held. Return: false: nothing has changed, since no descriptor is to be had */
static bool privatise_range(uint64_t addr, uint64_t end, exchange_fn *exchange, bool keep)
{
	struct av_block_list *l = &av_blocks.list;
	int maps AV_CLOSED = l->count ? av_vma_open_own() : -1;

	if (maps < 0)
		return l->count == 0;
	for (uint32_t i = av_block_find(l, addr); i < l->count && l->block[i].begin < end;)
		i = is_block_shared(&l->block[i]) ? privatise_blocks(maps, i, end, exchange, keep)
						  : i + 1;
	return true;
}

static void leave_range(uint64_t addr, uint64_t bytes, exchange_fn *exchange, bool keep)
{
	if (!av_heap_enter())
		return;
	(void)privatise_range(addr, addr + bytes, exchange, keep);
	av_heap_exit();
}

static void copy_shared_blocks(void)
{
	for (uint32_t i = 0; i < av_blocks.list.count; i++)
		if (is_block_shared(&av_blocks.list.block[i]))
			copy_block(&av_blocks.list.block[i]);
}

static void use_copies_of_blocks(void)
{
	int maps AV_CLOSED = av_vma_open_own();

	for (uint32_t i = 0; i < av_blocks.list.count; i++)
		if (is_block_shared(&av_blocks.list.block[i]))
			use_copies(maps, &av_blocks.list.block[i]);
}

static void prepare_blocks_for_fork(exchange_fn *exchange, bool stay)
{
	AV_ERRNO_KEPT;

	av_heap_lock();
	av_blocks.closed = true;
	av_heap_unlock();
	av_block_drop_spares();
	av_heap_lock();
	stay = stay && av_heap_has_file();
	av_blocks.stay = stay || !privatise_range(0, UINT64_MAX, exchange, false);
	if (av_blocks.stay)
		copy_shared_blocks();
}

static void restore_blocks_in_parent(void)
{
	AV_ERRNO_KEPT;

	for (uint32_t i = 0; av_blocks.stay && i < av_blocks.list.count; i++)
		drop_copy(&av_blocks.list.block[i]);
	av_blocks.closed = av_blocks.inherited;
	av_heap_unlock();
}

/* What there is stays. The file is the parent's: nothing new comes from it. */
static void detach_blocks_in_child(void)
{
	AV_ERRNO_KEPT;

	if (av_blocks.stay)
		use_copies_of_blocks();
	av_blocks.inherited = true;
	av_heap_lock_in_child();
}

struct av_shared_heap av_heap_shown = {
	.file = {.fd = -1},
	.before_fork = prepare_blocks_for_fork,
	.after_fork_in_parent = restore_blocks_in_parent,
	.after_fork_in_child = detach_blocks_in_child,
	.leave = leave_range,
};
