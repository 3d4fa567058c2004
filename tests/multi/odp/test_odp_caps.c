/* SPDX-License-Identifier: MIT */
/*
 * What the device says of on-demand paging, transport by transport, is what it does: each operation
 * is tried between two processes with a region on demand at one end and a pinned one at the other,
 * and its bit is set if and only if the bytes arrived and pages were faulted for them. The table
 * says which transport has which operation. The rows are those of two programs, by plain and by
 * experimental verbs (odp_fixture.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/newer_verbs.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/userfaultfd.h"
#include "lib/wait.h"
#include "odp_fixture.h"

#define PAGE  4096u
#define PAGES 4u
#define AT                                                                                    \
	PAGE /* of the message, in the memory: a page before it, and it crosses into the next \
	      */
#define BYTES	 (PAGE - 100u) /* of the message: with its header it fits in a datagram */
#define GRH	 40u
#define WORD	 0x5eed0000u /* what atomics find */
#define QKEY	 0x1234u
#define PATIENCE 20000u
#define QP	 0 /* number of the only queue pair of a side */

#define SEND	 IBV_ODP_SUPPORT_SEND
#define RECV	 IBV_ODP_SUPPORT_RECV
#define WRITE	 IBV_ODP_SUPPORT_WRITE
#define READ	 IBV_ODP_SUPPORT_READ
#define ATOMIC	 IBV_ODP_SUPPORT_ATOMIC
#define SRQ_RECV IBV_ODP_SUPPORT_SRQ_RECV
#define FLUSH	 ODP_SUPPORT_FLUSH
#define A_WRITE	 ODP_SUPPORT_ATOMIC_WRITE
#define RDMA	 (WRITE | READ | ATOMIC | FLUSH | A_WRITE)
#define ALL_BITS (SEND | RECV | SRQ_RECV | RDMA)

/* What each has by specification. XRC receives from shared queues only. */
static const struct {
	const char *name;
	enum ibv_qp_type from, to;
	uint32_t operations;
} transports[TRANSPORTS] = {
	[RC] = {"RC", IBV_QPT_RC, IBV_QPT_RC, SEND | RECV | SRQ_RECV | RDMA},
	[UC] = {"UC", IBV_QPT_UC, IBV_QPT_UC, SEND | RECV | WRITE | SRQ_RECV},
	[UD] = {"UD", IBV_QPT_UD, IBV_QPT_UD, SEND | RECV | SRQ_RECV},
	[XRC] = {"XRC", IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, SEND | SRQ_RECV | RDMA},
};

enum kind { PINNED, EXPLICIT, IMPLICIT };

/* The ways to use an operation: at which end the memory is on demand. */
enum end { REQUESTER, RESPONDER };

static const struct way {
	const char *name;
	uint32_t bit;
	enum ibv_wr_opcode opcode;
	enum end on_demand;
} ways[] = {
	{"send", SEND, IBV_WR_SEND, REQUESTER},
	{"receive", RECV, IBV_WR_SEND, RESPONDER},
	{"receive from a shared queue", SRQ_RECV, IBV_WR_SEND, RESPONDER},
	{"write from", WRITE, IBV_WR_RDMA_WRITE, REQUESTER},
	{"write to", WRITE, IBV_WR_RDMA_WRITE, RESPONDER},
	{"read into", READ, IBV_WR_RDMA_READ, REQUESTER},
	{"read from", READ, IBV_WR_RDMA_READ, RESPONDER},
	{"compare and swap, old value", ATOMIC, IBV_WR_ATOMIC_CMP_AND_SWP, REQUESTER},
	{"compare and swap", ATOMIC, IBV_WR_ATOMIC_CMP_AND_SWP, RESPONDER},
	{"fetch and add, old value", ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD, REQUESTER},
	{"fetch and add", ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD, RESPONDER},
	{"atomic write from", A_WRITE, WR_ATOMIC_WRITE, REQUESTER},
	{"atomic write to", A_WRITE, WR_ATOMIC_WRITE, RESPONDER},
	{"flush", FLUSH, (enum ibv_wr_opcode)WR_FLUSH, RESPONDER},
};

/* --- what a side does in its own process ----------------------------------------- */

enum polled { NOTHING, BAD, GOOD };
enum job { OPEN, CONNECT, MAP, WHERE, FILL, CHECK, PEEK, POKE, RECEIVE, POST, POLL, CLOSE, FORGET };

static struct {
	uint8_t *memory;
	struct ibv_mr *mr;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	bool flushes;
} my;

static void open_srq(struct node *n, bool xrc)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = n->pd,
		.xrcd = my.xrcd,
		.cq = n->cq[1],
	};

	if (xrc)
		init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	my.srq = ibv_create_srq_ex(n->ctx, &init);
	NEED(my.srq);
}

static void open_xrcd(struct node *n)
{
	my.xrcd = node_open_xrcd(n->ctx);
	NEED(my.xrcd);
}

/* With the builders for FLUSH, if its kind has them. */
static struct ibv_qp *create_qp(struct node *n, struct ibv_qp_init_attr_ex *init, bool flush)
{
	struct ibv_qp *qp = NULL;

	if (flush) {
		init->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init->send_ops_flags = QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE;
		qp = ibv_create_qp_ex(n->ctx, init);
		init->comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	}
	my.flushes = qp != NULL;
	return qp ? qp : api_create_qp(n->ctx, init);
}

/* The queue pair, and what it needs. Return: its number, and above it that of its XRC receive
 * queue. */
static uint64_t open_qp(struct node *n, enum ibv_qp_type type, bool srq, bool flush)
{
	bool xrc = type == IBV_QPT_XRC_RECV;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = xrc ? NULL : n->cq[0],
		.recv_cq = xrc || type == IBV_QPT_XRC_SEND ? NULL : n->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.comp_mask = xrc ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.pd = xrc ? NULL : n->pd,
	};
	uint32_t srqn = 0;

	if (xrc)
		open_xrcd(n);
	if (xrc || srq)
		open_srq(n, xrc);
	init.srq = xrc ? NULL : my.srq;
	init.xrcd = my.xrcd;
	n->qp[QP] = create_qp(n, &init, flush);
	if (!n->qp[QP] || (xrc && ibv_get_srq_num(my.srq, &srqn)))
		DIE("creating a queue pair: errno %d", errno);
	return (uint64_t)srqn << 32 | n->qp[QP]->qp_num;
}

static void close_qp(struct node *n)
{
	EXPECT(node_destroy_qp(n, QP) == 0, "ibv_destroy_qp");
	EXPECT(!my.srq || ibv_destroy_srq(my.srq) == 0, "ibv_destroy_srq");
	EXPECT(!my.xrcd || ibv_close_xrcd(my.xrcd) == 0, "ibv_close_xrcd");
	EXPECT(!my.ah || ibv_destroy_ah(my.ah) == 0, "ibv_destroy_ah");
	my.srq = NULL;
	my.xrcd = NULL;
	my.ah = NULL;
}

static uint64_t connect_to(struct node *n, uint32_t dest, const uint64_t gid[2])
{
	struct ibv_qp_attr attr = connect_attr(dest, (const union ibv_gid *)gid);
	enum ibv_qp_type type = n->qp[QP]->qp_type;

	attr.qkey = QKEY;
	attr.path_mtu = IBV_MTU_4096;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
	if (type != IBV_QPT_UC)
		attr.qp_access_flags |= ACCESS_FLUSH_GLOBAL;
	for (attr.qp_state = IBV_QPS_INIT; attr.qp_state <= IBV_QPS_RTS; attr.qp_state++) {
		int ret = api_modify_qp(n->qp[QP], &attr, connect_mask(type, attr.qp_state));

		if (ret)
			return (uint64_t)ret;
	}
	if (type == IBV_QPT_UD)
		my.ah = ibv_create_ah(n->pd, &attr.ah_attr);
	return 0;
}

/*
 * Pages that no device has seen; they stay, so that no page is invalidated in the whole test.
 * Return: the region's rkey
 */
static uint64_t map(struct node *n, enum kind kind)
{
	my.memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (my.memory == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	my.mr = api_register(n->pd, kind == IMPLICIT ? NULL : my.memory, (size_t)PAGES * PAGE,
			     kind != PINNED);
	NEED(my.mr);
	return my.mr->rkey;
}

static struct ibv_sge my_sge(uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)my.memory + AT, bytes, my.mr->lkey};
}

/* Into the queue pair's own queue, or into the shared one if there is one. */
static uint64_t receive(struct node *n, uint32_t bytes, bool own)
{
	struct ibv_sge sge = my_sge(bytes);
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	return (uint64_t)(my.srq && !own ? ibv_post_srq_recv(my.srq, &wr, &bad)
					 : ibv_post_recv(n->qp[QP], &wr, &bad));
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_word(enum ibv_wr_opcode opcode)
{
	return is_atomic(opcode) || opcode == WR_ATOMIC_WRITE;
}

/* @peer: number of its queue pair, and above it that of its XRC receive queue */
static uint64_t post(struct node *n, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
		     uint64_t peer)
{
	struct ibv_sge sge = my_sge(is_word(opcode) ? sizeof(uint64_t) : BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .qp_type.xrc.remote_srqn = (uint32_t)(peer >> 32)};

	if (n->qp[QP]->qp_type == IBV_QPT_UD && opcode == IBV_WR_SEND) {
		wr.wr.ud.ah = my.ah;
		wr.wr.ud.remote_qpn = (uint32_t)peer;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (is_atomic(opcode)) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? WORD : 1;
		wr.wr.atomic.swap = WORD + 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	return (uint64_t)api_post_send(n->qp[QP], &wr);
}

/* A WRITE, and a FLUSH of what it wrote. */
static uint64_t post_flush(struct node *n, uint64_t addr, uint32_t rkey, uint64_t peer)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(n->qp[QP]);
	struct ibv_sge sge = my_sge(BYTES);

	if (!my.flushes)
		return EOPNOTSUPP;
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, rkey, addr);
	ibv_wr_set_xrc_srqn(ex, (uint32_t)(peer >> 32));
	ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	ex->wr_flags = IBV_SEND_SIGNALED;
	flush_of(ex)(ex, rkey, addr, BYTES, GLOBAL, RANGE);
	ibv_wr_set_xrc_srqn(ex, (uint32_t)(peer >> 32));
	return (uint64_t)ibv_wr_complete(ex);
}

/* Return: did the next completion of that queue come, and how did it end? */
static uint64_t poll_one(struct node *n, uint64_t cq)
{
	uint64_t end = now_ms() + PATIENCE;
	enum ibv_wc_status status;
	int got;

	do
		got = api_poll(n->cq[cq], &status);
	while (got == 0 && now_ms() < end);
	return got != 1 ? NOTHING : status == IBV_WC_SUCCESS ? GOOD : BAD;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	uint64_t x = job->arg[0] >> 8;
	uint64_t word;

	switch ((enum job)(job->arg[0] & 0xff)) {
	case OPEN:
		return open_qp(n, (enum ibv_qp_type)x, job->arg[1], job->arg[2]);
	case CONNECT:
		return connect_to(n, (uint32_t)job->arg[1], job->arg + 2);
	case MAP:
		return map(n, (enum kind)x);
	case WHERE:
		return (uintptr_t)my.memory + AT;
	case FILL:
		pattern_fill(my.memory + AT, BYTES, PROBE_SEED, 0);
		return 0;
	case CHECK:
		return pattern_check(my.memory + AT + x, BYTES, PROBE_SEED, 0) == -1;
	case PEEK:
		memcpy(&word, my.memory + AT, sizeof(word));
		return word;
	case POKE:
		memcpy(my.memory + AT, &job->arg[1], sizeof(job->arg[1]));
		return 0;
	case RECEIVE:
		return receive(n, (uint32_t)x, job->arg[1]);
	case POST:
		if (x == WR_FLUSH)
			return post_flush(n, job->arg[1], (uint32_t)job->arg[2], job->arg[3]);
		return post(n, (enum ibv_wr_opcode)x, job->arg[1], (uint32_t)job->arg[2],
			    job->arg[3]);
	case POLL:
		return poll_one(n, x);
	case CLOSE:
		close_qp(n);
		return 0;
	case FORGET:
		return (uint64_t)ibv_dereg_mr(my.mr);
	}
	return 0;
}

/* --- the rows -------------------------------------------------------------------- */

static struct side ends[2]; /* each in a process of its own; this one looks on */

static uint64_t ask(enum end end, enum job what, uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
	struct side_job job = {.arg = {x << 8 | what, y, z, w}};

	side_begin(&ends[end], &job);
	return side_end(&ends[end]);
}

static uint64_t tell(enum end end, enum job what)
{
	return ask(end, what, 0, 0, 0, 0);
}

/* Return: what the requester addresses, as post() has it */
static uint64_t connect_ends(enum transport t, const struct way *way)
{
	uint64_t from = ask(REQUESTER, OPEN, transports[t].from, false, way->bit == FLUSH, 0);
	uint64_t to = ask(RESPONDER, OPEN, transports[t].to, way->bit == SRQ_RECV, false, 0);
	const union ibv_gid *from_gid = &ends[REQUESTER].info.gid,
			    *to_gid = &ends[RESPONDER].info.gid;
	uint64_t gid[2];

	memcpy(gid, to_gid, sizeof(gid));
	if (ask(REQUESTER, CONNECT, 0, (uint32_t)to, gid[0], gid[1]))
		DIE("connecting the requester of %s", transports[t].name);
	memcpy(gid, from_gid, sizeof(gid));
	if (ask(RESPONDER, CONNECT, 0, (uint32_t)from, gid[0], gid[1]))
		DIE("connecting the responder of %s", transports[t].name);
	return to;
}

static bool completed(enum end end, uint64_t cq)
{
	uint64_t got = ask(end, POLL, cq, 0, 0, 0);

	EXPECT(got != NOTHING, "no completion");
	return got == GOOD;
}

/* Did the word or the bytes arrive, there and here? */
static bool arrived(enum transport t, enum ibv_wr_opcode opcode)
{
	if (is_word(opcode))
		return tell(RESPONDER, PEEK) == WORD + 1 &&
		       tell(REQUESTER, PEEK) == (is_atomic(opcode) ? WORD : WORD + 1);
	return ask(opcode == IBV_WR_RDMA_READ ? REQUESTER : RESPONDER, CHECK,
		   t == UD && opcode == IBV_WR_SEND ? GRH : 0, 0, 0, 0);
}

/*
 * Does it arrive after its completion? An unreliable message is done when it has been sent; on one
 * host, that is when it has arrived.
 */
static bool arrives_later(enum transport t)
{
	return on_the_wire() && t == UC;
}

/* Is the operation taken, and does it end well? */
static bool transfer(enum transport t, const struct way *way, uint64_t peer, uint32_t rkey)
{
	if (is_atomic(way->opcode))
		ask(RESPONDER, POKE, 0, WORD, 0, 0);
	else if (is_word(way->opcode))
		ask(REQUESTER, POKE, 0, WORD + 1, 0, 0);
	else
		tell(way->opcode == IBV_WR_RDMA_READ ? RESPONDER : REQUESTER, FILL);
	if (way->opcode == IBV_WR_SEND &&
	    ask(RESPONDER, RECEIVE, BYTES + GRH, way->bit == RECV, 0, 0))
		return false;
	if (ask(REQUESTER, POST, way->opcode, tell(RESPONDER, WHERE), rkey, peer))
		return false;
	if (!completed(REQUESTER, 0))
		return false;
	if (way->opcode == IBV_WR_SEND && !completed(RESPONDER, 1))
		return false;
	return WAIT_UNTIL(arrived(t, way->opcode), arrives_later(t) ? PATIENCE : 0);
}

static void try_way(enum transport t, const struct way *way, enum kind kind, uint32_t caps)
{
	bool has = transports[t].operations & way->bit, works;
	uint64_t peer, before, faults;
	uint32_t rkey;

	row("%s, %s%s", transports[t].name, way->name, kind == IMPLICIT ? ", implicit" : "");
	peer = connect_ends(t, way);
	ask(REQUESTER, MAP, way->on_demand == REQUESTER ? kind : PINNED, 0, 0, 0);
	rkey = (uint32_t)ask(RESPONDER, MAP, way->on_demand == RESPONDER ? kind : PINNED, 0, 0, 0);
	before = odp_counter(ODP_FAULTS);
	works = transfer(t, way, peer, rkey);
	(void)WAIT_UNTIL(odp_counter(ODP_FAULTS) > before,
			 works && arrives_later(t) ? PATIENCE : 0);
	faults = odp_counter(ODP_FAULTS) - before;
	EXPECT(works == has, "works: %d", works);
	EXPECT((faults > 0) == has, "%lu page faults", faults);
	EXPECT(((caps & way->bit) != 0) == has, "its bit is %sset", has ? "not " : "");
	tell(REQUESTER, CLOSE);
	tell(RESPONDER, CLOSE);
	EXPECT(tell(REQUESTER, FORGET) == 0 && tell(RESPONDER, FORGET) == 0, "ibv_dereg_mr");
}

static void try_all(const struct odp_answer *device)
{
	for (int t = RC; t < TRANSPORTS; t++) {
		for (size_t i = 0; i < COUNT_OF(ways); i++)
			for (enum kind kind = EXPLICIT; kind <= IMPLICIT; kind++)
				if (ways[i].bit & api_operations)
					try_way((enum transport)t, &ways[i], kind, device->of[t]);
		row("%s has no bit without a meaning", transports[t].name);
		EXPECT((device->of[t] & ~(uint32_t)(ALL_BITS & api_operations)) == 0, "mask 0x%x",
		       device->of[t]);
	}
	row("explicit and implicit regions, and no bit beyond");
	EXPECT(device->general == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT), "mask 0x%lx",
	       device->general);
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx;
	struct odp_answer device;

	time_limit(200);
	side_work = work;
	side_agent_main(argc, argv);
	need_userfaultfd();
	sandbox_enter();
	setenv("ANYVERBS_DEVICES", "any0:mtu=4096", 1); /* room for such a datagram */
	ctx = node_open_device();
	api_query(ctx, &device);
	ibv_close_device(ctx);
	side_start(&ends[REQUESTER]);
	side_start(&ends[RESPONDER]);
	try_all(&device);
	side_stop(&ends[REQUESTER]);
	side_stop(&ends[RESPONDER]);
	return sandbox_end();
}
