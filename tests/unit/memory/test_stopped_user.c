/* SPDX-License-Identifier: MIT */
/*
 * A process that uses a key, and does not stop: whoever ends or changes the key waits for a while,
 * and then nothing has changed. When the user is gone, it can be done.
 */
#include <errno.h>

#include "base/clock.h"
#include "fake_heap.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "pin_user.h"

#define PD	3u
#define QPN	77u
#define BASE	0x1000000ull
#define BYTES	0x4000ull
#define ROOM	4u /* elements of the list */
#define KEYS	16u
#define RIGHTS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND)
#define MOST_MS (5 * AV_PEER_TIMEOUT_NS / 1000000)

static struct fake_heap heap;
static struct av_seg *const seg = &heap.fake.seg;
static uint32_t region, window, list;

static struct av_key *entry(uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	CHECK(k != NULL);
	return k;
}

static void bind_window(void)
{
	struct av_window_bind bind = {.window = window,
				      .rkey = window,
				      .region = region,
				      .access = IBV_ACCESS_REMOTE_WRITE,
				      .pd = PD,
				      .qpn = QPN,
				      .addr = BASE,
				      .length = BYTES};

	CHECK(av_window_bind(seg, &bind) == 0);
}

/* A region, a key of a list, and a window that some rows bind to the region. */
static void make_keys(void)
{
	struct av_key what = {.kind = AV_KEY_REGION,
			      .pd = PD,
			      .access = RIGHTS,
			      .base = BASE,
			      .addr = BASE,
			      .length = BYTES};

	region = av_key_create(seg, &what, KEYS);
	window = av_window_create(seg, IBV_MW_TYPE_2, PD, KEYS);
	what.kind = AV_KEY_UMR;
	what.addr = av_klm_alloc(seg, ROOM);
	list = av_key_create(seg, &what, KEYS);
	CHECK(region && window && list && what.addr);
}

static void set_up(void)
{
	fake_heap_open(&heap);
	make_keys();
}

static void tear_down(void)
{
	fake_heap_close(&heap);
}

/* --- what is done to the key ------------------------------------------------------ */

static int destroy_region(void)
{
	return av_key_destroy(seg, region);
}

static int change_region(void)
{
	struct av_key what = *entry(region);

	what.length = BYTES / 2;
	return av_key_change(seg, region, &what);
}

static int destroy_window(void)
{
	return av_window_destroy(seg, window);
}

static int invalidate_window(void)
{
	return (int)av_window_invalidate(seg, window, QPN);
}

static int unbind_window(void)
{
	struct av_window_bind bind = {.window = window, .rkey = window, .pd = PD};

	entry(window)->window_type = IBV_MW_TYPE_1;
	return (int)av_window_bind(seg, &bind);
}

static int bind_window_again(void)
{
	struct av_window_bind bind = {.window = window,
				      .rkey = window + 1,
				      .region = region,
				      .access = IBV_ACCESS_REMOTE_WRITE,
				      .pd = PD,
				      .addr = BASE,
				      .length = BYTES};

	entry(window)->window_type = IBV_MW_TYPE_1;
	return (int)av_window_bind(seg, &bind);
}

static int fill_list(void)
{
	struct av_klm_entry e = {.addr = BASE, .length = 8, .key = region};
	struct av_klm_fill fill = {.key = list,
				   .pd = PD,
				   .access = IBV_ACCESS_LOCAL_WRITE,
				   .rounds = 1,
				   .entries = &e,
				   .count = 1};

	return av_klm_fill(seg, &fill);
}

static const struct way {
	const char *name;
	uint32_t *key;
	int (*run)(void);
	int refused, done; /* what it returns: in vain, and afterwards */
	uint32_t windows;  /* of the region, before and in vain */
} ways[] = {
	{"a region ends", &region, destroy_region, ETIMEDOUT, 0, 0},
	{"a region changes", &region, change_region, ETIMEDOUT, 0, 0},
	{"a window ends", &window, destroy_window, EBUSY, 0, 1},
	{"a window is invalidated", &window, invalidate_window, AV_CHECK_INVALIDATE_UNBOUND,
	 AV_CHECK_NONE, 1},
	{"a window is unbound", &window, unbind_window, AV_CHECK_OBJECT_BUSY, 0, 1},
	{"a window is bound again", &window, bind_window_again, AV_CHECK_OBJECT_BUSY, 0, 1},
	{"a list is filled", &list, fill_list, EINVAL, 0, 0},
};

static void expect_as_before(const struct way *w, const struct av_key *before)
{
	const struct av_key *k = entry(*w->key);

	assert_int_equal(atomic_load(&k->key), *w->key);
	assert_int_equal(atomic_load(&k->held), atomic_load(&before->held));
	assert_int_equal(k->length, before->length);
	assert_int_equal(k->kind, before->kind);
	assert_int_equal(k->region, before->region);
	assert_int_equal(entry(region)->windows, w->windows);
}

TEST(nothing_changes_until_the_user_is_gone)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(ways); i++) {
		const struct way *w = &ways[i];
		struct av_key before;
		uint64_t begin;
		pid_t user;

		print_message("%s\n", w->name);
		set_up();
		if (w->windows)
			bind_window();
		before = *entry(*w->key);
		user = pin_user_start(seg, *w->key, true);
		begin = wait_clock_ms();
		assert_int_equal(w->run(), w->refused);
		assert_in_range(wait_clock_ms() - begin, AV_PEER_TIMEOUT_NS / 2000000, MOST_MS);
		expect_as_before(w, &before);
		pin_user_end(user);
		assert_int_equal(w->run(), w->done);
		tear_down();
	}
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
