/* SPDX-License-Identifier: MIT */

#include <inttypes.h>

#include "memory/odp.h"

/*
 * A tree of four levels, for 9 + 9 + 9 + 8 bits of the page number. An entry holds two moments:
 * when all of its pages were last unmapped at once, and when any was. So a large unmapping is quick
 * to record, and a large region to check. A node takes 12 KiB; a leaf 2 KiB for 1 MiB.
 */

#define INNER_BITS 9
#define LEAF_BITS  8
#define LEVELS	   3 /* above the leaves */
#define PAGES	   (1ull << (LEVELS * INNER_BITS + LEAF_BITS))
#define INNER	   (1u << INNER_BITS)
#define LEAF	   (1u << LEAF_BITS)

struct entry {
	_Atomic uint64_t child; /* offset of the node below, or 0 */
	_Atomic uint64_t all;	/* moment when all pages below were last unmapped at once */
	_Atomic uint64_t any;	/* moment when any of them was last unmapped */
};

struct inner {
	struct entry entry[INNER];
};

struct leaf {
	_Atomic uint64_t page[LEAF];
};

/* The pages of a range that the tree covers. Return: false if there are none. */
static bool run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (!av_page_run_of(addr, len, r))
		return false;
	if (r->last >= PAGES)
		r->last = PAGES - 1;
	return r->first <= r->last;
}

/* log2 of the pages below an entry of a node; the root has level 0. */
static unsigned int entry_bits(unsigned int level)
{
	return LEAF_BITS + (LEVELS - 1 - level) * INNER_BITS;
}

/* The part of a run from @page on that lies within one entry. */
static struct av_page_run clip_page_run(struct av_page_run r, uint64_t page, unsigned int bits)
{
	uint64_t end = page | ((1ull << bits) - 1);

	return (struct av_page_run){page, end < r.last ? end : r.last};
}

static uint64_t node_bytes(unsigned int level)
{
	return level < LEVELS ? sizeof(struct inner) : sizeof(struct leaf);
}

/* --- recording ------------------------------------------------------------------- */

static void record(struct av_seg *seg, void *node, unsigned int level, struct av_page_run r,
		   uint64_t moment)
{
	struct leaf *leaf = node;
	struct inner *inner = node;

	for (uint64_t page = r.first; level == LEVELS && page <= r.last; page++)
		atomic_store_explicit(&leaf->page[page % LEAF], moment, memory_order_relaxed);
	for (uint64_t page = r.first; level < LEVELS && page <= r.last;) {
		unsigned int bits = entry_bits(level);
		struct entry *e = &inner->entry[(page >> bits) % INNER];
		struct av_page_run part = clip_page_run(r, page, bits);
		bool whole = part.last - part.first + 1 == 1ull << bits;
		void *child = whole ? NULL : av_node_make(seg, &e->child, node_bytes(level + 1));

		if (whole)
			atomic_store(&e->all, moment);
		else if (child)
			record(seg, child, level + 1, part, moment);
		atomic_store(&e->any, moment);
		page = part.last + 1;
	}
}

void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t moment = atomic_load(&seg->head->odp_seq);
	struct av_page_run r;
	void *root;

	if (!run_of(addr, len, &r))
		return;
	root = av_node_make(seg, &seg->head->unmapped_root, sizeof(struct inner));
	if (root)
		record(seg, root, 0, r, moment);
}

/* --- looking up ------------------------------------------------------------------ */

static bool since(const struct av_seg *seg, void *node, unsigned int level, struct av_page_run r,
		  uint64_t moment)
{
	struct leaf *leaf = node;
	struct inner *inner = node;

	for (uint64_t page = r.first; level == LEVELS && page <= r.last; page++)
		if (atomic_load_explicit(&leaf->page[page % LEAF], memory_order_relaxed) > moment)
			return true;
	for (uint64_t page = r.first; level < LEVELS && page <= r.last;) {
		unsigned int bits = entry_bits(level);
		struct entry *e = &inner->entry[(page >> bits) % INNER];
		struct av_page_run part = clip_page_run(r, page, bits);
		void *child;

		page = part.last + 1;
		if (atomic_load_explicit(&e->any, memory_order_acquire) <= moment)
			continue;
		if (atomic_load_explicit(&e->all, memory_order_relaxed) > moment)
			return true;
		child = av_node_at(seg, atomic_load_explicit(&e->child, memory_order_acquire),
				   node_bytes(level + 1));
		if (child && since(seg, child, level + 1, part, moment))
			return true;
	}
	return false;
}

/* Was any page of the range unmapped after @moment? */
static bool unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t moment)
{
	void *root = av_node_at(
		seg, atomic_load_explicit(&seg->head->unmapped_root, memory_order_acquire),
		sizeof(struct inner));
	struct av_page_run r;

	return root && run_of(addr, len, &r) && since(seg, root, 0, r, moment);
}

bool av_still_mapped(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len)
{
	uint64_t intact = atomic_load_explicit(&k->intact, memory_order_relaxed), now;

	if (av_likely(atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == intact))
		return true;
	av_odp_settle(seg);
	now = av_unmapped_now(seg);
	if (unmapped_since(seg, k->addr, k->length, intact)) {
		if (!unmapped_since(seg, addr, len, intact))
			return true;
		av_log(AV_LOG_INFO,
		       "access to %#" PRIx64 " + %" PRIu64
		       " of process %d refused: memory there has been unmapped since its region "
		       "was registered",
		       addr, len, (int)seg->pid);
		return false;
	}
	while (intact < now && !atomic_compare_exchange_weak(&k->intact, &intact, now))
		;
	return true;
}
