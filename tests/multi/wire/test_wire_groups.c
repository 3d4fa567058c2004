/* SPDX-License-Identifier: MIT */
/*
 * A group has a socket as long as a queue pair that is attached to it can receive: neither a RESET
 * before it is detached nor the end of its device leaves one behind, and it is there again when the
 * queue pair is.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/to_rts.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define PATIENCE 30000u /* ms */
#define PEER_QPN 0x4711u
#define QKEY	 0x111u
#define GRH	 40u
#define ROOM	 0x2000u /* bytes of a receive request */
#define PORT	 ":12B7" /* in /proc/net/udp */

static struct side b; /* on host 1; host 0 is this process, with a socket */

/* --- in b's process -------------------------------------------------------------- */

enum job { SOCKETS, CREATE, CONNECT, ATTACH, DETACH, RESET, RECEIVE, DESTROY, CLOSE };

static struct ibv_qp *qp;

static uint64_t sockets(void)
{
	FILE *f = fopen("/proc/self/net/udp", "re");
	uint64_t count = 0;
	char line[256];

	NEED(f);
	while (fgets(line, sizeof(line), f))
		count += strstr(line, PORT) != NULL;
	fclose(f);
	return count;
}

static uint64_t create(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = {1, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};

	NEED(qp = ibv_create_qp(pd, &init));
	return 0;
}

static uint64_t connect(void)
{
	struct ibv_qp_attr attr = connect_attr(PEER_QPN, &forge_gid);

	attr.qkey = QKEY;
	return (uint64_t)connect_qp(qp, attr);
}

static uint64_t reset(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return (uint64_t)ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static uint64_t receive(struct node *n)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, ROOM, n->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return (uint64_t)ibv_post_recv(qp, &wr, &bad);
}

/* Return: sockets while it was open */
static uint64_t close_attached(void)
{
	struct ibv_context *ctx = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	uint64_t count = 0;

	NEED(pd && cq);
	(void)create(pd, cq);
	NEED(connect() == 0 && ibv_attach_mcast(qp, &forge_group, 0) == 0);
	count = sockets();
	NEED(ibv_close_device(ctx) == 0);
	return count;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case SOCKETS:
		return sockets();
	case CREATE:
		return create(n->pd, n->cq[1]);
	case CONNECT:
		return connect();
	case ATTACH:
		return (uint64_t)ibv_attach_mcast(qp, &forge_group, 0);
	case DETACH:
		return (uint64_t)ibv_detach_mcast(qp, &forge_group, 0);
	case RESET:
		return reset();
	case RECEIVE:
		return receive(n);
	case DESTROY:
		return (uint64_t)ibv_destroy_qp(qp);
	case CLOSE:
		return close_attached();
	}
	return 0;
}

/* --- in this one ----------------------------------------------------------------- */

static uint64_t ask(enum job what)
{
	side_begin(&b, &(struct side_job){.arg = {what}});
	return side_end(&b);
}

/* A socket that is closed while a thread waits for packets lives until that thread has woken up. */
static void expect_sockets(const char *when, uint64_t want)
{
	uint64_t count;

	(void)WAIT_UNTIL((count = ask(SOCKETS)) <= want, PATIENCE);
	EXPECT(count == want, "%s: %lu sockets instead of %lu", when, count, want);
}

static void expect_datagram(void)
{
	struct av_packet p = {
		.opcode = UD | SEND_ONLY, .qkey = QKEY, .src_qpn = PEER_QPN, .payload_bytes = 8};
	struct ibv_wc wc;

	NEED(ask(RECEIVE) == 0);
	forge_send_to_group(p);
	EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
		       wc.byte_len == GRH + 8,
	       "no datagram");
}

static void is_reset(void)
{
	row("RESET before it is detached");
	NEED(ask(CREATE) == 0 && ask(CONNECT) == 0);
	expect_sockets("RTS", 1);
	NEED(ask(ATTACH) == 0);
	expect_sockets("attached", 2);
	expect_datagram();
	NEED(ask(RESET) == 0);
	expect_sockets("RESET", 0);
	NEED(ask(CONNECT) == 0);
	expect_sockets("RTS again", 2);
	expect_datagram();
	NEED(ask(RESET) == 0 && ask(DETACH) == 0);
	NEED(ask(CONNECT) == 0);
	expect_sockets("detached", 1);
	NEED(ask(DESTROY) == 0);
	expect_sockets("destroyed", 0);
}

/* What was joined before RTR is open only then. */
static void early(void)
{
	row("attached in RESET");
	NEED(ask(CREATE) == 0 && ask(ATTACH) == 0 && ask(CONNECT) == 0);
	expect_sockets("RTS", 2);
	expect_datagram();
	NEED(ask(DETACH) == 0);
	expect_sockets("detached", 1);
	NEED(ask(DESTROY) == 0);
	expect_sockets("destroyed", 0);
}

static void is_closed(void)
{
	uint64_t count;

	row("the device is closed");
	count = ask(CLOSE);
	EXPECT(count == 2, "%lu sockets", count);
	expect_sockets("closed", 0);
}

int main(int argc, char **argv)
{
	side_work = work;
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	is_reset();
	early();
	is_closed();
	side_stop(&b);
	return summary();
}
