/* SPDX-License-Identifier: MIT */
/*
 * From keys to bytes: each condition of the common case of av_mem_get(), and what comes of a
 * key that does not meet it. Where the common case answers, the long way gives the same answer.
 */
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "device/switches.h"
#include "fake_seg.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "registry/directory.h"

#define PART_AT	 (1ull << 29) /* where its part of the heap is described, */
#define PAGES_AT (1ull << 30) /* and the pages, from the heap's begin on: the head is there */
#define INDEX	 5u
#define KEY	 (INDEX << 8 | 7)
#define PD	 3u
#define QPN	 77u
#define BASE	 0x1000000ull /* in key space, */
#define ADDR	 0x7000000ull /* in the owner; pages begin one before, and end one after */
#define LENGTH	 0x3000ull
#define PAGE	 0x1000ull
#define RIGHTS	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define NOWHERE	 (AV_SLAB_CHUNKS * AV_KEY_CHUNK << 8 | 7) /* beyond the table */
#define NOBODY	 0x7ffffffu				  /* identity of no process */

static struct fake_seg f;
static struct av_key *k;
static struct av_heap_part *part;
static struct av_mem_request ask;

/* The owner lives, as far as the directory knows. */
static uint32_t owner_ref;
static int owner_folder;

static int group_setup(void **state)
{
	if (own_directory_join(state))
		return -1;
	owner_folder = av_dir_context_add(&owner_ref);
	return owner_folder < 0;
}

static int group_teardown(void **state)
{
	close(owner_folder);
	av_dir_context_remove(owner_ref);
	return own_directory_leave(state);
}

static void set_up_key(void)
{
	k = av_key_entry(&f.seg, KEY);
	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = RIGHTS;
	k->base = BASE;
	k->addr = ADDR;
	k->length = LENGTH;
	k->heap = (uint32_t)(PART_AT >> AV_HEAP_PART_SHIFT);
	atomic_store(&k->intact, 42);
	atomic_store(&k->key, KEY);
}

static void begin(bool own)
{
	fake_open(&f, owner_ref);
	f.seg.own = own;
	f.seg.proc = av_lock_self;
	fake_tables(&f);
	atomic_store(&f.seg.head->odp_seq, 42);
	set_up_key();
	atomic_store(&f.seg.shared_heap, (uint8_t *)f.seg.head);
	part = av_seg_at(&f.seg, PART_AT, sizeof(*part));
	part->addr = ADDR - PAGE;
	part->bytes = LENGTH + 2 * PAGE;
	atomic_store(&part->at, AV_HEAP_PART_BASE + PAGES_AT);
	ask = (struct av_mem_request){.key = KEY,
				      .pd = PD,
				      .access = IBV_ACCESS_REMOTE_WRITE,
				      .qpn = QPN,
				      .remote = true,
				      .addr = BASE + 100,
				      .length = 200};
}

static bool plain(struct av_span *span)
{
	struct av_odp_message *const untouched = (void *)&f;
	enum av_check found;

	memset(span, 0, sizeof(*span));
	span->message = untouched; /* the long way sets it */
	found = av_mem_get(&f.seg, &ask, span);
	if (found == AV_CHECK_NONE)
		av_pin_end(span->pin);
	return found == AV_CHECK_NONE && span->message == untouched;
}

static unsigned int pins(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < AV_PINS; i++)
		n += atomic_load(&f.seg.head->pin[i].word) != 0;
	return n;
}

typedef enum av_check way(struct av_span *span);

static enum av_check get(struct av_span *span)
{
	return av_mem_get(&f.seg, &ask, span);
}

static enum av_check get_any(struct av_span *span)
{
	return av_mem_get_any(&f.seg, &ask, span, NULL);
}

/* Does the key have a place in the table? Else av_mem_get() does not come to the common case. */
static bool has_entry(void)
{
	return ask.key && !f.seg.head->origin && av_key_entry(&f.seg, ask.key) == k;
}

/* As av_mem_get() does when the common case does not answer. */
static enum av_check get_any_pinned(struct av_span *span)
{
	struct av_pin *pin = has_entry() ? av_pin_begin(&f.seg, ask.key) : NULL;

	return av_mem_get_any(&f.seg, &ask, span, pin);
}

/* Each way gives @fault, and holds a pin if that is none. @span: out, of av_mem_get(); without pin
 */
static void expect_all_ways(const char *name, enum av_check fault, struct av_span *span)
{
	static way *const ways[] = {get_any, get_any_pinned, get};

	for (size_t i = 0; i < AV_ARRAY_SIZE(ways); i++) {
		enum av_check got;

		memset(span, 0, sizeof(*span));
		got = ways[i](span);
		if (got != fault)
			fail_msg("%s: way %zu: %d, not %d", name, i, got, fault);
		if (pins() != (got == AV_CHECK_NONE))
			fail_msg("%s: way %zu: %u pins", name, i, pins());
		if (got == AV_CHECK_NONE) {
			assert_int_equal(atomic_load(&span->pin->word),
					 (uint64_t)av_lock_self << 32 | ask.key);
			av_pin_end(span->pin);
			span->pin = NULL;
		}
		assert_int_equal(pins(), 0);
	}
}

/* Field by field: what lies between them says nothing. */
static void expect_same(const char *name, const struct av_span *a, const struct av_span *b)
{
	if (a->local != b->local || a->addr != b->addr || a->length != b->length ||
	    a->odp != b->odp || a->null != b->null || a->writes != b->writes || a->seg != b->seg ||
	    a->pages_owner != b->pages_owner || a->offset != b->offset || a->umr != b->umr)
		fail_msg("%s: another answer", name);
}

/* The common case answers, and the long way agrees. */
static void expect_plain(const char *name, void *local, uint64_t addr)
{
	struct av_span head, any;

	if (!plain(&head))
		fail_msg("%s: not plain", name);
	if (head.local != local || head.addr != addr || head.length != ask.length ||
	    head.seg != &f.seg || head.umr || head.odp || head.null || head.writes)
		fail_msg("%s: local %p, addr %#lx", name, head.local, head.addr);
	/* @offset is of pages only: the long way leaves it as it was, 0 here */
	memset(&any, 0, sizeof(any));
	assert_int_equal(get_any(&any), AV_CHECK_NONE);
	expect_same(name, &head, &any);
	av_pin_end(any.pin);
	expect_all_ways(name, AV_CHECK_NONE, &any);
	expect_same(name, &head, &any);
}

/* --- "look there" ---------------------------------------------------------------- */

/* A line each. */
/* clang-format off */
static void no_such_index(void) { ask.key = NOWHERE; }
static void index_without_table(void) { ask.key = (AV_KEY_CHUNK + INDEX) << 8 | 7; }
static void another_tag(void) { ask.key = KEY + 1; }
static void dead(void) { atomic_store(&k->key, 0); }
static void zero_for_dead(void) { dead(); ask.key = 0; }
static void withdrawn(void) { dead(); atomic_store(&k->held, KEY); }
static void withdrawn_by_the_dead(void) { withdrawn(); f.seg.proc = NOBODY; f.seg.own = false; }
static void another_domain(void) { ask.pd = PD + 1; }
static void right_missing(void) { ask.access = IBV_ACCESS_REMOTE_READ; }
static void one_right_of_two_missing(void)
{
	ask.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
}
static void payload_for_tunneled(void) { k->access |= AV_ACCESS_TUNNELED; ask.payload = true; }
static void other_for_tunneled(void) { k->access |= AV_ACCESS_TUNNELED; }
static void no_right_for_tunneled(void) { k->access |= AV_ACCESS_TUNNELED; ask.access = 0; }
static void begins_before(void) { ask.addr = BASE - 1; }
static void ends_behind(void) { ask.addr = BASE + LENGTH - 199; }
static void is_behind(void) { ask.addr = BASE + LENGTH; }
static void longer(void) { ask.addr = BASE; ask.length = LENGTH + 1; }
static void wraps(void) { ask.length = UINT64_MAX; }
static void address_of_the_owner(void) { ask.addr = ADDR; }
static void whole(void) { ask.whole = true; }
static void whole_and_no_range(void) { ask.whole = true; ask.addr = ask.length = 0; }
static void pages_move(void) { atomic_store(&f.seg.head->moving, 1); }
static void a_dead_moved_pages(void) { pages_move(); f.seg.proc = NOBODY; f.seg.own = false; }
static void unmapped_elsewhere(void) { atomic_store(&f.seg.head->odp_seq, 44); }
static void imported(void) { f.seg.head->origin = 9; f.seg.own = false; }
static void null_region(void) { k->kind = AV_KEY_NULL; }
static void null_region_local(void) { k->kind = AV_KEY_NULL; ask.remote = false; }
static void dm_block(void) { k->kind = AV_KEY_DM_BLOCK; }
static void mapped(void) { k->kind = AV_KEY_MAPPED; }
static void device(void) { k->kind = AV_KEY_DEVICE; k->addr = PAGES_AT; }
static void device_while_pages_move(void) { device(); pages_move(); }
static void device_first(void) { device(); k->addr = sizeof(struct av_seg_head) - 100; }
static void device_in_the_head(void) { device_first(); k->addr--; }
static void device_last(void) { device(); k->addr = AV_SEG_BYTES - 300; }
static void device_beyond(void) { device_last(); k->addr++; }
static void device_of_an_origin_that_is_gone(void) { device(); k->in_origin = 1; }
static void pages(void) { k->kind = AV_KEY_PAGES; k->addr = PAGES_AT; atomic_store(&k->intact, f.seg.ref); }
static void pages_first(void) { pages(); k->addr = sizeof(struct av_seg_head) - 100; }
static void pages_in_the_head(void) { pages_first(); k->addr--; }
static void pages_last(void) { pages(); k->addr = AV_HEAP_END - 300; }
static void pages_beyond(void) { pages_last(); k->addr++; }
static void umr_withdrawn(void) { withdrawn(); k->kind = AV_KEY_UMR; }
static void on_demand(void) { k->kind = AV_KEY_ODP; }
static void window(void) { k->kind = AV_KEY_WINDOW; k->under = AV_KEY_REGION; k->qpn = 0; k->region = KEY; }
static void window_local(void) { window(); ask.remote = false; }
static void window_of_the_queue_pair(void) { window(); k->qpn = QPN; }
static void window_of_another(void) { window(); k->qpn = QPN + 1; }
/* clang-format on */

/* What the long way makes of each, in an own segment and in a peer's. */
static const struct {
	const char *name;
	void (*spoil)(void);
	enum av_check found;
} spoils[] = {
	{"no such index", no_such_index, AV_CHECK_KEY_UNKNOWN},
	{"index without a table", index_without_table, AV_CHECK_KEY_UNKNOWN},
	{"another tag", another_tag, AV_CHECK_KEY_DEAD},
	{"dead", dead, AV_CHECK_KEY_DEAD},
	{"0, which a dead entry holds", zero_for_dead, AV_CHECK_KEY_UNKNOWN},
	{"withdrawn for a moment", withdrawn, AV_CHECK_BUSY},
	{"withdrawn by who has died", withdrawn_by_the_dead, AV_CHECK_KEY_DEAD},
	{"another domain", another_domain, AV_CHECK_KEY_PD},
	{"a right is missing", right_missing, AV_CHECK_KEY_RIGHTS},
	{"one right of two is missing", one_right_of_two_missing, AV_CHECK_KEY_RIGHTS},
	{"tunneled, a payload", payload_for_tunneled, AV_CHECK_TUNNELED},
	{"tunneled, no payload", other_for_tunneled, AV_CHECK_NONE},
	{"tunneled, no right asked for", no_right_for_tunneled, AV_CHECK_NONE},
	{"begins a byte before", begins_before, AV_CHECK_KEY_BEFORE},
	{"ends a byte behind", ends_behind, AV_CHECK_KEY_BEHIND},
	{"begins behind", is_behind, AV_CHECK_KEY_BEHIND},
	{"a byte longer", longer, AV_CHECK_KEY_BEHIND},
	{"wraps", wraps, AV_CHECK_KEY_BEHIND},
	{"the owner's address instead of the key's", address_of_the_owner, AV_CHECK_KEY_BEHIND},
	{"all of it", whole, AV_CHECK_NONE},
	{"all of it, without a range", whole_and_no_range, AV_CHECK_NONE},
	{"pages move", pages_move, AV_CHECK_BUSY},
	{"pages of who has died moved", a_dead_moved_pages, AV_CHECK_NONE},
	{"something else was unmapped", unmapped_elsewhere, AV_CHECK_NONE},
	{"imported from a context that is gone", imported, AV_CHECK_KEY_UNKNOWN},
	{"null region", null_region, AV_CHECK_KEY_IS_NULL},
	{"null region, local use", null_region_local, AV_CHECK_NONE},
	{"block of device memory", dm_block, AV_CHECK_KEY_UNKNOWN},
	{"pages for loads and stores", mapped, AV_CHECK_KEY_UNKNOWN},
	{"device memory", device, AV_CHECK_NONE},
	{"device memory while pages move", device_while_pages_move, AV_CHECK_NONE},
	{"device memory behind the head", device_first, AV_CHECK_NONE},
	{"device memory in the head", device_in_the_head, AV_CHECK_MEMORY_FAULT},
	{"device memory at the segment's end", device_last, AV_CHECK_NONE},
	{"device memory beyond the segment", device_beyond, AV_CHECK_MEMORY_FAULT},
	{"device memory of an origin that is gone", device_of_an_origin_that_is_gone,
	 AV_CHECK_MEMORY_FAULT},
	{"pages", pages, AV_CHECK_NONE},
	{"pages behind the head", pages_first, AV_CHECK_NONE},
	{"pages in the head", pages_in_the_head, AV_CHECK_MEMORY_FAULT},
	{"pages at the heap's end", pages_last, AV_CHECK_NONE},
	{"pages beyond the heap", pages_beyond, AV_CHECK_MEMORY_FAULT},
	{"a list that is being changed", umr_withdrawn, AV_CHECK_KEY_DEAD},
	{"on demand", on_demand, AV_CHECK_NONE},
	{"window", window, AV_CHECK_NONE},
	{"window, local use", window_local, AV_CHECK_KEY_IS_WINDOW},
	{"window of the queue pair", window_of_the_queue_pair, AV_CHECK_NONE},
	{"window of another one", window_of_another, AV_CHECK_KEY_WINDOW_QP},
};

TEST(what_is_not_plain)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(spoils); i++) {
		const char *name = spoils[i / 2].name;
		enum av_check found;
		struct av_span span;

		begin(i & 1);
		if (!plain(&span))
			fail_msg("before '%s': not plain", name);
		spoils[i / 2].spoil();
		if (has_entry() && plain(&span))
			fail_msg("%s: plain", name);
		found = spoils[i / 2].found;
		if (found == AV_CHECK_KEY_DEAD && !av_key_was_given(&f.seg, ask.key))
			found = AV_CHECK_KEY_UNKNOWN;
		expect_all_ways(name, found, &span);
		fake_close(&f);
	}
}

TEST(all_of_it_is_the_region)
{
	void (*const wholes[])(void) = {whole, whole_and_no_range};

	for (size_t i = 0; i < AV_ARRAY_SIZE(wholes); i++) {
		struct av_span span;

		begin(true);
		wholes[i]();
		expect_all_ways("all of it", AV_CHECK_NONE, &span);
		assert_int_equal(span.addr, ADDR);
		assert_int_equal(span.length, LENGTH);
		fake_close(&f);
	}
}

TEST(only_regions_are_plain)
{
	for (unsigned int kind = AV_KEY_NONE; kind <= AV_KEY_WINDOW; kind++) {
		struct av_span span;

		begin(true);
		k->kind = (uint8_t)kind;
		assert_int_equal(plain(&span), kind == AV_KEY_REGION);
		fake_close(&f);
	}
}

TEST(no_pin_left_is_busy)
{
	struct av_span span;

	begin(true);
	for (unsigned int i = 0; i < AV_PINS; i++)
		atomic_store(&f.seg.head->pin[i].word, (uint64_t)av_lock_self << 32 | KEY);
	assert_int_equal(get(&span), AV_CHECK_BUSY);
	assert_int_equal(get_any(&span), AV_CHECK_BUSY);
	assert_int_equal(pins(), AV_PINS);
	fake_close(&f);
}

/* --- unmapped -------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint64_t by, length; /* what was unmapped */
	enum av_check fault;
} unmappings[] = {
	{"all of it", 0, LENGTH, AV_CHECK_KEY_UNMAPPED},
	{"the page", 0, PAGE, AV_CHECK_KEY_UNMAPPED},
	{"the next page", PAGE, PAGE, AV_CHECK_NONE},
	{"the page behind it", LENGTH, PAGE, AV_CHECK_NONE},
};

TEST(unmapped)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(unmappings); i++) {
		struct av_span span;

		begin(true);
		atomic_fetch_add(&f.seg.head->odp_seq, 1); /* as the listener does */
		av_unmapped_record(&f.seg, ADDR + unmappings[i].by, unmappings[i].length);
		atomic_fetch_add(&f.seg.head->odp_seq, 1);
		if (plain(&span))
			fail_msg("%s: plain", unmappings[i].name);
		expect_all_ways(unmappings[i].name, unmappings[i].fault, &span);
		assert_int_equal(plain(&span), unmappings[i].by == LENGTH); /* looked up once */
		fake_close(&f);
	}
}

/* --- "here" ---------------------------------------------------------------------- */

static uint8_t *in_pages(uint64_t key_addr)
{
	return (uint8_t *)f.seg.head + PAGES_AT + PAGE + (key_addr - BASE);
}

TEST(first_and_last_byte)
{
	static const struct {
		uint64_t by, length;
	} rows[] = {{0, 1}, {0, LENGTH}, {LENGTH - 1, 1}, {100, LENGTH - 100}};

	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(rows); i++) {
		uint64_t by = rows[i / 2].by, addr = ADDR + by;
		bool own = i & 1;

		begin(own);
		ask.addr = BASE + by;
		ask.length = rows[i / 2].length;
		expect_plain("a range", own ? (void *)(uintptr_t)addr : in_pages(ask.addr), addr);
		fake_close(&f);
	}
}

/* clang-format off */
static void nothing(void) { }
static void local_use(void) { ask.remote = false; ask.access = IBV_ACCESS_LOCAL_WRITE; }
static void no_right_asked(void) { ask.access = 0; }
static void all_rights(void) { ask.access = RIGHTS; }
static void payload(void) { ask.payload = true; }
static void another_queue_pair(void) { ask.qpn++; }
static void held(void) { atomic_store(&k->held, KEY); }
/* clang-format on */

static const struct {
	const char *name;
	void (*change)(void);
} plains[] = {
	{"nothing", nothing},
	{"local use", local_use},
	{"no right asked for", no_right_asked},
	{"all it has", all_rights},
	{"payload", payload},
	{"another queue pair", another_queue_pair},
	{"a region that is not being changed", held},
};

TEST(what_is_plain)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(plains); i++) {
		bool own = i & 1;

		begin(own);
		plains[i / 2].change();
		expect_plain(plains[i / 2].name,
			     own ? (void *)(uintptr_t)(ADDR + 100) : in_pages(ask.addr),
			     ADDR + 100);
		fake_close(&f);
	}
}

/* The key is in order, and its bytes are out of reach: they are nowhere, or a peer's table is
 * nonsense. */
/* clang-format off */
static void not_there(void) { k->heap = 0; }
static void private_again(void) { atomic_store(&part->at, 0); }
static void described_beyond_the_segment(void) { k->heap = UINT32_MAX; }
static void described_in_the_head(void) { k->heap = 1; }
static void pages_begin_behind_it(void) { part->addr = ADDR + PAGE; }
static void pages_end_before_it(void) { part->bytes = PAGE + 100; }
static void pages_are_far_away(void) { part->addr = ~(PAGE - 1); }
static void pages_wrap(void) { part->bytes = UINT64_MAX; }
static void beyond_the_heap(void) { atomic_store(&part->at, AV_HEAP_PART_BASE + AV_SHARED_HEAP_BYTES); }
static void partly_beyond(void) { atomic_store(&part->at, AV_SHARED_HEAP_BYTES); }
static void before_the_heap(void) { atomic_store(&part->at, -PAGE); }
static void out_of_line(void) { atomic_store(&part->at, AV_HEAP_PART_BASE + PAGES_AT + 4); }
/* clang-format on */

static const struct {
	const char *name;
	void (*spoil)(void);
} unreachable[] = {
	{"not there", not_there},
	{"private again", private_again},
	{"described beyond the segment", described_beyond_the_segment},
	{"described in the head", described_in_the_head},
	{"pages that begin behind it", pages_begin_behind_it},
	{"pages that end before it", pages_end_before_it},
	{"pages of another place", pages_are_far_away},
	{"pages that wrap", pages_wrap},
	{"pages beyond the heap", beyond_the_heap},
	{"pages partly beyond", partly_beyond},
	{"pages before the heap", before_the_heap},
	{"an operand that would not be aligned here", out_of_line},
};

TEST(out_of_reach)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(unreachable); i++) {
		begin(false);
		unreachable[i].spoil();
		expect_plain(unreachable[i].name, NULL, ADDR + 100);
		f.seg.own = true;
		expect_plain(unreachable[i].name, (void *)(uintptr_t)(ADDR + 100), ADDR + 100);
		fake_close(&f);
	}
}

/* --- other kinds ----------------------------------------------------------------- */

#define REGION	  (6u << 8 | 1)
#define REGION_BY 0x500ull /* the window begins there in its region */
#define THERE	  0x9000000ull
#define OTHER_REF 0x1234u

static struct fake_seg other; /* where memory of another context is */

static struct av_key *region_of_the_window(void)
{
	struct av_key *r = av_key_entry(&f.seg, REGION);

	if (!r)
		abort(); /* unlike cmocka's, the compiler knows that one */
	return r;
}

static void window_on(uint8_t kind, uint64_t addr)
{
	struct av_key *r = region_of_the_window();

	r->kind = k->under = kind;
	r->base = THERE - REGION_BY;
	r->addr = addr - REGION_BY;
	r->heap = k->heap;
	atomic_store(&r->key, REGION);
	k->region = REGION;
	k->kind = AV_KEY_WINDOW;
	k->qpn = 0; /* where a region has @heap */
}

static void other_owner(bool mapped)
{
	pages();
	atomic_store(&k->intact, 0xabcull << 32 | OTHER_REF);
	if (mapped) {
		f.seg.pages_owner[1].base = (uint8_t *)other.seg.head;
		atomic_store(&f.seg.pages_owner[1].ref, OTHER_REF);
	}
}

/* clang-format off */
static void pages_elsewhere(void) { other_owner(true); }
static void pages_out_of_reach(void) { other_owner(false); }
static void window_on_pages(void) { pages(); window_on(AV_KEY_PAGES, PAGES_AT); }
static void window_on_those(void) { other_owner(false); window_on(AV_KEY_PAGES, PAGES_AT); }
static void window_on_nothing(void) { window_on_those(); k->region = NOWHERE; }
static void window_on_heap(void) { window_on(AV_KEY_REGION, ADDR); }
static void window_on_a_change(void) { window_on_heap(); region_of_the_window()->kind = AV_KEY_ODP; }
static void window_on_no_region(void) { window_on_heap(); k->region = NOWHERE; }
static void device_of_the_origin(void)
{
	device();
	k->in_origin = 1;
	atomic_store(&f.seg.origin, &other.seg);
}
static void on_demand_elsewhere(void) { on_demand(); k->heap = 0; }
static void on_demand_without_table(void)
{
	on_demand_elsewhere();
	f.seg.head->switches = AV_SWITCH_BIT(AV_SWITCH_CAPI);
}
/* clang-format on */

enum place { OUT, HERE, IN_OTHER, IN_HEAP };

/* In a peer's segment. */
static const struct {
	const char *name;
	void (*change)(void);
	enum place place;
	uint64_t addr, offset;
	uint32_t pages_owner; /* 1: the segment's context */
	enum { NULL_SPAN = 1, ODP_SPAN = 2, OTHERS_SPAN = 4 } flags;
} places[] = {
	{"device memory", device, HERE, PAGES_AT + 100, 0, 0, 0},
	{"device memory of the origin", device_of_the_origin, IN_OTHER, PAGES_AT + 100, 0, 0,
	 OTHERS_SPAN},
	{"pages", pages, HERE, PAGES_AT + 100, PAGES_AT + 100, 1, 0},
	{"pages of another", pages_elsewhere, IN_OTHER, PAGES_AT + 100, PAGES_AT + 100, OTHER_REF,
	 0},
	{"pages out of reach", pages_out_of_reach, OUT, BASE + 100, PAGES_AT + 100, OTHER_REF, 0},
	{"window on pages", window_on_pages, HERE, PAGES_AT + 100, PAGES_AT + 100, 1, 0},
	{"window on pages out of reach", window_on_those, OUT, THERE + 100, PAGES_AT + 100,
	 OTHER_REF, 0},
	{"window on pages of no region", window_on_nothing, OUT, 0, PAGES_AT + 100, OTHER_REF, 0},
	{"window on the heap", window_on_heap, IN_HEAP, ADDR + 100, 0, 0, 0},
	{"window on what is on demand now", window_on_a_change, OUT, ADDR + 100, 0, 0, 0},
	{"window on no region", window_on_no_region, OUT, ADDR + 100, 0, 0, 0},
	{"null region", null_region_local, OUT, ADDR + 100, 0, 0, NULL_SPAN},
	{"on demand", on_demand_elsewhere, OUT, ADDR + 100, 0, 0, ODP_SPAN},
	{"on demand, without a table", on_demand_without_table, OUT, ADDR + 100, 0, 0, 0},
};

static void *address_in(enum place place)
{
	switch (place) {
	case HERE:
		return (uint8_t *)f.seg.head + PAGES_AT + 100;
	case IN_OTHER:
		return (uint8_t *)other.seg.head + PAGES_AT + 100;
	case IN_HEAP:
		return (uint8_t *)f.seg.head + PAGES_AT + PAGE + 100;
	case OUT:
	default:
		return NULL;
	}
}

TEST(where_the_bytes_are)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(places); i++) {
		uint32_t owner = places[i].pages_owner == 1 ? owner_ref : places[i].pages_owner;
		struct av_span span;

		fake_open(&other, OTHER_REF);
		begin(false);
		places[i].change();
		expect_all_ways(places[i].name, AV_CHECK_NONE, &span);
		if (span.local != address_in(places[i].place) || span.addr != places[i].addr ||
		    span.offset != places[i].offset || span.pages_owner != owner)
			fail_msg("%s: local %p, addr %#lx, offset %#lx of %u", places[i].name,
				 span.local, span.addr, span.offset, span.pages_owner);
		if (span.null != !!(places[i].flags & NULL_SPAN) || span.umr ||
		    span.odp != !!(places[i].flags & ODP_SPAN) || span.length != 200 ||
		    span.seg != (places[i].flags & OTHERS_SPAN ? &other.seg : &f.seg))
			fail_msg("%s: fields", places[i].name);
		fake_close(&f);
		fake_close(&other);
	}
}

/* A context of another's device has the other's keys, and keys of its own behind them. */
TEST(small_keys_are_the_origins)
{
	fake_open(&other, OTHER_REF);
	begin(false);
	assert_ptr_equal(av_mem_key_owner(&f.seg, KEY), &f.seg);
	f.seg.head->origin = OTHER_REF;
	atomic_store(&f.seg.origin, &other.seg);
	assert_ptr_equal(av_mem_key_owner(&f.seg, KEY), &other.seg);
	assert_ptr_equal(av_mem_key_owner(&f.seg, (AV_IMPORT_KEYS - 1) << 8), &other.seg);
	assert_ptr_equal(av_mem_key_owner(&f.seg, AV_IMPORT_KEYS << 8), &f.seg);
	fake_close(&f);
	fake_close(&other);
}

/* --- counters -------------------------------------------------------------------- */

static void on_demand_and_dead(void)
{
	on_demand();
	dead();
}
static void on_demand_without_table_and_dead(void)
{
	on_demand_without_table();
	dead();
}
static void on_demand_of_another_domain(void)
{
	on_demand();
	another_domain();
}

static const struct {
	void (*spoil)(void);
	uint64_t count;
} misses[] = {
	{on_demand, 0},
	{on_demand_and_dead, 1},
	{on_demand_without_table_and_dead, 0},
	{on_demand_of_another_domain, 0},
	{dead, 0},
};

TEST(keys_on_demand_that_are_missing_count)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(misses); i++) {
		struct av_span span;

		begin(false);
		misses[i].spoil();
		if (get_any(&span) == AV_CHECK_NONE)
			av_pin_end(span.pin);
		if (counted(&f, AV_ODP_COUNT_MRS_NOT_FOUND) != misses[i].count)
			fail_msg("row %zu", i);
		fake_close(&f);
	}
}

int main(void)
{
	return run_cases(group_setup, group_teardown);
}
