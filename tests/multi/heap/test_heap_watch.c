/* SPDX-License-Identifier: MIT */
/*
 * Blocks of the shared heap that become private while others have the same memory watched: a
 * prefetch that goes on in a thread of the library's, and threads of the program that register
 * parts of it. The exchange of the pages is not taken for an unmapping by the program: what is
 * registered there stays good. What the program does unmap meanwhile is noticed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "heap_fixture.h"
#include "lib/odp_sysfs.h"
#include "lib/peer_memory.h"
#include "lib/userfaultfd.h"

#define PART   256u /* of a page */
#define ROUNDS (TEST_SANITIZED ? 100u : 500u)

static uint8_t *memory;

static bool is_good(const struct ibv_mr *mr)
{
	return EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey,
			    (uint32_t)mr->length, IBV_WC_SUCCESS);
}

/* Have the block become private. */
static void move(void)
{
	EXPECT(madvise(memory, BYTES, MADV_DONTDUMP) == 0, "madvise: errno %d", errno);
	expect_shared(memory, false);
}

/* --- who has the memory watched meanwhile ---------------------------------------- */

static struct ibv_mr *on_demand;
static pthread_t thread;
static _Atomic bool stop;

static void prefetch_begin(void)
{
	on_demand = ibv_reg_mr(a.node->pd, memory, BYTES, PROBE_ALL | IBV_ACCESS_ON_DEMAND);
	NEED(on_demand);
}

static void prefetch(void)
{
	struct ibv_sge all = {(uintptr_t)memory, BYTES, on_demand->lkey};
	int ret = ibv_advise_mr(a.node->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &all, 1);

	EXPECT(ret == 0, "ibv_advise_mr: %d", ret);
}

static void prefetch_end(void)
{
	dereg(on_demand);
}

static void *register_parts(void *arg)
{
	while (!atomic_load(&stop))
		dereg(reg(memory + 2 * PAGE + PART, PART));
	return arg;
}

static void registrar_begin(void)
{
	atomic_store(&stop, false);
	NEED(pthread_create(&thread, NULL, register_parts, NULL) == 0);
}

static void registrar_end(void)
{
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

static void nothing(void)
{
}

static const struct watcher {
	const char *name;
	void (*begin)(void), (*each)(void), (*end)(void);
} watchers[] = {
	{"a prefetch that goes on", prefetch_begin, prefetch, prefetch_end},
	{"a thread that registers parts", registrar_begin, nothing, registrar_end},
};

/* --- rows ------------------------------------------------------------------------ */

/* A new block, which is shared. */
static void map_memory(void)
{
	memory = map_private(BYTES);
	memset(memory, 0x5a, BYTES);
}

static bool one_exchange(const struct watcher *w, bool unmaps)
{
	struct ibv_mr *part;
	bool ret;

	map_memory();
	part = reg(memory + PAGE, PART);
	w->begin();
	w->each();
	move();
	if (unmaps && mmap(memory, 2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != memory)
		DIE("mmap: errno %d", errno);
	ret = unmaps ? expect_refused(part->addr, part, PART) : is_good(part);
	w->end();
	dereg(part);
	peer_memory_unmap(memory, BYTES);
	return ret;
}

static void exchange_row(const struct watcher *w, bool unmaps)
{
	unsigned int rounds = unmaps ? ROUNDS / 10 : ROUNDS;

	row("%s: %s", w->name, unmaps ? "an unmapping is noticed" : "other regions stay good");
	while (rounds-- && one_exchange(w, unmaps))
		;
}

/* A region within a block makes it several mappings. */
static void one_call_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *all = ibv_reg_mr(a.node->pd, p, BYTES, PROBE_ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *some = reg(p + 4 * PAGE, 3 * PAGE);
	struct ibv_sge sge = {(uintptr_t)p, BYTES, all ? all->lkey : 0};
	struct odp_counters before, now;

	row("madvise() is one invalidation, also where a mapping is split");
	fill(p, BYTES, 1);
	EXPECT(ibv_advise_mr(a.node->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) == 0,
	       "ibv_advise_mr");
	before = odp_counters_read(0);
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0, "madvise: errno %d", errno);
	now = odp_counters_read(0);
	EXPECT(now.of[ODP_INVALIDATIONS] - before.of[ODP_INVALIDATIONS] == 1, "%lu events",
	       now.of[ODP_INVALIDATIONS] - before.of[ODP_INVALIDATIONS]);
	EXPECT(now.of[ODP_INVALIDATION_PAGES] - before.of[ODP_INVALIDATION_PAGES] == PAGES,
	       "%lu pages", now.of[ODP_INVALIDATION_PAGES] - before.of[ODP_INVALIDATION_PAGES]);
	EXPECT(p[0] == 0 && p[5 * PAGE] == 0, "the pages are not discarded");
	dereg(some);
	dereg(all);
	peer_memory_unmap(p, BYTES);
}

static void expect_added(struct odp_counters *last, uint64_t events, uint64_t pages)
{
	struct odp_counters now = odp_counters_read(0);

	EXPECT(now.of[ODP_INVALIDATIONS] - last->of[ODP_INVALIDATIONS] == events &&
		       now.of[ODP_INVALIDATION_PAGES] - last->of[ODP_INVALIDATION_PAGES] == pages,
	       "%lu events of %lu pages, not %lu of %lu",
	       now.of[ODP_INVALIDATIONS] - last->of[ODP_INVALIDATIONS],
	       now.of[ODP_INVALIDATION_PAGES] - last->of[ODP_INVALIDATION_PAGES], events, pages);
	EXPECT(now.of[ODP_FAULTS] == last->of[ODP_FAULTS], "%lu faults",
	       now.of[ODP_FAULTS] - last->of[ODP_FAULTS]);
	*last = now;
}

/* As of private memory: the program has taken no page away. Nothing else is registered. */
static void on_demand_row(struct ibv_pd *pd, const char *name, void (*leave)(void))
{
	struct ibv_sge all;
	struct odp_counters last;
	struct ibv_mr *mr;

	row("%s: no invalidation of a region on demand alone", name);
	map_memory();
	mr = ibv_reg_mr(pd, memory, BYTES, PROBE_ALL | IBV_ACCESS_ON_DEMAND);
	NEED(mr);
	all = (struct ibv_sge){(uintptr_t)memory, BYTES, mr->lkey};
	EXPECT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			     &all, 1) == 0,
	       "ibv_advise_mr");
	last = odp_counters_read(0);
	leave();
	expect_added(&last, 0, 0);
	EXPECT(madvise(memory, 2 * PAGE, MADV_DONTNEED) == 0, "madvise: errno %d", errno);
	expect_added(&last, 1, 2);
	dereg(mr);
	peer_memory_unmap(memory, BYTES);
}

static void be_forked(void)
{
	call_fork(NULL);
	expect_shared(memory, false);
}

static void on_demand_rows(void)
{
	struct ibv_context *context = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);

	NEED(pd);
	on_demand_row(pd, "advice for dumps", move);
	on_demand_row(pd, "fork()", be_forked);
	EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "errno %d", errno);
}

static void run(void)
{
	if (has_userfaultfd())
		one_call_row();
	for (size_t i = 0; i < COUNT_OF(watchers); i++) {
		exchange_row(&watchers[i], false);
		if (has_userfaultfd())
			exchange_row(&watchers[i], true);
	}
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	need_peer_memory();
	if (has_userfaultfd())
		on_demand_rows();
	return heap_test(argc, argv, run);
}
