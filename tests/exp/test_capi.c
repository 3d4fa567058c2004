/* SPDX-License-Identifier: MIT */
/*
 * CAPI: with the device's switch on, on-demand regions use the page tables of the host. The same
 * traffic between two processes, over memory that comes and goes, with the switch off and on: the
 * same bytes, and the statistics of on-demand paging, which have nothing to count then. The switch
 * is set as the documentation has it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/userfaultfd.h"

#define PAGE	  4096u
#define BYTES	  (16u * PAGE)
#define AT	  (PAGE + 40u) /* of what moves, in the memory; a multiple of 8 */
#define LENGTH	  (3u * PAGE)
#define STEP	  (16ul << 20) /* between pieces: more than is invalidated together */
#define SEED	  0x63617069u
#define SETTLE_MS 20000u
#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)

static struct side a, b; /* the on-demand memory is a's, in this process */
static bool capi;
static struct ibv_mr *mr;
static uint8_t *memory;
static struct odp_counters last;

/* --- the statistics -------------------------------------------------------------- */

static void catch_up(void)
{
	last = odp_counters_read(0);
}

static bool is_gauge(int which)
{
	return which == ODP_MRS || which == ODP_MR_PAGES;
}

/* With CAPI nothing is counted; without it, at least that. */
static void expect_counted(enum odp_counter which)
{
	struct odp_counters now;

	if (!capi)
		odp_counter_wait(0, which, last.of[which] + 1, SETTLE_MS);
	now = odp_counters_read(0);
	for (int i = 0; i < ODP_COUNTERS; i++)
		EXPECT(!capi || is_gauge(i) || now.of[i] == last.of[i], "%s: %lu counted",
		       odp_counter_name((enum odp_counter)i), now.of[i] - last.of[i]);
	EXPECT(capi || now.of[which] > last.of[which], "%s: nothing counted",
	       odp_counter_name(which));
	last = now;
}

/* --- memory that comes and goes -------------------------------------------------- */

static void map(void)
{
	static uintptr_t next = 0x300000000000;

	memory = mmap((void *)next, BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (memory == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	next += STEP;
}

static void discard(void)
{
	NEED(madvise(memory, BYTES, MADV_DONTNEED) == 0);
}

static void replace(void)
{
	if (munmap(memory, BYTES) ||
	    mmap(memory, BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != memory)
		DIE("mmap: errno %d", errno);
}

static void nothing(void)
{
}

static struct ibv_mr *reg(void *addr, size_t length, uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = a.node->pd, .addr = addr, .length = length, .exp_access = access};
	struct ibv_mr *found = ibv_exp_reg_mr(&in);

	NEED(found);
	return found;
}

/* --- traffic: each moves LENGTH bytes, or a word, at memory + AT, and checks the outcome --- */

static uint64_t address(void)
{
	return (uintptr_t)memory + AT;
}

static void expect_memory(uint64_t seed)
{
	int64_t wrong = pattern_check(memory + AT, LENGTH, seed, 0);

	EXPECT(wrong == -1, "byte %ld of the memory is wrong", wrong);
}

static void expect_peer(uint64_t seed)
{
	int64_t wrong = side_check(&b, PROBE_AT, LENGTH, seed, 0);

	EXPECT(wrong == -1, "byte %ld at the peer is wrong", wrong);
}

static void write_by_peer(void)
{
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, address(), mr->rkey, LENGTH, IBV_WC_SUCCESS);
	expect_memory(PROBE_SEED);
}

static void read_by_peer(void)
{
	pattern_fill(memory + AT, LENGTH, SEED, 0);
	side_fill(&b, PROBE_AT, LENGTH, 0, 0);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, address(), mr->rkey, LENGTH, IBV_WC_SUCCESS);
	expect_peer(SEED);
}

static void atomic_by_peer(enum ibv_wr_opcode op, uint64_t before, uint64_t after)
{
	memcpy(memory + AT, &before, sizeof(before));
	EXPECT_PROBE(&b, &a, 0, op, address(), mr->rkey, 8, IBV_WC_SUCCESS);
	EXPECT(side_peek(&b, PROBE_AT) == before, "%lu came back", side_peek(&b, PROBE_AT));
	EXPECT(!memcmp(memory + AT, &after, sizeof(after)), "the word is not %lu", after);
}

static void add_by_peer(void)
{
	atomic_by_peer(IBV_WR_ATOMIC_FETCH_AND_ADD, 41, 42);
}

static void swap_by_peer(void)
{
	atomic_by_peer(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0);
}

static struct ibv_sge element(void)
{
	return (struct ibv_sge){.addr = address(), .length = LENGTH, .lkey = mr->lkey};
}

static void expect_received(struct side *s)
{
	struct ibv_wc wc;

	if (EXPECT(side_poll(s, 1, 1, PROBE_PATIENCE, &wc) == 1, "nothing received"))
		EXPECT(wc.status == IBV_WC_SUCCESS && wc.byte_len == LENGTH, "'%s', %u bytes",
		       ibv_wc_status_str(wc.status), wc.byte_len);
}

static void send_by_peer(void)
{
	struct node_recv recv = {.num_sge = 1, .sge = {element()}};
	struct node_send send = side_message(side_sge(&b, KEY_FULL, PROBE_AT, LENGTH));

	EXPECT(side_post_recv(&a, 0, &recv, 1).ret == 0, "ibv_post_recv");
	side_fill(&b, PROBE_AT, LENGTH, SEED + 1, 0);
	EXPECT(probe_request(&b, &a, 0, &send) == IBV_WC_SUCCESS, "SEND");
	expect_received(&a);
	expect_memory(SEED + 1);
}

static void from_memory(enum ibv_wr_opcode op)
{
	struct node_send send = side_rdma_to(op, element(), &b, PROBE_AT);

	EXPECT(probe_request(&a, &b, 0, &send) == IBV_WC_SUCCESS, "%s", probe_name(op));
}

static void send_to_peer(void)
{
	pattern_fill(memory + AT, LENGTH, SEED + 2, 0);
	side_recv_one(&b, 0, 1, PROBE_AT, LENGTH);
	from_memory(IBV_WR_SEND);
	expect_received(&b);
	expect_peer(SEED + 2);
}

static void write_to_peer(void)
{
	pattern_fill(memory + AT, LENGTH, SEED + 3, 0);
	from_memory(IBV_WR_RDMA_WRITE);
	expect_peer(SEED + 3);
}

static void read_from_peer(void)
{
	side_fill(&b, PROBE_AT, LENGTH, SEED + 4, 0);
	from_memory(IBV_WR_RDMA_READ);
	expect_memory(SEED + 4);
}

static const struct {
	const char *name;
	void (*move)(void);
} traffic[] = {
	{"RDMA WRITE by the peer", write_by_peer},  {"RDMA READ by the peer", read_by_peer},
	{"FETCH_AND_ADD by the peer", add_by_peer}, {"CMP_AND_SWP by the peer", swap_by_peer},
	{"SEND by the peer", send_by_peer},	    {"SEND to the peer", send_to_peer},
	{"RDMA WRITE to the peer", write_to_peer},  {"RDMA READ from the peer", read_from_peer},
};

/* What happens before the same traffic once more. */
static const struct {
	const char *name;
	void (*happens)(void);
	bool invalidates;
} changes[] = {
	{"for the first time", nothing, false},
	{"after its pages were discarded", discard, true},
	{"after it was mapped anew", replace, true},
};

static const struct {
	const char *name;
	bool implicit;
} regions[] = {{"explicit", false}, {"implicit", true}};

static void traffic_row(size_t t, size_t r)
{
	map();
	mr = regions[r].implicit
		     ? reg(NULL, IBV_EXP_IMPLICIT_MR_SIZE, RIGHTS | IBV_EXP_ACCESS_ON_DEMAND)
		     : reg(memory, BYTES, RIGHTS | IBV_EXP_ACCESS_ON_DEMAND);
	for (size_t c = 0; c < COUNT_OF(changes); c++) {
		row("%s, %s region, %s, %s", capi ? "CAPI" : "no CAPI", regions[r].name,
		    traffic[t].name, changes[c].name);
		catch_up();
		changes[c].happens();
		if (changes[c].invalidates)
			expect_counted(ODP_INVALIDATIONS);
		traffic[t].move();
		expect_counted(ODP_FAULTS);
	}
	ibv_dereg_mr(mr);
	munmap(memory, BYTES);
}

/* --- what else there is ---------------------------------------------------------- */

static void capability_row(void)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS};

	row("%s: the capability", capi ? "CAPI" : "no CAPI");
	EXPECT(ibv_exp_query_device(a.node->ctx, &attr) == 0, "ibv_exp_query_device");
	EXPECT(!(attr.exp_device_cap_flags & IBV_EXP_DEVICE_CAPI) == !capi,
	       "IBV_EXP_DEVICE_CAPI is not as it should be");
	EXPECT(attr.exp_device_cap_flags & IBV_EXP_DEVICE_ODP, "IBV_EXP_DEVICE_ODP is missing");
}

/* The memory is gone: the same answer, and no event. */
static void gone_row(void)
{
	uint32_t rkey;

	row("%s: memory that is not there", capi ? "CAPI" : "no CAPI");
	map();
	mr = reg(memory, BYTES, RIGHTS | IBV_EXP_ACCESS_ON_DEMAND);
	munmap(memory, BYTES);
	catch_up();
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, address(), mr->rkey, LENGTH,
		     IBV_WC_REM_ACCESS_ERR);
	expect_counted(ODP_FAILED_RESOLUTIONS);
	row("%s: a region that is not there", capi ? "CAPI" : "no CAPI");
	rkey = mr->rkey;
	ibv_dereg_mr(mr);
	catch_up();
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, address(), rkey, LENGTH, IBV_WC_REM_ACCESS_ERR);
	expect_counted(ODP_MRS_NOT_FOUND);
}

/* Prefetching brings pages in, or is dropped in silence. */
static void prefetch_row(void)
{
	struct ibv_exp_prefetch_attr attr = {.length = BYTES};
	struct ibv_sge sge = {.length = BYTES};
	unsigned char present = 0;

	map();
	mr = reg(memory, BYTES, RIGHTS | IBV_EXP_ACCESS_ON_DEMAND);
	attr.addr = memory;
	sge.addr = (uintptr_t)memory;
	sge.lkey = mr->lkey;
	row("%s: ibv_exp_prefetch_mr()", capi ? "CAPI" : "no CAPI");
	catch_up();
	EXPECT(ibv_exp_prefetch_mr(mr, &attr) == 0, "errno %d", errno);
	expect_counted(ODP_PREFETCH_PAGES);
	mincore(memory, PAGE, &present);
	EXPECT(!(present & 1) == capi, "the page is%s in memory", present & 1 ? "" : " not");
	row("%s: ibv_advise_mr()", capi ? "CAPI" : "no CAPI");
	EXPECT(ibv_advise_mr(a.node->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) == 0,
	       "errno %d", errno);
	expect_counted(ODP_PREFETCHES);
	row("%s: prefetching what is not there", capi ? "CAPI" : "no CAPI");
	munmap(memory, BYTES);
	EXPECT(ibv_exp_prefetch_mr(mr, &attr) == 0, "errno %d", errno);
	EXPECT(ibv_advise_mr(a.node->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			     &sge, 1) == (capi ? 0 : EFAULT),
	       "errno %d", errno);
	row("%s: prefetching that is wrong", capi ? "CAPI" : "no CAPI");
	attr.length++;
	EXPECT(ibv_exp_prefetch_mr(mr, &attr) == 0, "beyond the region: errno %d", errno);
	sge.lkey = a.info.lkey[KEY_FULL];
	EXPECT(ibv_advise_mr(a.node->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			     &sge, 1) == ENOENT,
	       "not on demand: errno %d", errno);
	ibv_dereg_mr(mr);
}

/* CAPI is for regions on demand only. */
static void plain_row(void)
{
	map();
	memset(memory, 0, BYTES);
	mr = reg(memory, BYTES, RIGHTS);
	row("%s: a region that is not on demand", capi ? "CAPI" : "no CAPI");
	catch_up();
	write_by_peer();
	for (int i = 0; i < ODP_COUNTERS; i++)
		EXPECT(odp_counter((enum odp_counter)i) == last.of[i], "%s",
		       odp_counter_name((enum odp_counter)i));
	row("%s: a region that is not on demand, and was unmapped", capi ? "CAPI" : "no CAPI");
	replace();
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, address(), mr->rkey, LENGTH,
		     IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(mr);
	munmap(memory, BYTES);
}

static void run(void)
{
	side_open(&a, NULL);
	side_start(&b);
	probe_open(&b, &a, 0);
	capability_row();
	for (size_t t = 0; t < COUNT_OF(traffic); t++)
		for (size_t r = 0; r < COUNT_OF(regions); r++)
			traffic_row(t, r);
	gone_row();
	prefetch_row();
	plain_row();
	probe_close(&b, &a, 0);
	side_stop(&b);
	side_stop(&a);
}

/* --- the switch ------------------------------------------------------------------ */

static void tool(const char *arguments)
{
	char command[512];

	snprintf(command, sizeof(command), "'%s' %s >/dev/null", ANYVERBS_TOOL, arguments);
	if (system(command))
		DIE("%s", command);
}

int main(int argc, char **argv)
{
	time_limit(200);
	side_agent_main(argc, argv);
	need_userfaultfd();
	sandbox_enter();
	run();
	tool("config -d any0 set ADVANCED_PCI_SETTINGS=true");
	tool("config -d any0 set IBM_CAPI_EN=true");
	run();
	tool("reset -d any0");
	capi = true;
	run();
	tool("config -d any0 set IBM_CAPI_EN=false");
	tool("reset -d any0");
	capi = false;
	run();
	tool("config reset");
	tool("reset");
	return sandbox_end();
}
