/* SPDX-License-Identifier: MIT */
#include "lib/event_race.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/switches_in_force.h"
#include "lib/to_rts.h"

#define CQ	  2 /* the one that all complete in */
#define LOOPS	  3 /* threads */
#define PROCESSES 2
#define WINDOW	  4 /* requests of one sender under way */
#define RECEIVES  16
#define CQES	  (LOOPS * 2 * WINDOW + PROCESSES * RECEIVES)
#define SENT	  0x100 /* in a request's wr_id, which is its sender's number */

static struct side here, there[PROCESSES];
struct node *race_node;

/* A thread, and its queue pair. */
static struct loop {
	struct ibv_qp *qp;
	struct ibv_cq *own; /* where its sends complete; NULL: with its receives */
	pthread_t thread;
	sem_t may_send;
	uint64_t number, messages;
	uint64_t sent, received, allowed; /* the consumer's: completions; how often it allowed it */
} loops[LOOPS];

static const struct event_race *race;
static uint64_t events, in_vain; /* @in_vain: nothing stood behind it */

/* --- senders -------------------------------------------------------------------------- */

static void send_one(struct ibv_qp *qp, uint64_t number, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = number | SENT,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | flags},
			   *bad;

	NEED(ibv_post_send(qp, &wr, &bad) == 0);
}

static void receive_one(struct ibv_qp *qp, uint64_t number)
{
	struct ibv_recv_wr wr = {.wr_id = number}, *bad;

	NEED(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* Poll until no more than so many are under way. */
static void poll_sent(struct ibv_cq *cq, uint64_t *under_way, uint64_t most)
{
	while (*under_way > most) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(cq, 1, &wc);

		NEED(n == 0 || (n == 1 && wc.status == IBV_WC_SUCCESS));
		if (n == 0)
			sched_yield();
		*under_way -= (uint64_t)n;
	}
}

static void *send_to_itself(void *arg)
{
	struct loop *l = arg;
	uint64_t under_way = 0;

	for (uint64_t i = 0; i < l->messages; i++) {
		while (sem_wait(&l->may_send))
			NEED(errno == EINTR);
		if (l->own)
			poll_sent(l->own, &under_way, WINDOW - 1);
		send_one(l->qp, l->number, l->own ? IBV_SEND_SOLICITED : 0);
		under_way++;
	}
	if (l->own)
		poll_sent(l->own, &under_way, 0);
	return NULL;
}

/* Of another process. @job: how many, and the flags */
static uint64_t send_from_there(struct node *n, const struct side_job *job)
{
	uint64_t under_way = 0;

	for (uint64_t i = 0; i < job->arg[0]; i++) {
		poll_sent(n->cq[0], &under_way, WINDOW - 1);
		send_one(n->qp[0], 0, (unsigned int)job->arg[1]);
		under_way++;
	}
	poll_sent(n->cq[0], &under_way, 0);
	return 0;
}

static void loop_open(struct loop *l, uint64_t number, uint64_t messages)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 2 * WINDOW, .max_recv_wr = 2 * WINDOW},
		.recv_cq = race_node->cq[CQ],
		.qp_type = IBV_QPT_RC,
	};

	*l = (struct loop){.number = number, .messages = messages};
	if (race->solicited) {
		l->own = ibv_create_cq(race_node->ctx, 2 * WINDOW, NULL, NULL, 0);
		NEED(l->own);
	}
	init.send_cq = l->own ? l->own : race_node->cq[CQ];
	l->qp = ibv_create_qp(race_node->pd, &init);
	NEED(l->qp && connect_qp(l->qp, connect_attr(l->qp->qp_num, &race_node->info.gid)) == 0);
	for (int i = 0; i < WINDOW; i++)
		receive_one(l->qp, number);
	NEED(sem_init(&l->may_send, 0, WINDOW) == 0);
}

static void loop_close(struct loop *l)
{
	NEED(pthread_join(l->thread, NULL) == 0);
	EXPECT(ibv_destroy_qp(l->qp) == 0, "ibv_destroy_qp");
	if (l->own)
		EXPECT(ibv_destroy_cq(l->own) == 0, "ibv_destroy_cq");
	sem_destroy(&l->may_send);
}

static void process_open(int p)
{
	struct node_qp_spec ours = spec_default(), theirs = ours;
	struct node_link link = link_default();

	ours.recv_cq = CQ;
	link.rnr_retry = 7;
	NEED(side_create_qp(&here, p, &ours, NULL) == 0);
	NEED(side_create_qp(&there[p], 0, &theirs, NULL) == 0);
	pair_connect(&here, p, &link, &there[p], 0, &link);
	for (int i = 0; i < RECEIVES; i++)
		receive_one(race_node->qp[p], LOOPS + (uint64_t)p);
}

/* --- the consumer --------------------------------------------------------------------- */

/* A thread goes on when its message has completed at both ends. */
static void of_loop(struct loop *l, bool sent)
{
	uint64_t done;

	if (sent) {
		l->sent++;
	} else {
		l->received++;
		receive_one(l->qp, l->number);
	}
	done = l->own || l->received < l->sent ? l->received : l->sent;
	if (done > l->allowed) {
		l->allowed++;
		NEED(sem_post(&l->may_send) == 0);
	}
}

static void completed(const struct ibv_wc *wc)
{
	uint64_t number = wc->wr_id & ~(uint64_t)SENT;

	if (wc->status != IBV_WC_SUCCESS || number >= LOOPS + PROCESSES)
		DIE("'%s', request %#lx", ibv_wc_status_str(wc->status), wc->wr_id);
	if (number < LOOPS)
		of_loop(&loops[number], wc->wr_id & SENT);
	else
		receive_one(race_node->qp[number - LOOPS], number);
}

static void arm(void)
{
	NEED(ibv_req_notify_cq(race_node->cq[CQ], race->solicited) == 0);
}

static void consume(uint64_t completions)
{
	events = in_vain = 0;
	for (uint64_t done = 0; done < completions;) {
		struct ibv_wc wc;
		int n;

		race->wait(race_node->cq[CQ]);
		events++;
		arm();
		n = race->poll(race_node->cq[CQ], &wc);
		NEED(n >= 0);
		if (n == 1)
			completed(&wc);
		in_vain += n == 0;
		done += (uint64_t)n;
	}
}

/* --- a race --------------------------------------------------------------------------- */

static void moderate(void)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = (uint16_t)race->count,
						       .cq_period = (uint16_t)race->period_us}};

	if (race->count || race->period_us)
		NEED(ibv_modify_cq(race_node->cq[CQ], &attr) == 0);
}

static void begin(uint64_t messages)
{
	race_node->cq[CQ] = race->create(race_node, CQES);
	NEED(race_node->cq[CQ]);
	moderate();
	for (unsigned int i = 0; i < LOOPS; i++)
		loop_open(&loops[i], i, messages);
	for (int p = 0; p < PROCESSES; p++)
		process_open(p);
	arm(); /* before there is anything */
	for (unsigned int i = 0; i < LOOPS; i++)
		NEED(pthread_create(&loops[i].thread, NULL, send_to_itself, &loops[i]) == 0);
	for (int p = 0; p < PROCESSES; p++)
		side_begin(
			&there[p],
			&(struct side_job){{messages, race->solicited ? IBV_SEND_SOLICITED : 0}});
}

static void end(void)
{
	struct ibv_wc wc;

	EXPECT(race->poll(race_node->cq[CQ], &wc) == 0, "more completions than requests");
	for (int p = 0; p < PROCESSES; p++)
		(void)side_end(&there[p]);
	for (unsigned int i = 0; i < LOOPS; i++)
		loop_close(&loops[i]);
	for (int p = 0; p < PROCESSES; p++)
		pair_destroy(&here, p, &there[p], 0);
	EXPECT(node_destroy_cq(race_node, CQ) == 0, "ibv_destroy_cq");
}

static void run(const struct event_race *it, uint64_t completions)
{
	uint64_t each = it->solicited ? LOOPS + PROCESSES : 2 * LOOPS + PROCESSES;
	uint64_t messages = completions / each + 1, start = now_ns();

	race = it;
	row("%s", it->name);
	begin(messages);
	consume(messages * each);
	end();
	if (getenv("RACE_EVENTS"))
		printf("%s: %lu completions, %lu events, %lu of them for nothing, %.1f s\n",
		       it->name, messages * each, events, in_vain,
		       (double)(now_ns() - start) / 1e9);
}

void event_races(const struct event_race *races, unsigned int rows, unsigned int usual)
{
	const char *wanted = getenv("RACE_EVENTS");
	uint64_t all = wanted ? strtoull(wanted, NULL, 0) : usual;

	time_limit(120 + (unsigned int)(all / 2000));
	for (unsigned int i = 0; i < rows; i++)
		run(&races[i], all / rows);
}

void event_races_open(int argc, char **argv, const char *switches)
{
	side_work = send_from_there;
	side_agent_main(argc, argv);
	sandbox_enter();
	if (switches)
		switches_in_force(switches);
	side_open(&here, NULL);
	race_node = here.node;
	for (int p = 0; p < PROCESSES; p++)
		side_start(&there[p]);
}

int event_races_close(void)
{
	for (int p = 0; p < PROCESSES; p++)
		side_stop(&there[p]);
	side_stop(&here);
	switches_in_force(NULL);
	return sandbox_end();
}

/* --- the usual ways ------------------------------------------------------------------- */

struct ibv_cq *race_create(struct node *n, int cqe)
{
	return ibv_create_cq(n->ctx, cqe, NULL, n->channel, 0);
}

void race_wait(struct ibv_cq *cq)
{
	struct ibv_cq *of;
	void *context;

	NEED(ibv_get_cq_event(cq->channel, &of, &context) == 0 && of == cq);
	ibv_ack_cq_events(cq, 1);
}

int race_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, 1, wc);
}
