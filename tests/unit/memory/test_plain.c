/* SPDX-License-Identifier: MIT */
/* The short way from keys to bytes: each condition under which it does not answer, and where it
 * finds bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_seg.h"
#include "memory/plain.h"

#define CHUNK_AT   (1ull << 26)
#define ADOPTED_AT (1ull << 27) /* where the description of the adopted pages is, */
#define PAGES_AT   (1ull << 28) /* and the pages */
#define INDEX	   5u
#define KEY	   (INDEX << 8 | 7)
#define PD	   3u
#define BASE	   0x1000000ull /* in key space, */
#define ADDR	   0x7000000ull /* in the owner; pages begin one before, and end one after */
#define LENGTH	   0x3000ull
#define PAGE	   0x1000ull
#define RIGHTS	   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct fake_seg f;
static struct av_key *k;
static struct av_adopted *adopted;

/* What is asked for. */
static struct {
	uint32_t key, pd, access;
	uint64_t addr, len;
} ask;

static void begin(bool own)
{
	fake_open(&f, 1);
	f.seg.own = own;
	atomic_store(&f.seg.head->chunk[AV_SLAB_KEY][0], CHUNK_AT);
	atomic_store(&f.seg.head->odp_seq, 42);
	k = av_key_entry(&f.seg, KEY);
	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = RIGHTS;
	k->base = BASE;
	k->addr = ADDR;
	k->length = LENGTH;
	k->adopted = (uint32_t)(ADOPTED_AT >> AV_ADOPTED_SHIFT);
	atomic_store(&k->intact, 42);
	atomic_store(&k->key, KEY);
	adopted = av_seg_at(&f.seg, ADOPTED_AT, sizeof(*adopted));
	adopted->addr = ADDR - PAGE;
	adopted->bytes = LENGTH + 2 * PAGE;
	atomic_store(&adopted->at, PAGES_AT);
	ask.key = KEY;
	ask.pd = PD;
	ask.access = IBV_ACCESS_REMOTE_WRITE;
	ask.addr = BASE + 100;
	ask.len = 200;
}

static struct av_plain answer(void)
{
	return av_plain_at(&f.seg, ask.key, ask.pd, ask.access, ask.addr, ask.len);
}

/* --- "look there" ---------------------------------------------------------------- */

#define SPOIL(name, statement) \
	static void name(void) \
	{                      \
		statement;     \
	}

SPOIL(no_such_index, ask.key = AV_SLAB_CHUNKS * AV_KEY_CHUNK << 8 | 7)
SPOIL(index_without_table, ask.key = (AV_KEY_CHUNK + INDEX) << 8 | 7)
SPOIL(another_tag, ask.key = KEY + 1)
SPOIL(dead, atomic_store(&k->key, 0))
SPOIL(zero_for_dead, atomic_store(&k->key, 0); ask.key = 0)
SPOIL(imported, f.seg.head->origin = 9)
SPOIL(another_domain, ask.pd = PD + 1)
SPOIL(right_missing, ask.access = IBV_ACCESS_REMOTE_READ)
SPOIL(one_right_of_two_missing, ask.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
SPOIL(tunneled, k->access |= AV_ACCESS_TUNNELED)
SPOIL(tunneled_no_right_asked, k->access |= AV_ACCESS_TUNNELED; ask.access = 0)
SPOIL(begins_before, ask.addr = BASE - 1)
SPOIL(ends_behind, ask.addr = BASE + LENGTH - 199)
SPOIL(is_behind, ask.addr = BASE + LENGTH)
SPOIL(longer, ask.addr = BASE; ask.len = LENGTH + 1)
SPOIL(wraps, ask.len = UINT64_MAX)
SPOIL(address_of_the_owner, ask.addr = ADDR)
SPOIL(pages_move, atomic_store(&f.seg.head->moving, 1))
SPOIL(unmapped_since, atomic_store(&f.seg.head->odp_seq, 44))
SPOIL(being_unmapped, atomic_store(&f.seg.head->odp_seq, 43))

static const struct {
	const char *name;
	void (*spoil)(void);
} spoils[] = {
	{"no such index", no_such_index},
	{"index without a table", index_without_table},
	{"another tag", another_tag},
	{"dead", dead},
	{"0, which a dead entry holds", zero_for_dead},
	{"imported", imported},
	{"another domain", another_domain},
	{"a right is missing", right_missing},
	{"one right of two is missing", one_right_of_two_missing},
	{"tunneled", tunneled},
	{"tunneled, no right asked for", tunneled_no_right_asked},
	{"begins a byte before", begins_before},
	{"ends a byte behind", ends_behind},
	{"begins behind", is_behind},
	{"a byte longer", longer},
	{"wraps", wraps},
	{"the owner's address instead of the key's", address_of_the_owner},
	{"pages move", pages_move},
	{"something was unmapped", unmapped_since},
	{"something is being unmapped", being_unmapped},
};

static void expect_elsewhere(const char *name)
{
	struct av_plain at = answer();

	if (at.found || at.local || at.addr)
		fail_msg("%s: found", name);
}

static void looks_elsewhere(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(spoils) / sizeof(spoils[0]); i++) {
		begin(i & 1);
		if (!answer().found)
			fail_msg("before '%s': not found", spoils[i / 2].name);
		spoils[i / 2].spoil();
		expect_elsewhere(spoils[i / 2].name);
		fake_close(&f);
	}
}

static void other_kinds_are_elsewhere(void **state)
{
	for (unsigned int kind = AV_KEY_NONE; kind <= AV_KEY_WINDOW; kind++) {
		begin(true);
		k->kind = (uint8_t)kind;
		if (kind != AV_KEY_REGION)
			expect_elsewhere("a kind");
		fake_close(&f);
	}
}

/* --- "here" ---------------------------------------------------------------------- */

static uint8_t *in_pages(uint64_t key_addr)
{
	return (uint8_t *)f.seg.head + PAGES_AT + PAGE + (key_addr - BASE);
}

static void first_and_last_byte(void **state)
{
	static const struct {
		uint64_t by, len;
	} rows[] = {{0, 1}, {0, LENGTH}, {LENGTH - 1, 1}, {100, LENGTH - 100}};

	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		bool own = i & 1;
		struct av_plain at;

		begin(own);
		ask.addr = BASE + rows[i / 2].by;
		ask.len = rows[i / 2].len;
		at = answer();
		assert_true(at.found);
		assert_int_equal(at.addr, ADDR + rows[i / 2].by);
		assert_ptr_equal(at.local,
				 own ? (uint8_t *)(uintptr_t)at.addr : in_pages(ask.addr));
		fake_close(&f);
	}
}

/* The key is in order, and its bytes are out of reach: they are nowhere, or a peer's table is
 * nonsense. */
SPOIL(not_adopted, k->adopted = 0)
SPOIL(given_back, atomic_store(&adopted->at, 0))
SPOIL(described_beyond_the_segment, k->adopted = UINT32_MAX)
SPOIL(described_in_the_head, k->adopted = 1)
SPOIL(pages_begin_behind_it, adopted->addr = ADDR + PAGE)
SPOIL(pages_end_before_it, adopted->bytes = PAGE + 100)
SPOIL(pages_are_far_away, adopted->addr = ~(PAGE - 1))
SPOIL(pages_wrap, adopted->bytes = UINT64_MAX)
SPOIL(pages_in_the_head, atomic_store(&adopted->at, PAGE))
SPOIL(pages_beyond_the_segment, atomic_store(&adopted->at, AV_SEG_BYTES))
SPOIL(pages_partly_beyond, atomic_store(&adopted->at, AV_SEG_BYTES - PAGE))
SPOIL(pages_before_the_segment, atomic_store(&adopted->at, -PAGE))
SPOIL(pages_out_of_line, atomic_store(&adopted->at, PAGES_AT + 4))

static const struct {
	const char *name;
	void (*spoil)(void);
} unreachable[] = {
	{"not adopted", not_adopted},
	{"given back", given_back},
	{"described beyond the segment", described_beyond_the_segment},
	{"described in the head", described_in_the_head},
	{"pages that begin behind it", pages_begin_behind_it},
	{"pages that end before it", pages_end_before_it},
	{"pages of another place", pages_are_far_away},
	{"pages that wrap", pages_wrap},
	{"pages in the head", pages_in_the_head},
	{"pages beyond the segment", pages_beyond_the_segment},
	{"pages partly beyond", pages_partly_beyond},
	{"pages before the segment", pages_before_the_segment},
	{"an operand that would not be aligned here", pages_out_of_line},
};

static void out_of_reach(void **state)
{
	for (size_t i = 0; i < sizeof(unreachable) / sizeof(unreachable[0]); i++) {
		struct av_plain at;

		begin(false);
		unreachable[i].spoil();
		at = answer();
		if (!at.found || at.local || at.addr != ADDR + 100)
			fail_msg("%s: %d, at %p", unreachable[i].name, at.found, (void *)at.local);
		f.seg.own = true;
		assert_ptr_equal(answer().local, (void *)(uintptr_t)(ADDR + 100));
		fake_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looks_elsewhere),
		cmocka_unit_test(other_kinds_are_elsewhere),
		cmocka_unit_test(first_and_last_byte),
		cmocka_unit_test(out_of_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
