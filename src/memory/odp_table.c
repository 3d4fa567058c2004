/* SPDX-License-Identifier: MIT */
#include "memory/odp.h"

#define LEAF_PAGES (1u << AV_ODP_LEAF_SHIFT)
#define L2_ENTRIES (1u << AV_ODP_L2_SHIFT)
#define L1_ENTRIES (1u << AV_ODP_L1_SHIFT)
#define L1_SHIFT \
	(AV_ODP_LEAF_SHIFT + AV_ODP_L2_SHIFT) /* log2 of the pages below one entry of the root */
#define PAGES (1ull << (L1_SHIFT + AV_ODP_L1_SHIFT))

#define WORD_PAGES 32u /* two bits per page: bit 0: valid for reading; bit 1: also for writing */
#define READ_BITS  0x5555555555555555ull
#define WRITE_BITS 0xaaaaaaaaaaaaaaaaull

struct leaf {
	_Atomic uint64_t word[LEAF_PAGES / WORD_PAGES];
};

/* In an entry: the leaf's number + 1 (0: none), above it a count of invalidations, which wraps. */
#define LEAF_BITS  24
#define LEAF_MASK  ((1ull << LEAF_BITS) - 1)
#define STAMP_STEP (1ull << LEAF_BITS)

struct l2 {
	_Atomic uint64_t entry[L2_ENTRIES];
};

static_assert(AV_ODP_BYTES / sizeof(struct leaf) < LEAF_MASK, "leaf numbers");

/* --- nodes ----------------------------------------------------------------------- */

static struct leaf *leaf_of(const struct av_seg *seg, uint64_t entry)
{
	uint64_t number = entry & LEAF_MASK;

	return number ? av_node_at(seg, AV_ODP_OFFSET + (number - 1) * sizeof(struct leaf),
				   sizeof(struct leaf))
		      : NULL;
}

static struct l2 *l2_of(const struct av_seg *seg, const struct av_odp_root *root, uint64_t page)
{
	uint64_t offset = atomic_load_explicit(&root->l1[page >> L1_SHIFT], memory_order_acquire);

	return av_node_at(seg, offset, sizeof(struct l2));
}

struct av_odp_root *av_odp_root(const struct av_seg *seg)
{
	return av_node_at(seg, atomic_load_explicit(&seg->head->odp_root, memory_order_acquire),
			  sizeof(struct av_odp_root));
}

struct av_odp_root *av_odp_root_make(struct av_seg *seg)
{
	return av_node_make(seg, &seg->head->odp_root, sizeof(struct av_odp_root));
}

/* Return: the entry, or 0 if there is no room for a leaf. */
static uint64_t leaf_make(struct av_seg *seg, _Atomic uint64_t *entry)
{
	uint64_t old = atomic_load(entry), offset, number;

	if (old & LEAF_MASK)
		return leaf_of(seg, old) ? old : 0;
	offset = av_node_take(seg, sizeof(struct leaf));
	if (!offset)
		return 0;
	number = (offset - AV_ODP_OFFSET) / sizeof(struct leaf) + 1;
	while (!(old & LEAF_MASK))
		if (atomic_compare_exchange_weak(entry, &old, old | number))
			return old | number;
	return leaf_of(seg, old) ? old : 0;
}

/* --- ranges ---------------------------------------------------------------------- */

uint64_t av_odp_pages(uint64_t addr, uint64_t len)
{
	struct av_page_run r;

	return av_page_run_of(addr, len, &r) ? r.last - r.first + 1 : 0;
}

/* The bits of word @w that belong to pages [first, last] of a leaf. */
static uint64_t word_mask(uint32_t w, uint32_t first, uint32_t last)
{
	uint64_t mask = UINT64_MAX;

	if (w == first / WORD_PAGES)
		mask <<= first % WORD_PAGES * 2;
	if (w == last / WORD_PAGES)
		mask &= UINT64_MAX >> (WORD_PAGES - 1 - last % WORD_PAGES) * 2;
	return mask;
}

/* An operation on one word. @mask covers the pages concerned. Return: a number of pages. */
typedef uint64_t (*word_fn)(_Atomic uint64_t *word, uint64_t mask, bool write);

static uint64_t word_valid(_Atomic uint64_t *word, uint64_t mask, bool write)
{
	uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);

	return (uint64_t)__builtin_popcountll(bits & mask & (write ? WRITE_BITS : READ_BITS));
}

static uint64_t word_set(_Atomic uint64_t *word, uint64_t mask, bool write)
{
	uint64_t want = write ? mask : mask & READ_BITS;
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

	if ((old & want) != want)
		old = atomic_fetch_or(word, want);
	return (uint64_t)__builtin_popcountll(~old & mask & (write ? WRITE_BITS : READ_BITS));
}

static uint64_t word_clear(_Atomic uint64_t *word, uint64_t mask, bool write)
{
	uint64_t old = 0;

	if (atomic_load(word) & mask)
		old = atomic_fetch_and(word, ~mask) & mask;
	return (uint64_t)__builtin_popcountll((old | old >> 1) & READ_BITS);
}

/* Sum @fn over every existing leaf's words, adding @step to its entry. A loop for each caller. */
static inline __attribute__((always_inline)) uint64_t
walk(const struct av_seg *seg, uint64_t addr, uint64_t len, word_fn fn, bool write, uint64_t step)
{
	struct av_odp_root *root = av_odp_root(seg);
	uint64_t sum = 0, page, end;
	struct av_page_run r;

	if (!root || !av_page_run_of(addr, len, &r) || r.first >= PAGES)
		return 0;
	r.last = r.last < PAGES ? r.last : PAGES - 1;
	for (page = r.first; page <= r.last; page = end + 1) {
		struct l2 *l2 = l2_of(seg, root, page);
		_Atomic uint64_t *entry;
		struct leaf *leaf;

		end = l2 ? page | (LEAF_PAGES - 1) : page | ((1u << L1_SHIFT) - 1);
		if (end > r.last)
			end = r.last;
		if (!l2)
			continue;
		entry = &l2->entry[page / LEAF_PAGES % L2_ENTRIES];
		leaf = leaf_of(seg, atomic_load_explicit(entry, memory_order_acquire));
		if (!leaf)
			continue;
		if (step)
			atomic_fetch_add(entry, step);
		for (uint32_t f = page % LEAF_PAGES, l = end % LEAF_PAGES, w = f / WORD_PAGES;
		     w <= l / WORD_PAGES; w++)
			sum += fn(&leaf->word[w], word_mask(w, f, l), write);
	}
	return sum;
}

uint64_t av_odp_valid(const struct av_seg *seg, uint64_t addr, uint64_t len, bool write)
{
	return walk(seg, addr, len, word_valid, write, 0);
}

uint64_t av_odp_set(struct av_seg *seg, uint64_t addr, uint64_t len, bool write)
{
	return walk(seg, addr, len, word_set, write, 0);
}

uint64_t av_odp_clear(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	return walk(seg, addr, len, word_clear, false, STAMP_STEP);
}

bool av_odp_prepare(struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t *stamp)
{
	struct av_odp_root *root = av_odp_root_make(seg);
	struct av_page_run r;

	*stamp = 0;
	if (!av_page_run_of(addr, len, &r))
		return true;
	if (!root || r.last >= PAGES)
		return false;
	for (uint64_t page = r.first; page <= r.last; page = (page | (LEAF_PAGES - 1)) + 1) {
		struct l2 *l2 = av_node_make(seg, &root->l1[page >> L1_SHIFT], sizeof(*l2));
		uint64_t entry =
			l2 ? leaf_make(seg, &l2->entry[page / LEAF_PAGES % L2_ENTRIES]) : 0;

		if (!entry)
			return false;
		*stamp += entry >> LEAF_BITS;
	}
	return true;
}

bool av_odp_unchanged(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t stamp)
{
	struct av_odp_root *root = av_odp_root(seg);
	struct av_page_run r;

	if (!av_page_run_of(addr, len, &r))
		return true;
	if (r.last >= PAGES)
		return false;
	for (uint64_t page = r.first; root && page <= r.last;
	     page = (page | (LEAF_PAGES - 1)) + 1) {
		struct l2 *l2 = l2_of(seg, root, page);

		if (l2)
			stamp -= atomic_load(&l2->entry[page / LEAF_PAGES % L2_ENTRIES]) >>
				 LEAF_BITS;
	}
	return stamp == 0;
}

/*
 * An invalidation changes the stamp, then clears. If the stamp is unchanged after the bits were
 * set, the clearing will come and find them. Otherwise it may have passed: take them back.
 */
bool av_odp_mark(struct av_seg *seg, uint64_t addr, uint64_t len, bool write, uint64_t stamp,
		 uint64_t *fresh)
{
	*fresh = 0;
	if (!av_odp_unchanged(seg, addr, len, stamp))
		return false;
	*fresh = walk(seg, addr, len, word_set, write, 0);
	if (av_likely(av_odp_unchanged(seg, addr, len, stamp)))
		return true;
	walk(seg, addr, len, word_clear, false, 0);
	*fresh = 0;
	return false;
}

#define IMPLICIT SIZE_MAX

/* All regions but implicit ones; the first @room are listed. Return: how many there are. */
static size_t others_of(const struct av_seg *seg, struct av_page_run *runs, size_t room,
			bool *implicit)
{
	struct av_odp_region r;
	uint32_t at = 0;
	size_t n = 0;

	*implicit = false;
	while (av_odp_region_next(seg, &at, &r)) {
		struct av_page_run run;

		if (r.length == IMPLICIT)
			*implicit = true;
		else if (av_page_run_of(r.addr, r.length, &run) && n++ < room)
			runs[n - 1] = run;
	}
	return n;
}

static int by_first(const void *a, const void *b)
{
	const struct av_page_run *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

static uint64_t valid(const struct av_seg *seg, uint64_t first, uint64_t end)
{
	return first < end ? av_odp_valid(seg, first << AV_NODE_PAGE_SHIFT,
					  (end - first) << AV_NODE_PAGE_SHIFT, false)
			   : 0;
}

/* The valid pages between runs that may overlap. Orders them. */
static uint64_t valid_between(const struct av_seg *seg, struct av_page_run *runs, size_t n)
{
	uint64_t pages = 0, next = 0;

	qsort(runs, n, sizeof(*runs), by_first);
	for (size_t i = 0; i < n; i++) {
		pages += valid(seg, next, runs[i].first);
		if (runs[i].last >= next)
			next = runs[i].last + 1;
	}
	return pages + valid(seg, next, UINT64_MAX >> AV_NODE_PAGE_SHIFT);
}

/*
 * The pages in use of a context's implicit regions: valid in the table, and in no other ODP region,
 * which counts its own pages, valid or not. @seg may be a view. Uses the heap; 0: no memory.
 */
static uint64_t implicit_pages(const struct av_seg *seg)
{
	struct av_page_run *runs;
	bool implicit;
	size_t room = others_of(seg, NULL, 0, &implicit), n;
	uint64_t pages;

	if (!implicit)
		return 0;
	runs = calloc(room + 1, sizeof(*runs));
	if (!runs)
		return 0;
	n = others_of(seg, runs, room, &implicit);
	pages = valid_between(seg, runs, n < room ? n : room);
	free(runs);
	return pages;
}

const struct av_odp_counter_info av_odp_counter_info[AV_ODP_COUNTER_N] = {
	[AV_ODP_COUNT_CONTENTIONS] = {"invalidations_faults_contentions", "events",
				      "Page fault events dropped, or prefetches restarted, because "
				      "pages were invalidated meanwhile",
				      false, false},
	[AV_ODP_COUNT_INVALIDATION_PAGES] = {"num_invalidation_pages", "pages",
					     "Pages invalidated by all invalidation events", false,
					     false},
	[AV_ODP_COUNT_INVALIDATIONS] = {"num_invalidations", "events", "Invalidation events", false,
					false},
	[AV_ODP_COUNT_FAULT_PAGES] = {"num_page_fault_pages", "pages",
				      "Pages faulted in by page fault events", false, false},
	[AV_ODP_COUNT_FAULTS] = {"num_page_faults", "events", "Page fault events", false, false},
	[AV_ODP_COUNT_PREFETCHES] = {"num_prefetchs_handled", "calls",
				     "Prefetch calls completed successfully", false, false},
	[AV_ODP_COUNT_PREFETCH_PAGES] = {"num_prefetch_pages", "pages",
					 "Pages prefetched by prefetch calls", false, false},
	[AV_ODP_COUNT_FAILED_RESOLUTIONS] =
		{"num_failed_resolutions", "events",
		 "Page fault events that could not be resolved: no such mapping", true, false},
	[AV_ODP_COUNT_MRS_NOT_FOUND] =
		{"num_mrs_not_found", "events",
		 "Faults that named an ODP memory region which does not exist", true, false},
	[AV_ODP_COUNT_MR_PAGES] = {"num_odp_mr_pages", "pages",
				   "Size of all ODP memory regions registered now; pages in use of "
				   "implicit ones",
				   true, true},
	[AV_ODP_COUNT_MRS] = {"num_odp_mrs", "regions", "ODP memory regions registered now", true,
			      true},
};

void av_odp_region_gauge(struct av_seg *seg, uint64_t addr, uint64_t len, int n)
{
	uint64_t pages = len == IMPLICIT ? 0 : av_odp_pages(addr, len);

	if (!seg->odp_gauge)
		return;
	atomic_fetch_add_explicit(&seg->odp_gauge->regions, (uint64_t)n, memory_order_relaxed);
	atomic_fetch_add_explicit(&seg->odp_gauge->pages, (uint64_t)n * pages,
				  memory_order_relaxed);
}

#define GAUGE(member) (offsetof(struct av_odp_gauge, member) / sizeof(uint64_t))

_Static_assert(AV_ODP_COUNTER_N <= AV_DIR_COUNTERS, "the directory has room for all counters");
_Static_assert(sizeof(struct av_odp_gauge) == AV_DIR_GAUGES * sizeof(uint64_t),
	       "and for the gauges");

/* Its process may be counting an invalidation whose call has returned already. */
static void settle_odp_counters(const struct av_seg *seg, void *arg)
{
	av_odp_settle_to_read(seg);
	*(uint64_t *)arg += implicit_pages(seg);
}

void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N])
{
	uint64_t counters[AV_DIR_COUNTERS], gauges[AV_DIR_GAUGES], implicit = 0;

	av_seg_view_each(device, settle_odp_counters, &implicit);
	av_dir_read(device, counters, gauges);
	for (int i = 0; i < AV_ODP_COUNTER_N; i++)
		value[i] = counters[i];
	value[AV_ODP_COUNT_MR_PAGES] = gauges[GAUGE(pages)] + implicit;
	value[AV_ODP_COUNT_MRS] = gauges[GAUGE(regions)];
}

/* --- invalidation; the listener comes here: no heap, no lock --------------------- */

/* Clear the overlap of a region and the range. Return: pages that were valid. */
static uint64_t invalidate_region(struct av_seg *seg, const struct av_odp_region *r, uint64_t addr,
				  uint64_t len)
{
	uint64_t last = addr + (len - 1), end = r->addr + (r->length - 1), first, pages;

	if (r->length == 0 || r->addr > last || end < addr)
		return 0;
	first = r->addr > addr ? r->addr : addr;
	pages = av_odp_clear(seg, first, (end < last ? end : last) - first + 1);
	if (pages) {
		av_region_count(seg, r->key, AV_MR_INVALIDATION_PAGES, pages);
		av_region_count(seg, r->key, AV_MR_INVALIDATIONS, 1);
	}
	return pages;
}

/* Implicit regions last: exactly one of overlapping regions counts each page. */
static uint64_t invalidate_regions(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	struct av_odp_region r, whole = {0};
	uint64_t pages = 0;
	uint32_t at = 0;

	for (int i = 0; i < AV_ODP_REGION_LOOKS && av_odp_region_next(seg, &at, &r); i++) {
		if (r.whole)
			whole = r;
		else
			pages += invalidate_region(seg, &r, addr, len);
	}
	return pages + invalidate_region(seg, &whole, addr, len);
}

void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t pages;

	if (len == 0)
		return;
	pages = invalidate_regions(seg, addr, len) + av_odp_clear(seg, addr, len);
	if (!pages)
		return;
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATION_PAGES, pages);
	/* After the pages: who sees the event sees its pages. */
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATIONS, 1);
}

/* --- eviction -------------------------------------------------------------------- */

static void evict_odp_pages(struct av_seg *seg, const struct av_odp_eviction *how, uint64_t addr,
			    uint64_t length)
{
	uint64_t first = addr >> AV_NODE_PAGE_SHIFT, pages = av_odp_pages(addr, length);

	if (how->pages == UINT32_MAX || length == IMPLICIT) {
		av_odp_invalidate(seg, addr, length);
		return;
	}
	for (uint32_t i = 0; i < how->pages && pages; i++)
		av_odp_invalidate(seg, (first + how->chance(how->arg, pages)) << AV_NODE_PAGE_SHIFT,
				  1ull << AV_NODE_PAGE_SHIFT);
}

/* If a region ends meanwhile, the invalidated pages belong to nobody: harmless. */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how)
{
	struct av_odp_region r;
	uint32_t at = 0;

	while (av_odp_region_next(seg, &at, &r))
		if (!how->key || how->key == r.key)
			evict_odp_pages(seg, how, r.addr, r.length);
}

/* --- an access ------------------------------------------------------------------- */

void av_odp_begin(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
		  struct av_odp_message *message, struct av_odp_access *access)
{
	av_odp_settle(seg);
	*access = (struct av_odp_access){
		.seg = seg, .addr = addr, .len = len, .write = write, .message = message};
	if (message && message->next != addr)
		message->counted = false;
	access->missing = av_odp_pages(addr, len) - av_odp_valid(seg, addr, len, write);
	if (av_likely(access->missing == 0))
		return;
	access->markable = av_odp_prepare(seg, addr, len, &access->stamp);
	access->steady = av_odp_track(seg, addr, len); /* last: av_odp_track() says why */
}

/* Make the pages valid, unless the mappings have changed since av_odp_begin(). */
static void resolved(const struct av_odp_access *a)
{
	uint64_t pages = a->missing;

	if (!a->steady ||
	    (a->markable && !av_odp_mark(a->seg, a->addr, a->len, a->write, a->stamp, &pages))) {
		av_odp_count(a->seg, AV_ODP_COUNT_CONTENTIONS, 1);
		return;
	}
	av_odp_count(a->seg, AV_ODP_COUNT_FAULT_PAGES, pages);
	av_odp_region_count(a->seg, a->addr, AV_MR_FAULT_PAGES, pages);
}

static void not_resolved(const struct av_odp_access *a)
{
	av_odp_count(a->seg, AV_ODP_COUNT_FAILED_RESOLUTIONS, 1);
	if (a->missing == 0)
		av_odp_clear(a->seg, a->addr, a->len);
}

/* One event for all accesses to a run of memory, but each has its pages. */
static void count_event(const struct av_odp_access *a)
{
	if (a->message && a->message->counted)
		return;
	if (a->message)
		a->message->counted = true;
	av_odp_count(a->seg, AV_ODP_COUNT_FAULTS, 1);
	av_odp_region_count(a->seg, a->addr, AV_MR_FAULTS, 1);
}

void av_odp_end(const struct av_odp_access *access, bool ok)
{
	if (av_unlikely(access->missing || !ok)) {
		if (ok)
			resolved(access);
		else
			not_resolved(access);
		count_event(access);
	}
	if (av_unlikely(access->message != NULL))
		access->message->next = access->addr + access->len;
}
