/* SPDX-License-Identifier: MIT */
/*
 * Inline receive: what is granted, and that messages get where they are wanted, byte by byte, when
 * the completion is polled and not before; by each service, size and opcode, activated or not, from
 * another process or the receiver's own. Answers of all sizes. Addresses that are none. Fences.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/wait.h"

#define LIMIT	 1024u /* inline_recv_sz */
#define IN_CQE	 64u   /* what a completion has room for */
#define AT	 0x10000u
#define FROM	 0x40000u /* of what is sent or read, at the peer */
#define GRH	 40u
#define ROOM	 16u
#define PATIENCE 20000u
#define QKEY	 0x11111111u
#define SEED	 0x696e6c696eu
#define RIGHTS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct side a, b,
	c; /* a is here, and receives; b is another process; c is another context, here */
static struct node *n;
static uint64_t seed = SEED;

/* --- queue pairs of any service, in either process ------------------------------- */

static struct ibv_qp *make(struct node *of, enum ibv_qp_type type, bool sig_all,
			   uint32_t *inline_recv, struct ibv_srq *srq)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = of->cq[0],
		.recv_cq = of->cq[1],
		.srq = srq,
		.cap = {.max_send_wr = ROOM,
			.max_recv_wr = ROOM,
			.max_send_sge = 3,
			.max_recv_sge = 3},
		.qp_type = type,
		.sq_sig_all = sig_all,
		.comp_mask =
			IBV_EXP_QP_INIT_ATTR_PD | (inline_recv ? IBV_EXP_QP_INIT_ATTR_INL_RECV : 0),
		.pd = of->pd,
		.max_inl_recv = inline_recv ? *inline_recv : 0,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(of->ctx, &attr);

	NEED(qp);
	if (inline_recv) {
		*inline_recv = attr.max_inl_recv;
		EXPECT(!(attr.comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV) == !*inline_recv,
		       "INL_RECV in comp_mask");
	}
	return qp;
}

static struct ibv_ah_attr address(const union ibv_gid *gid)
{
	return (struct ibv_ah_attr){
		.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}};
}

static void bring_up(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = connect_attr(dest, gid);

	attr.qkey = QKEY;
	attr.qp_access_flags = RIGHTS;
	attr.path_mtu = IBV_MTU_4096;
	attr.min_rnr_timer = 31; /* half a second: nobody but the receiver goes on before */
	if (connect_qp(qp, attr))
		DIE("ibv_modify_qp: errno %d", errno);
}

/* What the sending end does, where it is. */
enum job { JOB_MAKE, JOB_CONNECT, JOB_SEND, JOB_END, JOB_FLOOD };

static struct ibv_ah *ah; /* of the sending end */
static uint32_t ah_qpn;

static void connect_to(struct node *of, const struct side_job *job)
{
	union ibv_gid gid;
	struct ibv_ah_attr attr;

	memcpy(gid.raw, &job->arg[2], sizeof(gid));
	bring_up(of->qp[0], (uint32_t)job->arg[1], &gid);
	attr = address(&gid);
	ah_qpn = (uint32_t)job->arg[1];
	ah = of->qp[0]->qp_type == IBV_QPT_UD ? ibv_create_ah(of->pd, &attr) : NULL;
}

/* Return: status of the completion */
static uint64_t send_one(struct node *of, uint32_t bytes, enum ibv_wr_opcode opcode, uint32_t imm)
{
	struct ibv_sge sge = {of->info.base[KEY_FULL] + FROM, bytes, of->info.lkey[KEY_FULL]};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = imm};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = ah_qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	if (ibv_post_send(of->qp[0], &wr, &bad) || node_poll(of, 0, 1, PATIENCE, &wc) != 1)
		return UINT64_MAX;
	return wc.status;
}

/* Message @i has length and bytes of its own. */
static uint32_t flood_bytes(uint64_t i)
{
	return 1 + (uint32_t)(i * 37 % 700);
}

static uint64_t flood(struct node *of, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		pattern_fill(of->arena + FROM, flood_bytes(i), SEED + i, 0);
		if (send_one(of, flood_bytes(i), IBV_WR_SEND_WITH_IMM, (uint32_t)i) !=
		    IBV_WC_SUCCESS)
			return i;
	}
	return count;
}

static uint64_t work(struct node *of, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case JOB_MAKE:
		of->qp[0] = make(of, (enum ibv_qp_type)job->arg[1], false, NULL, NULL);
		return of->qp[0]->qp_num;
	case JOB_CONNECT:
		connect_to(of, job);
		return 0;
	case JOB_SEND:
		pattern_fill(of->arena + FROM, job->arg[1], job->arg[3], 0);
		return send_one(of, (uint32_t)job->arg[1], (enum ibv_wr_opcode)job->arg[2], 7);
	case JOB_END:
		if (ah)
			ibv_destroy_ah(ah);
		ah = NULL;
		return (uint64_t)node_destroy_qp(of, 0);
	case JOB_FLOOD:
		return flood(of, job->arg[1]);
	}
	return 0;
}

static uint64_t at(struct side *peer, struct side_job job)
{
	if (peer->node)
		return work(peer->node, &job);
	side_begin(peer, &job);
	return side_end(peer);
}

static struct ibv_srq *srq;

/* Queue pair 0 of a, with that much inline receive, and of the peer. Return: what was granted */
static uint32_t begin(struct side *peer, enum ibv_qp_type type, uint32_t inline_recv, bool shared,
		      bool sig_all)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ROOM, .max_sge = 3}};
	struct side_job job = {.arg = {JOB_CONNECT}};
	uint32_t dest = (uint32_t)at(peer, (struct side_job){.arg = {JOB_MAKE, type}});

	srq = shared ? ibv_create_srq(n->pd, &attr) : NULL;
	n->qp[0] = make(n, type, sig_all, &inline_recv, srq);
	bring_up(n->qp[0], dest, &peer->info.gid);
	job.arg[1] = n->qp[0]->qp_num;
	memcpy(&job.arg[2], a.info.gid.raw, sizeof(a.info.gid));
	at(peer, job);
	return inline_recv;
}

static void end(struct side *peer)
{
	struct ibv_wc wc[NODE_LIST];

	EXPECT(at(peer, (struct side_job){.arg = {JOB_END}}) == 0, "the peer's ibv_destroy_qp");
	EXPECT(node_destroy_qp(n, 0) == 0, "ibv_destroy_qp");
	EXPECT(!srq || ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	srq = NULL;
	while (side_poll(&a, 0, NODE_LIST, 0, wc) > 0 || side_poll(&a, 1, NODE_LIST, 0, wc) > 0)
		;
	while (side_async(&a, 0).any)
		;
}

/* --- what is granted ------------------------------------------------------------- */

static const struct grant_row {
	const char *name;
	enum ibv_qp_type type;
	bool shared, sig_all;
	uint32_t room;
} grants[] = {
	{"RC", IBV_QPT_RC, false, false, LIMIT},
	{"RC, all signalled", IBV_QPT_RC, false, true, LIMIT},
	{"RC on a shared queue", IBV_QPT_RC, true, false, LIMIT},
	{"UC", IBV_QPT_UC, false, false, LIMIT},
	{"UD", IBV_QPT_UD, false, false, LIMIT},
	{"UD on a shared queue", IBV_QPT_UD, true, false, LIMIT},
	{"XRC_SEND", IBV_QPT_XRC_SEND, false, false, 0},
	{"XRC_SEND, all signalled", IBV_QPT_XRC_SEND, false, true, IN_CQE},
};

static void grant_rows(void)
{
	static const uint32_t wanted[] = {0, 1, 32, 63, 64, 65, 500, 1023, 1024, 1025, UINT32_MAX};
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = ROOM, .max_sge = 3}};

	row("the capability");
	EXPECT(ibv_exp_query_device(n->ctx, &attr) == 0 && attr.inline_recv_sz == (int)LIMIT, "%d",
	       attr.inline_recv_sz);
	srq = ibv_create_srq(n->pd, &srq_attr);
	for (size_t g = 0; g < COUNT_OF(grants); g++) {
		for (size_t i = 0; i < COUNT_OF(wanted); i++) {
			uint32_t got = wanted[i],
				 want = wanted[i] < grants[g].room ? wanted[i] : grants[g].room;
			struct ibv_qp *qp = make(n, grants[g].type, grants[g].sig_all, &got,
						 grants[g].shared ? srq : NULL);

			row("%s: %u bytes wanted", grants[g].name, wanted[i]);
			EXPECT(got == want, "%u granted, not %u", got, want);
			EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
		}
	}
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	srq = NULL;
}

/* --- messages -------------------------------------------------------------------- */

/* The message in pieces: short ones that end within a word, so that sizes end in each of them. */
static int cut(struct area *areas, struct ibv_sge *sge, uint32_t bytes, int pieces)
{
	uint64_t offset = AT;

	for (int i = 0; i < pieces; i++) {
		uint32_t take = i == pieces - 1 ? bytes : bytes / 3;

		areas[i] = (struct area){offset, take};
		sge[i] = side_sge(&a, KEY_FULL, offset, take);
		offset += take + 2 * AREA_GUARD;
		bytes -= take;
	}
	return pieces;
}

static void post(struct ibv_sge *sge, int count)
{
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = sge, .num_sge = count}, *bad;

	EXPECT((srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(n->qp[0], &wr, &bad)) == 0,
	       "ibv_post_recv");
}

static void expect_areas(const struct area *areas, int count, uint64_t bytes, const char *when)
{
	int64_t wrong = side_check_areas(&a, areas, count, seed, bytes);

	EXPECT(wrong == -1, "%s: the byte at %ld is wrong", when, wrong);
}

/* One message: the memory is as it was until the completion is polled, if it waits for that. */
static void message(struct side *peer, uint32_t bytes, enum ibv_wr_opcode opcode, int pieces,
		    bool waits)
{
	bool ud = n->qp[0]->qp_type == IBV_QPT_UD;
	struct area areas[3];
	struct ibv_sge sge[4];
	struct ibv_wc wc;
	uint64_t status;
	int count = cut(areas, sge, bytes, pieces);

	seed++;
	side_clear_areas(&a, areas, count);
	if (ud) { /* the header has an element of its own */
		count = cut(areas, sge + 1, bytes, 1);
		side_clear_areas(&a, areas, count);
		sge[0] = side_sge(&a, KEY_FULL, AT + 0x8000, GRH);
	}
	post(sge, count + ud);
	status = at(peer, (struct side_job){.arg = {JOB_SEND, bytes, opcode, seed}});
	EXPECT(status == IBV_WC_SUCCESS, "the sender's status: '%s'",
	       ibv_wc_status_str((enum ibv_wc_status)status));
	if (waits)
		expect_areas(areas, count, 0, "before it is polled");
	else if (peer->node)
		expect_areas(areas, count, bytes, "at once");
	if (!EXPECT(side_poll(&a, 1, 1, PATIENCE, &wc) == 1, "nothing received"))
		return;
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == 9 &&
		       wc.byte_len == bytes + (ud ? GRH : 0),
	       "'%s', %u bytes", ibv_wc_status_str(wc.status), wc.byte_len);
	EXPECT(opcode == IBV_WR_SEND || wc.imm_data == 7, "immediate data");
	expect_areas(areas, count, bytes, "after it is polled");
}

static const uint32_t activations[] = {0, 1, 64, 200, LIMIT};
static const uint32_t sizes[] = {0,   1,   7,	8,   24,  25,  63,   64,   65,	 160, 161,
				 199, 200, 201, 512, 984, 985, 1023, 1024, 1025, 3000};

static const struct {
	const char *name;
	enum ibv_qp_type type;
	bool shared;
} services[] = {
	{"RC", IBV_QPT_RC, false},
	{"RC on a shared queue", IBV_QPT_RC, true},
	{"UC", IBV_QPT_UC, false},
	{"UD", IBV_QPT_UD, false},
	{"UD on a shared queue", IBV_QPT_UD, true},
};

static void message_rows(struct side *peer, const char *who)
{
	for (size_t s = 0; s < COUNT_OF(services); s++) {
		for (size_t i = 0; i < COUNT_OF(activations); i++) {
			uint32_t got = begin(peer, services[s].type, activations[i],
					     services[s].shared, i & 1);
			uint32_t header = services[s].type == IBV_QPT_UD ? GRH : 0;

			for (size_t k = 0; k < COUNT_OF(sizes); k++) {
				bool waits = sizes[k] + header <= got;
				enum ibv_wr_opcode opcode =
					k & 1 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;

				row("%s, by %s, %u granted, %u bytes", services[s].name, who, got,
				    sizes[k]);
				message(peer, sizes[k], opcode, 1, waits);
				row("%s, by %s, %u granted, %u bytes in pieces", services[s].name,
				    who, got, sizes[k]);
				message(peer, sizes[k], opcode, 3, waits);
			}
			end(peer);
		}
	}
}

/* --- answers to READs and atomics, behind a SEND that waits ----------------------- */

static void post_request(enum ibv_wr_opcode opcode, uint32_t bytes, struct ibv_sge sge,
			 unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = opcode,
				 .sg_list = &sge,
				 .num_sge = bytes > 0,
				 .opcode = opcode,
				 .send_flags = flags};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE) {
		wr.wr.rdma.remote_addr = b.info.base[KEY_FULL] + FROM;
		wr.wr.rdma.rkey = b.info.key[KEY_FULL];
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.atomic.remote_addr = b.info.base[KEY_FULL] + FROM;
		wr.wr.atomic.rkey = b.info.key[KEY_FULL];
		wr.wr.atomic.compare_add = 1;
	}
	EXPECT(ibv_post_send(n->qp[0], &wr, &bad) == 0, "ibv_post_send");
}

#define BLOCK post_request(IBV_WR_SEND, 0, (struct ibv_sge){0}, IBV_SEND_SIGNALED)

static void unblock(void)
{
	struct ibv_wc wc;

	side_recv_one(&b, 0, 3, AT, 4096);
	EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "the SEND is not received");
}

static void expect_completion(enum ibv_wr_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1, "no completion of %d", opcode))
		EXPECT(wc.wr_id == opcode && wc.status == status, "'%s' of %lu, not of %d",
		       ibv_wc_status_str(wc.status), wc.wr_id, opcode);
}

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} askers[] = {
	{"RDMA READ", IBV_WR_RDMA_READ},
	{"FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
	{"CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP},
};

static void answer(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct area area = {AT, bytes};

	seed++;
	side_clear_areas(&a, &area, 1);
	side_fill(&b, FROM, bytes, seed, 0);
	BLOCK;
	post_request(opcode, bytes, side_sge(&a, KEY_FULL, AT, bytes), IBV_SEND_SIGNALED);
	unblock();
	expect_completion(IBV_WR_SEND, IBV_WC_SUCCESS);
	expect_completion(opcode, IBV_WC_SUCCESS);
	expect_areas(&area, 1, bytes, "after it is polled");
}

static void answer_rows(void)
{
	static const uint32_t bytes[] = {1, 8, 31, 32, 33, 63, 64, 65, 1000};

	for (size_t i = 0; i < COUNT_OF(activations); i++) {
		for (int sig_all = 0; sig_all < 2; sig_all++) {
			uint32_t got = begin(&b, IBV_QPT_RC, activations[i], false, sig_all);

			for (size_t k = 0; k < COUNT_OF(askers); k++) {
				for (size_t s = 0; s < COUNT_OF(bytes); s++) {
					if (askers[k].opcode != IBV_WR_RDMA_READ && bytes[s] != 8)
						continue;
					row("%s, %s, %u granted, %u bytes", askers[k].name,
					    sig_all ? "all signalled" : "not all signalled", got,
					    bytes[s]);
					answer(askers[k].opcode, bytes[s]);
				}
			}
			end(&b);
		}
	}
}

/* --- a fenced request sends on what an RDMA READ before it brought; here and there --- */

static void sent_on(uint64_t wanted)
{
	struct ibv_wc wc;
	int64_t wrong;

	EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.byte_len == 48, "it is not sent on");
	wrong = side_check(&b, AT, 48, wanted, 0);
	EXPECT(wrong == -1, "byte %ld that was sent on is not the one that was read", wrong);
}

static void fence_rows(void)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, 48);

	begin(&b, IBV_QPT_RC, IN_CQE, false, true);
	for (int later = 0; later < 2; later++) {
		row("a fence behind an answer; posted %s", later ? "when that may go" : "with it");
		seed++;
		side_fill(&a, AT, 48, 1, 0);
		side_fill(&b, FROM, 48, seed, 0);
		BLOCK;
		post_request(IBV_WR_RDMA_READ, 48, sge, IBV_SEND_SIGNALED);
		if (!later)
			post_request(IBV_WR_SEND, 48, sge, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		unblock();
		if (later)
			post_request(IBV_WR_SEND, 48, sge, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		side_recv_one(&b, 0, 4, AT, 4096);
		sent_on(seed);
		EXPECT(side_check(&a, AT, 48, seed, 0) == -1, "the answer is not there");
		side_fill(&a, AT, 48, 2, 0); /* it has been placed, and is not again */
		expect_completion(IBV_WR_SEND, IBV_WC_SUCCESS);
		expect_completion(IBV_WR_RDMA_READ, IBV_WC_SUCCESS);
		expect_completion(IBV_WR_SEND, IBV_WC_SUCCESS);
		EXPECT(side_check(&a, AT, 48, 2, 0) == -1, "the answer is placed twice");
	}
	row("a fence behind an answer that cannot be placed");
	BLOCK;
	post_request(IBV_WR_RDMA_READ, 48, side_sge(&a, KEY_GONE, 0, 48), IBV_SEND_SIGNALED);
	unblock();
	post_request(IBV_WR_SEND, 48, sge, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	expect_completion(IBV_WR_SEND, IBV_WC_SUCCESS);
	expect_completion(IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR);
	expect_completion(IBV_WR_SEND, IBV_WC_WR_FLUSH_ERR);
	end(&b);
}

/* --- addresses that are none: found by the sender, or by the poller -------------- */

static const struct {
	const char *name;
	enum key key;
	uint64_t offset;
} wrong[] = {
	{"memory that is not there", KEY_GONE, 0},
	{"a region that is gone", KEY_DEAD, AT},
	{"a key that never was", KEY_WRONG, AT},
	{"another protection domain", KEY_OTHER_PD, AT},
	{"a region that may not be written", KEY_READ_ONLY, AT},
	{"beyond the region", KEY_FULL, NODE_ARENA - 4},
};

static void expect_failed(enum ibv_wc_status status, bool found_by_poller)
{
	enum ibv_wc_status want = found_by_poller ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR;
	struct ibv_wc wc;

	EXPECT(status == want, "the sender's status: '%s'", ibv_wc_status_str(status));
	EXPECT(side_poll(&a, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_LOC_PROT_ERR, "'%s'",
	       ibv_wc_status_str(wc.status));
	EXPECT(node_state(n, 0) == IBV_QPS_ERR, "state %d", node_state(n, 0));
}

static void wrong_rows(struct side *peer, const char *who)
{
	static const uint32_t bytes[] = {8, 64, 65, 1000};

	for (size_t w = 0; w < COUNT_OF(wrong); w++) {
		for (size_t s = 0; s < 2 * COUNT_OF(bytes); s++) {
			uint32_t length = bytes[s / 2];
			bool active = s & 1;
			uint64_t status;
			struct ibv_sge sge = side_sge(&a, wrong[w].key, wrong[w].offset, length);

			row("%s, by %s, %u bytes, %s", wrong[w].name, who, length,
			    active ? "active" : "not active");
			begin(peer, IBV_QPT_RC, active ? LIMIT : 0, false, false);
			post(&sge, 1);
			status = at(peer,
				    (struct side_job){.arg = {JOB_SEND, length, IBV_WR_SEND, 1}});
			/* Staged bytes are placed by the poller, too; only the key is checked
			 * before. */
			expect_failed((enum ibv_wc_status)status,
				      active || (wrong[w].key == KEY_GONE && !peer->node));
			end(peer);
		}
	}
	for (size_t w = 0; w < COUNT_OF(wrong) && !peer->node; w++) {
		row("%s for an answer, active", wrong[w].name);
		begin(peer, IBV_QPT_RC, LIMIT, false, true);
		BLOCK;
		post_request(IBV_WR_RDMA_READ, 8, side_sge(&a, wrong[w].key, wrong[w].offset, 8),
			     IBV_SEND_SIGNALED);
		unblock();
		expect_completion(IBV_WR_SEND, IBV_WC_SUCCESS);
		expect_completion(IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR);
		EXPECT(node_state(n, 0) == IBV_QPS_ERR, "state %d", node_state(n, 0));
		end(peer);
	}
	row("too long for the receive request, by %s, active", who);
	begin(peer, IBV_QPT_RC, LIMIT, false, false);
	post(&(struct ibv_sge){side_sge(&a, KEY_FULL, AT, 15).addr, 15, a.info.lkey[KEY_FULL]}, 1);
	EXPECT(at(peer, (struct side_job){.arg = {JOB_SEND, 16, IBV_WR_SEND, 1}}) ==
		       IBV_WC_REM_INV_REQ_ERR,
	       "status");
	end(peer);
}

/* --- several threads poll, and post again; the sender is killed in the middle of it --- */

#define MESSAGES 20000u
#define POLLERS	 3u
#define STRIDE	 4096u

static _Atomic uint64_t received, damaged, found_empty;
static _Atomic bool over;

static void post_slot(uint64_t slot)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT + slot * STRIDE, STRIDE);
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	(void)ibv_post_recv(n->qp[0], &wr, &bad); /* refused when the queue pair has failed */
}

static bool is_right(const struct ibv_wc *wc)
{
	return wc->byte_len == flood_bytes(wc->imm_data) &&
	       pattern_check(n->arena + AT + wc->wr_id * STRIDE, wc->byte_len, SEED + wc->imm_data,
			     0) == -1;
}

static void *poller_main(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	while (!atomic_load(&over)) {
		if (ibv_poll_cq(n->cq[1], 1, &wc) != 1) {
			atomic_fetch_add(&found_empty, 1);
			continue;
		}
		if (wc.status == IBV_WC_SUCCESS && !is_right(&wc))
			atomic_fetch_add(&damaged, 1);
		atomic_fetch_add(&received, wc.status == IBV_WC_SUCCESS);
		post_slot(wc.wr_id);
	}
	return NULL;
}

static void start_flood(struct side *peer, pthread_t *thread)
{
	atomic_store(&received, 0);
	atomic_store(&damaged, 0);
	atomic_store(&over, false);
	EXPECT(begin(peer, IBV_QPT_RC, LIMIT, false, false) == LIMIT, "granted");
	for (uint64_t i = 0; i < ROOM; i++)
		post_slot(i);
	for (unsigned int i = 0; i < POLLERS; i++)
		pthread_create(&thread[i], NULL, poller_main, NULL);
	side_begin(peer, &(struct side_job){.arg = {JOB_FLOOD, MESSAGES}});
}

static void stop_pollers(pthread_t *thread)
{
	atomic_store(&over, true);
	for (unsigned int i = 0; i < POLLERS; i++)
		pthread_join(thread[i], NULL);
}

/* Nothing more comes: one of the pollers has found nothing twice since. */
static void until_all_is_polled(void)
{
	uint64_t before = atomic_load(&found_empty);

	EXPECT(WAIT_UNTIL(atomic_load(&found_empty) > before + POLLERS, 60000), "no end");
}

static void threads_row(void)
{
	pthread_t thread[POLLERS];

	row("%u messages to %u pollers", MESSAGES, POLLERS);
	start_flood(&b, thread);
	EXPECT(side_end(&b) == MESSAGES, "not all are sent");
	(void)WAIT_UNTIL(atomic_load(&received) >= MESSAGES, 60000);
	stop_pollers(thread);
	EXPECT(received == MESSAGES && damaged == 0, "%lu received, %lu of them damaged", received,
	       damaged);
	end(&b);
}

static void killed_row(void)
{
	pthread_t thread[POLLERS];

	row("the sender is killed");
	start_flood(&b, thread);
	EXPECT(WAIT_UNTIL(atomic_load(&received) >= 100, 60000), "not even 100 are received");
	side_kill(&b);
	until_all_is_polled();
	stop_pollers(thread);
	EXPECT(damaged == 0, "%lu of %lu are damaged", damaged, received);
	EXPECT(node_destroy_qp(n, 0) == 0, "ibv_destroy_qp");
}

int main(int argc, char **argv)
{
	time_limit(200);
	side_work = work;
	side_agent_main(argc, argv);
	sandbox_enter();
	setenv("ANYVERBS_DEVICES", "any0:mtu=4096", 1); /* for the longest datagrams */
	side_open(&a, NULL);
	n = a.node;
	side_open(&c, NULL);
	side_start(&b);
	grant_rows();
	message_rows(&b, "another process");
	message_rows(&c, "this process");
	answer_rows();
	fence_rows();
	wrong_rows(&b, "another process");
	wrong_rows(&c, "this process");
	threads_row();
	killed_row();
	side_stop(&c);
	side_stop(&a);
	return sandbox_end();
}
