/* SPDX-License-Identifier: MIT */
/*
 * Many objects have something to tell before anybody listens. Each is heard: whoever waits for an
 * event that is lost waits for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"

#define MANY	 5000  /* more than a FIFO holds that nobody has enlarged */
#define PATIENCE 20000 /* ms: an event of a queue pair may come late */

static struct node *n;

struct source {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	bool heard;
};

static struct source source[MANY];

static void create(struct source *s, struct ibv_comp_channel *channel, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.srq = srq,
		.cap = {.max_recv_wr = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};

	*s = (struct source){.cq = ibv_create_cq(n->ctx, 1, s, channel, 0)};
	NEED(s->cq);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(n->pd, &init);
	NEED(s->qp && connect_step(s->qp, connect_attr(0, &n->info.gid), IBV_QPS_INIT) == 0);
}

static void fail(const struct source *s)
{
	NEED(ibv_modify_qp(s->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE) ==
	     0);
}

static void destroy_all(void)
{
	unsigned int failed = 0;

	for (size_t i = 0; i < MANY; i++)
		failed += ibv_destroy_qp(source[i].qp) || ibv_destroy_cq(source[i].cq);
	EXPECT(failed == 0, "%u could not be destroyed", failed);
}

/* One event of each, and no other. */
static void expect_all(unsigned int twice)
{
	unsigned int heard = 0;

	for (size_t i = 0; i < MANY; i++)
		heard += source[i].heard;
	EXPECT(heard == MANY && twice == 0, "%u of %d were heard, %u more than once", heard, MANY,
	       twice);
}

static void completions(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(n->ctx);
	struct ibv_recv_wr wr = {0}, *bad;
	unsigned int twice = 0;
	struct ibv_cq *cq;
	void *context;

	row("each CQ of a channel has an event");
	NEED(channel && fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	for (size_t i = 0; i < MANY; i++) {
		create(&source[i], channel, NULL);
		NEED(ibv_req_notify_cq(source[i].cq, 0) == 0);
		fail(&source[i]);
		NEED(ibv_post_recv(source[i].qp, &wr, &bad) == 0); /* is flushed */
	}
	while (ibv_get_cq_event(channel, &cq, &context) == 0) {
		struct source *s = context;

		ibv_ack_cq_events(cq, 1);
		twice += s->heard;
		s->heard = true;
	}
	EXPECT(errno == EAGAIN, "errno %d", errno);
	expect_all(twice);
	destroy_all();
	EXPECT(ibv_destroy_comp_channel(channel) == 0, "the channel");
}

static struct source *source_of(const struct ibv_qp *qp)
{
	for (size_t i = 0; i < MANY; i++)
		if (source[i].qp == qp)
			return &source[i];
	DIE("a queue pair of nobody");
}

static void asynchronous_events(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(n->pd, &init);
	struct pollfd p = {.fd = n->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	unsigned int heard = 0, twice = 0;

	row("each queue pair of a context has an event");
	NEED(srq);
	for (size_t i = 0; i < MANY; i++) {
		create(&source[i], NULL, srq);
		fail(&source[i]);
	}
	while (poll(&p, 1, heard < MANY ? PATIENCE : 0) == 1 &&
	       ibv_get_async_event(n->ctx, &event) == 0) {
		struct source *s;

		ibv_ack_async_event(&event);
		if (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED)
			continue;
		s = source_of(event.element.qp);
		heard += !s->heard;
		twice += s->heard;
		s->heard = true;
	}
	expect_all(twice);
	destroy_all();
	EXPECT(ibv_destroy_srq(srq) == 0, "the SRQ");
}

int main(void)
{
	struct side a = {0};

	sandbox_begin(200);
	side_open(&a, NULL);
	n = a.node;
	completions();
	asynchronous_events();
	side_stop(&a);
	return sandbox_end();
}
