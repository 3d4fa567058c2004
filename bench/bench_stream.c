/* SPDX-License-Identifier: MIT */
/*
 * What a stream of 8-byte SENDs costs each side. First while the other side rests: only the calls,
 * and the cache lines they take from each other. Then with both sides busy, when lines also move in
 * between. Both together should take as long as the slower side alone; otherwise something is in
 * the way.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/side.h"
#include "measure.h"

#define DEPTH	512
#define TURNS	200
#define STREAM	1000000
#define SIGNAL	32 /* one request in this many is signalled */
#define WINDOW	128
#define BYTES	8
#define POLL	16
#define UNIT_NS 1000.0 /* jobs return picoseconds */

enum job { JOB_POST, JOB_POLL, JOB_STREAM };

static struct side a, b; /* a sends, and is in this process */

/* --- the receiver ---------------------------------------------------------------- */

static void post_receives(struct node *n, int count)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < count; i++)
		if (ibv_post_recv(n->qp[0], &wr, &bad))
			DIE("ibv_post_recv");
}

/* Return: number of completions. */
static int poll_some(struct ibv_cq *cq)
{
	struct ibv_wc wc[POLL];
	int count = ibv_poll_cq(cq, POLL, wc);

	for (int i = 0; i < count; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			DIE("'%s'", ibv_wc_status_str(wc[i].status));
	if (count < 0)
		DIE("ibv_poll_cq");
	return count;
}

/* @posted: receives already posted */
static void receive(struct node *n, int posted, int count)
{
	for (int done = 0; done < count;) {
		int more = poll_some(n->cq[1]), rest = count - posted;

		done += more;
		post_receives(n, more < rest ? more : rest);
		posted += more < rest ? more : rest;
	}
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	uint64_t begin = now_ns();
	int count = (int)job->arg[1];

	switch ((enum job)job->arg[0]) {
	case JOB_POST:
		post_receives(n, count);
		break;
	case JOB_POLL:
		receive(n, count, count);
		break;
	case JOB_STREAM:
		receive(n, DEPTH, count);
		break;
	}
	return (uint64_t)(ns_each(begin, count) * UNIT_NS);
}

static double there_ns(enum job job, int count)
{
	side_begin(&b, &(struct side_job){{job, (uint64_t)count}});
	return (double)side_end(&b) / UNIT_NS;
}

/* --- the sender ------------------------------------------------------------------ */

static void send_all(struct node *n, int count)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	for (int posted = 0, done = 0; done < count;) {
		for (; posted < count && posted - done < WINDOW; posted++) {
			wr.send_flags = posted % SIGNAL == SIGNAL - 1 ? IBV_SEND_SIGNALED : 0;
			if (ibv_post_send(n->qp[0], &wr, &bad))
				DIE("ibv_post_send");
		}
		done += poll_some(n->cq[0]) * SIGNAL;
	}
}

static double send_ns(int count)
{
	uint64_t begin = now_ns();

	send_all(a.node, count);
	return ns_each(begin, count);
}

/* --- both ------------------------------------------------------------------------ */

enum figure { POST_RECV, SEND, POLL_RECV, FIGURES };

/* In turn: each side finds what the other left in its caches. */
static void alone(struct series *s)
{
	static double ns[FIGURES][TURNS];
	const int turns = bench_count(TURNS, 2);

	for (int i = 0; i < turns; i++) {
		ns[POST_RECV][i] = there_ns(JOB_POST, DEPTH);
		ns[SEND][i] = send_ns(DEPTH);
		ns[POLL_RECV][i] = there_ns(JOB_POLL, DEPTH);
	}
	for (int f = 0; f < FIGURES; f++)
		series_add(&s[f], median_of(ns[f], turns));
}

static double at_once(void)
{
	const int count = bench_count(STREAM / DEPTH, 2) * DEPTH;
	double ns;

	(void)there_ns(JOB_POST, DEPTH);
	side_begin(&b, &(struct side_job){{JOB_STREAM, (uint64_t)count}});
	ns = send_ns(count);
	(void)side_end(&b);
	return ns;
}

static double last(const struct series *s)
{
	return s->value[s->count - 1];
}

int main(int argc, char **argv)
{
	struct series s[FIGURES] = {0}, both = {0}, ratio = {0};
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();

	time_limit(600);
	side_work = work;
	side_agent_main(argc, argv);
	side_open(&a, NULL);
	side_start(&b);
	spec.cap.max_send_wr = spec.cap.max_recv_wr = DEPTH;
	pair_create(&a, 0, &b, 0, &spec);
	link.rnr_retry = 7; /* retry forever, in case the receiver loses its core */
	pair_connect(&a, 0, &link, &b, 0, &link);
	for (int i = 0; i < BENCH_RUNS; i++) {
		double sender, receiver;

		alone(s);
		sender = last(&s[SEND]);
		receiver = last(&s[POST_RECV]) + last(&s[POLL_RECV]);
		series_add(&both, at_once());
		series_add(&ratio, last(&both) / (sender > receiver ? sender : receiver));
	}
	series_print(&s[SEND], "stream_send_alone_ns", "8B");
	series_print(&s[POLL_RECV], "stream_poll_recv_alone_ns", "8B");
	series_print(&s[POST_RECV], "stream_post_recv_alone_ns", "8B");
	series_print(&both, "stream_both_ns", "8B");
	series_print(&ratio, "stream_both/slower_alone", "8B");
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
	side_stop(&a);
	return 0;
}
