/* SPDX-License-Identifier: MIT */
/*
 * A request is completed before what its receiver answers, also where both processes share one
 * core: the wake-up takes the core from the sender, and the answer comes at once.
 *
 * One process sends, and polls its one CQ: the send's entry comes first, then the answer's. The
 * other one sleeps until the event of a receive, and answers. The first gives way to the second.
 */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/to_rts.h"

#define ROUNDS 200
#define ROOM   128 /* of a receive: a GRH and a payload */
#define LAST   19  /* nice value: nobody is served later */

static const struct {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
} row_of[] = {
	{"RC, SEND", IBV_QPT_RC, IBV_WR_SEND},
	{"RC, SEND with immediate", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM},
	{"RC, WRITE with immediate", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},
	{"UC, SEND", IBV_QPT_UC, IBV_WR_SEND},
	{"UD, SEND", IBV_QPT_UD, IBV_WR_SEND},
};

/* What a process must know of the other one. */
struct address {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t arena;
};

/* One of the two processes. */
struct end {
	struct node node;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* of datagrams */
	struct address other;
	int socket; /* to the other one */
};

static struct end e;

static void post_recv(void)
{
	struct ibv_sge sge = {(uintptr_t)e.node.arena, ROOM, e.node.mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	NEED(ibv_post_recv(e.qp, &wr, &bad) == 0);
}

static void post_send(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)e.node.arena + ROOM, 8, e.node.mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad;

	if (e.qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = e.ah;
		wr.wr.ud.remote_qpn = e.other.qpn;
		wr.wr.ud.remote_qkey = 0x1234;
	} else {
		wr.wr.rdma.remote_addr = e.other.arena + 2 * ROOM;
		wr.wr.rdma.rkey = e.other.rkey;
	}
	NEED(ibv_post_send(e.qp, &wr, &bad) == 0);
}

static struct ibv_wc next_completion(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(e.cq, 1, &wc)) == 0)
		;
	NEED(n == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* --- set-up ------------------------------------------------------------------------ */

/* Tell the other process that we are here, and wait until it is. */
static void meet(void)
{
	struct address own = {e.node.info.gid, e.qp->qp_num, e.node.mr[KEY_FULL]->rkey,
			      (uintptr_t)e.node.arena};

	NEED(write(e.socket, &own, sizeof(own)) == sizeof(own));
	NEED(read(e.socket, &e.other, sizeof(e.other)) == sizeof(e.other));
}

static void open_end(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
	};
	struct ibv_qp_attr attr;

	e.cq = ibv_create_cq(e.node.ctx, 16, NULL, e.node.channel, 0);
	NEED(e.cq);
	init.send_cq = init.recv_cq = e.cq;
	e.qp = ibv_create_qp(e.node.pd, &init);
	NEED(e.qp);
	meet();
	attr = connect_attr(e.other.qpn, &e.other.gid);
	if (type == IBV_QPT_UD)
		attr.qkey = 0x1234;
	NEED(connect_qp(e.qp, attr) == 0);
	attr.ah_attr.port_num = 1;
	e.ah = type == IBV_QPT_UD ? ibv_create_ah(e.node.pd, &attr.ah_attr) : NULL;
	NEED(type != IBV_QPT_UD || e.ah);
	post_recv();
	NEED(ibv_req_notify_cq(e.cq, 0) == 0);
	meet();
}

static void close_end(void)
{
	meet();
	NEED(!e.ah || ibv_destroy_ah(e.ah) == 0);
	NEED(ibv_destroy_qp(e.qp) == 0 && ibv_destroy_cq(e.cq) == 0);
}

/* --- the two ------------------------------------------------------------------------- */

static void sleep_until_event(void)
{
	struct ibv_cq *cq;
	void *context;

	NEED(ibv_get_cq_event(e.node.channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
	NEED(ibv_req_notify_cq(cq, 0) == 0);
}

/* Take completions until that of a receive. */
static void sleep_until_message(void)
{
	struct ibv_wc wc;
	int n;

	do {
		while ((n = ibv_poll_cq(e.cq, 1, &wc)) == 0)
			sleep_until_event();
		NEED(n == 1 && wc.status == IBV_WC_SUCCESS);
	} while (!(wc.opcode & IBV_WC_RECV));
}

static void answer(enum ibv_wr_opcode opcode)
{
	for (int i = 0; i < ROUNDS; i++) {
		sleep_until_message();
		post_recv();
		post_send(opcode);
	}
}

static void ask(enum ibv_wr_opcode opcode)
{
	int early = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_wc first, second;

		post_send(opcode);
		first = next_completion();
		second = next_completion();
		early += (first.opcode & IBV_WC_RECV) != 0;
		NEED((first.opcode & IBV_WC_RECV) + (second.opcode & IBV_WC_RECV) == IBV_WC_RECV);
		post_recv();
	}
	EXPECT(early == 0, "%d of %d answers came before the request was completed", early, ROUNDS);
}

static void on_one_core(void)
{
	cpu_set_t may, one;

	NEED(sched_getaffinity(0, sizeof(may), &may) == 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &may))
			CPU_SET(i, &one);
	NEED(sched_setaffinity(0, sizeof(one), &one) == 0);
}

/* @answers: the process that answers; else the one that asks */
static void run(int socket, bool answers)
{
	e.socket = socket;
	node_open(&e.node, NULL);
	for (size_t i = 0; i < COUNT_OF(row_of); i++) {
		open_end(row_of[i].type);
		if (answers) {
			answer(row_of[i].opcode);
		} else {
			row("%s", row_of[i].name);
			ask(row_of[i].opcode);
		}
		close_end();
	}
	node_close(&e.node);
}

int main(void)
{
	int sockets[2], status;
	pid_t child;

	sandbox_begin(120);
	on_one_core();
	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
	child = fork();
	NEED(child >= 0);
	if (child == 0) {
		close(sockets[0]);
		NEED(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		run(sockets[1], true);
		_exit(0);
	}
	close(sockets[1]);
	NEED(setpriority(PRIO_PROCESS, 0, LAST) == 0);
	run(sockets[0], false);
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(status == 0, "the answering process ended with %#x", status);
	return sandbox_end();
}
