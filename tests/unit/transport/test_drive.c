/* SPDX-License-Identifier: MIT */
/* The requester's token of a queue pair: whose own it may become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "hca/directory.h"
#include "queue/qp.h"
#include "transport/drive.h"
#include "transport/state.h"
#include "unit/memory/fake_seg.h"

#define CHUNKS_AT(slab) ((uint64_t)((slab) + 1) << 26)
#define INDEX		1u

static struct fake_seg f;
static struct av_qp_end end;
static char folder[] = "/dev/shm/anyverbs-test-XXXXXX";

static int group_setup(void **state)
{
	return !mkdtemp(folder) || setenv("ANYVERBS_DIR", folder, 1) || av_dir_join();
}

static int group_teardown(void **state)
{
	av_dir_leave();
	return 0;
}

static void set_up(bool own)
{
	fake_open(&f, 1);
	for (int slab = 0; slab < AV_SLAB_N; slab++)
		atomic_store(&f.seg.head->chunk[slab][0], CHUNKS_AT(slab));
	f.seg.own = own;
	end = (struct av_qp_end){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->index = INDEX;
}

/* There is nothing to be executed. */
static void drive(void)
{
	av_drive(&end, NULL);
}

static void change_state(void)
{
	av_qp_quiesce(&end);
	av_qp_resume(&end);
}

static const struct {
	const char *name;
	void (*take)(void);
	bool own; /* the queue pair, this process' */
} rows[] = {
	{"driving its own", drive, true},
	{"driving a peer's", drive, false},
	{"changes of state of its own", change_state, true},
	{"changes of state of another's, which was opened by its number", change_state, false},
};

static void of_its_own_process_only(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t thread;

		set_up(rows[i].own);
		for (uint32_t n = 0; n < 2 * AV_BIAS_TURNS; n++)
			rows[i].take();
		thread = atomic_load(&end.qp->exec.thread);
		assert_int_equal(av_biased_holder(&end.qp->exec), 0);
		if (rows[i].own ? thread != av_bias_self : thread != 0)
			fail_msg("%s: %llx", rows[i].name, (unsigned long long)thread);
		fake_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_its_own_process_only),
	};
	int ret = group_setup(NULL);

	if (ret == 0 && !av_barrier_is_light)
		ret = 77; /* no membarrier(2) here: no lock is anybody's own */
	if (ret == 0)
		ret = cmocka_run_group_tests(tests, NULL, NULL);
	group_teardown(NULL);
	return ret;
}
