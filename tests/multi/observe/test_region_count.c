/* SPDX-License-Identifier: MIT */
/*
 * What memory regions count, as "anyverbs stat mr" reads it: page faults, invalidations and
 * prefetched pages of the region they were in, refusals of the one whose key was used,
 * re-registrations; what there is of it now; and that a key's successor begins with nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/spawn.h"
#include "lib/two_sides.h"
#include "lib/userfaultfd.h"
#include "lib/wait.h"
#include "memory/key.h"
#include "memory/region.h"

#define READER	  "--reader"
#define PAGE	  4096u
#define PAGES	  16u
#define BYTES	  ((size_t)PAGES * PAGE)
#define PATIENCE  30000u
#define SETTLE_MS 30000u /* until an invalidation is counted */
#define ALL                                                                          \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define ODP (ALL | IBV_ACCESS_ON_DEMAND)

static struct spawned reader;
static bool notices; /* unmapping is noticed here */

/* --- reading --------------------------------------------------------------------- */

struct search {
	uint32_t key;
	pid_t pid;
	bool found;
	struct av_region_info info;
};

static void match(const struct av_region_info *info, void *arg)
{
	struct search *s = arg;

	if (info->key != s->key || info->pid != s->pid)
		return;
	s->found = true;
	s->info = *info;
}

/* In a process of its own: closing the directory's file drops the locks of the process that does.
 */
static void reader_main(int sock)
{
	struct search s;

	while (spawn_receive_any(sock, &s, sizeof(s)) == sizeof(s)) {
		av_region_report("any0", match, &s);
		spawn_send(sock, &s, sizeof(s));
	}
	exit(0);
}

static struct search look(const struct ibv_mr *mr)
{
	struct search s = {.key = mr->lkey, .pid = getpid()};

	spawn_send(reader.sock, &s, sizeof(s));
	spawn_receive(reader.sock, &s, sizeof(s));
	EXPECT(s.found, "region 0x%x is not there", mr->lkey);
	return s;
}

struct expected {
	enum av_mr_counter which;
	uint64_t value;
};

static void expect_counted(int line, const struct ibv_mr *mr, const struct expected *list,
			   size_t count)
{
	uint64_t want[AV_MR_N] = {0};
	struct search s = look(mr);

	for (size_t i = 0; i < count; i++)
		want[list[i].which] = list[i].value;
	for (unsigned int i = 0; i < AV_MR_N; i++)
		EXPECT(s.info.counted[i] == want[i], "line %d: counter %u is %lu, not %lu", line, i,
		       (unsigned long)s.info.counted[i], (unsigned long)want[i]);
}

#define EXPECT_COUNTED(mr, ...)                                              \
	expect_counted(__LINE__, mr, (const struct expected[]){__VA_ARGS__}, \
		       sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))
#define EXPECT_NOTHING_COUNTED(mr) expect_counted(__LINE__, mr, NULL, 0)

/* --- what is done ---------------------------------------------------------------- */

static uint8_t *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	return p;
}

static struct ibv_mr *reg(void *addr, size_t bytes, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(a.node->pd, addr, bytes, (int)access);

	NEED(mr);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* By b, of a queue pair that is made for it. */
static void access_by_b(enum ibv_wr_opcode op, const struct ibv_mr *mr, const void *at,
			uint32_t bytes, enum ibv_wc_status status)
{
	struct node_send s = {.wr_id = 1,
			      .opcode = op,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .sge = {side_sge(&b, KEY_FULL, 0x1000, bytes)},
			      .remote_addr = (uintptr_t)at,
			      .rkey = mr->rkey};
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	pair_create(&b, 0, &a, 0, NULL);
	pair_connect(&b, 0, NULL, &a, 0, NULL);
	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "post_send");
	EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == status, "ends as '%s'",
	       ibv_wc_status_str(wc.status));
	pair_destroy(&b, 0, &a, 0);
}

/* Until so many pages are valid. */
static void settle(const struct ibv_mr *mr, uint64_t valid)
{
	(void)WAIT_UNTIL(look(mr).info.counted[AV_MR_VALID_PAGES] == valid, SETTLE_MS);
}

/* --- on demand ------------------------------------------------------------------- */

static void fault_row(void)
{
	uint8_t *p = map(2 * BYTES);
	struct ibv_mr *mr = reg(p, BYTES, ODP), *bystander = reg(p + BYTES, BYTES, ODP);

	row("a region on demand counts its page faults, and its neighbour none");
	EXPECT_NOTHING_COUNTED(mr);
	access_by_b(IBV_WR_RDMA_WRITE, mr, p + PAGE, 3 * PAGE, IBV_WC_SUCCESS);
	EXPECT_COUNTED(mr, {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, 3}, {AV_MR_VALID_PAGES, 3});
	access_by_b(IBV_WR_RDMA_WRITE, mr, p + PAGE, 3 * PAGE, IBV_WC_SUCCESS);
	EXPECT_COUNTED(mr, {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, 3}, {AV_MR_VALID_PAGES, 3});
	access_by_b(IBV_WR_RDMA_READ, mr, p, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT_COUNTED(mr, {AV_MR_FAULTS, 2}, {AV_MR_FAULT_PAGES, 4}, {AV_MR_VALID_PAGES, 4});
	EXPECT_NOTHING_COUNTED(bystander);
	dereg(bystander);
	dereg(mr);
	munmap(p, 2 * BYTES);
}

static void prefetch_row(void)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *mr = reg(p, BYTES, ODP);
	struct ibv_sge sge = {(uintptr_t)p + PAGE, 5 * PAGE, mr->lkey};

	row("and what is prefetched");
	EXPECT(ibv_advise_mr(a.node->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) == 0,
	       "ibv_advise_mr");
	EXPECT_COUNTED(mr, {AV_MR_PREFETCH_PAGES, 5}, {AV_MR_VALID_PAGES, 5});
	dereg(mr);
	munmap(p, BYTES);
}

static void invalidation_row(void)
{
	uint8_t *p = map(2 * BYTES);
	struct ibv_mr *second = reg(p + BYTES, BYTES, ODP), *first = reg(p, BYTES, ODP);

	row("each of two regions counts the pages that one event takes from it");
	access_by_b(IBV_WR_RDMA_WRITE, first, p, (uint32_t)BYTES, IBV_WC_SUCCESS);
	access_by_b(IBV_WR_RDMA_WRITE, second, p + BYTES, 4 * PAGE, IBV_WC_SUCCESS);
	if (notices) {
		EXPECT(madvise(p + BYTES - 2 * PAGE, 5 * PAGE, MADV_DONTNEED) == 0, "madvise");
		settle(first, PAGES - 2);
		settle(second, 1);
		EXPECT_COUNTED(first, {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, PAGES},
			       {AV_MR_INVALIDATIONS, 1}, {AV_MR_INVALIDATION_PAGES, 2},
			       {AV_MR_VALID_PAGES, PAGES - 2});
		EXPECT_COUNTED(second, {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, 4},
			       {AV_MR_INVALIDATIONS, 1}, {AV_MR_INVALIDATION_PAGES, 3},
			       {AV_MR_VALID_PAGES, 1});
	}
	dereg(second);
	dereg(first);
	munmap(p, 2 * BYTES);
}

static void implicit_row(void)
{
	uint8_t *p = map(2 * BYTES);
	struct ibv_mr *whole = reg(NULL, SIZE_MAX, ODP), *part = reg(p, BYTES, ODP);
	struct search s;

	row("the whole address space counts what is in no other region");
	access_by_b(IBV_WR_RDMA_WRITE, whole, p, 2 * PAGE, IBV_WC_SUCCESS);
	access_by_b(IBV_WR_RDMA_WRITE, whole, p + BYTES, PAGE, IBV_WC_SUCCESS);
	EXPECT_COUNTED(part, {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, 2}, {AV_MR_VALID_PAGES, 2});
	s = look(whole);
	EXPECT(s.info.counted[AV_MR_FAULTS] == 1 && s.info.counted[AV_MR_FAULT_PAGES] == 1,
	       "%lu, %lu", (unsigned long)s.info.counted[AV_MR_FAULTS],
	       (unsigned long)s.info.counted[AV_MR_FAULT_PAGES]);
	dereg(part);
	dereg(whole);
	munmap(p, 2 * BYTES);
}

/* The last of them has the highest key. */
static void many_row(void)
{
	struct ibv_mr *mr[AV_ODP_REGION_LOOKS + 1];
	uint8_t *p = map(sizeof(mr) / sizeof(mr[0]) * PAGE), *end = p;

	row("the regions that are looked at count, the next one does not, and its pages are "
	    "invalidated");
	for (size_t i = 0; i < COUNT_OF(mr); i++, end += PAGE) {
		mr[i] = reg(end, PAGE, ODP);
		EXPECT(i == 0 || mr[i]->lkey >> 8 > mr[i - 1]->lkey >> 8, "keys do not ascend");
	}
	for (size_t i = COUNT_OF(mr) - 2; i < COUNT_OF(mr); i++)
		access_by_b(IBV_WR_RDMA_WRITE, mr[i], mr[i]->addr, 8, IBV_WC_SUCCESS);
	EXPECT_COUNTED(mr[COUNT_OF(mr) - 2], {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, 1},
		       {AV_MR_VALID_PAGES, 1});
	EXPECT_COUNTED(mr[COUNT_OF(mr) - 1], {AV_MR_VALID_PAGES, 1});
	munmap(p, (size_t)(end - p));
	settle(mr[COUNT_OF(mr) - 1], notices ? 0 : 1);
	EXPECT_COUNTED(mr[COUNT_OF(mr) - 1], {AV_MR_VALID_PAGES, notices ? 0 : 1});
	for (size_t i = 0; i < COUNT_OF(mr); i++)
		dereg(mr[i]);
}

/* --- any region ------------------------------------------------------------------ */

static void refused_rows(void)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *mr = reg(p, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *bystander = reg(p, BYTES, ALL);
	uint64_t shared = look(mr).info.counted[AV_MR_SHARED_BYTES];

	row("a region counts what its key does not permit");
	EXPECT(shared == 0 || shared == BYTES, "%lu bytes shared", (unsigned long)shared);
	access_by_b(IBV_WR_RDMA_READ, mr, p, PAGE, IBV_WC_SUCCESS);
	EXPECT_COUNTED(mr, {AV_MR_SHARED_BYTES, shared});
	access_by_b(IBV_WR_RDMA_WRITE, mr, p, PAGE, IBV_WC_REM_ACCESS_ERR);
	EXPECT_COUNTED(mr, {AV_MR_REFUSED, 1}, {AV_MR_SHARED_BYTES, shared});
	access_by_b(IBV_WR_RDMA_READ, mr, p + BYTES - 8, 16, IBV_WC_REM_ACCESS_ERR);
	EXPECT_COUNTED(mr, {AV_MR_REFUSED, 2}, {AV_MR_SHARED_BYTES, shared});
	EXPECT_COUNTED(bystander, {AV_MR_SHARED_BYTES, shared});
	dereg(bystander);
	dereg(mr);
	munmap(p, BYTES);
}

static void changed_row(void)
{
	uint8_t *p = map(2 * BYTES);
	struct ibv_mr *mr = reg(p, BYTES, ODP);

	row("re-registering is counted, and keeps the counts; refusing it is not");
	access_by_b(IBV_WR_RDMA_WRITE, mr, p, PAGE, IBV_WC_SUCCESS);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + BYTES, BYTES, 0) == 0,
	       "rereg");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) != 0, "refused");
	EXPECT_COUNTED(mr, {AV_MR_FAULTS, 1}, {AV_MR_FAULT_PAGES, 1}, {AV_MR_REREGISTERED, 1});
	access_by_b(IBV_WR_RDMA_WRITE, mr, p + BYTES, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT_COUNTED(mr, {AV_MR_FAULTS, 2}, {AV_MR_FAULT_PAGES, 3}, {AV_MR_REREGISTERED, 1},
		       {AV_MR_VALID_PAGES, 2});
	dereg(mr);
	munmap(p, 2 * BYTES);
}

static void windows_row(void)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *mr = reg(p, BYTES, ODP | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(a.node->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {mr, (uintptr_t)p, PAGE, IBV_ACCESS_REMOTE_READ}};

	row("windows that are bound are told");
	pair_create(&b, 0, &a, 0, NULL);
	pair_connect(&b, 0, NULL, &a, 0, NULL);
	EXPECT(mw && ibv_bind_mw(a.node->qp[0], mw, &bind) == 0, "bind");
	EXPECT_COUNTED(mr, {AV_MR_WINDOWS, 1});
	EXPECT(mw && ibv_dealloc_mw(mw) == 0, "dealloc_mw");
	EXPECT_NOTHING_COUNTED(mr);
	pair_destroy(&b, 0, &a, 0);
	dereg(mr);
	munmap(p, BYTES);
}

/* More regions than a chunk of keys has, so that places are used again. */
static void successor_row(void)
{
	uint8_t *p = map(BYTES);
	unsigned int again = 0;
	bool seen[2048] = {false};

	row("a region begins with nothing, whoever had its place");
	for (unsigned int i = 0; i < 1500 || (!again && i < 5000); i++) {
		struct ibv_mr *mr = reg(p, BYTES, i % 2 ? ODP : ODP & ~IBV_ACCESS_ON_DEMAND);
		uint32_t place = (mr->lkey >> 8) % COUNT_OF(seen);

		if (seen[place]) {
			again++;
			EXPECT(look(mr).info.counted[AV_MR_REREGISTERED] == 0,
			       "place %u has counted", place);
		}
		seen[place] = true;
		EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, a.node->pd, NULL, 0, 0) == 0,
		       "rereg");
		dereg(mr);
	}
	EXPECT(again > 0, "no place was used again");
	munmap(p, BYTES);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, READER);

	if (sock >= 0)
		reader_main(sock);
	two_sides_open(argc, argv);
	spawn_self(&reader, READER);
	notices = has_userfaultfd();
	fault_row();
	prefetch_row();
	invalidation_row();
	implicit_row();
	many_row();
	refused_rows();
	changed_row();
	windows_row();
	successor_row();
	close(reader.sock);
	spawn_wait(&reader);
	return two_sides_close();
}
