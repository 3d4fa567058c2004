/* SPDX-License-Identifier: MIT */
/* Each allocation of a report fails in its turn: it leaves out or says 0, and nothing wrong. */
#include <stdlib.h>

#include "base/compiler.h"
#include "device/device.h"
#include "lib/fail_alloc.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "queue/objects.h"

#define DEVICE "any0"
#define LIMIT  1000u
#define PD     5u
#define ENOUGH 1000u /* no report makes so many allocations */

static struct av_seg *seg;
static uint32_t cq, srq, qp;

/* A domain with a queue pair, whose two queues use one CQ, and a shared receive queue. */
static int set_up(void **state)
{
	const struct av_rq_request shared = {.capacity = 1, .max_sge = 1, .id = 1, .pd = PD};
	struct av_qp_request request = {.type = IBV_QPT_RC, .limit = LIMIT, .pd = PD};

	if (own_directory_join(state))
		return -1;
	seg = av_device_open(av_device_by_name(DEVICE), 0);
	if (!seg)
		return -1;
	cq = request.send_cq = request.recv_cq = av_cq_init(seg, 1, 0, 1, LIMIT, NULL);
	srq = request.srq = av_rq_init(seg, &shared);
	qp = av_qp_init(seg, &request);
	atomic_fetch_or(&seg->head->pds[0], 1ull << PD);
	return cq && srq && qp ? 0 : -1;
}

static int tear_down(void **state)
{
	av_qp_fini(seg, qp);
	av_rq_fini(seg, srq);
	av_cq_fini(seg, cq);
	av_seg_close(seg);
	return own_directory_leave(state);
}

struct seen {
	unsigned int times;
	uint64_t value;
};

static void see(void *arg, uint64_t value)
{
	struct seen *seen = arg;

	seen->times++;
	seen->value = value;
}

static void see_pd(const struct av_pd_info *info, void *arg)
{
	see(arg, info->users);
}

static void see_cq(const struct av_cq_info *info, void *arg)
{
	see(arg, info->users);
}

static void see_process(const struct av_process_info *info, void *arg)
{
	see(arg, info->counted.gauge[AV_GAUGE_QPS]);
}

static void report_pds(struct seen *seen)
{
	av_report_pds(DEVICE, see_pd, seen);
}

static void report_cqs(struct seen *seen)
{
	av_report_cqs(DEVICE, see_cq, seen);
}

static void report_processes(struct seen *seen)
{
	av_report_processes(DEVICE, see_process, seen);
}

static const struct {
	void (*report)(struct seen *seen);
	uint64_t value; /* if memory suffices */
} rows[] = {{report_pds, 2}, {report_cqs, 2}, {report_processes, 1}};

TEST(nothing_wrong_is_said)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		bool failed = true;

		for (unsigned int nth = 1; failed; nth++) {
			struct seen seen = {0};

			assert_true(nth < ENOUGH);
			fail_alloc_begin(FAIL_ONCE, nth);
			rows[i].report(&seen);
			failed = fail_alloc_end();
			if (seen.times > 1 || (seen.value && seen.value != rows[i].value) ||
			    (!failed && seen.value != rows[i].value))
				fail_msg("row %zu, allocation %u: %u times, %llu", i, nth,
					 seen.times, (unsigned long long)seen.value);
		}
	}
}

int main(void)
{
	unsetenv("ANYVERBS_DEVICES");
	return run_cases(set_up, tear_down);
}
