/* SPDX-License-Identifier: MIT */
/*
 * Re-registration while another process writes, reads and adds without pause: no request finds half
 * of a change, and none reaches the old place after it.
 */
#include <errno.h>

#include "lib/flood.h"
#include "rereg_fixture.h"

#define FLOOD_BYTES 16384u
#define FLIPS	    (TEST_SANITIZED ? 1000 : 4000)

static struct flood flood;

static uint64_t word_at(uint64_t offset)
{
	return *(volatile uint64_t *)(n->arena + offset);
}

static void fill_words(uint64_t offset, uint64_t value)
{
	for (uint64_t i = 0; i < FLOOD_BYTES; i += 8)
		*(volatile uint64_t *)(n->arena + offset + i) = value;
}

static uint64_t torn_packets(uint64_t offset)
{
	uint64_t torn = 0;

	for (uint64_t i = 0; i < FLOOD_BYTES; i += 8)
		torn += word_at(offset + i) != word_at(offset + i / FLOOD_PACKET * FLOOD_PACKET);
	return torn;
}

/* Whatever changes, address 0 stays good: no request may fail, and each finds the old or the new
 * place. */
static void flip(struct ibv_mr *mr, int i)
{
	unsigned int zero = PROBE_ALL | IBV_ACCESS_ZERO_BASED;
	uint8_t *at = n->arena + (i & 1 ? NEW_AT : OLD_AT);
	unsigned int access = i % 3 ? zero : zero | IBV_ACCESS_MW_BIND;
	int flags = i % 5 == 0 ? TRANSLATION | ACCESS : i % 5 == 1 ? ACCESS : TRANSLATION;
	int ret = ibv_rereg_mr(mr, flags, NULL, at, FLOOD_BYTES, flags & ACCESS ? (int)access : 0);

	EXPECT(ret == 0, "change %d: %d, errno %d", i, ret, errno);
}

static void steady_row(enum ibv_wr_opcode op)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + OLD_AT, FLOOD_BYTES,
				       PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	struct flood_work work = {op, 0, mr->rkey,
				  op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : FLOOD_BYTES};
	struct flood_report report;

	row("%s from another process during %d changes", probe_name(op), FLIPS);
	fill_words(OLD_AT, 0);
	fill_words(NEW_AT, op == IBV_WR_RDMA_READ);
	flood_go(&flood, &work);
	for (int i = 0; i < FLIPS && !flood_failed(&flood); i++)
		flip(mr, i);
	report = flood_stop(&flood);
	if (!EXPECT(report.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(report.status)))
		flood_reconnect(&flood);
	EXPECT(report.torn == 0, "%lu torn packets", report.torn);
	if (op == IBV_WR_RDMA_WRITE)
		EXPECT(torn_packets(OLD_AT) + torn_packets(NEW_AT) == 0, "torn packets");
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		EXPECT(word_at(OLD_AT) + word_at(NEW_AT) == report.done, "%lu + %lu of %lu",
		       word_at(OLD_AT), word_at(NEW_AT), report.done);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

struct away {
	const char *name;
	struct args away, back;
};

/* After the call nothing reaches the old place; before, everything does. */
static bool turn(struct ibv_mr *mr, const struct away *r, int i, unsigned int *refused)
{
	bool wait = i % 16 == 15, failed;
	struct flood_report report;

	if (!EXPECT(call(mr, &r->away) == 0, "away, %d: errno %d", i, errno))
		return false;
	fill_words(OLD_AT, UINT64_MAX);
	if (wait)
		report = flood_until_failure(&flood);
	for (uint64_t at = 0; at < FLOOD_BYTES; at += 8)
		if (!EXPECT(word_at(OLD_AT + at) == UINT64_MAX,
			    "written at %lu after the change %d", at, i))
			return false;
	if (!EXPECT(call(mr, &r->back) == 0, "back, %d: errno %d", i, errno))
		return false;
	failed = wait || flood_failed(&flood);
	if (!failed)
		return true;
	if (!wait)
		report = flood_until_failure(&flood);
	EXPECT(report.status == IBV_WC_REM_ACCESS_ERR, "'%s'", ibv_wc_status_str(report.status));
	++*refused;
	flood_reconnect(&flood);
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)n->arena + OLD_AT,
					      mr->rkey, FLOOD_BYTES});
	return true;
}

static void away_rows(void)
{
	static const struct away rows[] = {
		{"another place",
		 {TRANSLATION, PD_NULL, AT_NEW, FLOOD_BYTES, 0},
		 {TRANSLATION, PD_NULL, AT_OLD, FLOOD_BYTES, 0}},
		{"another domain", {PD, PD_OTHER, AT_NULL, 0, 0}, {PD, PD_SAME, AT_NULL, 0, 0}},
		{"fewer rights",
		 {ACCESS, PD_NULL, AT_NULL, 0, IBV_ACCESS_LOCAL_WRITE},
		 {ACCESS, PD_NULL, AT_NULL, 0, PROBE_ALL}},
		{"all at once",
		 {TRANSLATION | PD | ACCESS, PD_OTHER, AT_NEW, FLOOD_BYTES, IBV_ACCESS_REMOTE_READ},
		 {TRANSLATION | PD | ACCESS, PD_SAME, AT_OLD, FLOOD_BYTES, PROBE_ALL}},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + OLD_AT, FLOOD_BYTES, PROBE_ALL);
		struct flood_work work = {IBV_WR_RDMA_WRITE, (uintptr_t)n->arena + OLD_AT, mr->rkey,
					  FLOOD_BYTES};
		uint64_t end = now_ms() + 1000;
		unsigned int refused = 0;

		row("WRITE from another process while the region goes to %s and back",
		    rows[i].name);
		flood_go(&flood, &work);
		for (int t = 0; t < 32 || now_ms() < end; t++)
			if (!turn(mr, &rows[i], t, &refused))
				break;
		(void)flood_stop(&flood);
		EXPECT(refused >= 2, "%u requests refused", refused);
		flood_reconnect(&flood);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static void dereg_under_traffic_row(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + OLD_AT, FLOOD_BYTES, PROBE_ALL);
	struct flood_report report;

	row("WRITE from another process while the region is deregistered after changes");
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)n->arena + OLD_AT,
					      mr->rkey, FLOOD_BYTES});
	for (int i = 0; i < 100; i++)
		EXPECT(ibv_rereg_mr(mr, ACCESS, NULL, NULL, 0, PROBE_ALL) == 0, "errno %d", errno);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	fill_words(OLD_AT, UINT64_MAX);
	report = flood_until_failure(&flood);
	EXPECT(report.status == IBV_WC_REM_ACCESS_ERR, "'%s'", ibv_wc_status_str(report.status));
	EXPECT(torn_packets(OLD_AT) == 0 && word_at(OLD_AT) == UINT64_MAX,
	       "written after ibv_dereg_mr()");
	flood_reconnect(&flood);
}

static void run(void)
{
	flood_start(&flood, &a, 1);
	steady_row(IBV_WR_RDMA_WRITE);
	steady_row(IBV_WR_RDMA_READ);
	steady_row(IBV_WR_ATOMIC_FETCH_AND_ADD);
	away_rows();
	dereg_under_traffic_row();
	flood_end(&flood);
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
