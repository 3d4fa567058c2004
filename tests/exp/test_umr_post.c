/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, what is refused when it is asked for: keys, containers, work requests.
 * And NOP, which is posted in the same way.
 */
#include "lib/newer_verbs.h"
#include "lib/proc_status.h"
#include "umr_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KLMS	 24u /* of the keys here: more than fit a request */
#define INLINE	 20u
#define INDIRECT IBV_EXP_MR_INDIRECT_KLMS
#define FIXED	 IBV_EXP_MR_FIXED_BUFFER_SIZE
#define BIG	 (1ull << 63)

static struct ibv_mr *key, *fixed_key;

/* --- keys and containers --------------------------------------------------------- */

static void create_rows(void)
{
	static const struct {
		const char *name;
		uint32_t klms, flags, comp_mask;
		uint64_t access;
		int want;
	} rows[] = {
		{"one element", 1, INDIRECT, 0, RIGHTS, 0},
		{"as many as the device allows", 65536, INDIRECT, 0, 0, 0},
		{"one more", 65537, INDIRECT, 0, RIGHTS, EINVAL},
		{"none", 0, INDIRECT, 0, RIGHTS, EINVAL},
		{"of equal pieces", 4, FIXED, 0, RIGHTS, 0},
		{"both flags", 4, INDIRECT | FIXED, 0, RIGHTS, 0},
		{"no flag", 4, 0, 0, RIGHTS, EINVAL},
		{"unknown flag", 4, INDIRECT | 8, 0, RIGHTS, EINVAL},
		{"signature", 4, IBV_EXP_MR_SIGNATURE_EN, 0, RIGHTS, EOPNOTSUPP},
		{"unknown mask", 4, INDIRECT, IBV_EXP_CREATE_MR_IN_RESERVED, RIGHTS, EINVAL},
		{"unknown right", 4, INDIRECT, 0, IBV_EXP_ACCESS_RESERVED, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_create_mr_in in = {
			.pd = n->pd,
			.attr = {rows[i].klms, rows[i].flags, rows[i].access},
			.comp_mask = rows[i].comp_mask,
		};
		struct ibv_exp_mkey_attr attr = {.comp_mask = 0};
		struct ibv_mr *mr;

		row("ibv_exp_create_mr: %s", rows[i].name);
		errno = 0;
		mr = ibv_exp_create_mr(&in);
		EXPECT(!mr == (rows[i].want != 0) && errno == rows[i].want, "errno %d", errno);
		if (!mr)
			continue;
		EXPECT(mr->lkey && mr->lkey == mr->rkey && mr->pd == n->pd &&
			       mr->context == n->ctx && !mr->addr && !mr->length,
		       "fields");
		EXPECT(ibv_exp_query_mkey(mr, &attr) == 0 && attr.max_klm_list_size == rows[i].klms,
		       "capacity %u", attr.max_klm_list_size);
		attr.comp_mask = IBV_EXP_MKEY_ATTR_RESERVED;
		EXPECT(ibv_exp_query_mkey(mr, &attr) == EINVAL, "an unknown mask is accepted");
		EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0,
		       "re-registered");
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	row("ibv_exp_query_mkey: of a plain region");
	EXPECT(ibv_exp_query_mkey(leaf[LEAF_PLAIN].mr,
				  &(struct ibv_exp_mkey_attr){.comp_mask = 0}) == EINVAL,
	       "accepted");
}

/* Keys and containers come and go, and what they took comes back. */
static void reuse_row(void)
{
	struct ibv_exp_mkey_list_container_attr attr = {.pd = n->pd, .max_klm_list_size = 65536};
	size_t before = status_kb("RssShmem:");

	row("keys and containers, of megabytes each, one after the other");
	for (int i = 0; i < 40; i++) {
		struct ibv_exp_mkey_list_container *c = ibv_exp_alloc_mkey_list_memory(&attr);
		struct ibv_mr *mr = create_key(65536, INDIRECT);

		if (!EXPECT(c && ibv_exp_dealloc_mkey_list_memory(c) == 0 && ibv_dereg_mr(mr) == 0,
			    "number %d", i))
			break;
	}
	EXPECT(status_kb("RssShmem:") < before + (16u << 10), "%zu KiB more",
	       status_kb("RssShmem:") - before);
}

/* Objects with the numbers of others. */
static void stranger_rows(void)
{
	struct ibv_exp_mkey_list_container_attr attr = {.pd = n->pd, .max_klm_list_size = 1};
	struct ibv_exp_mkey_list_container *c = ibv_exp_alloc_mkey_list_memory(&attr);

	row("ibv_exp_alloc_mkey_list_memory: a domain with another handle");
	n->pd->handle++;
	errno = 0;
	EXPECT(!ibv_exp_alloc_mkey_list_memory(&attr) && errno == ENOENT, "errno %d", errno);
	n->pd->handle--;
	row("ibv_exp_dealloc_mkey_list_memory: of another context");
	c->context = node_open_device();
	EXPECT(ibv_exp_dealloc_mkey_list_memory(c) == EINVAL, "accepted");
	EXPECT(ibv_close_device(c->context) == 0, "ibv_close_device");
	c->context = n->ctx;
	EXPECT(ibv_exp_dealloc_mkey_list_memory(c) == 0, "ibv_exp_dealloc_mkey_list_memory");
}

static void container_rows(void)
{
	static const struct {
		const char *name;
		uint32_t type, klms, comp_mask;
		int want;
	} rows[] = {
		{"one element", 0, 1, 0, 0},
		{"as many as the device allows", 0, 65536, 0, 0},
		{"one more", 0, 65537, 0, EINVAL},
		{"none", 0, 0, 0, EINVAL},
		{"another type", 1, 4, 0, ENOMEM},
		{"unknown mask", 0, 4, IBV_EXP_MKEY_LIST_CONTAINER_RESERVED, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_mkey_list_container_attr attr = {n->pd, rows[i].type, rows[i].klms,
								rows[i].comp_mask};
		struct ibv_exp_mkey_list_container *c;

		row("ibv_exp_alloc_mkey_list_memory: %s", rows[i].name);
		errno = 0;
		c = ibv_exp_alloc_mkey_list_memory(&attr);
		EXPECT(!c == (rows[i].want != 0) && errno == rows[i].want, "errno %d", errno);
		if (!c)
			continue;
		EXPECT(c->max_klm_list_size == rows[i].klms && c->context == n->ctx, "fields");
		EXPECT(ibv_exp_dealloc_mkey_list_memory(c) == 0,
		       "ibv_exp_dealloc_mkey_list_memory");
	}
}

/* --- what a request may say ------------------------------------------------------ */

static struct ibv_exp_mkey_list_container *small; /* of 2 elements */

enum change {
	NOTHING,
	KEY_NONE,
	KEY_PLAIN,
	KEY_FIXED,
	TYPE,
	NUM_MRS,
	CONTAINER_NONE,
	CONTAINER_SMALL,
	LIST_NONE,
	LENGTH_NONE,
	STRIDE_NONE,
	REGION_NONE,
	REGION_ELSEWHERE,
	ACCESS,
	BASE,
	LENGTHS,
	ADDR,
	STRIDE_DIM,
	ROUNDS,
	STRIDE,
	SEND_FLAGS,
};

/* One thing of a good request is changed. @value: what to, where that is a number. */
static const struct post_row {
	const char *name;
	enum ibv_exp_umr_wr_type type;
	bool inlined;
	uint32_t count;
	enum change change;
	uint64_t value;
	int want;
} posts[] = {
	{"list", IBV_EXP_UMR_MR_LIST, false, KLMS, NOTHING, 0, 0},
	{"list, inline", IBV_EXP_UMR_MR_LIST, true, INLINE, NOTHING, 0, 0},
	{"blocks", IBV_EXP_UMR_REPEAT, false, KLMS, NOTHING, 0, 0},
	{"blocks, inline", IBV_EXP_UMR_REPEAT, true, INLINE, NOTHING, 0, 0},
	{"inline, more than the queue pair takes", IBV_EXP_UMR_MR_LIST, true, INLINE + 1, NOTHING,
	 0, EINVAL},
	{"blocks, inline, more than the queue pair takes", IBV_EXP_UMR_REPEAT, true, INLINE + 1,
	 NOTHING, 0, EINVAL},
	{"more than the key has room for", IBV_EXP_UMR_MR_LIST, false, KLMS + 1, NOTHING, 0,
	 EINVAL},
	{"no elements", IBV_EXP_UMR_MR_LIST, false, 2, NUM_MRS, 0, EINVAL},
	{"elements without number", IBV_EXP_UMR_MR_LIST, false, 2, NUM_MRS, UINT32_MAX, EINVAL},
	{"no key", IBV_EXP_UMR_MR_LIST, true, 2, KEY_NONE, 0, EINVAL},
	{"a plain region for a key", IBV_EXP_UMR_MR_LIST, true, 2, KEY_PLAIN, 0, EINVAL},
	{"a list for a key of equal pieces", IBV_EXP_UMR_MR_LIST, true, 2, KEY_FIXED, 0, EINVAL},
	{"blocks for a key of equal pieces", IBV_EXP_UMR_REPEAT, true, 2, KEY_FIXED, 0, EINVAL},
	{"equal pieces for another key", IBV_EXP_UMR_MR_LIST_FIXED_SIZE, true, 2, NOTHING, 0,
	 EINVAL},
	{"equal pieces", IBV_EXP_UMR_MR_LIST_FIXED_SIZE, true, 3, KEY_FIXED, 0, 0},
	{"unknown type", IBV_EXP_UMR_MR_LIST, true, 2, TYPE, 3, EINVAL},
	{"no container", IBV_EXP_UMR_MR_LIST, false, 2, CONTAINER_NONE, 0, EINVAL},
	{"a container that is just large enough", IBV_EXP_UMR_MR_LIST, false, 2, CONTAINER_SMALL, 0,
	 0},
	{"a container that is too small", IBV_EXP_UMR_MR_LIST, false, 3, CONTAINER_SMALL, 0,
	 EINVAL},
	{"no list", IBV_EXP_UMR_MR_LIST, true, 2, LIST_NONE, 0, EINVAL},
	{"no blocks", IBV_EXP_UMR_REPEAT, true, 2, LIST_NONE, 0, EINVAL},
	{"a block without length", IBV_EXP_UMR_REPEAT, true, 2, LENGTH_NONE, 0, EINVAL},
	{"a block without stride", IBV_EXP_UMR_REPEAT, true, 2, STRIDE_NONE, 0, EINVAL},
	{"an element without region", IBV_EXP_UMR_MR_LIST, true, 2, REGION_NONE, 0, EINVAL},
	{"an element of another context", IBV_EXP_UMR_MR_LIST, true, 2, REGION_ELSEWHERE, 0,
	 EINVAL},
	{"no rights", IBV_EXP_UMR_MR_LIST, true, 2, ACCESS, 0, 0},
	{"the right to flush", IBV_EXP_UMR_MR_LIST, true, 2, ACCESS, 1 << 8, 0},
	{"REMOTE_WRITE without LOCAL_WRITE", IBV_EXP_UMR_MR_LIST, true, 2, ACCESS,
	 IBV_EXP_ACCESS_REMOTE_WRITE, EINVAL},
	{"the right to bind windows", IBV_EXP_UMR_MR_LIST, true, 2, ACCESS, IBV_EXP_ACCESS_MW_BIND,
	 EINVAL},
	{"a right of registration", IBV_EXP_UMR_MR_LIST, true, 2, ACCESS, IBV_EXP_ACCESS_ON_DEMAND,
	 EINVAL},
	{"up to the last address", IBV_EXP_UMR_MR_LIST, true, 2, BASE, (uint64_t)-200, 0},
	{"beyond the last address", IBV_EXP_UMR_MR_LIST, true, 2, BASE, (uint64_t)-199, EINVAL},
	{"lengths whose sum is too large", IBV_EXP_UMR_MR_LIST, true, 2, LENGTHS, BIG, EINVAL},
	{"rounds whose sum is too large", IBV_EXP_UMR_REPEAT, true, 2, ROUNDS, 1ull << 60, EINVAL},
	{"a piece beyond the last address", IBV_EXP_UMR_MR_LIST, true, 2, ADDR, (uint64_t)-99,
	 EINVAL},
	{"a piece up to the last address", IBV_EXP_UMR_MR_LIST, true, 2, ADDR, (uint64_t)-100, 0},
	{"a stride that leads beyond", IBV_EXP_UMR_REPEAT, true, 2, STRIDE, BIG, EINVAL},
	{"two dimensions", IBV_EXP_UMR_REPEAT, true, 2, STRIDE_DIM, 2, ENOMEM},
	{"no round", IBV_EXP_UMR_REPEAT, true, 2, ROUNDS, 0, EINVAL},
	{"one round", IBV_EXP_UMR_REPEAT, true, 2, ROUNDS, 1, 0},
	{"unknown flag", IBV_EXP_UMR_MR_LIST, true, 2, SEND_FLAGS, IBV_EXP_SEND_WITH_CALC, EINVAL},
	{"fenced and solicited", IBV_EXP_UMR_MR_LIST, true, 2, SEND_FLAGS,
	 IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SOLICITED, 0},
};

static void apply(struct ibv_exp_send_wr *wr, const struct post_row *r, struct ibv_mr *elsewhere)
{
	struct ibv_exp_mem_region *e = wr->ext_op.umr.mem_list.mem_reg_list;
	struct ibv_exp_mem_repeat_block *block = wr->ext_op.umr.mem_list.rb.mem_repeat_block_list;

	switch (r->change) {
	case NOTHING:
		break;
	case KEY_NONE:
		wr->ext_op.umr.modified_mr = NULL;
		break;
	case KEY_PLAIN:
		wr->ext_op.umr.modified_mr = leaf[LEAF_PLAIN].mr;
		break;
	case KEY_FIXED:
		wr->ext_op.umr.modified_mr = fixed_key;
		break;
	case TYPE:
		wr->ext_op.umr.umr_type = (uint32_t)r->value;
		break;
	case NUM_MRS:
		wr->ext_op.umr.num_mrs = (uint32_t)r->value;
		break;
	case CONTAINER_NONE:
		wr->ext_op.umr.memory_objects = NULL;
		break;
	case CONTAINER_SMALL:
		wr->ext_op.umr.memory_objects = small;
		break;
	case LIST_NONE:
		wr->ext_op.umr.mem_list.mem_reg_list = NULL;
		break;
	case LENGTH_NONE:
		block[1].byte_count = NULL;
		break;
	case STRIDE_NONE:
		block[1].stride = NULL;
		break;
	case REGION_NONE:
		e[1].mr = NULL;
		break;
	case REGION_ELSEWHERE:
		e[1].mr = elsewhere;
		break;
	case ACCESS:
		wr->ext_op.umr.exp_access = r->value;
		break;
	case BASE:
		wr->ext_op.umr.base_addr = r->value;
		break;
	case LENGTHS:
		e[0].length = e[1].length = r->value;
		break;
	case ADDR:
		e[1].base_addr = r->value;
		break;
	case STRIDE_DIM:
		wr->ext_op.umr.mem_list.rb.stride_dim = (uint32_t)r->value;
		break;
	case ROUNDS:
		wr->ext_op.umr.mem_list.rb.repeat_count[0] = r->value;
		break;
	case STRIDE:
		block[1].stride[0] = r->value;
		break;
	case SEND_FLAGS:
		wr->exp_send_flags |= r->value;
		break;
	}
}

static struct list good_list(enum ibv_exp_umr_wr_type type, bool inlined, uint32_t count)
{
	struct list l = {.type = type,
			 .inlined = inlined,
			 .base = 4096,
			 .access = RIGHTS,
			 .count = count,
			 .rounds = 3};

	for (uint32_t i = 0; i < count; i++)
		l.e[i] = (struct element){&leaf[LEAF_PLAIN], i * 1000, 100, 300};
	return l;
}

/* A request in a list of three: those before it are posted, it is refused, and nothing is left of
 * it. */
static void post_in_list(struct ibv_exp_send_wr *wr, int want)
{
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP,
				      .exp_send_flags = IBV_EXP_SEND_SIGNALED},
			       last = nop, *bad = NULL;
	struct ibv_wc wc[3];
	int ret;

	nop.next = wr;
	wr->next = &last;
	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	errno = 0;
	ret = ibv_exp_post_send(n->qp[0], &nop, &bad);
	EXPECT(ret == want && errno == want, "%d, errno %d", ret, errno);
	EXPECT(bad == (want ? wr : NULL), "bad_wr");
	EXPECT(node_poll(n, 0, 3, want ? 0 : PATIENCE, wc) == (want ? 1 : 3),
	       "number of completions");
	for (int i = 0; i < (want ? 1 : 3); i++)
		EXPECT(wc[i].status == IBV_WC_SUCCESS, "completion %d: '%s'", i,
		       ibv_wc_status_str(wc[i].status));
}

static void post_rows(void)
{
	struct ibv_context *other = ibv_open_device(n->ctx->device);
	struct ibv_pd *pd = other ? ibv_alloc_pd(other) : NULL;
	struct ibv_mr *elsewhere = pd ? ibv_reg_mr(pd, n->arena, 4096, 0) : NULL;

	if (!elsewhere)
		DIE("another context");
	for (size_t i = 0; i < COUNT_OF(posts); i++) {
		const struct post_row *r = &posts[i];
		struct list l = good_list(r->type, r->inlined, r->count);
		struct ibv_exp_send_wr wr = fill_request(key, &l);

		row("UMR_FILL: %s", r->name);
		apply(&wr, r, elsewhere);
		post_in_list(&wr, r->want);
	}
	EXPECT(ibv_dereg_mr(elsewhere) == 0 && ibv_dealloc_pd(pd) == 0 &&
		       ibv_close_device(other) == 0,
	       "closing");
}

static void fixed_rows(void)
{
	static const struct {
		const char *name;
		uint64_t bytes[3];
		int want;
	} rows[] = {
		{"equal", {100, 100, 100}, 0},
		{"the last shorter", {100, 100, 99}, 0},
		{"the last empty", {100, 100, 0}, 0},
		{"the last longer", {100, 100, 101}, EINVAL},
		{"the first shorter", {99, 100, 100}, EINVAL},
		{"one in the middle shorter", {100, 99, 100}, EINVAL},
		{"empty", {0, 0, 0}, EINVAL},
		{"as long as the device allows", {1ull << 31, 1ull << 31, 5}, 0},
		{"longer", {(1ull << 31) + 1, (1ull << 31) + 1, 5}, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct list l = good_list(IBV_EXP_UMR_MR_LIST_FIXED_SIZE, true, 3);
		struct ibv_exp_send_wr wr = fill_request(fixed_key, &l);

		row("equal pieces: %s", rows[i].name);
		for (int k = 0; k < 3; k++)
			wr.ext_op.umr.mem_list.mem_reg_list[k].length = rows[i].bytes[k];
		post_in_list(&wr, rows[i].want);
	}
}

/* --- queue pairs ----------------------------------------------------------------- */

static void qp_rows(void)
{
	static const struct {
		const char *name;
		enum ibv_qp_type type;
		bool umr;
		uint32_t klms;
		int want;	/* of creating it */
		uint32_t grant; /* of klms */
		int nop, fill;
	} rows[] = {
		{"RC", IBV_QPT_RC, true, 5, 0, 5, 0, 0},
		{"RC, no lists in requests", IBV_QPT_RC, true, 0, 0, 0, 0, EINVAL},
		{"RC, more than the device allows", IBV_QPT_RC, true, INLINE + 1, EINVAL, 0, 0, 0},
		{"RC without UMR", IBV_QPT_RC, false, 0, 0, 0, 0, EINVAL},
		{"XRC", IBV_QPT_XRC_SEND, true, 5, 0, 5, 0, 0},
		{"UC", IBV_QPT_UC, true, 5, 0, 0, EINVAL, EINVAL},
		{"UD", IBV_QPT_UD, true, 5, 0, 0, EINVAL, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_qp_init_attr init = {
			.send_cq = n->cq[0],
			.recv_cq = n->cq[1],
			.cap = {.max_send_wr = 4,
				.max_recv_wr = 4,
				.max_send_sge = 1,
				.max_recv_sge = 1},
			.qp_type = rows[i].type,
			.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
			.pd = n->pd,
			.exp_create_flags = rows[i].umr ? IBV_EXP_QP_CREATE_UMR : 0,
			.max_inl_send_klms = rows[i].klms,
		};
		struct list l = good_list(IBV_EXP_UMR_MR_LIST, true, 5);
		struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP}, *bad,
				       fill = fill_request(key, &l);
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		struct ibv_qp *qp;

		row("queue pair: %s", rows[i].name);
		if (rows[i].umr)
			init.comp_mask |= IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
		errno = 0;
		qp = ibv_exp_create_qp(n->ctx, &init);
		EXPECT(!qp == (rows[i].want != 0) && errno == rows[i].want, "errno %d", errno);
		if (!qp)
			continue;
		EXPECT(init.max_inl_send_klms == (rows[i].umr ? rows[i].grant : 0), "%u granted",
		       init.max_inl_send_klms);
		EXPECT(ibv_exp_post_send(qp, &nop, &bad) == EINVAL, "NOP in RESET");
		EXPECT(ibv_modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     (rows[i].type == IBV_QPT_UD ? IBV_QP_QKEY
									 : IBV_QP_ACCESS_FLAGS)) ==
			       0,
		       "to INIT");
		attr.qp_state = IBV_QPS_ERR;
		EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to ERR");
		EXPECT(ibv_exp_post_send(qp, &nop, &bad) == rows[i].nop, "NOP");
		EXPECT(ibv_exp_post_send(qp, &fill, &bad) == rows[i].fill, "UMR_FILL");
		EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	}
}

/* Flushed requests change nothing and complete as what they are. */
static void flushed_row(void)
{
	struct list l = good_list(IBV_EXP_UMR_MR_LIST, true, 2);
	struct ibv_exp_send_wr wr = invalidate_request(key);

	row("in the error state");
	need_fill(key, &l);
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(run_request(&wr) == IBV_WC_WR_FLUSH_ERR, "not flushed");
	EXPECT(remote(IBV_WR_RDMA_READ, l.base, key->rkey, 8) == IBV_WC_SUCCESS,
	       "invalidated all the same");
}

/* --- NOP ------------------------------------------------------------------------- */

static void nop_rows(void)
{
	struct ibv_sge nowhere = {.addr = 1, .length = 64, .lkey = 1};
	struct ibv_exp_send_wr wr[3], *bad;
	struct ibv_exp_wc exp;
	struct ibv_wc wc[4];

	row("NOP: its elements are not looked at");
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < 3; i++) {
		wr[i].exp_opcode = IBV_EXP_WR_NOP;
		wr[i].wr_id = (uint64_t)i + 1;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_INLINE;
	wr[1].sg_list = &nowhere;
	wr[1].num_sge = 1000;
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0, "refused");
	EXPECT(node_poll(n, 0, 4, 0, wc) == 1 && wc[0].wr_id == 2 &&
		       wc[0].status == IBV_WC_SUCCESS && wc[0].opcode == IBV_WC_SEND,
	       "the completion of the signalled one");
	row("NOP: between messages");
	wr[0].next = NULL;
	wr[0].exp_send_flags = IBV_EXP_SEND_SIGNALED;
	EXPECT(local(IBV_WR_RDMA_WRITE, (uintptr_t)n->arena, n->mr[KEY_FULL]->lkey, 8) ==
		       IBV_WC_SUCCESS,
	       "a WRITE before");
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0, "refused");
	EXPECT(ibv_exp_poll_cq(n->cq[0], 1, &exp, sizeof(exp)) == 1 &&
		       exp.exp_opcode == IBV_EXP_WC_SEND && exp.wr_id == 1,
	       "the completion of an extended poll");
	EXPECT(local(IBV_WR_RDMA_WRITE, (uintptr_t)n->arena, n->mr[KEY_FULL]->lkey, 8) ==
		       IBV_WC_SUCCESS,
	       "a WRITE behind");
}

/* A full queue refuses these as all others. */
static void full_row(void)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_NOP}, *bad = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	uint32_t i;

	row("a full queue");
	EXPECT(ibv_query_qp(n->qp[0], &attr, IBV_QP_CAP, &init) == 0, "ibv_query_qp");
	for (i = 1; i < init.cap.max_send_wr; i++)
		EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == 0, "request %u", i);
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == 0, "the last request");
	EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == ENOMEM && bad == &wr, "one more");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1, "no completion");
}

/* Plain verbs do not know these opcodes. */
static void plain_rows(void)
{
	for (int op = 10; op < 120; op++) {
		struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)op}, *bad;

		if (op == WR_ATOMIC_WRITE)
			continue;
		row("ibv_post_send: opcode %d", op);
		EXPECT(ibv_post_send(n->qp[0], &wr, &bad) == EINVAL, "accepted");
	}
}

/* A number that both kinds of polling give. */
static void opcode_row(void)
{
	struct list l = good_list(IBV_EXP_UMR_MR_LIST, true, 2);
	struct ibv_exp_send_wr wr[2] = {fill_request(key, &l), invalidate_request(key)}, *bad;
	struct ibv_exp_wc exp[2];

	row("the opcode of completions");
	wr[0].next = &wr[1];
	wr[0].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	wr[1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0, "refused");
	EXPECT(ibv_exp_poll_cq(n->cq[0], 2, exp, sizeof(exp[0])) == 2, "number");
	for (int i = 0; i < 2; i++)
		EXPECT(exp[i].exp_opcode == IBV_EXP_WC_UMR && exp[i].status == IBV_WC_SUCCESS,
		       "number %d", i);
}

static void run(void)
{
	struct ibv_exp_mkey_list_container_attr attr = {.pd = n->pd, .max_klm_list_size = 2};

	key = create_key(KLMS, INDIRECT);
	fixed_key = create_key(KLMS, FIXED);
	small = ibv_exp_alloc_mkey_list_memory(&attr);
	create_rows();
	container_rows();
	stranger_rows();
	reuse_row();
	post_rows();
	fixed_rows();
	qp_rows();
	flushed_row();
	nop_rows();
	full_row();
	plain_rows();
	opcode_row();
	EXPECT(ibv_exp_dealloc_mkey_list_memory(small) == 0, "ibv_exp_dealloc_mkey_list_memory");
	EXPECT(ibv_dereg_mr(key) == 0 && ibv_dereg_mr(fixed_key) == 0, "ibv_dereg_mr");
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
