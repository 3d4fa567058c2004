/* SPDX-License-Identifier: MIT */
/* What reports find in a segment: its domains, queues and queue pairs, and sums of all. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "device/device.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "queue/cq.h"
#include "queue/objects.h"
#include "queue/rq.h"

#define DEVICE	"any0"
#define LIMIT	1000u
#define ENTRIES 20u /* of each CQ */
#define BYTES	4096u

static struct av_seg *seg;

static int open_device(void **state)
{
	if (own_directory_join(state))
		return -1;
	seg = av_device_open(av_device_by_name(DEVICE), 0);
	return seg ? 0 : -1;
}

static int close_device(void **state)
{
	av_seg_close(seg);
	return own_directory_leave(state);
}

/* --- domains --------------------------------------------------------------------- */

/* Each domain, and how many objects of each kind are in it. */
static const struct {
	uint32_t number;
	unsigned int qps, srqs, regions;
} domains[] = {
	{1, 0, 0, 0},  {2, 3, 0, 0},  {63, 0, 2, 0},
	{64, 0, 0, 4}, {65, 1, 1, 1}, {AV_MAX_PD, 1, 0, 0},
};

static uint32_t made[64];
static unsigned int made_count;

static void make(uint32_t index)
{
	assert_int_not_equal(index, 0);
	made[made_count++] = index;
}

static void make_domain(size_t i)
{
	const struct av_qp_request qp = {
		.type = IBV_QPT_RC, .limit = LIMIT, .pd = domains[i].number};
	const struct av_rq_request srq = {
		.capacity = 1, .max_sge = 1, .pd = domains[i].number, .id = 1};
	const struct av_key region = {
		.kind = AV_KEY_REGION, .pd = domains[i].number, .length = BYTES};

	atomic_fetch_or(&seg->head->pds[domains[i].number / 64], 1ull << (domains[i].number % 64));
	for (unsigned int n = 0; n < domains[i].qps; n++)
		make(av_qp_init(seg, &qp));
	for (unsigned int n = 0; n < domains[i].srqs; n++)
		make(av_rq_init(seg, &srq));
	for (unsigned int n = 0; n < domains[i].regions; n++)
		make(av_key_create(seg, &region, LIMIT));
}

static void end_domain(size_t i, const uint32_t **next)
{
	for (unsigned int n = 0; n < domains[i].qps; n++)
		av_qp_fini(seg, *(*next)++);
	for (unsigned int n = 0; n < domains[i].srqs; n++)
		av_rq_fini(seg, *(*next)++);
	for (unsigned int n = 0; n < domains[i].regions; n++)
		assert_int_equal(av_key_destroy(seg, *(*next)++), 0);
	atomic_fetch_and(&seg->head->pds[domains[i].number / 64],
			 ~(1ull << (domains[i].number % 64)));
}

static void expect_domain(const struct av_pd_info *info, void *arg)
{
	size_t *seen = arg;

	assert_true(*seen < AV_ARRAY_SIZE(domains));
	assert_int_equal(info->pid, getpid());
	assert_int_equal(info->context, seg->ref);
	assert_int_equal(info->number, domains[*seen].number);
	assert_int_equal(info->users,
			 domains[*seen].qps + domains[*seen].srqs + domains[*seen].regions);
	++*seen;
}

TEST(each_domain_has_its_users)
{
	const uint32_t *next = made;
	size_t seen = 0;

	made_count = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(domains); i++)
		make_domain(i);
	av_report_pds(DEVICE, expect_domain, &seen);
	assert_int_equal(seen, AV_ARRAY_SIZE(domains));
	for (size_t i = 0; i < AV_ARRAY_SIZE(domains); i++)
		end_domain(i, &next);
	seen = AV_ARRAY_SIZE(domains); /* from here on there is none */
	av_report_pds(DEVICE, expect_domain, &seen);
}

/* --- completion queues ------------------------------------------------------------- */

/* How full each is, and how full it has been. */
static const struct {
	unsigned int held, polled, users;
} queues[] = {{0, 0, 0}, {3, 0, 1}, {20, 5, 2}};

static uint32_t cqs[AV_ARRAY_SIZE(queues)];

static void expect_cq(const struct av_cq_info *info, void *arg)
{
	size_t *seen = arg;

	assert_true(*seen < AV_ARRAY_SIZE(queues));
	assert_int_equal(info->context, seg->ref);
	assert_int_equal(info->number, cqs[*seen]);
	assert_int_equal(info->users, queues[*seen].users);
	assert_int_equal(info->counted.total.cq[0], queues[*seen].held); /* completions */
	assert_int_equal(info->counted.gauge[AV_GAUGE_CAPACITY], ENTRIES);
	assert_int_equal(info->counted.gauge[AV_GAUGE_WAITING],
			 queues[*seen].held - queues[*seen].polled);
	assert_true(info->counted.gauge[AV_GAUGE_PEAK] >= info->counted.gauge[AV_GAUGE_WAITING]);
	++*seen;
}

static void count_qp(const struct av_qp_info *info, void *arg)
{
	assert_int_equal(info->send_cq, cqs[1]);
	assert_int_equal(info->recv_cq, cqs[2]);
	assert_int_equal(info->counted.gauge[AV_GAUGE_POSTED], 2);
	++*(size_t *)arg;
}

/* The one that is made below, for the last CQ. */
static void expect_srq(const struct av_srq_info *info, void *arg)
{
	uint32_t at = 0;

	assert_int_equal(info->pid, getpid());
	assert_int_equal(info->context, seg->ref);
	assert_int_equal(info->number, *(uint32_t *)arg);
	assert_int_equal(info->pd, 5);
	assert_true(info->xrc);
	assert_int_equal(info->cq, cqs[2]);
	assert_int_not_equal(av_srq_qp(info, &at), 0);
	assert_int_equal(av_srq_qp(info, &at), 0);
	*(uint32_t *)arg = 0;
}

static void expect_device(void)
{
	struct av_counted all;

	av_report_device(DEVICE, &all);
	assert_int_equal(all.gauge[AV_GAUGE_PROCESSES], 1);
	assert_int_equal(all.gauge[AV_GAUGE_CONTEXTS], 1);
	assert_int_equal(all.gauge[AV_GAUGE_QPS], 1);
	assert_int_equal(all.gauge[AV_GAUGE_CQS], AV_ARRAY_SIZE(queues));
	assert_int_equal(all.gauge[AV_GAUGE_MRS], 2);
	assert_int_equal(all.gauge[AV_GAUGE_MR_BYTES], 2 * BYTES);
	for (int i = AV_GAUGE_POSTED; i < AV_GAUGE_N; i++)
		assert_int_equal(all.gauge[i], 0);
}

TEST(each_queue_says_how_full_it_is)
{
	const struct av_key region = {.kind = AV_KEY_REGION, .length = BYTES};
	struct av_qp_request request = {.type = IBV_QPT_RC, .limit = LIMIT};
	struct av_rq_request shared = {.capacity = 1, .max_sge = 1, .id = 1, .pd = 5, .xrcd = 1};
	uint32_t qp, srq, number, keys[2];
	size_t seen = 0, qps = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(queues); i++) {
		const struct av_cqe e = {.wr_id = 1};

		cqs[i] = av_cq_init(seg, ENTRIES, 0, 1, LIMIT, NULL);
		assert_int_not_equal(cqs[i], 0);
		for (unsigned int n = 0; n < queues[i].held; n++)
			assert_int_equal(av_cq_push(seg, cqs[i], &e, NULL), 0);
		for (unsigned int n = 0; n < queues[i].polled; n++)
			av_cq_take(av_cq_at(seg, cqs[i]));
	}
	for (size_t i = 0; i < AV_ARRAY_SIZE(keys); i++)
		keys[i] = av_key_create(seg, &region, LIMIT);
	request.send_cq = cqs[1];
	request.recv_cq = cqs[2];
	shared.cq = cqs[2];
	request.srq = srq = number = av_rq_init(seg, &shared);
	qp = av_qp_init(seg, &request);
	assert_true(qp && srq);
	av_report_srqs(DEVICE, expect_srq, &number);
	assert_int_equal(number, 0);
	av_qp_at(seg, qp)->sq_next = 1;
	atomic_store(&av_qp_at(seg, qp)->sq_tail, 3);
	av_report_qps(DEVICE, count_qp, &qps);
	assert_int_equal(qps, 1);
	expect_device();
	av_qp_at(seg, qp)->sq_next = 0;
	atomic_store(&av_qp_at(seg, qp)->sq_tail, 0);
	av_report_cqs(DEVICE, expect_cq, &seen);
	assert_int_equal(seen, AV_ARRAY_SIZE(queues));
	av_qp_fini(seg, qp);
	av_rq_fini(seg, srq);
	for (size_t i = 0; i < AV_ARRAY_SIZE(keys); i++)
		assert_int_equal(av_key_destroy(seg, keys[i]), 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(queues); i++)
		av_cq_fini(seg, cqs[i]);
}

/* --- counters and regions ---------------------------------------------------------- */

/* What the counters of an index say, said when the object was made, and so are its own. */
static const struct {
	uint64_t there, before, own;
} counted[] = {{0, 0, 0}, {9, 0, 9}, {9, 4, 5}, {9, 9, 0}, {4, 9, 0}};

static void set_words(void *words, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		((uint64_t *)words)[i] = value;
}

static void expect_words(const uint64_t *words, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(words[i], value);
}

static void expect_qp_counted(const struct av_qp_info *info, void *arg)
{
	expect_words(info->counted.total.qp, AV_QP_COUNTERS, *(const uint64_t *)arg);
	expect_words(info->counted.total.cq, AV_CQ_COUNTERS, 0);
}

static void expect_cq_counted(const struct av_cq_info *info, void *arg)
{
	expect_words(info->counted.total.cq, AV_CQ_COUNTERS, *(const uint64_t *)arg);
	expect_words(info->counted.total.qp, AV_QP_COUNTERS, 0);
}

TEST(what_was_counted_before_is_not_its_own)
{
	const struct av_qp_request request = {.type = IBV_QPT_RC, .limit = LIMIT};
	uint32_t qp = av_qp_init(seg, &request), cq = av_cq_init(seg, ENTRIES, 0, 1, LIMIT, NULL);
	struct av_qp_shared *q = av_qp_at(seg, qp);
	struct av_cq_shared *c = av_cq_at(seg, cq);

	assert_true(qp && cq && q && c);
	for (size_t i = 0; i < AV_ARRAY_SIZE(counted); i++) {
		uint64_t own = counted[i].own;

		set_words(&q->counters, AV_QP_COUNTERS, counted[i].there);
		set_words(&q->before, AV_QP_COUNTERS, counted[i].before);
		set_words(&c->producer[0].counters, AV_CQ_COUNTERS, counted[i].there);
		set_words(&c->before, AV_CQ_COUNTERS, counted[i].before);
		av_report_qps(DEVICE, expect_qp_counted, &own);
		av_report_cqs(DEVICE, expect_cq_counted, &own);
	}
	av_qp_fini(seg, qp);
	av_cq_fini(seg, cq);
}

#define WHOLE (1ull << 47) /* an implicit region of the whole address space */

static const struct {
	uint8_t kind;
	uint64_t length, bytes; /* that it counts for */
} regions[] = {
	{AV_KEY_REGION, BYTES, BYTES}, {AV_KEY_REGION, WHOLE - 1, WHOLE - 1},
	{AV_KEY_REGION, WHOLE, 0},     {AV_KEY_REGION, UINT64_MAX, 0},
	{AV_KEY_NULL, BYTES, 0},       {AV_KEY_DEVICE, BYTES, BYTES},
};

TEST(each_region_counts_for_its_bytes)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(regions); i++) {
		const struct av_key region = {.kind = regions[i].kind, .length = regions[i].length};
		uint32_t key = av_key_create(seg, &region, LIMIT);
		struct av_counted all;

		assert_int_not_equal(key, 0);
		av_report_device(DEVICE, &all);
		if (all.gauge[AV_GAUGE_MRS] != 1 ||
		    all.gauge[AV_GAUGE_MR_BYTES] != regions[i].bytes)
			fail_msg("row %zu", i);
		assert_int_equal(av_key_destroy(seg, key), 0);
	}
}

/* --- nonsense ---------------------------------------------------------------------- */

static void expect_unused_cq(const struct av_cq_info *info, void *arg)
{
	assert_int_equal(info->users, 0);
	++*(size_t *)arg;
}

/* The numbers come from a segment: whoever names what no table has room for uses nothing. */
TEST(a_queue_pair_may_name_what_is_in_no_table)
{
	static const uint32_t behind[] = {0, 1, UINT32_MAX - AV_SLAB_CHUNKS * AV_OBJ_CHUNK};

	for (size_t i = 0; i < AV_ARRAY_SIZE(behind); i++) {
		const struct av_qp_request request = {
			.type = IBV_QPT_RC,
			.limit = LIMIT,
			.pd = AV_MAX_PD + 1 + behind[i],
			.send_cq = AV_SLAB_CHUNKS * AV_OBJ_CHUNK + behind[i],
			.recv_cq = AV_SLAB_CHUNKS * AV_OBJ_CHUNK + behind[i]};
		uint32_t qp = av_qp_init(seg, &request);
		uint32_t cq = av_cq_init(seg, ENTRIES, 0, 1, LIMIT, NULL);
		size_t seen = AV_ARRAY_SIZE(domains), cqs_seen = 0;

		assert_true(qp && cq);
		av_report_cqs(DEVICE, expect_unused_cq, &cqs_seen);
		assert_int_equal(cqs_seen, 1);
		av_cq_fini(seg, cq);
		av_report_pds(DEVICE, expect_domain, &seen);
		av_qp_fini(seg, qp);
	}
}

int main(void)
{
	unsetenv("ANYVERBS_DEVICES");
	return run_cases(open_device, close_device);
}
