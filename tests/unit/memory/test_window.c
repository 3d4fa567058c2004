/* SPDX-License-Identifier: MIT */
/* Which binds of a memory window are allowed, what they make of it, and who may end them. */
#include <errno.h>
#include <pthread.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/key.h"
#include "memory/region.h"
#include "unit/memory/heap_fixture.h"

#define PD    3u
#define QPN   77u
#define BASE  0x1000000ull
#define AT    0x2000000ull /* address of what the region calls BASE */
#define BYTES 0x4000ull
#define KEYS  16u

#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define READ   IBV_ACCESS_REMOTE_READ
#define WRITE  IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define BIND   IBV_ACCESS_MW_BIND
#define ZERO   IBV_ACCESS_ZERO_BASED
#define ONE    IBV_MW_TYPE_1
#define TWO    IBV_MW_TYPE_2

static uint32_t region, window;

static void make(enum ibv_mw_type type, uint8_t kind, uint32_t access)
{
	const struct av_key what = {.kind = kind,
				    .pd = PD,
				    .access = access,
				    .base = BASE,
				    .addr = AT,
				    .length = BYTES};

	region = av_key_create(seg, &what, KEYS);
	window = av_window_create(seg, type, PD, KEYS);
	assert_true(region && window);
}

static struct av_window_bind bind_of(uint32_t access, uint64_t addr, uint64_t length)
{
	return (struct av_window_bind){.window = window,
				       .rkey = window + 1,
				       .region = region,
				       .access = access,
				       .pd = PD,
				       .qpn = QPN,
				       .addr = addr,
				       .length = length};
}

static struct av_key *entry(uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	assert_non_null(k);
	return k;
}

/* --- which binds are allowed ------------------------------------------------------- */

static const struct {
	enum ibv_mw_type type;
	uint8_t kind;
	uint32_t region, window; /* rights */
	uint64_t addr, length;
	enum av_check found;
} rows[] = {
	{ONE, AV_KEY_REGION, LOCAL | BIND, READ | WRITE | ATOMIC, BASE, BYTES, AV_CHECK_NONE},
	{TWO, AV_KEY_REGION, LOCAL | BIND, READ | WRITE | ATOMIC, BASE, BYTES, AV_CHECK_NONE},
	{TWO, AV_KEY_ODP, LOCAL | BIND, WRITE, BASE, BYTES, AV_CHECK_NONE},
	{TWO, AV_KEY_UMR, LOCAL | BIND, WRITE, BASE, BYTES, AV_CHECK_BIND_REGION},
	{TWO, AV_KEY_NULL, LOCAL | BIND, WRITE, BASE, BYTES, AV_CHECK_BIND_REGION},
	{TWO, AV_KEY_REGION, LOCAL, READ, BASE, BYTES, AV_CHECK_BIND_REGION_FLAG},
	{TWO, AV_KEY_REGION, LOCAL | BIND | ZERO, READ, BASE, BYTES, AV_CHECK_BIND_REGION_FLAG},
	{TWO, AV_KEY_REGION, BIND, READ, BASE, BYTES, AV_CHECK_NONE},
	{TWO, AV_KEY_REGION, BIND, WRITE, BASE, BYTES, AV_CHECK_BIND_RIGHTS},
	{TWO, AV_KEY_REGION, BIND, ATOMIC, BASE, BYTES, AV_CHECK_BIND_RIGHTS},
	{TWO, AV_KEY_REGION, LOCAL | BIND, LOCAL | READ, BASE, BYTES, AV_CHECK_NONE},
	{TWO, AV_KEY_REGION, LOCAL | BIND, BIND, BASE, BYTES, AV_CHECK_BIND_FLAGS},
	{TWO, AV_KEY_REGION, LOCAL | BIND, READ | ZERO, BASE, BYTES, AV_CHECK_NONE},
	{ONE, AV_KEY_REGION, LOCAL | BIND, READ | ZERO, BASE, BYTES, AV_CHECK_BIND_TYPE},
	{TWO, AV_KEY_REGION, BIND, READ, BASE + 1, BYTES - 1, AV_CHECK_NONE},
	{TWO, AV_KEY_REGION, BIND, READ, BASE + BYTES - 1, 1, AV_CHECK_NONE},
	{TWO, AV_KEY_REGION, BIND, READ, BASE, BYTES + 1, AV_CHECK_BIND_RANGE},
	{TWO, AV_KEY_REGION, BIND, READ, BASE + 1, BYTES, AV_CHECK_BIND_RANGE},
	{TWO, AV_KEY_REGION, BIND, READ, BASE - 1, 2, AV_CHECK_BIND_RANGE},
	{TWO, AV_KEY_REGION, BIND, READ, BASE, 0, AV_CHECK_BIND_LENGTH},
	{ONE, AV_KEY_REGION, BIND, READ, BASE, 0, AV_CHECK_NONE}, /* it unbinds */
};

TEST_WITH(rights_kinds_and_ranges, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		bool bound = rows[i].found == AV_CHECK_NONE && rows[i].length > 0;
		uint64_t base = rows[i].window & ZERO ? 0 : rows[i].addr;
		struct av_window_bind bind;
		const struct av_key *w;

		make(rows[i].type, rows[i].kind, rows[i].region);
		bind = bind_of(rows[i].window, rows[i].addr, rows[i].length);
		w = entry(window);
		if (av_window_bind(seg, &bind) != rows[i].found ||
		    atomic_load(&w->key) != (bound ? bind.rkey : 0) ||
		    entry(region)->windows != bound)
			fail_msg("row %zu", i);
		if (bound &&
		    (w->base != base || w->addr != AT + rows[i].addr - BASE ||
		     w->length != rows[i].length || w->access != rows[i].window ||
		     w->under != rows[i].kind || w->qpn != (rows[i].type == TWO ? QPN : 0)))
			fail_msg("row %zu: fields", i);
		assert_int_equal(av_key_destroy(seg, region), bound ? EBUSY : 0);
		assert_int_equal(av_window_destroy(seg, window), 0);
		if (bound)
			assert_int_equal(av_key_destroy(seg, region), 0);
	}
}

/* What names the window, its region and its domain. */
TEST_WITH(names_must_fit, set_up, tear_down)
{
	static const enum av_check refused_by[] = {
		AV_CHECK_BIND_PD,	 AV_CHECK_BIND_WINDOW, AV_CHECK_BIND_LENGTH,
		AV_CHECK_BIND_REGION,	 AV_CHECK_BIND_REGION, AV_CHECK_BIND_WINDOW,
		AV_CHECK_BIND_REGION_PD,
	};
	struct av_window_bind good, bad;

	make(TWO, AV_KEY_REGION, LOCAL | BIND);
	good = bind_of(READ, BASE, BYTES);
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(refused_by); i++) {
		bad = good;
		switch (i) {
		case 0:
			bad.pd = PD + 1;
			break;
		case 1: /* of another index */
			bad.rkey += 1u << 8;
			break;
		case 2:
			bad.region = 0;
			break;
		case 3: /* another tag */
			bad.region++;
			break;
		case 4: /* a window is no region */
			bad.region = window;
			break;
		case 5: /* a region is no window */
			bad.window = bad.rkey = region;
			break;
		case 6:
			entry(region)->pd = PD + 1;
			break;
		default:
			break;
		}
		if (av_window_bind(seg, &bad) != refused_by[i])
			fail_msg("row %u", i);
		entry(region)->pd = PD;
	}
	assert_int_equal(av_window_bind(seg, &good), 0);
}

TEST_WITH(only_type_1_is_bound_again, set_up, tear_down)
{
	for (unsigned int i = 0; i < 2; i++) {
		enum ibv_mw_type type = i ? TWO : ONE;
		struct av_window_bind bind;

		make(type, AV_KEY_REGION, LOCAL | BIND);
		bind = bind_of(READ, BASE, BYTES);
		assert_int_equal(av_window_bind(seg, &bind), 0);
		bind.rkey++;
		assert_int_equal(av_window_bind(seg, &bind),
				 type == TWO ? AV_CHECK_BIND_BOUND : AV_CHECK_NONE);
		assert_int_equal(entry(region)->windows, 1);
	}
}

TEST_WITH(only_type_1_is_unbound_by_no_region, set_up, tear_down)
{
	for (unsigned int i = 0; i < 4; i++) {
		enum av_check found = i & 1   ? AV_CHECK_BIND_LENGTH
				      : i & 2 ? AV_CHECK_BIND_TYPE
					      : AV_CHECK_NONE;
		struct av_window_bind bind;

		make(i & 1 ? TWO : ONE, AV_KEY_REGION, LOCAL | BIND);
		bind = bind_of(READ, BASE, BYTES);
		assert_int_equal(av_window_bind(seg, &bind), 0);
		bind.rkey++;
		bind.region = 0;
		bind.length = i & 2 ? 1 : 0;
		assert_int_equal(av_window_bind(seg, &bind), found);
		assert_int_equal(entry(region)->windows, found ? 1 : 0);
		assert_int_equal(atomic_load(&entry(window)->key), found ? bind.rkey - 1 : 0);
	}
}

/* Programs choose the tag of a bound window. The index's next key has another one. */
TEST_WITH(the_next_key_continues_from_the_last_bind, set_up, tear_down)
{
	struct av_window_bind bind;
	uint32_t next;

	make(TWO, AV_KEY_REGION, LOCAL | BIND);
	bind = bind_of(READ, BASE, BYTES);
	bind.rkey = window ^ 0x80;
	assert_int_equal(av_window_bind(seg, &bind), 0);
	assert_int_equal(av_window_destroy(seg, window), 0);
	while (next = av_window_create(seg, TWO, PD, KEYS),
	       AV_KEY_INDEX(next) != AV_KEY_INDEX(window))
		assert_int_equal(av_window_destroy(seg, next), 0);
	assert_int_equal(next, (window & ~0xffu) | (uint8_t)(bind.rkey + 1));
}

/* --- who may end a binding --------------------------------------------------------- */

static const struct {
	enum ibv_mw_type type;
	uint32_t off_key, off_qpn; /* added to what is right */
	enum av_check ret;
} ends[] = {
	{TWO, 0, 0, AV_CHECK_NONE},
	{TWO, 1, 0, AV_CHECK_INVALIDATE_UNBOUND},
	{TWO, 0, 1, AV_CHECK_INVALIDATE_UNBOUND},
	{ONE, 0, 0, AV_CHECK_INVALIDATE_UNBOUND},
	{TWO, KEYS << 8, 0, AV_CHECK_INVALIDATE_WINDOW},
};

TEST_WITH(the_queue_pair_that_bound_it_invalidates, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(ends); i++) {
		struct av_window_bind bind;
		uint32_t key;
		bool ended = ends[i].ret == AV_CHECK_NONE;

		make(ends[i].type, AV_KEY_REGION, LOCAL | BIND);
		bind = bind_of(READ, BASE, BYTES);
		key = bind.rkey + ends[i].off_key;
		assert_int_equal(av_window_bind(seg, &bind), 0);
		entry(window)->qpn = QPN;
		assert_int_equal(av_window_may_invalidate(seg, key, QPN + ends[i].off_qpn),
				 ends[i].ret);
		assert_int_equal(entry(region)->windows, 1);
		assert_int_equal(av_window_invalidate(seg, key, QPN + ends[i].off_qpn),
				 ends[i].ret);
		assert_int_equal(atomic_load(&entry(window)->key), ended ? 0 : bind.rkey);
		assert_int_equal(entry(region)->windows, ended ? 0 : 1);
		assert_int_equal(entry(window)->region, ended ? 0 : region);
		assert_int_equal(entry(window)->qpn, ended ? 0 : QPN);
		assert_int_equal(av_window_destroy(seg, window), 0);
		assert_int_equal(av_key_destroy(seg, region), 0);
	}
	assert_int_equal(av_window_invalidate(seg, 0, QPN), AV_CHECK_INVALIDATE_WINDOW);
	assert_int_equal(av_window_may_invalidate(seg, 0, QPN), AV_CHECK_INVALIDATE_WINDOW);
}

TEST_WITH(a_queue_pair_takes_its_bindings_along, set_up, tear_down)
{
	for (uint32_t off = 0; off < 2; off++) {
		struct av_window_bind bind;

		make(TWO, AV_KEY_REGION, LOCAL | BIND);
		bind = bind_of(READ, BASE, BYTES);
		assert_int_equal(av_window_bind(seg, &bind), 0);
		av_window_queue_pair_ends(seg, window, QPN + off);
		assert_int_equal(atomic_load(&entry(window)->key), off ? bind.rkey : 0);
		assert_int_equal(entry(region)->windows, off);
	}
}

static bool lives(uint32_t owner)
{
	return owner != 0;
}

static _Atomic bool ended;

static void *end_another(void *arg)
{
	av_window_queue_pair_ends(seg, window, QPN + 1);
	atomic_store(&ended, true);
	return NULL;
}

/* Whoever is binding it may be stopped. */
TEST_WITH(a_window_of_another_queue_pair_is_not_waited_for, set_up, tear_down)
{
	bool (*alive)(uint32_t) = av_lock_owner_alive;
	struct av_window_bind bind;
	pthread_t thread;
	bool in_time;

	make(TWO, AV_KEY_REGION, LOCAL | BIND);
	bind = bind_of(READ, BASE, BYTES);
	assert_int_equal(av_window_bind(seg, &bind), 0);
	av_lock_owner_alive = lives;
	atomic_store(&entry(window)->lock.owner, av_lock_self + 1);
	assert_int_equal(pthread_create(&thread, NULL, end_another, NULL), 0);
	in_time = WAIT_UNTIL(atomic_load(&ended), 20000);
	atomic_store(&entry(window)->lock.owner, 0);
	pthread_join(thread, NULL);
	av_lock_owner_alive = alive;
	assert_true(in_time);
	assert_int_equal(atomic_load(&entry(window)->key), bind.rkey);
}

/* --- what others left -------------------------------------------------------------- */

/* How far one came who died while binding the window, or unbinding it: memory/window.c. */
enum came {
	COUNTED,   /* at the new region */
	UNBOUND,   /* from the old one, and that still counts it */
	UNCOUNTED, /* there, too, and the window still names it */
	RELEASED,
};

static const struct {
	enum came came;
	bool was_bound, binds; /* to the region both */
} left[] = {
	{COUNTED, false, true},	 {COUNTED, true, true},	  {UNBOUND, true, true},
	{UNBOUND, true, false},	 {UNCOUNTED, true, true}, {UNCOUNTED, true, false},
	{RELEASED, false, true}, {RELEASED, true, true},
};

static void leave_half(size_t i)
{
	struct av_key *w = entry(window), *r = entry(region);

	r->windows += left[i].binds;
	if (left[i].came >= UNBOUND)
		atomic_store(&w->key, 0);
	r->windows -= left[i].was_bound && left[i].came >= UNCOUNTED;
	if (left[i].came >= RELEASED)
		w->region = 0;
	assert_true(r->windows > 0 || !left[i].binds);
}

static int end_region(bool change)
{
	struct av_key what;

	if (!change)
		return av_key_destroy(seg, region);
	av_key_describe(entry(region), &what);
	return av_key_change(seg, region, &what);
}

/* Two windows: one as @i says; and one that lives, bound there, too, if @other. */
static void make_row(size_t i, bool other, uint32_t *second)
{
	struct av_window_bind bind;

	make(ONE, AV_KEY_REGION, LOCAL | BIND);
	*second = av_window_create(seg, TWO, PD, KEYS);
	bind = bind_of(READ, BASE, BYTES);
	if (left[i].was_bound)
		assert_int_equal(av_window_bind(seg, &bind), 0);
	bind.window = *second;
	bind.rkey = *second + 1;
	if (other)
		assert_int_equal(av_window_bind(seg, &bind), 0);
	leave_half(i);
}

/* @change: the region instead of destroying it */
static void row_of_the_dead(size_t i, bool other, bool change)
{
	bool bound = left[i].was_bound && left[i].came == COUNTED;
	uint32_t windows = (uint32_t)other + bound, second;

	make_row(i, other, &second);
	for (unsigned int twice = 0; twice < 2 && windows; twice++)
		if (end_region(change) != EBUSY || entry(region)->windows != windows)
			fail_msg("row %zu: counts %u", i, entry(region)->windows);
	assert_int_equal(av_window_destroy(seg, second), 0);
	if (bound)
		assert_int_equal(end_region(change), EBUSY);
	assert_int_equal(av_window_destroy(seg, window), 0);
	if (end_region(change) || (change && end_region(false)))
		fail_msg("row %zu: busy for ever", i);
}

TEST_WITH(a_dead_binder_leaves_no_busy_region, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(left); i++)
		for (unsigned int how = 0; how < 4; how++)
			row_of_the_dead(i, how & 1, how & 2);
}

/* The first and the last of each chunk of the table, and two between them. */
static bool is_looked_at(uint32_t key)
{
	uint32_t place = AV_KEY_INDEX(key) % AV_KEY_CHUNK;

	return place < 2 || place > AV_KEY_CHUNK - 3;
}

TEST_WITH(a_bound_window_is_counted_wherever_it_is, set_up, tear_down)
{
	unsigned int looks = 0;

	make(TWO, AV_KEY_REGION, LOCAL | BIND);
	for (unsigned int i = 0; i < 2 * AV_KEY_CHUNK; i++) {
		uint32_t key = av_window_create(seg, TWO, PD, 4 * AV_KEY_CHUNK);
		struct av_window_bind bind = bind_of(READ, BASE, BYTES);

		assert_int_not_equal(key, 0);
		if (!is_looked_at(key))
			continue;
		bind.window = key;
		bind.rkey = key + 1;
		assert_int_equal(av_window_bind(seg, &bind), 0);
		entry(region)->windows += 2; /* of two that died */
		assert_int_equal(end_region(looks % 2), EBUSY);
		assert_int_equal(entry(region)->windows, 1);
		assert_int_equal(av_window_destroy(seg, key), 0);
		assert_int_equal(entry(region)->windows, 0);
		looks++;
	}
	assert_true(looks >= 8);
	assert_int_equal(end_region(false), 0);
}

TEST_WITH(a_region_that_counts_too_few_or_is_none, set_up, tear_down)
{
	const uint32_t nowhere = AV_SLAB_CHUNKS * AV_KEY_CHUNK << 8;

	for (unsigned int i = 0; i < 2; i++) {
		struct av_window_bind bind;

		make(TWO, AV_KEY_REGION, LOCAL | BIND);
		bind = bind_of(READ, BASE, BYTES);
		assert_int_equal(av_window_bind(seg, &bind), 0);
		if (i)
			entry(window)->region = nowhere;
		else
			entry(region)->windows = 0;
		assert_int_equal(av_window_destroy(seg, window), 0);
		assert_int_equal(entry(region)->windows, i);
	}
}

TEST_WITH(only_windows_are_destroyed, set_up, tear_down)
{
	make(TWO, AV_KEY_REGION, LOCAL | BIND);
	assert_int_equal(av_window_destroy(seg, region), 0);
	assert_int_equal(atomic_load(&entry(region)->key), region);
	assert_int_equal(entry(region)->kind, AV_KEY_REGION);
	assert_int_equal(av_window_destroy(seg, window), 0);
	assert_int_not_equal(entry(window)->kind, AV_KEY_WINDOW);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
