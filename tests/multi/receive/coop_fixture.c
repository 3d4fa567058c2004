/* SPDX-License-Identifier: MIT */
#include "coop_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/page_backing.h"
#include "lib/peer_memory.h"

#define OWN_BYTES LARGE
#define LOOK_NS	  20000000u /* so long nobody may write to it */

struct side a, b;

/* --- in the other process -------------------------------------------------------- */

static uint64_t poll_receives(struct node *n, uint64_t count)
{
	struct ibv_wc wc[1];
	int got = ibv_poll_cq(n->cq[1], 1, wc);
	uint64_t done = 0;

	side_note();
	if (got == 0)
		got = node_poll(n, 1, 1, PATIENCE, wc);
	while (got == 1 && wc[0].status == IBV_WC_SUCCESS && ++done < count)
		got = node_poll(n, 1, 1, PATIENCE, wc);
	return done;
}

static enum ibv_wc_status send_one(struct node *n, int qp, uint64_t from, uint32_t bytes)
{
	struct node_send s = side_message(
		(struct ibv_sge){n->info.base[KEY_FULL] + from, bytes, n->info.lkey[KEY_FULL]});
	struct ibv_wc wc[1];

	if (node_post_send(n, qp, &s, 1).ret || node_poll(n, 0, 1, PATIENCE, wc) != 1)
		return IBV_WC_GENERAL_ERR;
	return wc[0].status;
}

static uint64_t send_many(struct node *n, uint64_t count)
{
	uint64_t done = 0;

	while (done < count && send_one(n, 0, FROM_AT, LARGE) == IBV_WC_SUCCESS)
		done++;
	return done;
}

/* Is that a line of smaps that begins a mapping? Then of which file: its inode, or 0 if it is of no
 * shared heap. */
static bool is_mapping(const char *line, uint64_t *begin, uint64_t *end, uint64_t *file)
{
	char name[256] = "";

	if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %255s", begin, end, file, name) < 3)
		return false;
	if (strcmp(name, "/memfd:anyverbs-heap") != 0)
		*file = 0;
	return true;
}

/* One's own is the one that the arena is in. */
static uint64_t mapped_of_others(const struct node *n)
{
	uint64_t begin, end, kib, sum = 0, file = 0, own = 0, at = (uintptr_t)n->arena + TO_AT;
	char line[512];

	for (int turn = 0; turn < 2; turn++) {
		FILE *f = fopen("/proc/self/smaps", "r");

		if (!f)
			DIE("smaps");
		while (fgets(line, sizeof(line), f)) {
			if (is_mapping(line, &begin, &end, &file))
				own = turn == 0 && begin <= at && at < end ? file : own;
			else if (turn == 1 && file && file != own &&
				 sscanf(line, "Rss: %lu kB", &kib) == 1)
				sum += kib << 10;
		}
		fclose(f);
	}
	return sum;
}

static uint64_t protect(struct node *n, bool readonly)
{
	return mprotect(n->arena + TO_AT + LARGE / 2, LARGE / 2,
			readonly ? PROT_READ : PROT_READ | PROT_WRITE)
		       ? (uint64_t)errno
		       : 0;
}

static struct {
	uint8_t *at;
	struct ibv_mr *mr;
	_Atomic bool stop;
} own;

static uint64_t own_open(struct node *n, uint64_t qp)
{
	struct ibv_sge sge = {.length = OWN_BYTES};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	own.at = peer_memory_map(OWN_BYTES);
	if (own.at == MAP_FAILED)
		return (uint64_t)errno;
	memset(own.at, 0, OWN_BYTES);
	own.mr = ibv_reg_mr(n->pd, own.at, OWN_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!own.mr)
		return (uint64_t)errno;
	sge.addr = (uintptr_t)own.at;
	sge.lkey = own.mr->lkey;
	return (uint64_t)ibv_post_recv(n->qp[qp], &wr, &bad);
}

static void *poll_on(void *arg)
{
	struct node *n = arg;
	struct ibv_wc wc;

	(void)!ibv_poll_cq(n->cq[1], 1, &wc);
	side_note();
	while (!atomic_load(&own.stop))
		(void)!ibv_poll_cq(n->cq[1], 1, &wc);
	return NULL;
}

/* From the front or from the back, whoever is first. */
static bool something_arrives(void)
{
	const uint64_t begin = now_ms();
	volatile const uint8_t *front = own.at + 64, *back = own.at + OWN_BYTES - 8192;

	while (!*front && !*back)
		if (now_ms() - begin > PATIENCE)
			return false;
	return true;
}

/* The last word of each piece, the last piece first: what is written there still is written soon.
 */
static void look_at_ends(uint64_t *words)
{
	for (size_t i = OWN_BYTES / PIECE; i > 0; i--)
		memcpy(&words[i - 1], own.at + i * PIECE - sizeof(*words), sizeof(*words));
}

static uint64_t own_close(struct node *n)
{
	uint64_t then[OWN_BYTES / PIECE], now[OWN_BYTES / PIECE], ret, begin;
	pthread_t thread;

	atomic_store(&own.stop, false);
	if (pthread_create(&thread, NULL, poll_on, n))
		return EAGAIN;
	ret = something_arrives() ? (uint64_t)ibv_dereg_mr(own.mr) : ETIMEDOUT;
	look_at_ends(then);
	for (begin = now_ns(); now_ns() - begin < LOOK_NS;)
		;
	look_at_ends(now);
	if (ret == 0)
		ret = memcmp(then, now, sizeof(now)) ? EBUSY : 0;
	atomic_store(&own.stop, true);
	pthread_join(thread, NULL);
	peer_memory_unmap(own.at, OWN_BYTES);
	return ret;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum coop_job)job->arg[0]) {
	case JOB_POLL:
		return poll_receives(n, job->arg[1]);
	case JOB_SEND:
		return send_many(n, job->arg[1]);
	case JOB_MAPPED:
		return mapped_of_others(n);
	case JOB_PROTECT:
		return protect(n, job->arg[1]);
	case JOB_OWN_OPEN:
		return own_open(n, job->arg[1]);
	case JOB_OWN_CLOSE:
		return own_close(n);
	}
	return 0;
}

/* --- in this one ----------------------------------------------------------------- */

void coop_begin(struct side *s, enum coop_job what, uint64_t arg)
{
	side_begin(s, &(struct side_job){.arg = {what, arg}});
}

void coop_begin_polling(struct side *s, enum coop_job what, uint64_t arg)
{
	coop_begin(s, what, arg);
	side_await(s);
}

uint64_t coop_work(struct side *s, enum coop_job what, uint64_t arg)
{
	coop_begin(s, what, arg);
	return side_end(s);
}

enum ibv_wc_status coop_send(int qp, uint64_t from, uint32_t bytes)
{
	return send_one(a.node, qp, from, bytes);
}

int coop_test(int argc, char **argv, void (*run)(void))
{
	side_work = work;
	side_agent_main(argc, argv);
	time_limit(200);
	need_peer_memory();
	sides_open(&a, &b);
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	row("memory");
	EXPECT(!pages_private(a.node->arena + FROM_AT), "it is private");
	run();
	return summary();
}
