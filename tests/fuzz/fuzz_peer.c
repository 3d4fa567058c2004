/* SPDX-License-Identifier: MIT */
/*
 * Any packets as those of a peer on the wire, to queue pairs that also send: requests to the
 * responder, answers to the requester, datagrams. Whatever comes, each request that was posted
 * completes once, and no byte outside of a region changes.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/check.h"
#include "lib/sandbox.h"
#include "lib/to_rts.h"
#include "queue/qp.h"
#include "registry/directory.h"
#include "segment/segment.h"
#include "transport/wire_qp.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE	  4096u
#define PAGES	  7 /* around each region is a page that nobody may change */
#define DEPTH	  16
#define PEER_QPN  0x123u
#define PEER_PSN  100u /* of its first packet */
#define OWN_PSN	  200u /* of our first one */
#define MTU	  1024u
#define STEPS_MAX 64

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq, *xrc_srq;
static uint8_t *arena;
static union ibv_gid own, peer;

enum { WRITABLE, READABLE, LOCAL, REGIONS };
static const struct {
	int page, access;
} region[REGIONS] = {
	[WRITABLE] = {1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_REMOTE_ATOMIC},
	[READABLE] = {3, IBV_ACCESS_REMOTE_READ},
	[LOCAL] = {5, IBV_ACCESS_LOCAL_WRITE},
};
static struct ibv_mr *mr[REGIONS];

enum { RC, RC_SHARED, UC, UD, XRC_RECV, QPS };
static const struct {
	enum ibv_qp_type type;
	uint8_t service;
} kind[QPS] = {
	[RC] = {IBV_QPT_RC, AV_SERVICE_RC},
	[RC_SHARED] = {IBV_QPT_RC, AV_SERVICE_RC},
	[UC] = {IBV_QPT_UC, AV_SERVICE_UC},
	[UD] = {IBV_QPT_UD, AV_SERVICE_UD},
	[XRC_RECV] = {IBV_QPT_XRC_RECV, AV_SERVICE_XRC},
};
static struct queue {
	struct ibv_qp *qp;
	struct av_qp_ref end;
	unsigned int sends, receives; /* posted, and not completed */
} queue[QPS];
static unsigned int shared_receives;

/* A step of an input. */
struct step {
	uint8_t what; /* which queue pair; does it post, or receive, or get a packet? */
	uint8_t opcode;
	int8_t psn; /* from the one that is next */
	uint8_t flags;
	uint8_t bytes; /* of payload: which of the lengths */
	uint8_t place; /* address: which region, and which offset in it */
	uint8_t key;   /* of which region */
	uint8_t more;  /* syndrome, length, operands */
};

static const uint32_t lengths[16] = {0,	  1,	3,    4,    8,	  64, 1020, 1023,
				     MTU, 1025, 2048, 4095, PAGE, 2,  16,   128};

/* --- the device ------------------------------------------------------------------ */

/* What no packet may change. */
static bool is_kept(int page)
{
	return page != region[WRITABLE].page && page != region[LOCAL].page;
}

static void fill(void)
{
	for (int i = 0; i < PAGES; i++)
		memset(arena + (size_t)i * PAGE, is_kept(i) ? 0x5a : 0, PAGE);
}

static void check_bytes(void)
{
	for (int i = 0; i < PAGES; i++)
		for (size_t j = 0; is_kept(i) && j < PAGE; j++)
			CHECK(arena[(size_t)i * PAGE + j] == 0x5a);
}

static struct ibv_qp *create_qp(int which, struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = kind[which].type,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = which == RC_SHARED ? srq : NULL,
		.cap = {DEPTH, DEPTH, 2, 2, 0},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.sq_sig_all = 1,
	};

	if (which == XRC_RECV)
		attr = (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_XRC_RECV,
						    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
						    .xrcd = domain};
	return ibv_create_qp_ex(ctx, &attr);
}

static void find(struct queue *q)
{
	struct av_qp_location at = av_dir_qpn_find(q->qp->qp_num);

	q->end.seg = av_seg_get(at.ref);
	CHECK(q->end.seg != NULL);
	q->end.qp = av_qp_at(q->end.seg, at.index);
	CHECK(q->end.qp != NULL);
}

static void create_srqs(struct ibv_xrcd *domain)
{
	struct ibv_srq_init_attr plain = {.attr = {DEPTH, 2, 0}};
	struct ibv_srq_init_attr_ex xrc = {
		.attr = {DEPTH, 2, 0},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = domain,
		.cq = cq,
	};

	srq = ibv_create_srq(pd, &plain);
	xrc_srq = ibv_create_srq_ex(ctx, &xrc);
	CHECK(srq && xrc_srq);
}

static void create(void)
{
	struct ibv_xrcd_init_attr domain_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_xrcd *domain;

	CHECK(list && list[0]);
	ctx = ibv_open_device(list[0]);
	CHECK(ctx && ibv_query_gid(ctx, 1, 0, &own) == 0);
	ibv_free_device_list(list);
	peer = own;
	peer.raw[15] ^= 0x40;
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 8 * DEPTH, NULL, NULL, 0);
	domain = ibv_open_xrcd(ctx, &domain_attr);
	CHECK(pd && cq && domain);
	arena = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(arena != MAP_FAILED);
	for (int i = 0; i < REGIONS; i++) {
		mr[i] = ibv_reg_mr(pd, arena + (size_t)region[i].page * PAGE, PAGE,
				   region[i].access);
		CHECK(mr[i] != NULL);
	}
	create_srqs(domain);
	for (int i = 0; i < QPS; i++) {
		queue[i].qp = create_qp(i, domain);
		CHECK(queue[i].qp != NULL);
		find(&queue[i]);
	}
}

/* Sockets and their thread last as long as a queue pair needs them. */
static void keep_open(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp && connect_qp(qp, connect_attr(0, &own)) == 0);
}

/* The network is its own, too, so that its port is free: lib/own_network.sh. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	sandbox_enter();
	create();
	keep_open();
	return 0;
}

static void begin(void)
{
	struct ibv_qp_attr attr = connect_attr(PEER_QPN, &peer);

	attr.rq_psn = PEER_PSN;
	attr.sq_psn = OWN_PSN;
	attr.timeout = 0; /* no time of its own: an input always does the same */
	fill();
	for (int i = 0; i < QPS; i++)
		CHECK(connect_qp(queue[i].qp, attr) == 0);
}

/* --- completions ----------------------------------------------------------------- */

static struct queue *queue_of(uint32_t qpn)
{
	for (int i = 0; i < QPS; i++)
		if (queue[i].qp->qp_num == qpn)
			return &queue[i];
	return NULL;
}

/* The shared queue that it receives from; NULL: its own. */
static struct ibv_srq *shared_by(const struct queue *q)
{
	return q == &queue[XRC_RECV] ? xrc_srq : q == &queue[RC_SHARED] ? srq : NULL;
}

static void completed(const struct ibv_wc *wc)
{
	struct queue *q = queue_of(wc->qp_num);
	unsigned int *left;

	CHECK(q != NULL);
	left = wc->wr_id == 0 ? &q->sends : shared_by(q) ? &shared_receives : &q->receives;
	CHECK(*left > 0);
	--*left;
}

static void poll(void)
{
	struct ibv_wc wc[DEPTH];
	int n;

	while ((n = ibv_poll_cq(cq, DEPTH, wc)) > 0)
		for (int i = 0; i < n; i++)
			completed(&wc[i]);
	CHECK(n == 0);
}

/* Receives in shared queues stay for the next input. */
static void end(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};

	for (int i = 0; i < QPS; i++)
		CHECK(ibv_modify_qp(queue[i].qp, &error, IBV_QP_STATE) == 0);
	poll();
	for (int i = 0; i < QPS; i++) {
		CHECK(queue[i].sends == 0 && queue[i].receives == 0);
		CHECK(ibv_modify_qp(queue[i].qp, &reset, IBV_QP_STATE) == 0);
	}
	check_bytes();
}

/* --- steps ----------------------------------------------------------------------- */

static uint64_t address(const struct step *s)
{
	static const uint32_t offset[8] = {0, 1, 8, 2048, PAGE - 8, PAGE - 1, PAGE, 4u << 20};

	return (uintptr_t)arena + (size_t)region[s->place % REGIONS].page * PAGE +
	       offset[s->place >> 5];
}

static struct ibv_sge sge(const struct step *s)
{
	uint32_t bytes = lengths[s->bytes & 15];

	return (struct ibv_sge){(uintptr_t)arena + (size_t)region[LOCAL].page * PAGE,
				bytes < PAGE ? bytes : PAGE, mr[LOCAL]->lkey};
}

static void post_send(struct queue *q, const struct step *s)
{
	static const enum ibv_wr_opcode opcode[8] = {IBV_WR_SEND,
						     IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_SEND_WITH_INV,
						     IBV_WR_SEND_WITH_IMM};
	struct ibv_sge list = sge(s);
	struct ibv_send_wr wr = {.opcode = opcode[s->opcode & 7],
				 .send_flags = s->flags & 1 ? IBV_SEND_FENCE : 0,
				 .sg_list = &list,
				 .num_sge = 1},
			   *bad;

	if (q == &queue[UD] || q == &queue[XRC_RECV])
		return;
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		list.length = sizeof(uint64_t);
		wr.wr.atomic.remote_addr = address(s);
	} else {
		wr.wr.rdma.remote_addr = address(s);
	}
	if (ibv_post_send(q->qp, &wr, &bad) == 0)
		q->sends++;
}

static void post_receive(struct queue *q, const struct step *s)
{
	struct ibv_sge list = sge(s);
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &list, .num_sge = 1}, *bad;

	if (shared_by(q))
		shared_receives += ibv_post_srq_recv(shared_by(q), &wr, &bad) == 0;
	else
		q->receives += ibv_post_recv(q->qp, &wr, &bad) == 0;
}

static uint32_t key(const struct step *s)
{
	return s->key < REGIONS ? mr[s->key]->rkey : mr[s->key % REGIONS]->rkey ^ (s->key & 0xf0u);
}

/* The PSN that is next: of requests, what is expected; of answers, what is not acknowledged. */
static uint32_t next_psn(const struct queue *q, uint8_t opcode)
{
	const struct av_wire *w = av_wire_at(q->end.seg, q->end.qp->index);
	const struct av_opcode *info = av_opcode_info(opcode);
	bool answers = info && info->response;

	return answers && w ? w->acked : q->end.qp->expected_psn;
}

static void make_packet(const struct queue *q, const struct step *s, struct av_net_packet *to)
{
	static uint8_t payload[PAGE];
	uint8_t opcode = kind[q - queue].service | (s->opcode & 31);
	uint32_t srqn = 0;

	CHECK(ibv_get_srq_num(xrc_srq, &srqn) == 0);
	memcpy(to->path.src, peer.raw, sizeof(to->path.src));
	memcpy(to->path.dst, own.raw, sizeof(to->path.dst));
	to->path.src[15] ^= (s->flags & 0x38) == 0x38; /* a stranger's */
	to->packet = (struct av_packet){
		.opcode = opcode,
		.solicited = s->flags & 1,
		.ack_request = (s->flags & 2) != 0,
		.pkey = (s->flags & 0xc0) == 0xc0 ? 0x1234 : 0xffff,
		.dest_qpn = q->qp->qp_num,
		.psn = AV_PSN_AFTER(next_psn(q, opcode), (uint32_t)s->psn & AV_PSN_MASK),
		.srqn = srqn ^ (s->more == 0xff),
		.qkey = s->more == 0xfe,
		.src_qpn = PEER_QPN,
		.placement = s->more & 15,
		.selectivity = s->more >> 4 & 3,
		.addr = address(s),
		.rkey = key(s),
		.invalidate = key(s),
		.length = lengths[s->more & 15] + (s->more & 0x10 ? lengths[s->bytes & 15] : 0),
		.swap_add = s->more,
		.syndrome = s->more,
		.payload = payload,
		.payload_bytes = lengths[s->bytes & 15],
	};
}

static void deliver(void *arg)
{
	av_wire_receiver.packets(arg, 1);
}

static void run(const struct step *s)
{
	struct queue *q = &queue[(s->what & 31) % QPS];
	struct av_net_packet packet = {0};

	switch (s->what >> 6) {
	case 0:
		post_send(q, s);
		return;
	case 1:
		post_receive(q, s);
		return;
	default:
		make_packet(q, s, &packet);
		packet.qp = av_dir_qpn_find(packet.packet.dest_qpn);
		CHECK(av_net_in_turn(deliver, &packet, true));
		if (s->what & 0x20)
			poll();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct step step;

	if (size > STEPS_MAX * sizeof(step))
		return 0;
	begin();
	for (size_t at = 0; at + sizeof(step) <= size; at += sizeof(step)) {
		memcpy(&step, data + at, sizeof(step));
		run(&step);
	}
	end();
	return 0;
}
