/* SPDX-License-Identifier: MIT */
/*
 * A large request of one queue pair does not delay small ones of another: nothing that these need
 * is held while bytes are copied.
 *
 * One thread posts a SEND of 120 MiB, whose copy is one access from beginning to end: first a word,
 * then all the rest, then another word. A second thread reads these two words at the receiver, on a
 * queue pair of its own to the same process. If the first is new and the second is not, then does a
 * small request, and they are so still, that request was done in the midst of the copy. If it had
 * to wait, that would never be seen, whatever the speed of the machine.
 *
 * This program is run with the shared heap, and without it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define FLAGS_AT  (1ul << 20) /* in the receiver's arena: two words */
#define ROUND_AT  (1ul << 20) /* in the sender's: what they become */
#define SEEN_AT	  64ul	      /* in the sender's: what they were found to be */
#define BIG_AT	  (4ul << 20) /* in both */
#define BIG_PIECE (4ul << 20)
#define PIECES	  30   /* of that size */
#define GIVE_UP	  1000 /* large requests: either thread may be without a core at the wrong moment */
#define LAST	  19   /* nice value: nobody is served later */

enum { BIG, SMALL }; /* queue pairs; their completion queues are 2 * number and the one after it */

static struct side a, b;

/* Of small requests. */
struct result {
	unsigned int done; /* while the large one was under way */
	unsigned int sends;
	int bad;
};

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} small_requests[] = {
	{"WRITE", IBV_WR_RDMA_WRITE},
	{"READ", IBV_WR_RDMA_READ},
	{"fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD},
	{"SEND", IBV_WR_SEND},
};

static atomic_bool begun, ended;

static uint64_t *arena_word(uint64_t offset)
{
	return (uint64_t *)(void *)(a.node->arena + offset);
}

/* --- the small ones -------------------------------------------------------------- */

static void do_small(struct result *r, enum ibv_wr_opcode opcode, uint64_t local, uint64_t remote,
		     uint32_t bytes)
{
	struct node_send s = {
		.opcode = opcode,
		.flags = IBV_SEND_SIGNALED,
		.compare_add = 1,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, local, bytes)},
		.remote_addr = b.info.base[KEY_FULL] + remote,
		.rkey = b.info.key[KEY_FULL],
	};
	struct ibv_wc wc[1];

	r->bad += node_post_send(a.node, SMALL, &s, 1).ret != 0;
	r->bad += node_poll(a.node, 2 * SMALL, 1, 20000, wc) != 1 || wc[0].status != IBV_WC_SUCCESS;
	r->sends += opcode == IBV_WR_SEND;
}

static bool under_way(struct result *r)
{
	const uint64_t round = *arena_word(ROUND_AT);

	do_small(r, IBV_WR_RDMA_READ, SEEN_AT, FLAGS_AT, 16);
	return arena_word(SEEN_AT)[0] == round && arena_word(SEEN_AT)[1] != round;
}

static struct result do_small_ones(enum ibv_wr_opcode opcode)
{
	struct result r = {0};

	while (!atomic_load(&begun))
		sched_yield();
	while (!atomic_load(&ended) && r.done == 0 && r.bad == 0)
		if (under_way(&r) && r.sends == 0) {
			do_small(&r, opcode, 0, 0, 8);
			r.done += under_way(&r);
		}
	return r;
}

/* --- the large one --------------------------------------------------------------- */

static void big_list(const struct side *s, uint64_t words, struct ibv_sge *sge)
{
	*sge++ = side_sge(s, KEY_FULL, words, 8);
	for (int i = 0; i < PIECES; i++)
		*sge++ = side_sge(s, KEY_FULL, BIG_AT, BIG_PIECE);
	*sge = side_sge(s, KEY_FULL, words + 8, 8);
}

static void do_big_one(void)
{
	struct node_send s = {
		.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .num_sge = PIECES + 2};
	struct node_recv r = {.num_sge = PIECES + 2};
	struct ibv_wc wc[1];
	struct node_posted posted;

	arena_word(ROUND_AT)[0]++;
	arena_word(ROUND_AT)[1]++;
	big_list(&a, ROUND_AT, s.sge);
	big_list(&b, FLAGS_AT, r.sge);
	EXPECT(side_post_recv(&b, BIG, &r, 1).ret == 0, "post_recv");
	atomic_store(&begun, true);
	posted = node_post_send(a.node, BIG, &s, 1);
	atomic_store(&ended, true);
	EXPECT(posted.ret == 0, "post_send: %d", posted.ret);
	EXPECT(node_poll(a.node, 2 * BIG, 1, 20000, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "sent: '%s'", ibv_wc_status_str(wc[0].status));
	EXPECT(side_poll(&b, 2 * BIG + 1, 1, 20000, wc) == 1, "received");
}

/*
 * Yields to the thread of the small ones where both share a core: else the large request may be
 * done within one turn, each time.
 */
static void *do_big_one_last(void *arg)
{
	NEED(setpriority(PRIO_PROCESS, (id_t)gettid(), LAST) == 0);
	do_big_one();
	return arg;
}

static struct result both(enum ibv_wr_opcode small)
{
	struct result r;
	pthread_t thread;

	atomic_store(&begun, false);
	atomic_store(&ended, false);
	NEED(pthread_create(&thread, NULL, do_big_one_last, NULL) == 0);
	r = do_small_ones(small);
	pthread_join(thread, NULL);
	return r;
}

/* Take the completion of a small SEND, and put its request back. */
static void receive(unsigned int sends)
{
	struct ibv_wc wc[1];

	if (sends == 0)
		return;
	EXPECT(side_poll(&b, 2 * SMALL + 1, 1, 20000, wc) == 1, "received");
	side_recv_one(&b, SMALL, 0, 0, 8);
}

static void small_row(const char *name, enum ibv_wr_opcode opcode)
{
	struct result r = {0};
	unsigned int before = failures();

	row("%s of 8 bytes while another queue pair sends %lu MiB", name, PIECES * BIG_PIECE >> 20);
	for (int i = 0; i < GIVE_UP && r.done == 0 && failures() == before; i++) {
		r = both(opcode);
		EXPECT(r.bad == 0, "%d small requests failed", r.bad);
		receive(r.sends);
	}
	EXPECT(r.done > 0, "it was never done meanwhile");
}

static void open_queues(void)
{
	struct node_qp_spec spec = spec_default();

	for (int qp = BIG; qp <= SMALL; qp++) {
		spec.send_cq = 2 * (uint32_t)qp;
		spec.recv_cq = spec.send_cq + 1;
		for (uint32_t cq = spec.send_cq; qp > 0 && cq <= spec.recv_cq; cq++)
			if (side_create_cq(&a, (int)cq, 256, false) ||
			    side_create_cq(&b, (int)cq, 256, false))
				DIE("completion queue");
		pair_create(&a, qp, &b, qp, &spec);
		pair_connect(&a, qp, NULL, &b, qp, NULL);
	}
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	side_start(&b);
	side_open(&a, NULL);
	open_queues();
	side_recv_one(&b, SMALL, 0, 0, 8);
	for (size_t i = 0; i < COUNT_OF(small_requests); i++)
		small_row(small_requests[i].name, small_requests[i].opcode);
	for (int qp = BIG; qp <= SMALL; qp++)
		pair_destroy(&a, qp, &b, qp);
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
