/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program unmaps under a region which is not paged on demand: its bytes, and what
 * is mapped there later, are out of reach of every use of the region, remote and local; what was
 * not unmapped stays in reach; a new registration is as good as any. And addresses that go from
 * thread to thread, unmapped here and registered there at once, are never taken for unmapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"
#include "lib/userfaultfd.h"

#define PAGES	8u
#define PAGE	4096ul
#define BYTES	(PAGES * PAGE)
#define THREADS 4
#define TURNS	(TEST_SANITIZED ? 300 : 1500)

static struct node *n;

/* --- memory of every kind, and the ways it goes ---------------------------------- */

static void *map_at(void *at, size_t bytes, int flags, int fd)
{
	void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED : 0), fd, 0);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	return p;
}

static uint8_t *map_private(void)
{
	return map_at(NULL, BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static uint8_t *map_shared(void)
{
	return map_at(NULL, BYTES, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static uint8_t *map_file(int flags)
{
	char path[] = "/tmp/anyverbs-test-XXXXXX";
	int fd = mkstemp(path);
	uint8_t *p;

	if (fd < 0 || unlink(path) || ftruncate(fd, BYTES))
		DIE("no file");
	p = map_at(NULL, BYTES, flags, fd);
	close(fd);
	return p;
}

static uint8_t *map_shared_file(void)
{
	return map_file(MAP_SHARED);
}

static uint8_t *map_private_file(void)
{
	return map_file(MAP_PRIVATE);
}

static void unmap(uint8_t *p, size_t bytes)
{
	NEED(munmap(p, bytes) == 0);
}

static void just_unmap(uint8_t *p, size_t bytes)
{
	unmap(p, bytes);
}

static void unmap_and_map(uint8_t *p, size_t bytes)
{
	unmap(p, bytes);
	map_at(p, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void map_over(uint8_t *p, size_t bytes)
{
	map_at(p, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void move_away(uint8_t *p, size_t bytes)
{
	uint8_t *to = map_at(NULL, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		DIE("mremap");
	unmap(to, bytes);
}

static void move_away_and_map(uint8_t *p, size_t bytes)
{
	move_away(p, bytes);
	map_at(p, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void move_over(uint8_t *p, size_t bytes)
{
	uint8_t *from = map_at(NULL, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, p) != p)
		DIE("mremap");
}

static const struct {
	const char *name;
	uint8_t *(*map)(void);
} kinds[] = {
	{"private memory", map_private},
	{"shared memory", map_shared},
	{"a file, shared", map_shared_file},
	{"a file, private", map_private_file},
};

static const struct {
	const char *name;
	void (*go)(uint8_t *p, size_t bytes);
	bool filled; /* something else is there afterwards */
} ways[] = {
	{"unmapped", just_unmap, false},
	{"unmapped and mapped anew", unmap_and_map, true},
	{"mapped over", map_over, true},
	{"moved away", move_away, false},
	{"moved away and mapped anew", move_away_and_map, true},
	{"another moved there", move_over, true},
};

/* --- what is found --------------------------------------------------------------- */

static struct ibv_mr *region(void *p, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, p, bytes, PROBE_ALL | IBV_ACCESS_MW_BIND);

	NEED(mr);
	return mr;
}

static void expect_remote(const uint8_t *p, uint32_t rkey, uint32_t bytes, bool good)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_ATOMIC_CMP_AND_SWP};

	for (size_t i = 0; i < COUNT_OF(ops); i++)
		EXPECT_PROBE(&b, &a, 0, ops[i], (uintptr_t)p, rkey, i < 2 ? bytes : 8,
			     good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

/* As the source of a WRITE to the other process, and as the destination of a READ from there. */
static void expect_local(uint8_t *p, uint32_t lkey, bool good)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		struct node_send r = side_rdma_to(ops[i], (struct ibv_sge){(uintptr_t)p, 64, lkey},
						  &b, PROBE_AT);
		enum ibv_wc_status got = probe_request(&a, &b, 0, &r);

		EXPECT(got == (good ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR), "local use: '%s'",
		       ibv_wc_status_str(got));
	}
}

static void expect_untouched(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!EXPECT(p[i] == 0, "byte %zu of what is mapped now is %#x", i, p[i]))
			return;
}

static void end(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

/* --- rows ------------------------------------------------------------------------ */

static void whole_row(size_t kind, size_t way)
{
	uint8_t *p = kinds[kind].map();
	struct ibv_mr *mr = region(p, BYTES), *again;

	row("%s, %s", kinds[kind].name, ways[way].name);
	expect_remote(p, mr->rkey, PAGE, true);
	expect_local(p, mr->lkey, true);
	ways[way].go(p, BYTES);
	expect_remote(p, mr->rkey, PAGE, false);
	expect_remote(p + BYTES - 64, mr->rkey, 64, false);
	expect_local(p, mr->lkey, false);
	if (ways[way].filled) {
		expect_untouched(p, BYTES);
		again = region(p, BYTES);
		expect_remote(p, again->rkey, PAGE, true);
		expect_remote(p, mr->rkey, PAGE, false);
		end(again);
		expect_remote(p, mr->rkey, PAGE, false);
		unmap(p, BYTES);
	}
	end(mr);
}

static void part_row(size_t way)
{
	uint8_t *p = map_private();
	struct ibv_mr *mr = region(p, BYTES);

	row("two pages of eight, %s", ways[way].name);
	ways[way].go(p + 3 * PAGE, 2 * PAGE);
	expect_remote(p, mr->rkey, 3 * PAGE, true);
	expect_remote(p + 5 * PAGE, mr->rkey, 3 * PAGE, true);
	expect_local(p + 2 * PAGE, mr->lkey, true);
	expect_remote(p + 3 * PAGE, mr->rkey, 8, false);
	expect_remote(p + 5 * PAGE - 8, mr->rkey, 8, false);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey, BYTES,
		     IBV_WC_REM_ACCESS_ERR);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, BYTES,
		     IBV_WC_REM_ACCESS_ERR);
	expect_local(p + 3 * PAGE - 8, mr->lkey, false);
	end(mr);
	unmap(p, BYTES);
}

/* Things that happen to memory and leave a region on it what it was. */
static void harmless_rows(void)
{
	uint8_t *p = map_private();
	struct ibv_mr *mr = region(p + 2 * PAGE, 4 * PAGE);

	row("neighbours of the same mapping unmapped");
	unmap(p, 2 * PAGE);
	unmap(p + 6 * PAGE, 2 * PAGE);
	expect_remote(p + 2 * PAGE, mr->rkey, 4 * PAGE, true);
	row("zeroed by MADV_DONTNEED");
	EXPECT(madvise(p + 2 * PAGE, 4 * PAGE, MADV_DONTNEED) == 0, "madvise");
	expect_remote(p + 2 * PAGE, mr->rkey, 4 * PAGE, true);
	row("protected and unprotected");
	EXPECT(mprotect(p + 2 * PAGE, PAGE, PROT_NONE) == 0, "mprotect");
	EXPECT(mprotect(p + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
	expect_remote(p + 2 * PAGE, mr->rkey, 4 * PAGE, true);
	end(mr);
	unmap(p + 2 * PAGE, 4 * PAGE);
}

static void rereg_rows(void)
{
	uint8_t *p = map_private();
	struct ibv_mr *mr = region(p, BYTES);

	row("re-registered: rights alone do not bring it back");
	unmap_and_map(p, BYTES);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, PROBE_ALL) == 0,
	       "errno %d", errno);
	expect_remote(p, mr->rkey, PAGE, false);
	row("re-registered at the same address");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, BYTES, 0) == 0,
	       "errno %d", errno);
	expect_remote(p, mr->rkey, PAGE, true);
	unmap_and_map(p, BYTES);
	expect_remote(p, mr->rkey, PAGE, false);
	end(mr);
	unmap(p, BYTES);
}

static uint32_t bind(struct ibv_mw *mw, struct ibv_mr *mr, void *p, size_t bytes)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {mr, (uintptr_t)p, bytes,
			      PROBE_ALL & ~(unsigned int)IBV_ACCESS_LOCAL_WRITE},
	};
	struct ibv_wc wc;

	if (ibv_bind_mw(n->qp[0], mw, &bind) || node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1 ||
	    wc.status)
		DIE("no window");
	return mw->rkey;
}

static void window_rows(void)
{
	uint8_t *p = map_private();
	struct ibv_mr *mr = region(p, BYTES);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	uint32_t rkey;

	NEED(mw);
	row("window over memory that goes");
	rkey = bind(mw, mr, p, 4 * PAGE);
	expect_remote(p, rkey, PAGE, true);
	unmap_and_map(p + PAGE, PAGE);
	expect_remote(p, rkey, PAGE, true);
	expect_remote(p + PAGE, rkey, PAGE, false);
	row("window bound when the memory had gone already");
	rkey = bind(mw, mr, p + PAGE, 2 * PAGE);
	expect_remote(p + PAGE, rkey, PAGE, false);
	expect_remote(p + 2 * PAGE, rkey, PAGE, true);
	EXPECT(ibv_dealloc_mw(mw) == 0, "errno %d", errno);
	end(mr);
	unmap(p, BYTES);
}

static void receive_row(void)
{
	uint8_t *p = map_private();
	struct ibv_mr *mr = region(p, BYTES);
	struct node_recv recv = {.num_sge = 1, .sge = {{(uintptr_t)p, 64, mr->lkey}}};
	struct node_send send = side_message(
		(struct ibv_sge){b.info.base[KEY_FULL] + PROBE_AT, 64, b.info.lkey[KEY_FULL]});
	struct ibv_wc wc;

	row("receive buffer that has gone");
	EXPECT(node_post_recv(n, 0, &recv, 1).ret == 0, "ibv_post_recv");
	unmap_and_map(p, BYTES);
	(void)side_post_send(&b, 0, &send, 1);
	EXPECT(node_poll(n, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_LOC_PROT_ERR,
	       "'%s'", ibv_wc_status_str(wc.status));
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &wc) == 1, "the sender hears nothing");
	expect_untouched(p, BYTES);
	probe_reconnect(&b, &a, 0);
	end(mr);
	unmap(p, BYTES);
}

/* --- addresses that go from thread to thread ------------------------------------- */

struct walker {
	pthread_t thread;
	int qp;
	unsigned int failed;
};

static atomic_uint shared_addresses; /* how often a mapping lay where another thread's had been */
static _Atomic(uint8_t *) last_of[THREADS];

static enum ibv_wc_status one_write(int qp, uint8_t *p, const struct ibv_mr *mr)
{
	struct node_send send =
		side_rdma(IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)p, 64, mr->lkey},
			  (uintptr_t)p + PAGE, mr->rkey);
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (node_post_send(n, qp, &send, 1).ret || node_poll(n, qp, 1, PROBE_PATIENCE, &wc) != 1)
		return IBV_WC_GENERAL_ERR;
	return wc.status;
}

static void *walk(void *arg)
{
	struct walker *w = arg;

	for (unsigned int turn = 0; turn < TURNS && !w->failed; turn++) {
		uint8_t *p = map_private();
		struct ibv_mr *mr = region(p, BYTES);

		for (int i = 0; i < THREADS; i++)
			if (i != w->qp - 2 && atomic_load(&last_of[i]) == p)
				atomic_fetch_add(&shared_addresses, 1);
		atomic_store(&last_of[w->qp - 2], p);
		w->failed += one_write(w->qp, p, mr) != IBV_WC_SUCCESS;
		w->failed += ibv_dereg_mr(mr) != 0;
		unmap(p, BYTES);
	}
	return NULL;
}

static void connect_to_itself(int qp)
{
	struct node_qp_spec spec = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.send_cq = (uint32_t)qp,
		.recv_cq = (uint32_t)qp};
	struct node_link link = {.dgid = n->info.gid,
				 .access = PROBE_ALL,
				 .mtu = IBV_MTU_4096,
				 .timeout = 18,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .rd_atomic = 1,
				 .dest_rd_atomic = 1,
				 .to = IBV_QPS_RTS};

	if (node_create_cq(n, qp, 16, false) || node_create_qp(n, qp, &spec))
		DIE("no queue pair");
	link.dest_qpn = n->qp[qp]->qp_num;
	if (node_connect(n, qp, &link))
		DIE("not connected");
}

static void reuse_row(void)
{
	struct walker w[THREADS] = {0};

	row("addresses that go from thread to thread");
	for (int i = 0; i < THREADS; i++) {
		w[i].qp = i + 2;
		connect_to_itself(w[i].qp);
	}
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_create(&w[i].thread, NULL, walk, &w[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT(w[i].failed == 0, "thread %d: refused", i);
	}
	EXPECT(shared_addresses > 0, "no address was used by two");
	for (int i = 0; i < THREADS; i++)
		EXPECT(node_destroy_qp(n, i + 2) == 0 && node_destroy_cq(n, i + 2) == 0,
		       "not destroyed");
}

static void run(void)
{
	for (size_t kind = 0; kind < COUNT_OF(kinds); kind++)
		for (size_t way = 0; way < COUNT_OF(ways); way++)
			whole_row(kind, way);
	for (size_t way = 0; way < COUNT_OF(ways); way++)
		part_row(way);
	harmless_rows();
	rereg_rows();
	window_rows();
	receive_row();
	reuse_row();
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	two_sides_open(argc, argv);
	n = a.node;
	probe_open(&b, &a, 0);
	run();
	probe_close(&b, &a, 0);
	return two_sides_close();
}
