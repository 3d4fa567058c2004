/* SPDX-License-Identifier: MIT */
/* What the program does to its address space. */
#include "torture/actions.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/peer_memory.h"
#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_request.h"
#include "torture/random_run.h"

static void set_state(uint64_t first, uint64_t count, enum page_state to)
{
	for (uint64_t p = first; p < first + count; p++)
		state[p] = to;
}

/* They are not at their place any more, whatever comes there. */
static void take_away(uint64_t first, uint64_t count)
{
	const uint64_t now = tick();

	for (uint64_t p = first; p < first + count; p++)
		unmapped[p] = now;
}

static void map_pages(uint64_t first, uint64_t count)
{
	uint8_t *at = space + first * PAGE;

	say("map pages %lu + %lu anew", first, count);
	if (mmap(at, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) != at)
		DIE("mmap");
	memset(pages.shadow + first * PAGE, 0, count * PAGE);
	take_away(first, count);
	set_state(first, count, RW);
}

static void unmap_pages(uint64_t first, uint64_t count)
{
	say("unmap pages %lu + %lu", first, count);
	NEED(munmap(space + first * PAGE, count * PAGE) == 0);
	take_away(first, count);
	set_state(first, count, GONE);
}

/* Other pages come to lie there. */
static void move_pages(uint64_t first, uint64_t count)
{
	uint8_t *at = space + first * PAGE, *from;

	from = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("move other pages to %lu + %lu", first, count);
	if (from == MAP_FAILED)
		DIE("mmap");
	for (uint64_t i = 0; i < count * PAGE; i += 8)
		memcpy(from + i, &(uint64_t){rnd(0) ^ i}, 8);
	memcpy(pages.shadow + first * PAGE, from, count * PAGE);
	if (mremap(from, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
		DIE("mremap");
	take_away(first, count);
	set_state(first, count, RW);
}

static void carry_page(uint64_t from, uint64_t to)
{
	uint8_t *at = space + to * PAGE;

	if (state[from] == GONE || from == to)
		return;
	if (mremap(space + from * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
		DIE("mremap");
	memcpy(pages.shadow + to * PAGE, pages.shadow + from * PAGE, PAGE);
	take_away(from, 1);
	take_away(to, 1);
	state[to] = state[from];
	state[from] = GONE;
}

/* Pages leave their place for another one, where others were. */
static void carry_pages(uint64_t first, uint64_t count)
{
	uint64_t to = rnd(PAGES - count + 1);

	say("carry pages %lu + %lu to %lu", first, count, to);
	for (uint64_t i = 0; i < count; i++)
		carry_page(first + i, to + i);
}

static void protect_pages(uint64_t first, uint64_t count)
{
	static const int prot[] = {
		[RW] = PROT_READ | PROT_WRITE, [RO] = PROT_READ, [NO_RIGHTS] = PROT_NONE};
	enum page_state to = chance(60) ? RW : chance(60) ? RO : NO_RIGHTS;

	say("protect pages %lu + %lu: %d", first, count, (int)to);
	for (uint64_t p = first; p < first + count; p++) {
		if (state[p] == GONE)
			continue;
		NEED(mprotect(space + p * PAGE, PAGE, prot[to]) == 0);
		state[p] = to;
	}
}

static void drop_pages(uint64_t first, uint64_t count)
{
	say("MADV_DONTNEED of pages %lu + %lu", first, count);
	for (uint64_t p = first; p < first + count; p++) {
		if (state[p] == GONE)
			continue;
		NEED(madvise(space + p * PAGE, PAGE, MADV_DONTNEED) == 0);
		memset(pages.shadow + p * PAGE, 0, PAGE);
	}
}

/* Peers are not stopped by what the program does to the rights of pages on the shared heap, as an
 * adapter is not. */
static bool rights_count(void)
{
	return !has_peer_memory();
}

void act_pages(void)
{
	static void (*const change[])(uint64_t first, uint64_t count) = {
		map_pages,  map_pages,	 map_pages,	unmap_pages,
		move_pages, carry_pages, protect_pages, drop_pages};
	uint64_t count = 1 + rnd(3), first = rnd(PAGES - count + 1);
	uint64_t which = rnd(COUNT_OF(change));

	if (change[which] != protect_pages || rights_count())
		change[which](first, count);
}

/* The program itself stores. */
void act_store(void)
{
	uint64_t p = rnd(PAGES), at = p * PAGE + rnd(PAGE), bytes = 1 + rnd(PAGE - at % PAGE);

	say("store at 0x%lx + %lu", at, bytes);
	if (state[p] != RW)
		return;
	order.bytes = (uint32_t)bytes;
	random_data();
	memcpy(space + at, order.data, bytes);
	memcpy(pages.shadow + at, order.data, bytes);
}
