/* SPDX-License-Identifier: MIT */
/*
 * The statistics of on-demand paging as programs find them, in the virtual sysfs: what each access
 * of another process, each prefetch, each unmapping and each deregistration adds, exactly, and to
 * its own device alone; and that a third process, which uses no verbs, reads the same. The rows are
 * those of two programs, by plain and by experimental verbs (odp_fixture.h).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/apart.h"
#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/spawn.h"
#include "lib/two_sides.h"
#include "lib/userfaultfd.h"
#include "odp_fixture.h"

#define PAGE	4096u
#define PAGES	16u
#define BYTES	((uint64_t)PAGES * PAGE)
#define READER	"--reader"
#define HOLDER	"--holder"
#define DEVICES 2u
#define LARGE	((1ul << 30) + BYTES)
#define STEP  \
	(16ul \
	 << 20) /* from one piece of memory to the next: more than what is invalidated together */

#define AT_ONCE 300u /* invalidations, of which none may be counted late */

#define THREADS	     4u
#define THREAD_BYTES (3ul * PAGE)

#define QUICK_MS 300u /* of a core; too little for a look at each page */
#define ATTEMPTS 8    /* a busy host only makes it longer, so any of them counts */

/* Bytes of address space of the region that costs nothing. */
#ifdef __SANITIZE_THREAD__
#define HUGE (1ul << 36)
#else
#define HUGE (1ul << 40)
#endif

static struct odp_counters last[DEVICES];
static unsigned int subject; /* the device that is used; the other one must not count anything */

/* --- comparing ------------------------------------------------------------------- */

static void catch_up(void)
{
	for (unsigned int d = 0; d < DEVICES; d++)
		last[d] = odp_counters_read(d);
}

/* Expected differences to the last time, as pairs of counter and number; all others: none. */
#define EXPECT_ADDED(...)                                         \
	expect_added(__LINE__, (const int64_t[][2]){__VA_ARGS__}, \
		     sizeof((const int64_t[][2]){__VA_ARGS__}) / 16)
#define EXPECT_NOTHING_ADDED() expect_added(__LINE__, NULL, 0)

static int64_t wanted(const int64_t (*list)[2], size_t count, int which)
{
	for (size_t i = 0; i < count; i++)
		if (list[i][0] == which)
			return list[i][1];
	return 0;
}

static void expect_added_to(int line, unsigned int device, const int64_t (*list)[2], size_t count)
{
	struct odp_counters now = odp_counters_read(device);

	for (int i = 0; i < ODP_COUNTERS; i++) {
		int64_t added = (int64_t)(now.of[i] - last[device].of[i]);

		if (added != wanted(list, count, i))
			fail_at(__FILE__, line, "device %u, %s: %+ld, not %+ld", device,
				odp_counter_name((enum odp_counter)i), added,
				wanted(list, count, i));
	}
	last[device] = now;
}

static void expect_added(int line, const int64_t (*list)[2], size_t count)
{
	for (unsigned int d = 0; d < DEVICES; d++)
		expect_added_to(line, d, list, d == subject ? count : 0);
}

/* --- doing ----------------------------------------------------------------------- */

/* Each piece in a place of its own: what is unmapped is not what somebody else maps next. */
static uint8_t *map_pages(size_t bytes)
{
	static uintptr_t next = APART_AT;
	uint8_t *want = (uint8_t *)next;

	if (mmap(want, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0) != want)
		DIE("mmap: errno %d, or something is mapped there", errno);
	next += bytes + STEP;
	return want;
}

static struct ibv_mr *region(void *addr, size_t length)
{
	struct ibv_mr *mr = api_register(a.node->pd, addr, length, true);

	NEED(mr);
	return mr;
}

static void expect_access(enum ibv_wr_opcode op, const struct ibv_mr *mr, uint32_t bytes,
			  enum ibv_wc_status want)
{
	EXPECT_PROBE(&b, &a, 0, op, (uintptr_t)mr->addr, mr->rkey, bytes, want);
}

static int prefetch(struct ibv_mr *mr, bool for_writing)
{
	return api_prefetch(mr, mr->addr, mr->length, for_writing);
}

/* Invalidate pages. Whoever reads a statistic from then on finds that counted. */
static void invalidate(void *addr, size_t bytes, bool unmap)
{
	if (unmap ? munmap(addr, bytes) : madvise(addr, bytes, MADV_DONTNEED))
		DIE("errno %d", errno);
}

/* --- rows ------------------------------------------------------------------------ */

/* What this process has had of cores. */
static uint64_t core_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void registration_row(void)
{
	uint8_t *p = map_pages(HUGE);
	struct ibv_mr *mr = NULL;
	uint64_t start, took = 0;

	row("registering counts in the gauges only, and %lu GiB cost no more than a page",
	    HUGE >> 30);
	for (int i = 0; i < ATTEMPTS && (i == 0 || took > QUICK_MS); i++) {
		if (mr)
			EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
		start = core_ms();
		mr = region(p, HUGE);
		took = core_ms() - start;
	}
	EXPECT(took <= QUICK_MS, "%lu ms", took);
	EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, HUGE / PAGE});
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -(int64_t)(HUGE / PAGE)});
	munmap(p, HUGE);
	EXPECT_NOTHING_ADDED();
}

/* Pages count that a region touches, whole or not. */
static void size_rows(void)
{
	static const struct {
		uint64_t offset, length;
		int64_t pages;
	} rows[] = {
		{0, PAGE, 1},
		{0, 1, 1},
		{PAGE - 1, 1, 1},
		{PAGE - 1, 2, 2},
		{100, PAGE, 2},
		{100, PAGE - 100, 1},
		{100, 3 * PAGE - 99, 4},
		{1, BYTES - 2, PAGES},
		{PAGE, 5 * PAGE, 5},
		{PAGE - 4, 8, 2},
		{0, 2 * PAGE + 1, 3},
	};
	uint8_t *p = map_pages(BYTES);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr = region(p + rows[i].offset, rows[i].length);

		row("%lu bytes from %lu on are %ld pages", rows[i].length, rows[i].offset,
		    rows[i].pages);
		EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, rows[i].pages});
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
		EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -rows[i].pages});
	}
	munmap(p, BYTES);
}

/* The gauges follow a region that is changed. */
static void rereg_rows(void)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
	static const struct {
		uint64_t offset, length;
		int64_t pages;
	} rows[] = {{0, 3 * PAGE, 3}, {100, 3 * PAGE, 4}, {PAGE - 1, 2, 2}, {0, BYTES, PAGES}};
	uint8_t *p = map_pages(BYTES);
	struct ibv_mr *mr = region(p, BYTES);
	int64_t pages = PAGES;

	EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, PAGES});
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("re-registered: %lu bytes from %lu on", rows[i].length, rows[i].offset);
		EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + rows[i].offset,
				    rows[i].length, 0) == 0,
		       "ibv_rereg_mr: errno %d", errno);
		EXPECT_ADDED({ODP_MR_PAGES, rows[i].pages - pages});
		pages = rows[i].pages;
	}
	row("re-registered: other rights");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, rights) == 0,
	       "ibv_rereg_mr: errno %d", errno);
	EXPECT_NOTHING_ADDED();
	row("deregistered then");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -pages});
	munmap(p, BYTES);
}

/* From the first access to the last: the life of one region. */
static void life_row(void)
{
	uint8_t *p = map_pages(BYTES);
	struct ibv_mr *mr = region(p, BYTES);

	row("registration");
	EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, PAGES});
	row("the first READ faults all pages, in one event");
	expect_access(IBV_WR_RDMA_READ, mr, BYTES, IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, PAGES});
	row("the second READ faults none");
	expect_access(IBV_WR_RDMA_READ, mr, BYTES, IBV_WC_SUCCESS);
	EXPECT_NOTHING_ADDED();
	row("WRITE to pages that were read only faults them for writing");
	expect_access(IBV_WR_RDMA_WRITE, mr, 3 * PAGE, IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, 3});
	row("WRITE faults only those of its pages that are not valid");
	expect_access(IBV_WR_RDMA_WRITE, mr, 5 * PAGE, IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, 2});
	row("atomics on a page that is valid");
	expect_access(IBV_WR_ATOMIC_FETCH_AND_ADD, mr, 8, IBV_WC_SUCCESS);
	EXPECT_NOTHING_ADDED();
	row("unmapping invalidates the pages, in one event");
	invalidate(p, BYTES, true);
	EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, PAGES});
	row("access to unmapped memory is refused");
	expect_access(IBV_WR_RDMA_READ, mr, BYTES, IBV_WC_REM_ACCESS_ERR);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAILED_RESOLUTIONS, 1});
	row("deregistration");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -(int64_t)PAGES});
}

/* The whole address space has no size of its own: its pages in use count, by every operation. */
static void implicit_row(void)
{
	uint8_t *p = map_pages(BYTES), *q = map_pages(BYTES);
	struct ibv_mr *mr = api_register(a.node->pd, NULL, 0, true), *part;

	NEED(mr);
	row("an implicit region has no pages before they are used");
	EXPECT_ADDED({ODP_MRS, 1});
	row("a fault");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, 5 * PAGE, IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, 5}, {ODP_MR_PAGES, 5});
	row("a fault for writing: a page counts once");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey, 6 * PAGE,
		     IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, 6}, {ODP_MR_PAGES, 1});
	row("a prefetch");
	EXPECT(api_prefetch(mr, q, 3 * PAGE, true) == 0, "the prefetch");
	EXPECT_ADDED({ODP_PREFETCHES, 1}, {ODP_PREFETCH_PAGES, 3}, {ODP_MR_PAGES, 3});
	row("what another region covers is counted by its size");
	part = region(q, BYTES);
	EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, PAGES - 3});
	EXPECT(ibv_dereg_mr(part) == 0, "ibv_dereg_mr");
	EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -(int64_t)PAGES});
	row("an invalidation");
	invalidate(p, 2 * PAGE, false);
	EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, 2}, {ODP_MR_PAGES, -2});
	invalidate(p, 3 * PAGE, true);
	EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, 1}, {ODP_MR_PAGES, -1});
	row("its deregistration");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -3});
	munmap(p + 3 * PAGE, BYTES - 3 * PAGE);
	munmap(q, BYTES);
	EXPECT_NOTHING_ADDED();
}

/* By the key of a region that is gone, from either side. */
static void gone_row(void)
{
	uint8_t *p = map_pages(BYTES);
	struct ibv_mr *mr = region(p, BYTES);
	uint32_t key = mr->rkey;
	struct node_send local =
		side_rdma_to(IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)p, BYTES, key}, &b, 0);
	enum ibv_wc_status status;

	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	catch_up();
	row("remote access to a deregistered region");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, key, BYTES, IBV_WC_REM_ACCESS_ERR);
	EXPECT_ADDED({ODP_MRS_NOT_FOUND, 1});
	row("local access to a deregistered region");
	status = probe_request(&a, &b, 0, &local);
	EXPECT(status == IBV_WC_LOC_PROT_ERR, "'%s'", ibv_wc_status_str(status));
	EXPECT_ADDED({ODP_MRS_NOT_FOUND, 1});
	munmap(p, BYTES);
	EXPECT_NOTHING_ADDED();
}

/* For reading: the pages that come are all the same one, of zeros. */
static void large_prefetch(void)
{
	uint8_t *p = map_pages(LARGE);
	struct ibv_mr *mr = region(p, LARGE);

	catch_up();
	EXPECT(prefetch(mr, false) == 0, "the prefetch");
	EXPECT_ADDED({ODP_PREFETCHES, 1}, {ODP_PREFETCH_PAGES, LARGE / PAGE});
	ibv_dereg_mr(mr);
	munmap(p, LARGE);
	catch_up();
}

static void prefetch_row(void)
{
	uint8_t *p = map_pages(BYTES);
	struct ibv_mr *mr = region(p, BYTES);

	catch_up();
	row("a flushed prefetch for writing");
	EXPECT(prefetch(mr, true) == 0, "the prefetch");
	EXPECT_ADDED({ODP_PREFETCHES, 1}, {ODP_PREFETCH_PAGES, PAGES});
	row("access to prefetched pages faults none");
	expect_access(IBV_WR_RDMA_WRITE, mr, BYTES, IBV_WC_SUCCESS);
	expect_access(IBV_WR_RDMA_READ, mr, BYTES, IBV_WC_SUCCESS);
	EXPECT_NOTHING_ADDED();
	row("a prefetch of what is valid brings no pages");
	EXPECT(prefetch(mr, false) == 0, "the prefetch");
	EXPECT_ADDED({ODP_PREFETCHES, 1});
	row("a prefetch of more than a gigabyte is one");
	large_prefetch();
	row("discarded pages fault again");
	invalidate(p, 4 * PAGE, false);
	EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, 4});
	expect_access(IBV_WR_RDMA_READ, mr, BYTES, IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, 4});
	invalidate(p, BYTES, true);
	catch_up();
	row("a prefetch of unmapped memory is not counted");
	EXPECT(prefetch(mr, false) == api_unmapped, "the prefetch");
	EXPECT_NOTHING_ADDED();
	ibv_dereg_mr(mr);
	catch_up();
}

/* In the other process. */
static uint64_t read_counter(struct node *n, const struct side_job *job)
{
	return odp_counter((enum odp_counter)job->arg[0]);
}

static uint64_t as_the_other_reads(enum odp_counter which)
{
	side_begin(&b, &(struct side_job){{which}});
	return side_end(&b);
}

/* Calls of madvise(), and a munmap() at the end, each counted when it has returned. */
static void at_once_rows(void)
{
	static uint64_t (*const read[])(enum odp_counter) = {odp_counter, as_the_other_reads};
	static const char *const names[] = {"this process", "another process"};

	for (size_t r = 0; r < COUNT_OF(read); r++) {
		uint8_t *p = map_pages(BYTES);
		struct ibv_mr *mr = region(p, BYTES);
		uint64_t before = odp_counter(ODP_INVALIDATIONS);
		uint64_t pages = odp_counter(ODP_INVALIDATION_PAGES), late = 0;

		row("invalidations are counted at once: read by %s", names[r]);
		for (uint64_t i = 1; i <= AT_ONCE; i++) {
			EXPECT(prefetch(mr, false) == 0, "the prefetch");
			invalidate(p, BYTES, i == AT_ONCE);
			late += read[r](ODP_INVALIDATIONS) != before + i;
			late += read[r](ODP_INVALIDATION_PAGES) != pages + i * PAGES;
		}
		EXPECT(late == 0, "%lu of %u were late", late, 2 * AT_ONCE);
		ibv_dereg_mr(mr);
		catch_up();
	}
}

/* Of several threads, in pages that lie side by side: begun, and returned. */
static struct {
	struct ibv_mr *mr;
	_Atomic uint64_t begun, returned;
	_Atomic bool over;
} many;

static void *invalidate_often(void *pages)
{
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		if (api_prefetch(many.mr, pages, THREAD_BYTES, true))
			DIE("the prefetch: errno %d", errno);
		many.begun++;
		invalidate(pages, THREAD_BYTES, false);
		many.returned++;
	}
	return NULL;
}

/* What a reader finds lies between what had returned before it and what has begun after it. */
static void *look_meanwhile(void *unused)
{
	do {
		uint64_t least = many.returned, found = odp_counter(ODP_INVALIDATIONS);
		uint64_t most = many.begun;

		EXPECT(found >= least && found <= most, "%lu, not %lu to %lu", found, least, most);
	} while (!many.over);
	return NULL;
}

static void threads_row(void)
{
	uint8_t *p = map_pages(THREADS * THREAD_BYTES);
	pthread_t thread[THREADS], reader;

	row("invalidations of several threads, and a reader beside them");
	many.mr = region(p, THREADS * THREAD_BYTES);
	catch_up();
	many.begun = many.returned = last[0].of[ODP_INVALIDATIONS];
	NEED(pthread_create(&reader, NULL, look_meanwhile, NULL) == 0);
	for (unsigned int i = 0; i < THREADS; i++)
		NEED(pthread_create(&thread[i], NULL, invalidate_often, p + i * THREAD_BYTES) == 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	many.over = true;
	pthread_join(reader, NULL);
	EXPECT(odp_counter(ODP_INVALIDATIONS) - last[0].of[ODP_INVALIDATIONS] == THREADS * AT_ONCE,
	       "events");
	EXPECT(odp_counter(ODP_INVALIDATION_PAGES) - last[0].of[ODP_INVALIDATION_PAGES] ==
		       THREADS * AT_ONCE * THREAD_BYTES / PAGE,
	       "pages");
	ibv_dereg_mr(many.mr);
	catch_up();
}

/* One call is one event, though the kernel reports each mapping by itself. */
static void split_row(void)
{
	static const int advices[] = {MADV_DONTNEED, MADV_FREE};

	for (size_t i = 0; i < COUNT_OF(advices); i++) {
		uint8_t *p = map_pages(BYTES);
		struct ibv_mr *mr = region(p, BYTES);

		row("madvise(%d) of several mappings is one invalidation", advices[i]);
		memset(p, 1, BYTES);
		if (mprotect(p + 3 * PAGE, PAGE, PROT_READ) ||
		    mprotect(p + 5 * PAGE, 2 * PAGE, PROT_READ))
			DIE("mprotect: errno %d", errno);
		EXPECT(prefetch(mr, false) == 0, "the prefetch");
		catch_up();
		NEED(madvise(p, BYTES, advices[i]) == 0);
		EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, PAGES});
		row("and so is munmap()");
		EXPECT(prefetch(mr, false) == 0, "the prefetch");
		catch_up();
		invalidate(p, BYTES, true);
		EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, PAGES});
		ibv_dereg_mr(mr);
		catch_up();
	}
}

/* Without ON_DEMAND nothing of this happens. */
static void plain_region_row(void)
{
	uint8_t *p = map_pages(BYTES);
	struct ibv_mr *mr = api_register(a.node->pd, p, BYTES, false);

	row("a region that is not on demand counts nothing");
	expect_access(IBV_WR_RDMA_READ, mr, BYTES, IBV_WC_SUCCESS);
	expect_access(IBV_WR_RDMA_WRITE, mr, BYTES, IBV_WC_SUCCESS);
	ibv_dereg_mr(mr);
	munmap(p, BYTES);
	EXPECT_NOTHING_ADDED();
}

/* --- another device -------------------------------------------------------------- */

static struct ibv_context *open_second(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] && list[1] ? ibv_open_device(list[1]) : NULL;

	NEED(ctx);
	ibv_free_device_list(list);
	return ctx;
}

/* All that counts, on the second device of the same process. */
static void second_device_row(void)
{
	uint8_t *p = map_pages(BYTES);
	struct ibv_context *ctx = open_second();
	struct ibv_mr *mr;
	struct side c, d; /* two domains of one context */

	side_open(&c, ctx);
	side_open(&d, ctx);
	probe_open(&d, &c, 0);
	subject = 1;
	row("another device counts by itself");
	mr = api_register(c.node->pd, p, BYTES, true);
	NEED(mr);
	EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, PAGES});
	EXPECT_PROBE(&d, &c, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, 3 * PAGE, IBV_WC_SUCCESS);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAULT_PAGES, 3});
	EXPECT(prefetch(mr, false) == 0, "the prefetch");
	EXPECT_ADDED({ODP_PREFETCHES, 1}, {ODP_PREFETCH_PAGES, PAGES - 3});
	invalidate(p, BYTES, true);
	EXPECT_ADDED({ODP_INVALIDATIONS, 1}, {ODP_INVALIDATION_PAGES, PAGES});
	EXPECT_PROBE(&d, &c, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, BYTES,
		     IBV_WC_REM_ACCESS_ERR);
	EXPECT_ADDED({ODP_FAULTS, 1}, {ODP_FAILED_RESOLUTIONS, 1});
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_ADDED({ODP_MRS, -1}, {ODP_MR_PAGES, -(int64_t)PAGES});
	subject = 0;
	probe_close(&d, &c, 0);
	side_stop(&d);
	side_stop(&c);
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
}

/* --- a process that only reads --------------------------------------------------- */

static void reader_main(int sock)
{
	struct odp_counters now = odp_counters_read(0);

	spawn_send(sock, &now, sizeof(now));
	exit(failures() ? 1 : 0);
}

static void stranger_row(void)
{
	struct spawned reader;
	struct odp_counters theirs;

	row("a process that opens no device reads the same");
	spawn_self(&reader, READER);
	spawn_receive(reader.sock, &theirs, sizeof(theirs));
	spawn_wait(&reader);
	catch_up();
	for (int i = 0; i < ODP_COUNTERS; i++)
		EXPECT(theirs.of[i] == last[0].of[i], "%s: %lu there, %lu here",
		       odp_counter_name((enum odp_counter)i), theirs.of[i], last[0].of[i]);
}

/* --- a process that dies --------------------------------------------------------- */

static void holder_main(int sock)
{
	struct ibv_context *ctx = node_open_device();
	struct ibv_mr *mr = api_register(ibv_alloc_pd(ctx), map_pages(BYTES), BYTES, true);

	NEED(mr);
	spawn_send(sock, "", 1);
	pause();
	exit(1);
}

static void death_row(void)
{
	struct spawned holder, second;
	char byte;

	row("regions of another process count");
	spawn_self(&holder, HOLDER);
	spawn_receive(holder.sock, &byte, 1);
	EXPECT_ADDED({ODP_MRS, 1}, {ODP_MR_PAGES, PAGES});
	row("what a killed process had registered is gone when the next one has opened the device");
	spawn_kill(&holder);
	spawn_self(&second, HOLDER);
	spawn_receive(second.sock, &byte, 1);
	EXPECT_NOTHING_ADDED();
	spawn_kill(&second);
}

/* --- */

static void run(void)
{
	catch_up();
	row("nothing has been counted yet");
	for (int i = 0; i < ODP_COUNTERS; i++)
		EXPECT(last[0].of[i] + last[1].of[i] == 0, "%s: %lu and %lu",
		       odp_counter_name((enum odp_counter)i), last[0].of[i], last[1].of[i]);
	registration_row();
	size_rows();
	rereg_rows();
	life_row();
	implicit_row();
	gone_row();
	prefetch_row();
	at_once_rows();
	threads_row();
	split_row();
	plain_region_row();
	second_device_row();
	stranger_row();
	death_row();
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, READER);

	if (sock >= 0)
		reader_main(sock);
	sock = spawn_role(argc, argv, HOLDER);
	if (sock >= 0)
		holder_main(sock);
	side_work = read_counter;
	need_userfaultfd();
	setenv("ANYVERBS_DEVICES", "any0,any1", 1);
	two_sides_open(argc, argv);
	probe_open(&b, &a, 0);
	run();
	probe_close(&b, &a, 0);
	return two_sides_close();
}
