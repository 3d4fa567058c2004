/* SPDX-License-Identifier: MIT */
#include "memory/key.h"

#include "copy/copy.h"

void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	if (av_unlikely((offset & (AV_CACHE_LINE - 1)) ||
			!av_range_within(offset, bytes, AV_ODP_OFFSET, AV_ODP_BYTES)))
		return NULL;
	return (uint8_t *)seg->head + offset;
}

/* Make the file system allocate real pages for a node. Return: false if it is full. */
static bool populate_node_pages(const struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	const uint8_t *p = (const uint8_t *)seg->head + offset;

	for (uint64_t at = 0; at < bytes; at += 4096)
		if (av_copy_probe(p + at, 1) != AV_COPY_OK)
			return false;
	return true;
}

/*
 * Backs the bytes before taking them: a full file system must not use up the area. Another process
 * may take them meanwhile; probing does not change them.
 */
uint64_t av_node_take(struct av_seg *seg, uint64_t bytes)
{
	_Atomic uint64_t *brk = &seg->head->odp_brk;
	uint64_t align = bytes < 4096 ? bytes : 4096; /* small nodes do not straddle pages */
	uint64_t old = atomic_load(brk), begin;

	do {
		if (old > AV_ODP_BYTES)
			return 0;
		begin = av_round_up(old, align);
		if (!av_range_within(begin, bytes, 0, AV_ODP_BYTES) ||
		    !populate_node_pages(seg, AV_ODP_OFFSET + begin, bytes))
			return 0;
	} while (!atomic_compare_exchange_weak(brk, &old, begin + bytes));
	return AV_ODP_OFFSET + begin;
}

void *av_node_make(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes)
{
	uint64_t at = atomic_load_explicit(where, memory_order_acquire), taken;

	if (!at) {
		taken = av_node_take(seg, bytes);
		if (taken && atomic_compare_exchange_strong(where, &at, taken))
			at = taken;
	}
	return av_node_at(seg, at, bytes);
}

#define WORD_BITS   64u
#define WHOLE_SPACE (1ull << 47) /* longer than any ordinary region */

struct counts {
	_Atomic uint64_t value[AV_MR_GAUGES];
} AV_ALIGNED(AV_CACHE_LINE);

struct node {
	_Atomic uint64_t on_demand[AV_KEY_CHUNK / WORD_BITS];
	struct counts of[AV_KEY_CHUNK];
};

static struct node *node_of(const struct av_seg *seg, uint32_t index)
{
	uint32_t chunk = index / AV_KEY_CHUNK;
	uint64_t at;

	if (chunk >= AV_SLAB_CHUNKS)
		return NULL;
	at = atomic_load_explicit(&seg->head->region_counts[chunk], memory_order_acquire);
	return at ? av_node_at(seg, at, sizeof(struct node)) : NULL;
}

/* Record how far nodes exist, so that iteration can stop there. */
static void note_chunk(struct av_seg *seg, uint32_t chunk)
{
	_Atomic uint32_t *chunks = &seg->head->region_chunks;
	uint32_t old = atomic_load(chunks);

	while (old <= chunk && !atomic_compare_exchange_weak(chunks, &old, chunk + 1))
		;
}

static struct node *node_make(struct av_seg *seg, uint32_t index)
{
	uint32_t chunk = index / AV_KEY_CHUNK;
	struct node *n = node_of(seg, index);

	if (n || chunk >= AV_SLAB_CHUNKS)
		return n;
	n = av_node_make(seg, &seg->head->region_counts[chunk], sizeof(*n));
	note_chunk(seg, chunk);
	return n;
}

static void set_on_demand(struct node *n, uint32_t index, bool on_demand)
{
	_Atomic uint64_t *word = &n->on_demand[index % AV_KEY_CHUNK / WORD_BITS];
	uint64_t bit = 1ull << index % WORD_BITS;

	if (on_demand)
		atomic_fetch_or(word, bit);
	else if (atomic_load(word) & bit)
		atomic_fetch_and(word, ~bit);
}

void av_region_count_begin(struct av_seg *seg, uint32_t key, bool on_demand)
{
	uint32_t index = AV_KEY_INDEX(key);
	struct node *n = on_demand ? node_make(seg, index) : node_of(seg, index);

	for (int i = 0; n && i < AV_MR_GAUGES; i++)
		atomic_store_explicit(&n->of[index % AV_KEY_CHUNK].value[i], 0,
				      memory_order_relaxed);
	if (n)
		set_on_demand(n, index, on_demand);
}

void av_region_count(struct av_seg *seg, uint32_t key, enum av_mr_counter which, uint64_t n)
{
	struct node *node = node_make(seg, AV_KEY_INDEX(key));

	if (node)
		atomic_fetch_add_explicit(&node->of[AV_KEY_INDEX(key) % AV_KEY_CHUNK].value[which],
					  n, memory_order_relaxed);
}

void av_region_counted(const struct av_seg *seg, uint32_t key, uint64_t value[AV_MR_GAUGES])
{
	const struct node *n = node_of(seg, AV_KEY_INDEX(key));

	for (int i = 0; i < AV_MR_GAUGES; i++)
		value[i] =
			n ? atomic_load_explicit(&n->of[AV_KEY_INDEX(key) % AV_KEY_CHUNK].value[i],
						 memory_order_relaxed)
			  : 0;
}

/* --- ODP regions by address ------------------------------------------------------ */

/* The first set bit from @index on within its chunk, or the chunk's end. */
static uint32_t next_bit(const struct node *n, uint32_t index)
{
	uint32_t end = (index / AV_KEY_CHUNK + 1) * AV_KEY_CHUNK;

	while (index < end) {
		uint64_t bits = atomic_load(&n->on_demand[index % AV_KEY_CHUNK / WORD_BITS]) >>
				index % WORD_BITS;

		if (bits)
			return index + (uint32_t)__builtin_ctzll(bits);
		index = (index / WORD_BITS + 1) * WORD_BITS;
	}
	return end;
}

/* The first index of an ODP region's key at or after @at, or UINT32_MAX. */
static uint32_t next_on_demand(const struct av_seg *seg, uint32_t at)
{
	uint32_t chunks = atomic_load_explicit(&seg->head->region_chunks, memory_order_acquire);

	for (uint32_t chunk = at / AV_KEY_CHUNK; chunk < chunks && chunk < AV_SLAB_CHUNKS;
	     chunk++) {
		uint32_t first = chunk * AV_KEY_CHUNK, end = first + AV_KEY_CHUNK;
		const struct node *n = node_of(seg, first);
		uint32_t index = n ? next_bit(n, at > first ? at : first) : end;

		if (index < end)
			return index;
	}
	return UINT32_MAX;
}

/* The entry may change: only statistics. */
AV_RACY static bool read_region(const struct av_seg *seg, uint32_t index,
				struct av_odp_region *region)
{
	const struct av_key *k = av_key_entry(seg, index << 8);
	uint32_t key = k ? atomic_load(&k->held) : 0;

	if (!key || atomic_load(&k->kind) != AV_KEY_ODP)
		return false;
	*region = (struct av_odp_region){key, k->addr, k->length, k->length >= WHOLE_SPACE};
	return true;
}

bool av_odp_region_next(const struct av_seg *seg, uint32_t *at, struct av_odp_region *region)
{
	uint32_t index;

	while ((index = next_on_demand(seg, *at)) != UINT32_MAX) {
		*at = index + 1;
		if (read_region(seg, index, region))
			return true;
	}
	return false;
}

void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n)
{
	struct av_odp_region r;
	uint32_t at = 0, key = 0;

	for (int i = 0; n && i < AV_ODP_REGION_LOOKS && av_odp_region_next(seg, &at, &r); i++) {
		if (!av_range_within(addr, 1, r.addr, r.length) || (key && r.whole))
			continue;
		key = r.key;
		if (!r.whole)
			break;
	}
	if (key)
		av_region_count(seg, key, which, n);
}
