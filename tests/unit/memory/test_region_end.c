/* SPDX-License-Identifier: MIT */
/*
 * The end of a region that another process uses and does not let go: what lingers for it, what has
 * to wait for it, and what becomes of a call that cannot be revoked.
 */
#include <errno.h>
#include <pthread.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/patiently.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/key.h"
#include "memory/region.h"
#include "pin_user.h"
#include "segment/pages.h"
#include "unit/memory/heap_fixture.h"

#define PD	    3u
#define KEYS	    16u
#define BASE	    0x1000000ull
#define BYTES	    4096u
#define PATIENCE_MS 30000u
#define PART	    77u

/* --- what lingers ------------------------------------------------------------------ */

enum stays { NOTHING_MORE, ITS_PAGES, ITS_PART, ITS_MEMORY };

static const struct {
	uint8_t kind, share;
	uint32_t of_other; /* pages: of another context than its own */
	uint32_t heap;
	bool lingers;
	enum stays stays;
} rows[] = {
	{AV_KEY_REGION, 0, 0, 0, true, NOTHING_MORE},
	{AV_KEY_ODP, 0, 0, 0, true, NOTHING_MORE},
	{AV_KEY_NULL, 0, 0, 0, true, NOTHING_MORE},
	{AV_KEY_PAGES, 0, 0, 0, true, ITS_PAGES},
	{AV_KEY_DEVICE, 0, 0, 0, true, ITS_MEMORY},
	{AV_KEY_UMR, 0, 0, 0, true, ITS_MEMORY},
	{AV_KEY_REGION, 0, 0, PART, true, ITS_PART},
	/* others have these pages */
	{AV_KEY_PAGES, AV_SHARED, 0, 0, false, NOTHING_MORE},
	{AV_KEY_PAGES, 0, 1, 0, false, NOTHING_MORE},
	{AV_KEY_DM_BLOCK, 0, 0, 0, false, NOTHING_MORE},
};

static uint32_t create(size_t i, uint64_t at)
{
	const struct av_key what = {.kind = rows[i].kind,
				    .pd = PD,
				    .base = BASE,
				    .length = BYTES,
				    .addr = at,
				    .share = rows[i].share,
				    .heap = rows[i].heap,
				    .intact = seg->ref + rows[i].of_other};
	uint32_t key = av_key_create(seg, &what, KEYS);

	assert_int_not_equal(key, 0);
	return key;
}

/* When it is waited for. */
static void *end_user(void *user)
{
	unsigned long before = task_waits(getpid());

	(void)WAIT_UNTIL(task_waits(getpid()) > before + 2, PATIENCE_MS);
	pin_user_end(*(pid_t *)user);
	return NULL;
}

/* Return: what av_key_destroy() does. @lives: the user, else it dies after a while */
static int end_while_used(uint32_t key, bool lives)
{
	pid_t user = pin_user_start(seg, key, false);
	pthread_t thread;
	int ret;

	if (!lives)
		assert_int_equal(pthread_create(&thread, NULL, end_user, &user), 0);
	ret = lives ? av_key_destroy(seg, key) : PATIENTLY(av_key_destroy(seg, key), ETIMEDOUT);
	assert_int_equal(av_pin_is_held(seg, key), lives); /* else it has been waited for */
	if (lives)
		pin_user_end(user);
	else
		pthread_join(thread, NULL);
	return ret;
}

/* Of the segment's heap, or pages. */
static uint64_t allocate(size_t i)
{
	struct av_page_block block;

	if (rows[i].kind != AV_KEY_PAGES)
		return av_seg_alloc(seg, BYTES);
	assert_int_equal(av_pages_alloc(seg, BYTES, AV_PAGES_SMALL, &block), 0);
	return block.at;
}

static void give_back(uint64_t at)
{
	av_deferred_free(seg, at, BYTES);
}

TEST_WITH(a_region_lingers_if_its_users_can_be_kept_away, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		bool stays = rows[i].stays == ITS_PAGES || rows[i].stays == ITS_MEMORY;
		uint64_t at = allocate(i);
		uint32_t key = create(i, at);

		assert_int_equal(end_while_used(key, rows[i].lingers), 0);
		give_back(at);
		if (av_deferred_has_key(seg, key) != rows[i].lingers ||
		    av_deferred_leads_to(seg, PART << AV_HEAP_PART_SHIFT) !=
			    (rows[i].stays == ITS_PART) ||
		    (allocate(i) == at) == stays)
			fail_msg("row %zu", i);
		av_deferred_forget(seg);
	}
}

/* --- what does not ----------------------------------------------------------------- */

/* It may be in the middle of a call, which is not waited for without end. */
TEST_WITH(a_call_that_is_not_revoked_keeps_its_region, set_up, tear_down)
{
	uint32_t key = create(0, BASE);
	pid_t user = pin_user_start(seg, key, true);

	assert_int_equal(av_key_destroy(seg, key), ETIMEDOUT);
	assert_false(av_deferred_has_key(seg, key));
	assert_int_equal(atomic_load(&av_key_entry(seg, key)->key), key);
	for (unsigned int i = 0; i < AV_PINS; i++)
		assert_int_equal(atomic_load(&seg->head->pin[i].revoked), 0);
	pin_user_end(user);
	assert_int_equal(av_key_destroy(seg, key), 0);
	assert_false(av_deferred_has_key(seg, key));
}

TEST_WITH(a_region_with_windows_stays, set_up, tear_down)
{
	const struct av_key what = {.kind = AV_KEY_REGION,
				    .pd = PD,
				    .access = IBV_ACCESS_MW_BIND,
				    .base = BASE,
				    .length = BYTES};
	struct av_window_bind bind = {.region = av_key_create(seg, &what, KEYS),
				      .window = av_window_create(seg, IBV_MW_TYPE_1, PD, KEYS),
				      .access = IBV_ACCESS_REMOTE_READ,
				      .pd = PD,
				      .addr = BASE,
				      .length = BYTES};

	bind.rkey = bind.window + 1;
	assert_int_equal(av_window_bind(seg, &bind), 0);
	assert_int_equal(av_key_destroy(seg, bind.region), EBUSY);
	assert_int_equal(av_window_destroy(seg, bind.rkey), 0);
	assert_int_equal(av_key_destroy(seg, bind.region), 0);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
