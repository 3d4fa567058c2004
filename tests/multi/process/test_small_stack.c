/* SPDX-License-Identifier: MIT */
/*
 * A program's threads may have small stacks. Each step of a program's life runs in a thread with
 * one of STACK_BYTES, and leaves most of it alone.
 *
 * usage: test_small_stack [show]: what each step has needed
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/to_rts.h"

#define STACK_BYTES (TEST_SANITIZED ? 1u << 20 : 32u << 10)
#define MOST	    (24u << 10) /* of it, for one verb */
#define PAINT	    0xa5
#define BYTES	    8192u

static struct ibv_device **list;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static union ibv_gid gid;
static uint8_t bytes[2 * BYTES];

static void get_list(void)
{
	list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
}

static void open_device(void)
{
	ctx = ibv_open_device(list[0]);
	NEED(ctx);
}

static void free_list(void)
{
	ibv_free_device_list(list);
}

static void query(void)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	NEED(ibv_query_device(ctx, &device) == 0 && ibv_query_port(ctx, 1, &port) == 0);
	NEED(ibv_query_gid(ctx, 1, 0, &gid) == 0);
}

static void alloc_pd(void)
{
	pd = ibv_alloc_pd(ctx);
	NEED(pd);
}

static void reg_mr(void)
{
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_ATOMIC);
	NEED(mr);
}

static void create_cq(void)
{
	channel = ibv_create_comp_channel(ctx);
	NEED(channel);
	cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	NEED(cq);
}

static void create_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {4, 4, 2, 2, 64},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	qp = ibv_create_qp(pd, &init);
	NEED(qp);
}

static void step(enum ibv_qp_state to)
{
	int err = connect_step(qp, connect_attr(qp->qp_num, &gid), to);

	EXPECT(err == 0, "to %d: %d", to, err);
}

static void to_init(void)
{
	step(IBV_QPS_INIT);
}

static void to_rtr(void)
{
	step(IBV_QPS_RTR);
}

static void to_rts(void)
{
	step(IBV_QPS_RTS);
}

static void post_recv(void)
{
	struct ibv_sge sge = {(uintptr_t)bytes + BYTES, BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	EXPECT(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
	EXPECT(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void post(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)bytes, BYTES, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)bytes + BYTES;
		wr.wr.atomic.rkey = mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)bytes + BYTES;
		wr.wr.rdma.rkey = mr->rkey;
	}
	EXPECT(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static void post_send(void)
{
	post(IBV_WR_SEND);
}

static void post_write(void)
{
	post(IBV_WR_RDMA_WRITE);
}

static void post_read(void)
{
	post(IBV_WR_RDMA_READ);
}

static void post_atomic(void)
{
	post(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static void get_event(void)
{
	struct ibv_cq *which;
	void *arg;

	NEED(ibv_get_cq_event(channel, &which, &arg) == 0);
	ibv_ack_cq_events(which, 1);
}

static void poll_one(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	EXPECT(n == 1 && wc.status == IBV_WC_SUCCESS, "%d: %s", n, ibv_wc_status_str(wc.status));
}

static void to_error(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to ERR");
}

static void destroy_queues(void)
{
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "queues");
	EXPECT(ibv_destroy_comp_channel(channel) == 0, "channel");
}

static void end_memory(void)
{
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0, "memory");
}

static void close_device(void)
{
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
}

#define STEP(f)       \
	{             \
#f, f \
	}
static const struct {
	const char *name;
	void (*take)(void);
} steps[] = {
	STEP(get_list),	   STEP(open_device),  STEP(free_list), STEP(query),
	STEP(alloc_pd),	   STEP(reg_mr),       STEP(create_cq), STEP(create_qp),
	STEP(to_init),	   STEP(to_rtr),       STEP(to_rts),	STEP(post_recv),
	STEP(post_send),   STEP(get_event),    STEP(poll_one),	STEP(poll_one),
	STEP(post_write),  STEP(poll_one),     STEP(post_read), STEP(poll_one),
	STEP(post_atomic), STEP(poll_one),     STEP(to_error),	STEP(destroy_queues),
	STEP(end_memory),  STEP(close_device),
};

/* --- stacks ---------------------------------------------------------------------------- */

static uint8_t *stack;
static uint8_t *top; /* of what a step may use */

static void *take_step(void *arg)
{
	uint8_t here;
	void (*const *take)(void) = arg;

	top = &here;
	(*take)();
	return NULL;
}

/* Return: how much of its stack the step has touched */
static size_t used(void)
{
	const uint8_t *p = stack;

	while (*p == PAINT)
		p++;
	return (size_t)(top - p);
}

static void run(size_t i, bool show)
{
	pthread_attr_t attr;
	pthread_t thread;
	size_t most;

	row("%s", steps[i].name);
	memset(stack, PAINT, STACK_BYTES);
	NEED(!pthread_attr_init(&attr));
	NEED(!pthread_attr_setstack(&attr, stack, STACK_BYTES));
	NEED(!pthread_create(&thread, &attr, take_step, (void *)(uintptr_t)&steps[i].take));
	NEED(!pthread_join(thread, NULL));
	pthread_attr_destroy(&attr);
	most = used();
	if (show)
		printf("%-16s %6zu\n", steps[i].name, most);
	EXPECT(TEST_SANITIZED || most <= MOST, "%zu bytes of stack", most);
}

int main(int argc, char **argv)
{
	sandbox_begin(100);
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	NEED(stack != MAP_FAILED);
	for (size_t i = 0; i < COUNT_OF(steps); i++)
		run(i, argc > 1 && strcmp(argv[1], "show") == 0);
	return sandbox_end();
}
