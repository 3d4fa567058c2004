/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous events that no other test brings about (ibv_get_async_event(3)), each once and with
 * its object, and the rules of acknowledging: destroying waits for it, events of what is gone are
 * dropped, order is kept, another context hears nothing. A device that fails, and what works on it
 * afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/tool.h"
#include "lib/two_sides.h"
#include "lib/wait.h"

#define PATIENCE 20000u
#define QUIET	 50u /* ms in which an event would have come */

static struct node *n;
static struct ibv_srq *srq;

/* --- events ---------------------------------------------------------------------- */

struct heard {
	bool any;
	struct ibv_async_event event;
};

/* The next event of a context, not acknowledged. */
static struct heard listen(struct ibv_context *ctx, unsigned int ms)
{
	struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};
	struct heard h = {0};

	if (poll(&p, 1, (int)ms) == 1)
		h.any = ibv_get_async_event(ctx, &h.event) == 0;
	return h;
}

static void expect_silence(struct ibv_context *ctx)
{
	struct heard h = listen(ctx, QUIET);

	EXPECT(!h.any, "an event comes: %s", ibv_event_type_str(h.event.event_type));
	if (h.any)
		ibv_ack_async_event(&h.event);
}

/* One event of that kind and object, and no other. */
static void expect_event(enum ibv_event_type type, const void *object)
{
	struct heard h = listen(n->ctx, PATIENCE);

	if (!EXPECT(h.any, "no event"))
		return;
	EXPECT(h.event.event_type == type, "%s", ibv_event_type_str(h.event.event_type));
	EXPECT(!object || (const void *)h.event.element.qp == object, "of another object");
	ibv_ack_async_event(&h.event);
	expect_silence(n->ctx);
}

/* --- queue pairs ----------------------------------------------------------------- */

static void create_here(bool on_srq, uint32_t recv_cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[recv_cq],
		.srq = on_srq ? srq : NULL,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};

	n->qp[0] = ibv_create_qp(n->pd, &init);
	if (!n->qp[0])
		DIE("ibv_create_qp: errno %d", errno);
}

static void connect_pair(bool on_srq, uint32_t recv_cq, enum ibv_qp_state to)
{
	struct node_qp_spec spec = spec_default();
	struct node_link here = link_default();

	create_here(on_srq, recv_cq);
	if (side_create_qp(&b, 0, &spec, NULL))
		DIE("no queue pair");
	here.to = to;
	pair_connect(&a, 0, &here, &b, 0, NULL);
}

static void end_pair(void)
{
	EXPECT(ibv_destroy_qp(n->qp[0]) == 0, "ibv_destroy_qp");
	n->qp[0] = NULL;
	EXPECT(side_destroy_qp(&b, 0) == 0, "destroy of the peer's");
}

static void post_here(void)
{
	side_recv_one(&a, 0, 0, 0, 64);
}

static void post_shared(int count)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, 0, 64);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < count; i++)
		EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0, "ibv_post_srq_recv");
}

/* One message from the peer. */
static void message(enum ibv_wc_status want)
{
	struct node_send s = side_message(side_sge(&b, KEY_FULL, 0, 16));
	struct ibv_wc wc;

	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == want, "message: '%s'",
	       ibv_wc_status_str(wc.status));
}

static void set_state(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	EXPECT(ibv_modify_qp(n->qp[0], &attr, IBV_QP_STATE) == 0, "ibv_modify_qp: errno %d", errno);
}

static void drop_completions(void)
{
	struct ibv_wc wc;

	for (int cq = 0; cq < 2; cq++)
		while (ibv_poll_cq(n->cq[cq], 1, &wc) == 1)
			;
}

/* --- rows: which event, when, how often ------------------------------------------ */

static void established_row(void)
{
	row("COMM_EST: the first message in RTR, not the second, not in RTS");
	connect_pair(false, 1, IBV_QPS_RTR);
	for (int i = 0; i < 3; i++)
		post_here();
	message(IBV_WC_SUCCESS);
	expect_event(IBV_EVENT_COMM_EST, n->qp[0]);
	message(IBV_WC_SUCCESS);
	expect_silence(n->ctx);
	end_pair();
	connect_pair(false, 1, IBV_QPS_RTS);
	post_here();
	message(IBV_WC_SUCCESS);
	expect_silence(n->ctx);
	end_pair();
}

static void last_wqe_rows(void)
{
	row("QP_LAST_WQE_REACHED: a queue pair on a shared queue fails");
	connect_pair(true, 1, IBV_QPS_RTS);
	set_state(IBV_QPS_ERR);
	expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, n->qp[0]);
	set_state(IBV_QPS_ERR);
	expect_silence(n->ctx);
	end_pair();
	row("... not one with a receive queue of its own");
	connect_pair(false, 1, IBV_QPS_RTS);
	set_state(IBV_QPS_ERR);
	expect_silence(n->ctx);
	end_pair();
}

static void arm(uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	EXPECT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
}

static void expect_limit(uint32_t want)
{
	struct ibv_srq_attr attr;

	EXPECT(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == want, "limit %u, not %u",
	       attr.srq_limit, want);
}

static void limit_rows(void)
{
	row("SRQ_LIMIT_REACHED: when fewer are left, once");
	connect_pair(true, 1, IBV_QPS_RTS);
	post_shared(4);
	arm(3);
	message(IBV_WC_SUCCESS);
	expect_silence(n->ctx);
	message(IBV_WC_SUCCESS);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	expect_limit(0);
	message(IBV_WC_SUCCESS);
	expect_silence(n->ctx);
	row("... at once, if fewer are there already");
	arm(2);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	row("... not when it is taken back");
	post_shared(1);
	arm(2);
	arm(0);
	message(IBV_WC_SUCCESS);
	expect_silence(n->ctx);
	end_pair();
	drop_completions();
}

/* A completion queue of one entry, and two messages. */
static void fatal_row(void)
{
	struct heard h[2];
	bool seen_cq = false, seen_qp = false;

	row("CQ_ERR and QP_FATAL: a completion queue overflows");
	if (node_create_cq(n, 2, 1, false))
		DIE("no CQ");
	connect_pair(false, 2, IBV_QPS_RTS);
	for (int i = 0; i < 3; i++)
		post_here();
	message(IBV_WC_SUCCESS);
	message(IBV_WC_REM_OP_ERR);
	for (int i = 0; i < 2; i++) {
		h[i] = listen(n->ctx, PATIENCE);
		if (!EXPECT(h[i].any, "event %d is missing", i))
			continue;
		seen_cq |= h[i].event.event_type == IBV_EVENT_CQ_ERR &&
			   h[i].event.element.cq == n->cq[2];
		seen_qp |= h[i].event.event_type == IBV_EVENT_QP_FATAL &&
			   h[i].event.element.qp == n->qp[0];
		ibv_ack_async_event(&h[i].event);
	}
	EXPECT(seen_cq, "no CQ_ERR");
	EXPECT(seen_qp, "no QP_FATAL");
	expect_silence(n->ctx);
	end_pair();
	EXPECT(node_destroy_cq(n, 2) == 0, "CQ");
}

/* --- rules ----------------------------------------------------------------------- */

static atomic_bool destroyed;
static _Atomic pid_t destroyer;

static void *destroy(void *arg)
{
	atomic_store(&destroyer, gettid());
	EXPECT(ibv_destroy_qp(arg) == 0, "ibv_destroy_qp");
	atomic_store(&destroyed, true);
	return NULL;
}

static void ack_row(void)
{
	pthread_t thread;
	struct heard h;

	row("destroying waits for the acknowledgement");
	connect_pair(true, 1, IBV_QPS_RTS);
	set_state(IBV_QPS_ERR);
	h = listen(n->ctx, PATIENCE);
	if (!EXPECT(h.any, "no event"))
		return;
	atomic_store(&destroyed, false);
	if (pthread_create(&thread, NULL, destroy, n->qp[0]))
		DIE("no thread");
	EXPECT(WAIT_UNTIL(atomic_load(&destroyed) || task_sleeps(atomic_load(&destroyer)),
			  PATIENCE),
	       "it does not sleep");
	EXPECT(!atomic_load(&destroyed), "it does not wait");
	ibv_ack_async_event(&h.event);
	pthread_join(thread, NULL);
	EXPECT(atomic_load(&destroyed), "it never ends");
	n->qp[0] = NULL;
	EXPECT(side_destroy_qp(&b, 0) == 0, "destroy of the peer's");
}

static void dropped_row(void)
{
	row("events of what has been destroyed are dropped, others come");
	connect_pair(true, 1, IBV_QPS_RTS);
	set_state(IBV_QPS_ERR);
	arm(2); /* one request is left of the rows before */
	end_pair();
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

static void order_row(void)
{
	struct heard first, second;

	row("events come in the order of what happened; acknowledged in another");
	connect_pair(true, 1, IBV_QPS_RTS);
	arm(2);
	set_state(IBV_QPS_ERR);
	first = listen(n->ctx, PATIENCE);
	second = listen(n->ctx, PATIENCE);
	EXPECT(first.any && first.event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED, "first: %s",
	       ibv_event_type_str(first.event.event_type));
	EXPECT(second.any && second.event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED, "second: %s",
	       ibv_event_type_str(second.event.event_type));
	if (second.any)
		ibv_ack_async_event(&second.event);
	if (first.any)
		ibv_ack_async_event(&first.event);
	end_pair();
}

static void nonblocking_row(struct ibv_context *other)
{
	struct ibv_async_event event;
	int flags = fcntl(n->ctx->async_fd, F_GETFL);

	row("a descriptor that does not block; another context hears nothing");
	EXPECT(fcntl(n->ctx->async_fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl");
	errno = 0;
	EXPECT(ibv_get_async_event(n->ctx, &event) != 0 && errno == EAGAIN, "errno %d", errno);
	EXPECT(fcntl(n->ctx->async_fd, F_SETFL, flags) == 0, "fcntl");
	arm(2);
	expect_silence(other);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

/* The peer dies: nothing is said but by completions, and what was said before can be taken. */
static void killed_row(void)
{
	row("the peer is killed with an event waiting");
	connect_pair(false, 1, IBV_QPS_RTR);
	post_here();
	message(IBV_WC_SUCCESS);
	side_kill(&b);
	expect_event(IBV_EVENT_COMM_EST, n->qp[0]);
	EXPECT(ibv_destroy_qp(n->qp[0]) == 0, "ibv_destroy_qp");
	n->qp[0] = NULL;
	side_start(&b);
}

/* --- a device that fails --------------------------------------------------------- */

/* The device that programs are handed now, and its number. */
static struct ibv_device *listed(int *number)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *first;

	NEED(list);
	first = list[0];
	*number = ibv_get_device_index(first);
	ibv_free_device_list(list);
	return first;
}

static void opens(struct ibv_device *device)
{
	struct ibv_context *ctx = ibv_open_device(device);

	if (!EXPECT(ctx, "ibv_open_device, errno %d", errno))
		return;
	EXPECT(ctx->device == device, "its context has another device");
	EXPECT(strcmp(ibv_get_device_name(device), "any0") == 0, "it has another name");
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
}

static void device_rows(void)
{
	int number, now;
	struct ibv_device *before = listed(&number);
	struct ibv_context *late;
	struct ibv_wc wc;

	row("DEVICE_FATAL: queue pairs are flushed first, then it is said, once");
	connect_pair(false, 1, IBV_QPS_RTS);
	post_here();
	if (tool_run(ANYVERBS_TOOL, "event", "any0", "device-fatal", NULL))
		DIE("anyverbs event");
	expect_event(IBV_EVENT_DEVICE_FATAL, NULL);
	EXPECT(node_poll(n, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "receive: '%s'", ibv_wc_status_str(wc.status));
	row("... verbs that need the device say EIO");
	EXPECT_NULL(ibv_alloc_pd(n->ctx), EIO);
	EXPECT_NULL(ibv_create_cq(n->ctx, 1, NULL, NULL, 0), EIO);
	EXPECT_NULL(ibv_reg_mr(n->pd, n->arena, 64, 0), EIO);
	EXPECT_NULL(ibv_alloc_mw(n->pd, IBV_MW_TYPE_1), EIO);
	row("... requests are flushed, and another context is well");
	post_here();
	EXPECT(node_poll(n, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "receive: '%s'", ibv_wc_status_str(wc.status));
	late = node_open_device();
	expect_silence(late);
	EXPECT(ibv_close_device(late) == 0, "ibv_close_device");
	row("... the device is another one, with another number, and each of both can be opened");
	EXPECT(WAIT_UNTIL(listed(&now) != before, PATIENCE), "it is the same");
	EXPECT(now != number && ibv_get_device_index(before) == number, "numbers %d, %d", number,
	       now);
	opens(before);
	opens(listed(&now));
	row("... all can be destroyed");
	end_pair();
}

int main(int argc, char **argv)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_context *other;

	two_sides_open(argc, argv);
	n = a.node;
	srq = ibv_create_srq(n->pd, &init);
	other = node_open_device();
	NEED(srq);
	established_row();
	last_wqe_rows();
	limit_rows();
	fatal_row();
	ack_row();
	order_row();
	nonblocking_row(other);
	dropped_row();
	killed_row();
	EXPECT(ibv_close_device(other) == 0, "ibv_close_device");
	device_rows();
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	return two_sides_close();
}
