/* SPDX-License-Identifier: MIT */
/*
 * AS notify: completion queues made for it, or not, on a device that has it switched on, or not;
 * who hears of their events, and how, between two processes; and many thousand of them in turn.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <anyverbs/as_notify.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/switches_in_force.h"
#include "lib/wait.h"

#define CQ	  2 /* the one under test, for receives of queue pair 0 */
#define OTHER	  3 /* another one on its channel, of queue pair 1 */
#define AT	  0x10000u
#define BYTES	  200u
#define PATIENCE  20000u
#define LATER_MS  30u
#define EXCHANGES 20000u

static const struct timespec at_once = {0}, long_enough = {.tv_sec = 60};
static struct side a, b; /* a is here */
static struct node *n;
static struct ibv_comp_channel *channel; /* of CQ and OTHER */
static uint64_t seed = 0x6e6f74696679;

/* --- completion queues of each kind ---------------------------------------------- */

enum heard { DIRECTLY, BY_CHANNEL, NOT };

static const struct kind {
	const char *name;
	bool on, flag, channel;
	enum heard heard;
} kinds[] = {
	{"switch on, flag, channel", true, true, true, DIRECTLY},
	{"switch on, flag, no channel", true, true, false, DIRECTLY},
	{"switch on, no flag, channel", true, false, true, BY_CHANNEL},
	{"switch on, no flag, no channel", true, false, false, NOT},
	{"switch off, flag, channel", false, true, true, BY_CHANNEL},
	{"switch off, flag, no channel", false, true, false, NOT},
	{"switch off, no flag, channel", false, false, true, BY_CHANNEL},
	{"switch off, no flag, no channel", false, false, false, NOT},
};

static struct ibv_cq *make_cq(struct node *of, bool flag, struct ibv_comp_channel *on)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = flag ? IBV_EXP_CQ_AS_NOTIFY : 0};
	struct ibv_cq *cq = ibv_exp_create_cq(of->ctx, 64, NULL, on, 0, &attr);

	NEED(cq);
	return cq;
}

static void make_pair(int qp, int cq)
{
	struct node_qp_spec here = spec_default(), there = here;
	struct node_link link_here = link_default(), link_there = link_here;

	here.recv_cq = (uint32_t)cq;
	if (side_create_qp(&a, qp, &here, &link_there.dest_qpn) ||
	    side_create_qp(&b, qp, &there, &link_here.dest_qpn))
		DIE("queue pairs");
	link_here.dgid = b.info.gid;
	link_there.dgid = a.info.gid;
	if (side_connect(&a, qp, &link_here) || side_connect(&b, qp, &link_there))
		DIE("not connected");
}

static void begin(const struct kind *kind)
{
	channel = ibv_create_comp_channel(n->ctx);
	NEED(channel);
	n->cq[CQ] = make_cq(n, kind->flag, kind->channel ? channel : NULL);
	n->cq[OTHER] = make_cq(n, false, channel);
	make_pair(0, CQ);
	make_pair(1, OTHER);
}

static void end(void)
{
	pair_destroy(&a, 0, &b, 0);
	pair_destroy(&a, 1, &b, 1);
	EXPECT(side_destroy_cq(&a, CQ) == 0 && side_destroy_cq(&a, OTHER) == 0, "ibv_destroy_cq");
	EXPECT(ibv_destroy_comp_channel(channel) == 0, "ibv_destroy_comp_channel");
}

/* --- messages and events --------------------------------------------------------- */

static struct node_send request(unsigned int flags)
{
	return (struct node_send){.opcode = IBV_WR_SEND,
				  .flags = IBV_SEND_SIGNALED | flags,
				  .num_sge = 1,
				  .sge = {side_sge(&b, KEY_FULL, AT, BYTES)}};
}

static void post(int qp)
{
	side_fill(&a, AT, BYTES, 0, 0);
	side_recv_one(&a, qp, 1, AT, BYTES);
	side_fill(&b, AT, BYTES, ++seed, 0);
}

static void sent(void)
{
	struct ibv_wc wc;

	EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "SEND: '%s'",
	       ibv_wc_status_str(wc.status));
}

/* A message from the peer; its completion is there afterwards. */
static void message(int qp, unsigned int flags)
{
	struct node_send send = request(flags);

	post(qp);
	EXPECT(side_post_send(&b, qp, &send, 1).ret == 0, "ibv_post_send");
	sent();
}

static void message_later(int qp)
{
	struct node_send send = request(0);

	post(qp);
	side_later(&b, LATER_MS);
	(void)side_post_send(&b, qp, &send, 1);
}

static void arm(int cq)
{
	EXPECT(ibv_req_notify_cq(n->cq[cq], 0) == 0, "ibv_req_notify_cq");
}

static void received(int cq)
{
	struct ibv_wc wc;
	int64_t wrong;

	if (!EXPECT(ibv_poll_cq(n->cq[cq], 1, &wc) == 1, "no completion"))
		return;
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.byte_len == BYTES, "'%s'",
	       ibv_wc_status_str(wc.status));
	wrong = side_check(&a, AT, BYTES, seed, 0);
	EXPECT(wrong == -1, "byte %ld is wrong", wrong);
}

static void expect_wait(int cq, const struct timespec *timeout, int want)
{
	int ret = anyverbs_cq_wait(n->cq[cq], timeout);

	EXPECT(ret == want, "anyverbs_cq_wait: %s, not %s", strerrorname_np(ret),
	       strerrorname_np(want));
}

static bool channel_readable(unsigned int ms)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return poll(&p, 1, (int)ms) == 1;
}

static void expect_channel_event(int cq)
{
	struct ibv_cq *of;
	void *context;

	if (!EXPECT(channel_readable(PATIENCE), "no event on the channel") ||
	    !EXPECT(ibv_get_cq_event(channel, &of, &context) == 0, "ibv_get_cq_event"))
		return;
	EXPECT(of == n->cq[cq], "of another queue");
	ibv_ack_cq_events(of, 1);
}

static void expect_channel_empty(void)
{
	EXPECT(!channel_readable(0), "the channel has an event");
}

/* --- rows of each kind ----------------------------------------------------------- */

static void traditional_row(const struct kind *kind)
{
	row("%s: before anybody waits, the event is the channel's", kind->name);
	arm(CQ);
	message(0, 0);
	if (kind->channel)
		expect_channel_event(CQ);
	received(CQ);
}

/* What has gone to the channel is not left there. */
static void first_wait_row(const struct kind *kind)
{
	row("%s: the first wait finds the event that was before it", kind->name);
	arm(CQ);
	message(0, 0);
	expect_wait(CQ, &long_enough, 0);
	expect_channel_empty();
	received(CQ);
}

static void wait_rows(const struct kind *kind)
{
	row("%s: without an event", kind->name);
	expect_wait(CQ, &at_once, ETIMEDOUT);
	arm(CQ);
	expect_wait(CQ, &at_once, ETIMEDOUT);
	row("%s: the event ends the wait", kind->name);
	message_later(0);
	expect_wait(CQ, &long_enough, 0);
	received(CQ);
	sent();
	row("%s: one event ends one wait, and is nobody else's", kind->name);
	expect_wait(CQ, &at_once, ETIMEDOUT);
	expect_channel_empty();
	row("%s: for ever", kind->name);
	arm(CQ);
	message_later(0);
	expect_wait(CQ, NULL, 0);
	received(CQ);
	sent();
	row("%s: what was there as it was armed", kind->name);
	message(0, 0);
	arm(CQ);
	expect_wait(CQ, &long_enough, 0);
	received(CQ);
	row("%s: not armed", kind->name);
	message(0, 0);
	expect_wait(CQ, &at_once, ETIMEDOUT);
	received(CQ);
}

static void solicited_rows(const struct kind *kind)
{
	row("%s: armed for solicited events only, one that is not", kind->name);
	EXPECT(ibv_req_notify_cq(n->cq[CQ], 1) == 0, "ibv_req_notify_cq");
	message(0, 0);
	expect_wait(CQ, &at_once, ETIMEDOUT);
	received(CQ);
	row("%s: armed for solicited events only, one that is", kind->name);
	message(0, IBV_SEND_SOLICITED);
	expect_wait(CQ, &long_enough, 0);
	received(CQ);
}

/* The channel has two queues: each hears of its own events only. */
static void other_queue_rows(const struct kind *kind)
{
	row("%s: the event of another queue of the channel", kind->name);
	arm(OTHER);
	message(1, 0);
	arm(CQ);
	expect_wait(CQ, &(struct timespec){.tv_nsec = 20000000}, ETIMEDOUT);
	received(OTHER);
	message_later(0);
	expect_wait(CQ, &long_enough, 0);
	received(CQ);
	sent();
	expect_channel_event(OTHER);
	expect_channel_empty();
}

/* A completion in error that one's own device writes. */
static void error_row(const struct kind *kind)
{
	struct ibv_wc wc;

	row("%s: requests are flushed", kind->name);
	EXPECT(ibv_req_notify_cq(n->cq[CQ], 1) == 0, "ibv_req_notify_cq");
	side_recv_one(&a, 0, 1, AT, BYTES);
	EXPECT(side_set_state(&a, 0, IBV_QPS_ERR) == 0, "ERR");
	expect_wait(CQ, &long_enough, 0);
	EXPECT(ibv_poll_cq(n->cq[CQ], 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "not flushed");
}

static void refused_rows(const struct kind *kind)
{
	row("%s: there is nothing to wait for", kind->name);
	arm(CQ);
	message(0, 0);
	expect_wait(CQ, &long_enough, EINVAL);
	received(CQ);
}

static void kind_rows(const struct kind *kind)
{
	begin(kind);
	traditional_row(kind);
	if (kind->heard == NOT) {
		refused_rows(kind);
	} else {
		first_wait_row(kind);
		wait_rows(kind);
		solicited_rows(kind);
		other_queue_rows(kind);
		error_row(kind);
	}
	end();
}

/* --- rows about the call --------------------------------------------------------- */

static const struct {
	const char *name;
	struct timespec timeout;
	int ret;
} timeouts[] = {
	{"nothing", {0, 0}, ETIMEDOUT},
	{"a nanosecond", {0, 1}, ETIMEDOUT},
	{"a full second of nanoseconds", {0, 1000000000}, EINVAL},
	{"negative nanoseconds", {0, -1}, EINVAL},
	{"negative seconds", {-1, 0}, EINVAL},
};

static void call_rows(const struct kind *kind)
{
	struct ibv_cq stranger = {.context = n->ctx, .handle = 12345};
	int status;
	pid_t pid;

	begin(kind);
	arm(CQ);
	for (size_t i = 0; i < COUNT_OF(timeouts); i++) {
		row("%s: a timeout of %s", kind->name, timeouts[i].name);
		errno = 0;
		expect_wait(CQ, &timeouts[i].timeout, timeouts[i].ret);
		EXPECT(errno == timeouts[i].ret, "errno %d", errno);
	}
	row("%s: a timeout of as much as there is", kind->name);
	message(0, 0);
	expect_wait(CQ, &(struct timespec){.tv_sec = INT64_MAX, .tv_nsec = 999999999}, 0);
	received(CQ);
	row("%s: no such queue", kind->name);
	EXPECT(anyverbs_cq_wait(&stranger, &at_once) == ENOENT, "errno %d", errno);
	row("%s: the parent's queue", kind->name);
	pid = fork();
	if (pid == 0)
		_exit(anyverbs_cq_wait(n->cq[CQ], &at_once));
	EXPECT(waitpid(pid, &status, 0) == pid && status == EPERM << 8, "status %x", status);
	end();
}

static _Atomic pid_t waiter;

static void *wait_for_one(void *arg)
{
	atomic_store(&waiter, gettid());
	return (void *)(intptr_t)anyverbs_cq_wait(arg, &long_enough);
}

/* Until wait_for_one() sleeps in there: it does so nowhere else. */
static void until_it_sleeps(void)
{
	if (!WAIT_UNTIL(task_sleeps(atomic_load(&waiter)), PATIENCE))
		DIE("nobody sleeps");
}

static void handler(int number)
{
	(void)number;
}

static void thread_rows(const struct kind *kind)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	pthread_t thread;
	void *ret;

	begin(kind);
	sigaction(SIGUSR1, &action, NULL);
	arm(CQ);
	row("%s: a signal ends the wait", kind->name);
	pthread_create(&thread, NULL, wait_for_one, n->cq[CQ]);
	do
		pthread_kill(thread, SIGUSR1);
	while (wait_moment(), pthread_tryjoin_np(thread, &ret));
	EXPECT((intptr_t)ret == EINTR, "%ld", (long)(intptr_t)ret);
	row("%s: a queue that somebody waits for is not destroyed", kind->name);
	pair_destroy(&a, 0, &b, 0);
	atomic_store(&waiter, 0);
	pthread_create(&thread, NULL, wait_for_one, n->cq[CQ]);
	until_it_sleeps();
	EXPECT(ibv_destroy_cq(n->cq[CQ]) == EBUSY, "ibv_destroy_cq");
	make_pair(0, CQ);
	message(0, 0);
	pthread_join(thread, &ret);
	EXPECT(ret == NULL, "%ld", (long)(intptr_t)ret);
	received(CQ);
	end();
}

/* --- in turn, with another process that does the same ---------------------------- */

enum job { JOB_MAKE, JOB_EXCHANGE, JOB_WAIT };

#define DEPTH 16 /* receive requests posted ahead */
#define WORD  64 /* from one to the next in the arena */

static uint32_t random_state = 1;

static void spin_a_while(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	for (uint32_t spin = random_state >> 21; spin; spin--)
		__asm__ volatile("" ::: "memory");
}

static void post_word(struct node *of, uint64_t i)
{
	struct node_recv recv = {.wr_id = i,
				 .num_sge = 1,
				 .sge = {{of->info.base[KEY_FULL] + i % DEPTH * WORD, sizeof(i),
					  of->info.lkey[KEY_FULL]}}};

	if (node_post_recv(of, 0, &recv, 1).ret)
		DIE("ibv_post_recv");
}

static void send_word(struct node *of, uint64_t i)
{
	struct node_send send = side_message(
		(struct ibv_sge){of->info.base[KEY_FULL] + AT, sizeof(i), of->info.lkey[KEY_FULL]});
	struct ibv_wc wc;

	memcpy(of->arena + AT, &i, sizeof(i));
	if (node_post_send(of, 0, &send, 1).ret)
		DIE("ibv_post_send");
	if (node_poll(of, 0, 1, PATIENCE, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		DIE("word %lu is not sent", i);
}

/* Return: was there an event, a completion for it, and the right word? */
static bool receive_word(struct node *of, uint64_t i)
{
	struct ibv_wc wc;
	uint64_t word;

	if (ibv_req_notify_cq(of->cq[CQ], 0))
		return false;
	spin_a_while();
	if (anyverbs_cq_wait(of->cq[CQ], &long_enough) || ibv_poll_cq(of->cq[CQ], 1, &wc) != 1)
		return false;
	memcpy(&word, of->arena + i % DEPTH * WORD, sizeof(word));
	return wc.status == IBV_WC_SUCCESS && wc.wr_id == i && word == i;
}

/* Return: exchanges that were as they should be */
static uint64_t exchange(struct node *of, bool first)
{
	for (uint64_t i = 0; i < EXCHANGES; i++) {
		if (first)
			send_word(of, i);
		spin_a_while();
		if (!receive_word(of, i))
			return i;
		post_word(of, i + DEPTH);
		if (!first)
			send_word(of, i);
	}
	return EXCHANGES;
}

static uint64_t work(struct node *of, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case JOB_MAKE:
		of->cq[CQ] = make_cq(of, true, NULL);
		return 0;
	case JOB_EXCHANGE:
		return exchange(of, false);
	case JOB_WAIT:
		(void)ibv_req_notify_cq(of->cq[CQ], 0);
		side_note();
		return (uint64_t)anyverbs_cq_wait(of->cq[CQ], NULL);
	}
	return 0;
}

/* Queue pair 0 of both, receiving on queues for AS notify. */
static void begin_both(void)
{
	struct node_qp_spec spec = spec_default();

	n->cq[CQ] = make_cq(n, true, NULL);
	side_begin(&b, &(struct side_job){.arg = {JOB_MAKE}});
	(void)side_end(&b);
	spec.recv_cq = CQ;
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
}

static void exchange_row(void)
{
	uint64_t here, there;

	row("%u messages in turn, no wake-up is lost", EXCHANGES);
	begin_both();
	for (uint64_t i = 0; i < DEPTH; i++) {
		post_word(n, i);
		side_recv_one(&b, 0, i, i % DEPTH * WORD, sizeof(i));
	}
	side_begin(&b, &(struct side_job){.arg = {JOB_EXCHANGE}});
	here = exchange(n, true);
	there = side_end(&b);
	EXPECT(here == EXCHANGES && there == EXCHANGES, "%lu here, %lu there", here, there);
	pair_destroy(&a, 0, &b, 0);
	EXPECT(side_destroy_cq(&a, CQ) == 0 && side_destroy_cq(&b, CQ) == 0, "ibv_destroy_cq");
}

/* --- the other one is killed while it waits; what waits for it here hears of it --- */

static void killed_row(void)
{
	struct node_send send = side_message(side_sge(&a, KEY_FULL, AT, BYTES));
	struct node_qp_spec spec = spec_default();
	struct node_link patient = link_default();
	struct ibv_wc wc;

	row("the peer is killed while it waits");
	begin_both();
	side_destroy_qp(&a, 0);
	spec.send_cq = CQ; /* where the end of the request is heard of */
	EXPECT(side_create_qp(&a, 0, &spec, &(uint32_t){0}) == 0, "ibv_create_qp");
	EXPECT(side_set_state(&b, 0, IBV_QPS_RESET) == 0, "to RESET");
	patient.rnr_retry = 7; /* the request waits as long as the peer lives */
	pair_connect(&a, 0, &patient, &b, 0, NULL);
	side_begin(&b, &(struct side_job){.arg = {JOB_WAIT}});
	side_await(&b);
	(void)WAIT_UNTIL(task_sleeps(b.pid), 100); /* awake yet, it is another good case */
	arm(CQ);
	EXPECT(side_post_send(&a, 0, &send, 1).ret == 0,
	       "ibv_post_send"); /* no receive is posted */
	expect_wait(CQ, &at_once, ETIMEDOUT);
	side_kill(&b);
	expect_wait(CQ, &long_enough, 0);
	EXPECT(ibv_poll_cq(n->cq[CQ], 1, &wc) == 1 && wc.status == IBV_WC_RETRY_EXC_ERR, "'%s'",
	       ibv_wc_status_str(wc.status));
}

/* --- */

static void run(bool on)
{
	switches_in_force(on ? "IBM_AS_NOTIFY_EN" : NULL);
	side_open(&a, NULL);
	n = a.node;
	side_start(&b);
	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		if (kinds[i].on == on)
			kind_rows(&kinds[i]);
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		if (kinds[i].on != on || kinds[i].heard == NOT)
			continue;
		call_rows(&kinds[i]);
		thread_rows(&kinds[i]);
	}
	if (on) {
		exchange_row();
		killed_row();
	} else {
		side_stop(&b);
	}
	side_stop(&a);
}

int main(int argc, char **argv)
{
	time_limit(200);
	side_work = work;
	side_agent_main(argc, argv);
	sandbox_enter();
	run(false);
	run(true);
	switches_in_force(NULL);
	return sandbox_end();
}
