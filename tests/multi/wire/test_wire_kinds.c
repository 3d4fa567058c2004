/* SPDX-License-Identifier: MIT */
/*
 * Kinds of addresses between two hosts: IPv6, where packets are dropped, doubled, reordered and
 * damaged; and groups, whose packets no fault strikes. SEED in the environment: other packets are
 * struck.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/to_rts.h"
#include "lib/two_hosts.h"

#define PATIENCE  60000u /* ms */
#define MESSAGES  40u
#define SLOT	  0x4000u
#define SOURCES	  0x000000u
#define RECEIVED  0x100000u
#define WRITTEN	  0x200000u
#define READ_BACK 0x300000u
#define DEPTH	  128u
#define QKEY	  0x111u
#define GRH	  40u
#define RIGHTS	  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

enum kind { PLAIN, GROUP };
enum job { MAKE, KEY, ADDRESS, CONNECT, TAKE, RUN, DESTROY };

/* Of the process that does a job. */
static struct {
	enum kind kind;
	bool sends;
	int gid_row;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
} me;

static const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};

/* --- what both ends have --------------------------------------------------------- */

/* Some of one packet, some of several, one of none. */
static uint32_t bytes_of(uint32_t message)
{
	return me.kind == GROUP ? 1000 + message : message * 997 % 9000;
}

static uint64_t seed_of(uint32_t message)
{
	return 7000 + message;
}

/* @first: the first byte of the address that is wanted: 0 for a mapped one of IPv4 */
static int find_row(struct ibv_context *ctx, uint8_t first, union ibv_gid *gid)
{
	for (int row = 0; row < 16; row++)
		if (ibv_query_gid(ctx, 1, row, gid) == 0 && gid->raw[0] == first && gid->raw[15])
			return row;
	DIE("no address");
}

static void make_qp(struct node *n)
{
	struct ibv_qp_init_attr init = {
		.qp_type = me.kind == GROUP ? IBV_QPT_UD : IBV_QPT_RC,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.sq_sig_all = 1,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
	};

	me.qp = ibv_create_qp(n->pd, &init);
	NEED(me.qp);
}

/* Args: kind, whether it sends, the first byte of its address. Return: number of the queue pair */
static uint64_t make(struct node *n, const struct side_job *job)
{
	union ibv_gid gid;

	me.kind = (enum kind)job->arg[1];
	me.sends = job->arg[2];
	me.gid_row = find_row(n->ctx, (uint8_t)job->arg[3], &gid);
	me.mr = ibv_reg_mr(n->pd, n->arena, NODE_ARENA, (int)RIGHTS);
	NEED(me.mr);
	make_qp(n);
	return me.qp->qp_num;
}

/* Args: the peer's number; the halves of its address. */
static uint64_t connect_to(const struct side_job *job)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	memcpy(gid.raw, &job->arg[2], sizeof(gid.raw));
	attr = connect_attr((uint32_t)job->arg[1], &gid);
	attr.ah_attr.grh.sgid_index = (uint8_t)me.gid_row;
	attr.ah_attr.grh.hop_limit = 64;
	attr.path_mtu = IBV_MTU_1024;
	attr.timeout = 16; /* 268 ms, and 2 s with all retries: hosts may be busy */
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.min_rnr_timer = 1;
	attr.qkey = QKEY;
	attr.qp_access_flags = RIGHTS & ~IBV_ACCESS_LOCAL_WRITE;
	NEED(connect_qp(me.qp, attr) == 0);
	if (me.kind == GROUP && me.sends) {
		memcpy(attr.ah_attr.grh.dgid.raw, group.raw, sizeof(group.raw));
		NEED(me.ah = ibv_create_ah(me.mr->pd, &attr.ah_attr));
	} else if (me.kind == GROUP) {
		NEED(ibv_attach_mcast(me.qp, &group, 0) == 0);
	}
	return 0;
}

static uint64_t destroy(void)
{
	int err = 0;

	if (me.ah)
		err |= ibv_destroy_ah(me.ah);
	if (me.kind == GROUP && !me.sends)
		err |= ibv_detach_mcast(me.qp, &group, 0);
	err |= ibv_destroy_qp(me.qp);
	return (uint64_t)(err | ibv_dereg_mr(me.mr));
}

/* --- the receiving end ----------------------------------------------------------- */

static void post_receives(struct node *n)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)n->arena + RECEIVED + (uint64_t)i * SLOT, SLOT,
				      me.mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		NEED(ibv_post_recv(me.qp, &wr, &bad) == 0);
	}
}

/* Return: how many came right */
static uint64_t take(struct node *n)
{
	uint32_t header = me.kind == GROUP ? GRH : 0;
	struct ibv_wc wc[MESSAGES];
	uint64_t right = 0;
	int count;

	post_receives(n);
	side_note();
	count = node_poll(n, 1, MESSAGES, PATIENCE, wc);
	for (int i = 0; i < count; i++)
		right += wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uint64_t)i &&
			 wc[i].byte_len == header + bytes_of((uint32_t)i) &&
			 pattern_check(n->arena + RECEIVED + (uint64_t)i * SLOT + header,
				       bytes_of((uint32_t)i), seed_of((uint32_t)i), 0) == -1;
	return right;
}

/* --- the sending end ------------------------------------------------------------- */

static struct ibv_send_wr request(struct node *n, uint32_t message, enum ibv_wr_opcode op,
				  struct ibv_sge *sge, const struct side_job *job)
{
	uint64_t slot = (uint64_t)message * SLOT;

	*sge = (struct ibv_sge){(uintptr_t)n->arena + (op == READ ? READ_BACK : SOURCES) + slot,
				bytes_of(message), me.mr->lkey};
	return (struct ibv_send_wr){
		.wr_id = message,
		.sg_list = sge,
		.num_sge = sge->length ? 1 : 0,
		.opcode = op,
		.wr.rdma = {job->arg[1] + WRITTEN + slot, (uint32_t)job->arg[2]},
	};
}

static int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(me.qp, wr, &bad);
}

/* A message is sent, written and read back. Return: how many were right */
static uint64_t send_all(struct node *n, const struct side_job *job)
{
	static const enum ibv_wr_opcode ops[] = {SEND, WRITE, READ};
	static struct ibv_wc wc[MESSAGES * COUNT_OF(ops)];
	uint64_t right = 0;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		pattern_fill(n->arena + SOURCES + (uint64_t)i * SLOT, bytes_of(i), seed_of(i), 0);
		for (size_t k = 0; k < COUNT_OF(ops); k++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = request(n, i, ops[k], &sge, job);

			NEED(post(&wr) == 0);
		}
	}
	NEED(node_poll(n, 0, (int)COUNT_OF(wc), PATIENCE, wc) == (int)COUNT_OF(wc));
	for (size_t i = 0; i < COUNT_OF(wc); i++)
		NEED(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == i / COUNT_OF(ops));
	for (uint32_t i = 0; i < MESSAGES; i++)
		right += pattern_check(n->arena + READ_BACK + (uint64_t)i * SLOT, bytes_of(i),
				       seed_of(i), 0) == -1;
	return right;
}

static uint64_t send_to_group(struct node *n)
{
	struct ibv_wc wc[MESSAGES];
	uint64_t right = 0;
	int count;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)n->arena + SOURCES + (uint64_t)i * SLOT,
				      bytes_of(i), me.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .wr.ud = {me.ah, 0xffffff, QKEY}};

		pattern_fill(n->arena + SOURCES + (uint64_t)i * SLOT, bytes_of(i), seed_of(i), 0);
		NEED(post(&wr) == 0);
	}
	count = node_poll(n, 0, MESSAGES, PATIENCE, wc);
	for (int i = 0; i < count; i++)
		right += wc[i].status == IBV_WC_SUCCESS;
	return right;
}

/* Args: the peer's arena, and its key. */
static uint64_t run(struct node *n, const struct side_job *job)
{
	return me.kind == GROUP ? send_to_group(n) : send_all(n, job);
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case MAKE:
		return make(n, job);
	case KEY:
		return me.mr->rkey;
	case ADDRESS:
		return (uintptr_t)n->arena;
	case CONNECT:
		return connect_to(job);
	case TAKE:
		return take(n);
	case RUN:
		return run(n, job);
	case DESTROY:
		return destroy();
	}
	return UINT64_MAX;
}

/* --- rows ------------------------------------------------------------------------ */

#define V4 0x00
#define V6 0xfd

static const char *const rules[] = {
	"",
	"drop 2%; duplicate 2 3%; reorder 3 5%; corrupt 1%",
};

static const struct {
	const char *name;
	enum kind kind;
	uint8_t address;
	size_t rules; /* how many of them */
} rows[] = {
	{"IPv6", PLAIN, V6, COUNT_OF(rules)},
	{"a group", GROUP, V4, 1},
};

static struct side a, b;

static uint64_t ask(struct side *s, struct side_job job)
{
	side_begin(s, &job);
	return side_end(s);
}

static void connect_end(struct side *s, uint64_t qpn, uint8_t address, uint8_t host)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, host}};
	struct side_job job = {{CONNECT, qpn}};

	if (address == V6)
		gid = (union ibv_gid){.raw = {V6, [15] = host}};
	memcpy(&job.arg[2], gid.raw, sizeof(gid.raw));
	(void)ask(s, job);
}

static void transfer(void)
{
	uint64_t address = ask(&b, (struct side_job){{ADDRESS}}), sent, came;
	uint64_t key = ask(&b, (struct side_job){{KEY}});

	side_begin(&b, &(struct side_job){{TAKE}});
	side_await(&b);
	sent = ask(&a, (struct side_job){{RUN, address, key}});
	came = side_end(&b);
	EXPECT(sent == MESSAGES, "%lu of %u requests", sent, MESSAGES);
	EXPECT(came == MESSAGES, "%lu of %u messages", came, MESSAGES);
}

static void one(size_t i, const char *faults)
{
	uint64_t qpn_a, qpn_b;

	row("%s: %s", rows[i].name, faults);
	two_hosts_start(&a, 0, faults);
	two_hosts_start(&b, 1, faults);
	qpn_a = ask(&a, (struct side_job){{MAKE, rows[i].kind, true, rows[i].address}});
	qpn_b = ask(&b, (struct side_job){{MAKE, rows[i].kind, false, rows[i].address}});
	connect_end(&a, qpn_b, rows[i].address, 2);
	connect_end(&b, qpn_a, rows[i].address, 1);
	transfer();
	EXPECT(ask(&a, (struct side_job){{DESTROY}}) == 0, "destroyed");
	EXPECT(ask(&b, (struct side_job){{DESTROY}}) == 0, "destroyed");
	side_stop(&b);
	side_stop(&a);
}

/* Return: false: this kernel has no IPv6 */
static bool add_v6(void)
{
	bool there = system("ip addr add fd00::1/64 dev v0 nodad") == 0;

	two_hosts_be(1);
	there = there && system("ip addr add fd00::2/64 dev v1 nodad") == 0;
	two_hosts_be(0);
	return there;
}

int main(int argc, char **argv)
{
	bool v6;

	side_work = work;
	two_hosts_open(argc, argv);
	v6 = add_v6();
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (size_t k = 0; k < rows[i].rules; k++)
			if (rows[i].address != V6 || v6)
				one(i, rules[k]);
	if (!v6)
		printf("not tried: IPv6, which this kernel does not have\n");
	return summary();
}
