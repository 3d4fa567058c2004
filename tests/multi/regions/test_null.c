/* SPDX-License-Identifier: MIT */
/*
 * ibv_alloc_null_mr(): what a null region gives and swallows in every place of the scatter/gather
 * lists of every operation, and what is refused of it. The side with the null regions is in this
 * process; the other one is another process, another context of this one, or the same context.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define MINE_AT	  0x100000u /* offset in the arena of the null side's pieces, */
#define STEP	  0x40000u  /* their distance */
#define THEIRS_AT 0x200000u /* and of the other side's message */
#define GUARD	  64u
#define SEED	  77u

static struct side a, b;
static struct node *n;
static struct ibv_mr *null;
static const char *mode;

/* --- lists: 'n' is an element in the null region, 'm' one in memory, '0' an empty null one --- */

struct layout {
	const char *shape;
	uint32_t bytes; /* of each element */
};

static uint64_t piece_at(size_t i)
{
	return MINE_AT + i * STEP;
}

/* Where null elements claim to be: anywhere is right; some are places where stray bytes would be
 * seen. */
static uint64_t null_address(size_t i)
{
	const uint64_t at[] = {0, UINT64_MAX, (uintptr_t)n->arena + piece_at(i), UINT64_MAX - 100,
			       12345};

	return at[i % COUNT_OF(at)];
}

static int fill_list(const struct layout *l, struct ibv_sge *sge)
{
	int count = (int)strlen(l->shape);

	for (int i = 0; i < count; i++) {
		sge[i] = side_sge(&a, KEY_FULL, piece_at((size_t)i), l->bytes);
		if (l->shape[i] == 'm')
			continue;
		sge[i].addr = null_address((size_t)i);
		sge[i].lkey = null->lkey;
		if (l->shape[i] == '0')
			sge[i].length = 0;
	}
	return count;
}

static uint32_t list_bytes(const struct layout *l)
{
	uint32_t sum = 0;

	for (const char *c = l->shape; *c; c++)
		sum += *c == '0' ? 0 : l->bytes;
	return sum;
}

/* Every piece of the null side's memory, also where null elements point to, with guards. */
static void fill_pieces(uint64_t seed)
{
	for (size_t i = 0; i < NODE_SGE / 2; i++)
		side_fill(&a, piece_at(i) - GUARD, 0x10000 + 2 * GUARD, seed + i, 0);
}

static void expect_piece(const struct layout *l, size_t i, uint64_t seed, uint64_t message_seed,
			 uint64_t at)
{
	uint64_t bytes = l->shape[i] == 'm' ? l->bytes : 0;

	EXPECT(side_check(&a, piece_at(i) - GUARD, GUARD, seed + i, 0) == -1, "before element %zu",
	       i);
	EXPECT(side_check(&a, piece_at(i), bytes, message_seed, at) == -1, "element %zu", i);
	EXPECT(side_check(&a, piece_at(i) + bytes, 0x10000 + GUARD - bytes, seed + i,
			  GUARD + bytes) == -1,
	       "behind element %zu", i);
}

/* --- bytes of the other side ----------------------------------------------------- */

static uint64_t peek_byte(struct side *s, uint64_t offset)
{
	return side_peek(s, offset & ~7ul) >> (offset & 7) * 8 & 0xff;
}

/* All of a small range, the edges and some of a large one. */
static bool zeros(struct side *s, uint64_t offset, uint64_t bytes)
{
	uint64_t step = bytes > 4096 ? 509 : 8;

	for (uint64_t i = 0; i < bytes; i += i < 64 || i + 64 >= bytes ? 1 : step)
		if (peek_byte(s, offset + i))
			return false;
	return bytes == 0 || peek_byte(s, offset + bytes - 1) == 0;
}

static void expect_theirs(const struct layout *l, uint64_t at)
{
	for (size_t i = 0; l->shape[i]; i++) {
		if (l->shape[i] == 'n')
			EXPECT(zeros(&b, at, l->bytes), "element %zu did not give zeros", i);
		else if (l->shape[i] == 'm')
			EXPECT(side_check(&b, at, l->bytes, i, GUARD) == -1,
			       "element %zu gave wrong bytes", i);
		at += l->shape[i] == '0' ? 0 : l->bytes;
	}
	EXPECT(side_check(&b, at, GUARD, SEED, at - THEIRS_AT) == -1, "bytes behind the message");
}

/* --- one request ----------------------------------------------------------------- */

static void complete(struct side *s, int cq, uint32_t bytes)
{
	struct ibv_wc wc;

	if (!EXPECT(side_poll(s, cq, 1, PROBE_PATIENCE, &wc) == 1, "no completion"))
		return;
	EXPECT(wc.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc.status));
	EXPECT(cq == 0 || wc.byte_len == bytes, "byte_len %u", wc.byte_len);
}

static struct node_send from_list(const struct layout *l, enum ibv_wr_opcode op)
{
	struct node_send s = {
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.imm = htonl(5),
		.remote_addr = b.info.base[KEY_FULL] + THEIRS_AT,
		.rkey = b.info.key[KEY_FULL],
	};

	s.num_sge = fill_list(l, s.sge);
	return s;
}

/* The null region as a source: zeros arrive in its places. */
static void source_row(const struct layout *l, enum ibv_wr_opcode op)
{
	struct node_send s = from_list(l, op);
	bool receives = op != IBV_WR_RDMA_WRITE;

	row("[%s] %s of a list '%s' of %u bytes each", mode, probe_name(op), l->shape, l->bytes);
	fill_pieces(0);
	side_fill(&b, THEIRS_AT, list_bytes(l) + GUARD, SEED, 0);
	if (receives)
		side_recv_one(&b, 0, 1, THEIRS_AT, list_bytes(l) + GUARD);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "ibv_post_send");
	complete(&a, 0, 0);
	if (receives)
		complete(&b, 1, list_bytes(l));
	expect_theirs(l, THEIRS_AT);
}

/* As a destination: its share of the message vanishes, and the rest goes where it belongs. */
static void expect_mine(const struct layout *l)
{
	uint64_t at = 0;

	for (size_t i = 0; l->shape[i]; i++) {
		expect_piece(l, i, 1000, SEED, at);
		at += l->shape[i] == '0' ? 0 : l->bytes;
	}
}

static void read_row(const struct layout *l)
{
	struct node_send s = from_list(l, IBV_WR_RDMA_READ);

	row("[%s] READ into a list '%s' of %u bytes each", mode, l->shape, l->bytes);
	fill_pieces(1000);
	side_fill(&b, THEIRS_AT, list_bytes(l), SEED, 0);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "ibv_post_send");
	complete(&a, 0, 0);
	expect_mine(l);
}

static void receive_row(const struct layout *l)
{
	struct node_recv r = {.wr_id = 3};
	struct node_send s = side_message(side_sge(&b, KEY_FULL, THEIRS_AT, list_bytes(l)));

	row("[%s] SEND into a receive of a list '%s' of %u bytes each", mode, l->shape, l->bytes);
	fill_pieces(1000);
	side_fill(&b, THEIRS_AT, list_bytes(l), SEED, 0);
	r.num_sge = fill_list(l, r.sge);
	EXPECT(side_post_recv(&a, 0, &r, 1).ret == 0, "ibv_post_recv");
	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "ibv_post_send");
	complete(&b, 0, 0);
	complete(&a, 1, list_bytes(l));
	expect_mine(l);
}

static void list_rows(void)
{
	static const char *const shapes[] = {"n",    "nm", "mn",  "mnm", "nmn",
					     "mnnm", "0m", "m0n", "nnn", "mnmnmnmn"};
	static const uint32_t sizes[] = {1, 8, 61, 1024, 5000, 40000};

	for (size_t i = 0; i < COUNT_OF(shapes); i++) {
		for (size_t k = 0; k < COUNT_OF(sizes); k++) {
			struct layout l = {shapes[i], sizes[k]};

			source_row(&l, IBV_WR_SEND);
			source_row(&l, IBV_WR_SEND_WITH_IMM);
			source_row(&l, IBV_WR_RDMA_WRITE);
			source_row(&l, IBV_WR_RDMA_WRITE_WITH_IMM);
			read_row(&l);
			receive_row(&l);
		}
	}
}

/* An atomic whose result nobody wants still changes its word. */
static void atomic_row(enum ibv_wr_opcode op)
{
	static const struct layout one = {"n", 8}, any = {"nnn", 8};
	struct node_send s = from_list(&one, op);

	row("[%s] %s with its result in the null region", mode, probe_name(op));
	fill_pieces(1000);
	side_poke(&b, THEIRS_AT, 41);
	s.compare_add = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : 41;
	s.swap = 42;
	for (size_t i = 0; i < 3; i++) {
		s.sge[0].addr = null_address(i);
		EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "ibv_post_send");
		complete(&a, 0, 0);
	}
	EXPECT(side_peek(&b, THEIRS_AT) == (op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 44 : 42),
	       "value %lu", side_peek(&b, THEIRS_AT));
	expect_piece(&any, 2, 1000, SEED, 0);
}

/* A message too large for anything but the null region. */
static void large_rows(void)
{
	struct node_send s = side_rdma_to(
		IBV_WR_RDMA_READ,
		(struct ibv_sge){.addr = 7, .length = NODE_ARENA, .lkey = null->lkey}, &b, 0);
	struct node_recv r = {.wr_id = 9, .num_sge = 1};
	struct node_send big = side_message(side_sge(&b, KEY_FULL, 0, NODE_ARENA));

	row("[%s] READ of %lu bytes into the null region", mode, NODE_ARENA);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "ibv_post_send");
	complete(&a, 0, 0);
	row("[%s] SEND of %lu bytes into the null region, said to be as long as an element can be",
	    mode, NODE_ARENA);
	r.sge[0] = (struct ibv_sge){.addr = UINT64_MAX, .length = UINT32_MAX, .lkey = null->lkey};
	EXPECT(side_post_recv(&a, 0, &r, 1).ret == 0, "ibv_post_recv");
	EXPECT(side_post_send(&b, 0, &big, 1).ret == 0, "ibv_post_send");
	complete(&b, 0, 0);
	complete(&a, 1, NODE_ARENA);
}

/* A null region does not shorten a message: the rules of length are the same. */
static void too_long_row(void)
{
	struct node_send s = side_message(side_sge(&b, KEY_FULL, THEIRS_AT, 65));
	struct node_recv r = {
		.wr_id = 9, .num_sge = 1, .sge = {{.length = 64, .lkey = null->lkey}}};
	struct ibv_wc wc, sent;

	row("[%s] a message longer than the receive in the null region", mode);
	EXPECT(side_post_recv(&a, 0, &r, 1).ret == 0, "ibv_post_recv");
	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1 &&
		       sent.status == IBV_WC_REM_INV_REQ_ERR,
	       "sender");
	EXPECT(side_poll(&a, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_LOC_LEN_ERR,
	       "receiver");
	probe_reconnect(&b, &a, 0);
}

/* --- what is refused ------------------------------------------------------------- */

static void remote_rows(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};
	const struct {
		const char *name;
		uint32_t rkey;
	} keys[] = {{"rkey", null->rkey}, {"lkey", null->lkey}};

	for (size_t k = 0; k < COUNT_OF(keys); k++) {
		for (size_t i = 0; i < COUNT_OF(ops); i++) {
			row("[%s] %s by another side through its %s is refused", mode,
			    probe_name(ops[i]), keys[k].name);
			EXPECT_PROBE(&b, &a, 0, ops[i], 0, keys[k].rkey, 8, IBV_WC_REM_ACCESS_ERR);
			EXPECT_PROBE(&b, &a, 0, ops[i], (uintptr_t)n->arena, keys[k].rkey, 8,
				     IBV_WC_REM_ACCESS_ERR);
		}
	}
}

static enum ibv_wc_status use(uint32_t lkey, enum ibv_wr_opcode op)
{
	struct node_send s =
		side_rdma_to(op, (struct ibv_sge){.length = 64, .lkey = lkey}, &b, THEIRS_AT);

	return probe_request(&a, &b, 0, &s);
}

static void local_rows(void)
{
	struct ibv_mr *other = ibv_alloc_null_mr(n->other_pd), *dead = ibv_alloc_null_mr(n->pd);
	uint32_t key = dead ? dead->lkey : 0;

	row("[%s] a null region of another domain is refused", mode);
	EXPECT(other && use(other->lkey, IBV_WR_RDMA_WRITE) == IBV_WC_LOC_PROT_ERR, "WRITE");
	EXPECT(other && use(other->lkey, IBV_WR_RDMA_READ) == IBV_WC_LOC_PROT_ERR, "READ");
	EXPECT(other && ibv_dereg_mr(other) == 0, "ibv_dereg_mr");
	row("[%s] a deregistered null region is refused", mode);
	EXPECT(use(key, IBV_WR_RDMA_WRITE) == IBV_WC_SUCCESS, "before");
	EXPECT(dead && ibv_dereg_mr(dead) == 0, "ibv_dereg_mr");
	EXPECT(use(key, IBV_WR_RDMA_WRITE) == IBV_WC_LOC_PROT_ERR, "WRITE");
	EXPECT(use(key, IBV_WR_RDMA_READ) == IBV_WC_LOC_PROT_ERR, "READ");
}

static void field_rows(void)
{
	struct ibv_mr *second = ibv_alloc_null_mr(n->pd);

	row("fields: no address, the maximum length, an lkey and no rkey");
	EXPECT(null->addr == NULL && null->length == SIZE_MAX, "addr %p, length %zu", null->addr,
	       null->length);
	EXPECT(null->pd == n->pd && null->context == n->ctx, "pd or context");
	EXPECT(null->lkey != 0 && null->rkey == 0, "lkey 0x%x, rkey 0x%x", null->lkey, null->rkey);
	row("a second null region has a key of its own");
	EXPECT(second && second->lkey != null->lkey && second->handle != null->handle, "same key");
	EXPECT(second && ibv_dereg_mr(second) == 0, "ibv_dereg_mr");
}

static void object_rows(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(n->ctx);
	struct ibv_mr *mr = ibv_alloc_null_mr(pd);
	uint32_t handle = mr->handle;

	row("its domain may go first");
	EXPECT(mr->pd == pd, "pd");
	EXPECT(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd: errno %d", errno);
	row("damaged handle");
	mr->handle ^= 0xabcdef;
	EXPECT_RET(ibv_dereg_mr(mr), ENOENT);
	mr->handle = handle;
	row("deregistered");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

static void rereg_rows(void)
{
	static const int access = IBV_ACCESS_LOCAL_WRITE;

	for (int flags = 1; flags < 8; flags++) {
		int ret;

		row("ibv_rereg_mr with flags %d is refused", flags);
		errno = 0;
		ret = ibv_rereg_mr(null, flags, n->other_pd, n->arena, 4096,
				   flags & IBV_REREG_MR_CHANGE_ACCESS ? access : 0);
		EXPECT(ret == IBV_REREG_MR_ERR_INPUT && errno == EINVAL, "%d, errno %d", ret,
		       errno);
		EXPECT(use(null->lkey, IBV_WR_RDMA_WRITE) == IBV_WC_SUCCESS, "no longer usable");
	}
}

static void bind_type1_row(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = null,
						 .length = 4096,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
	uint32_t rkey = mw->rkey;
	struct ibv_wc wc;
	int ret;

	row("ibv_bind_mw to it is refused at once");
	ret = ibv_bind_mw(n->qp[0], mw, &bind);
	EXPECT(ret == ENOTSUP || ret == EINVAL, "%d", ret);
	EXPECT(mw->rkey == rkey, "rkey changed");
	EXPECT(node_poll(n, 0, 1, 0, &wc) == 0, "a completion");
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
}

static void bind_type2_row(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.wr_id = 8,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	row("a bind request to it fails");
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = null, .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	EXPECT(ibv_post_send(n->qp[0], &wr, &bad) == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_MW_BIND_ERR,
	       "'%s'", ibv_wc_status_str(wc.status));
	probe_reconnect(&b, &a, 0);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, 0, mw->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
}

/* Many at once, all usable, and all gone afterwards. */
static void many_row(void)
{
	struct ibv_mr *mr[300];

	row("300 null regions");
	for (size_t i = 0; i < COUNT_OF(mr); i++) {
		mr[i] = ibv_alloc_null_mr(n->pd);
		EXPECT(mr[i] && use(mr[i]->lkey, IBV_WR_RDMA_READ) == IBV_WC_SUCCESS, "number %zu",
		       i);
	}
	for (size_t i = 0; i < COUNT_OF(mr); i++)
		EXPECT(mr[i] && ibv_dereg_mr(mr[i]) == 0, "number %zu", i);
}

/* --- */

static void traffic_rows(const char *name)
{
	mode = name;
	probe_open(&b, &a, 0);
	list_rows();
	atomic_row(IBV_WR_ATOMIC_FETCH_AND_ADD);
	atomic_row(IBV_WR_ATOMIC_CMP_AND_SWP);
	large_rows();
	too_long_row();
	remote_rows();
	local_rows();
}

static void object_part(void)
{
	field_rows();
	object_rows();
	rereg_rows();
	bind_type1_row();
	bind_type2_row();
	many_row();
}

int main(int argc, char **argv)
{
	time_limit(200);
	side_agent_main(argc, argv);
	sandbox_enter();
	side_open(&a, NULL);
	n = a.node;
	null = ibv_alloc_null_mr(n->pd);
	NEED(null);
	side_start(&b);
	traffic_rows("two processes");
	object_part();
	probe_close(&b, &a, 0);
	side_stop(&b);
	side_open(&b, NULL);
	traffic_rows("two contexts");
	probe_close(&b, &a, 0);
	side_stop(&b);
	side_open(&b, n->ctx);
	traffic_rows("one context");
	probe_close(&b, &a, 0);
	side_stop(&b);
	EXPECT(ibv_dereg_mr(null) == 0, "ibv_dereg_mr");
	side_stop(&a);
	return sandbox_end();
}
