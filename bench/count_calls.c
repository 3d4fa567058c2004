/* SPDX-License-Identifier: MIT */
/*
 * Which functions of the library a request walks through. The library is built with
 * -finstrument-functions, so each function reports its entry and exit to the two hooks below.
 *
 * count_calls write|send: two processes, requests of 4 KiB on a reliable connection that has been
 * in use for a while. Reported are the requester's ibv_post_send() ("post"), the ibv_poll_cq() that
 * returns its completion ("poll"), and of a SEND the receiver's ibv_poll_cq() ("receive").
 *
 * Output: one line per function called, in order: which of those, depth of the call, offset in the
 * library's file, path of that file. Of many requests the one with the median number of calls is
 * printed: now and then a request meets something that is due every few milliseconds.
 *
 * This file is not instrumented itself.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/side.h"

#define BYTES	  4096
#define WARM_UP	  600
#define SAMPLES	  101 /* odd: one of them is the median */
#define CALLS_MAX 4096

enum part { PART_POST, PART_POLL, PART_RECEIVE };

static const char *const part_name[] = {"post", "poll", "receive"};

struct call {
	void *function;
	enum part part;
	int depth;
};

struct sample {
	struct call call[CALLS_MAX];
	int calls;
};

enum job { JOB_POST_RECV, JOB_POLL_RECV, JOB_PRINT };

static struct sample samples[SAMPLES];
static int sampled;
static struct side requester, receiver; /* the requester is this process */

/* --- the hooks --- */

/* Only the thread that makes the request is watched. */
static _Thread_local struct sample *watched;
static _Thread_local enum part part;
static _Thread_local int depth;

#define HOOK __attribute__((visibility("default"))) void
HOOK __cyg_profile_func_enter(void *function, void *site);
HOOK __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (!watched)
		return;
	if (watched->calls < CALLS_MAX)
		watched->call[watched->calls++] = (struct call){function, part, depth};
	depth++;
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
	if (watched)
		depth--;
}

static void watch(struct sample *s, enum part of)
{
	part = of;
	depth = 0;
	watched = s;
}

static void look_away(void)
{
	watched = NULL;
}

/* --- samples --- */

/* Where the next request is noted. */
static struct sample *next_sample(void)
{
	struct sample *s = &samples[sampled++ % SAMPLES];

	s->calls = 0;
	return s;
}

static int by_calls(const void *a, const void *b)
{
	return ((const struct sample *)a)->calls - ((const struct sample *)b)->calls;
}

static void print_median(void)
{
	const struct sample *s = &samples[SAMPLES / 2];

	qsort(samples, SAMPLES, sizeof(samples[0]), by_calls);
	if (s->calls == 0 || s->calls == CALLS_MAX)
		DIE("%d calls: is the library instrumented?", s->calls);
	for (int i = 0; i < s->calls; i++) {
		const struct call *c = &s->call[i];
		Dl_info in;

		if (!dladdr(c->function, &in) || !strstr(in.dli_fname, "libanyverbs"))
			continue; /* inline functions of <infiniband/verbs.h> are the program's */
		printf("%s %d 0x%lx %s\n", part_name[c->part], c->depth,
		       (unsigned long)((uintptr_t)c->function - (uintptr_t)in.dli_fbase),
		       in.dli_fname);
	}
	fflush(stdout);
}

/* --- the requests --- */

/* Take the one completion that is on its way; of the polls the one that finds it is noted. */
static void poll_one(struct ibv_cq *cq, struct sample *s, enum part of)
{
	const int before = s->calls;
	struct ibv_wc wc;
	int got;

	do {
		s->calls = before;
		watch(s, of);
		got = ibv_poll_cq(cq, 1, &wc);
		look_away();
	} while (got == 0);
	if (got < 0 || wc.status != IBV_WC_SUCCESS)
		DIE("ibv_poll_cq: %d, '%s'", got, got < 0 ? "" : ibv_wc_status_str(wc.status));
}

static void post_recv(struct node *n)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(n->qp[0], &wr, &bad))
		DIE("ibv_post_recv");
}

static uint64_t receiver_work(struct node *n, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case JOB_POST_RECV:
		post_recv(n);
		break;
	case JOB_POLL_RECV:
		poll_one(n->cq[1], next_sample(), PART_RECEIVE);
		break;
	case JOB_PRINT:
		print_median();
		break;
	}
	return 0;
}

static void let_receiver(enum job job)
{
	side_begin(&receiver, &(struct side_job){{job}});
	(void)side_end(&receiver);
}

static void request(struct node *n, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = receiver.info.base[KEY_FULL],
					     .rkey = receiver.info.key[KEY_FULL]}},
			   *bad;
	struct sample *s = next_sample();
	int ret;

	watch(s, PART_POST);
	ret = ibv_post_send(n->qp[0], &wr, &bad);
	look_away();
	if (ret)
		DIE("ibv_post_send: %s", strerror(ret));
	poll_one(n->cq[0], s, PART_POLL);
}

static enum ibv_wr_opcode opcode_of(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "write"))
		return IBV_WR_RDMA_WRITE;
	if (argc == 2 && !strcmp(argv[1], "send"))
		return IBV_WR_SEND;
	DIE("usage: count_calls write|send");
}

int main(int argc, char **argv)
{
	struct node_qp_spec spec = spec_default();
	enum ibv_wr_opcode opcode;

	time_limit(300);
	side_work = receiver_work;
	side_agent_main(argc, argv);
	opcode = opcode_of(argc, argv);
	side_open(&requester, NULL);
	side_start(&receiver);
	pair_create(&requester, 0, &receiver, 0, &spec);
	pair_connect(&requester, 0, NULL, &receiver, 0, NULL);
	for (int i = 0; i < WARM_UP + SAMPLES; i++) {
		if (opcode == IBV_WR_SEND)
			let_receiver(JOB_POST_RECV);
		request(requester.node, opcode);
		if (opcode == IBV_WR_SEND)
			let_receiver(JOB_POLL_RECV);
	}
	print_median();
	if (opcode == IBV_WR_SEND)
		let_receiver(JOB_PRINT);
	pair_destroy(&requester, 0, &receiver, 0);
	side_stop(&receiver);
	side_stop(&requester);
	return 0;
}
