/* SPDX-License-Identifier: MIT */
/*
 * Devices that behave as named adapters: each operation on each of them, and on a device beside
 * them that does not. Those that lack it refuse it with the adapter's errno value; others have it.
 * Sources: src/device/model.c has them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/sandbox.h"

#define BYTES	  4096u
#define MODELS	  8
#define BYSTANDER MODELS

static const char *const names[] = {"mlx5", "rxe", "siw",   "irdma", "efa",
				    "bnxt", "hns", "erdma", "any0"};

/* A device, with what most verbs need. */
static struct {
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
} d;

/* --- one call each: 0, or the errno value ------------------------------------------ */

#define MADE(object, end)                         \
	({                                        \
		__typeof__(object) o_ = (object); \
		int err_ = o_ ? 0 : errno;        \
		if (o_)                           \
			end(o_);                  \
		err_;                             \
	})

static struct ibv_qp_init_attr qp_attr(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.qp_type = type,
		.send_cq = d.cq,
		.recv_cq = d.cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
}

static int create_qp(int type)
{
	struct ibv_qp_init_attr attr = qp_attr((enum ibv_qp_type)type);

	return MADE(ibv_create_qp(d.pd, &attr), ibv_destroy_qp);
}

static int create_xrc(int type)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_SEND,
					   .send_cq = d.cq,
					   .cap = {.max_send_wr = 4, .max_send_sge = 1},
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = d.pd};

	return MADE(ibv_create_qp_ex(d.ctx, &attr), ibv_destroy_qp);
}

static int create_qp_ex(int type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = (enum ibv_qp_type)type,
		.send_cq = d.cq,
		.recv_cq = d.cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return MADE(ibv_create_qp_ex(d.ctx, &attr), ibv_destroy_qp);
}

static int create_srq(int unused)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};

	return MADE(ibv_create_srq(d.pd, &attr), ibv_destroy_srq);
}

static int query_srq(int unused)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(d.pd, &init);
	struct ibv_srq_attr attr;
	int err = srq ? ibv_query_srq(srq, &attr) : errno;

	if (srq)
		ibv_destroy_srq(srq);
	return err;
}

/* The adapter has the verb if only the domain is missing. */
static int create_srq_ex(int unused)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_XRC,
		.pd = d.pd,
	};

	(void)ibv_create_srq_ex(d.ctx, &attr);
	return errno == EOPNOTSUPP ? errno : 0;
}

static int open_xrcd(int unused)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};

	return MADE(ibv_open_xrcd(d.ctx, &attr), ibv_close_xrcd);
}

static int alloc_mw(int type)
{
	return MADE(ibv_alloc_mw(d.pd, (enum ibv_mw_type)type), ibv_dealloc_mw);
}

static int alloc_dm(int unused)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};

	return MADE(ibv_alloc_dm(d.ctx, &attr), ibv_free_dm);
}

static int alloc_null_mr(int unused)
{
	return MADE(ibv_alloc_null_mr(d.pd), ibv_dereg_mr);
}

static int alloc_td(int unused)
{
	struct ibv_td_init_attr attr = {0};

	return MADE(ibv_alloc_td(d.ctx, &attr), ibv_dealloc_td);
}

static int alloc_parent_domain(int unused)
{
	struct ibv_parent_domain_init_attr attr = {.pd = d.pd};

	return MADE(ibv_alloc_parent_domain(d.ctx, &attr), ibv_dealloc_pd);
}

static int reg_mr(int access)
{
	return MADE(ibv_reg_mr(d.pd, d.buf, BYTES, access), ibv_dereg_mr);
}

/* The adapter has the verb if another argument is wrong. */
static int reg_dmabuf_mr(int unused)
{
	(void)ibv_reg_dmabuf_mr(d.pd, 0, BYTES, 0, -1, IBV_ACCESS_LOCAL_WRITE);
	return errno == EOPNOTSUPP ? errno : 0;
}

static int import_mr(int unused)
{
	(void)ibv_import_mr(d.pd, 1000);
	return errno == EOPNOTSUPP ? errno : 0;
}

static int import_pd(int unused)
{
	(void)ibv_import_pd(d.ctx, 1000);
	return errno == EOPNOTSUPP ? errno : 0;
}

static int import_dm(int unused)
{
	(void)ibv_import_dm(d.ctx, 1000);
	return errno == EOPNOTSUPP ? errno : 0;
}

static int rereg_mr(int access)
{
	struct ibv_mr *mr = ibv_reg_mr(d.pd, d.buf, BYTES, 0);
	int ret = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access),
	    err = ret ? errno : 0;

	EXPECT(ret == 0 || ret == IBV_REREG_MR_ERR_INPUT || ret == IBV_REREG_MR_ERR_CMD,
	       "ibv_rereg_mr: %d", ret);
	ibv_dereg_mr(mr);
	return err;
}

static int advise_mr(int unused)
{
	struct ibv_sge sge = {(uintptr_t)d.buf, BYTES, 0};
	struct ibv_mr *mr = ibv_reg_mr(d.pd, d.buf, BYTES, IBV_ACCESS_ON_DEMAND);
	int err;

	sge.lkey = mr ? mr->lkey : d.mr->lkey;
	err = ibv_advise_mr(d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	if (mr)
		ibv_dereg_mr(mr);
	return err;
}

static int create_ah(int unused)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	NEED(ibv_query_gid(d.ctx, 1, 0, &attr.grh.dgid) == 0);
	return MADE(ibv_create_ah(d.pd, &attr), ibv_destroy_ah);
}

/* The adapter has the verb if only the service of the queue pair is wrong. */
static int attach_mcast(int unused)
{
	struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
	union ibv_gid gid = {.raw = {0xff, 0x0e}};
	struct ibv_qp *qp = ibv_create_qp(d.pd, &attr);
	int err;

	if (!qp) {
		attr.qp_type = IBV_QPT_UD;
		qp = ibv_create_qp(d.pd, &attr);
	}
	err = ibv_attach_mcast(qp, &gid, 0);
	ibv_destroy_qp(qp);
	return err == EOPNOTSUPP ? err : 0;
}

static int create_cq_ex(int unused)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4};

	return MADE(ibv_cq_ex_to_cq(ibv_create_cq_ex(d.ctx, &attr)), ibv_destroy_cq);
}

static int resize_cq(int unused)
{
	struct ibv_cq *cq = ibv_create_cq(d.ctx, 4, NULL, NULL, 0);
	int err = ibv_resize_cq(cq, 8);

	ibv_destroy_cq(cq);
	return err;
}

static int modify_cq(int unused)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 1}};

	return ibv_modify_cq(d.cq, &attr);
}

static int query_rt_values(int unused)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	return ibv_query_rt_values_ex(d.ctx, &values);
}

/* --- requests ----------------------------------------------------------------------- */

/* A queue pair in the error state, which flushes what is posted. */
static struct ibv_qp *failed_qp(void)
{
	struct ibv_qp_init_attr init = qp_attr(IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp;

	init.sq_sig_all = 1;
	init.cap.max_send_sge = (uint32_t)d.attr.max_sge;
	qp = ibv_create_qp(d.pd, &init);
	NEED(qp &&
	     !ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_ERR;
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	return qp;
}

/* Post a SEND, and @opcode behind it. */
static int post(enum ibv_wr_opcode opcode, int elements)
{
	struct ibv_sge sge[13] = {{(uintptr_t)d.buf, 8, d.mr->lkey}};
	struct ibv_mw mw = {.context = d.ctx, .pd = d.pd};
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = elements},
			   first = {.next = &wr, .opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_qp *qp = failed_qp();
	struct ibv_wc wc[8];
	int ret;

	if (opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV) {
		wr.num_sge = 0;
		wr.bind_mw.mw = &mw;
		wr.bind_mw.bind_info.mr = d.mr;
	}
	ret = ibv_post_send(qp, &first, &bad);
	EXPECT(ret == 0 || bad == &wr, "bad_wr");
	EXPECT(ibv_poll_cq(d.cq, 8, wc) == (ret ? 1 : 2), "what is before it is posted");
	ibv_destroy_qp(qp);
	return ret;
}

static int post_rc(int opcode)
{
	return post((enum ibv_wr_opcode)opcode, 1);
}

static int read_into(int elements)
{
	return post(IBV_WR_RDMA_READ, elements);
}

/* --- rows --------------------------------------------------------------------------- */

#define NO_RC "efa"

/* Which devices refuse it, and how; and which are not asked. */
static const struct {
	const char *what;
	int (*call)(int arg);
	int arg;
	const char *lacking; /* names */
	int err;
	const char *others; /* names of those that refuse it with @other_err */
	int other_err;
	const char *unasked;
} rows[] = {
	{"RC", create_qp, IBV_QPT_RC, "efa", EOPNOTSUPP, "", 0, ""},
	{"UC", create_qp, IBV_QPT_UC, "siw irdma efa hns erdma", EOPNOTSUPP, "bnxt", EINVAL, ""},
	{"UD", create_qp, IBV_QPT_UD, "siw erdma", EOPNOTSUPP, "", 0, ""},
	{"XRC", create_xrc, 0, "rxe siw irdma efa erdma", EOPNOTSUPP, "bnxt", EINVAL, ""},
	{"extended QP, RC", create_qp_ex, IBV_QPT_RC, "siw irdma efa erdma", EOPNOTSUPP, "", 0, ""},
	{"extended QP, UD", create_qp_ex, IBV_QPT_UD, "siw irdma erdma", EOPNOTSUPP, "", 0, ""},
	{"SRQ", create_srq, 0, "irdma efa erdma", EOPNOTSUPP, "", 0, ""},
	{"query SRQ", query_srq, 0, "siw irdma efa erdma", EOPNOTSUPP, "", 0, ""},
	{"extended SRQ", create_srq_ex, 0, "siw irdma efa bnxt erdma", EOPNOTSUPP, "", 0, ""},
	{"XRC domain", open_xrcd, 0, "rxe siw irdma efa bnxt erdma", EOPNOTSUPP, "", 0, ""},
	{"window 1", alloc_mw, IBV_MW_TYPE_1, "siw efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"window 2", alloc_mw, IBV_MW_TYPE_2, "siw efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"device memory", alloc_dm, 0, "rxe siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"null region", alloc_null_mr, 0, "rxe siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0,
	 ""},
	{"thread domain", alloc_td, 0, "rxe siw irdma bnxt erdma", EOPNOTSUPP, "", 0, ""},
	{"parent domain", alloc_parent_domain, 0, "rxe siw irdma bnxt erdma", EOPNOTSUPP, "", 0,
	 ""},
	{"region", reg_mr, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, "", 0, "", 0, ""},
	{"region for atomics", reg_mr, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, "efa",
	 EOPNOTSUPP, "", 0, ""},
	{"region for windows", reg_mr, IBV_ACCESS_MW_BIND, "efa", EOPNOTSUPP, "", 0, ""},
	{"zero-based region", reg_mr, IBV_ACCESS_ZERO_BASED, "efa", EOPNOTSUPP, "", 0, ""},
	{"region on demand", reg_mr, IBV_ACCESS_ON_DEMAND, "siw irdma efa bnxt hns erdma",
	 EOPNOTSUPP, "", 0, ""},
	{"flushable region", reg_mr, 1 << 8, "mlx5 siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0,
	 ""},
	{"dma-buf", reg_dmabuf_mr, 0, "rxe siw hns erdma", EOPNOTSUPP, "", 0, ""},
	{"imported region", import_mr, 0, "rxe siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0,
	 ""},
	{"imported PD", import_pd, 0, "rxe siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"imported DM", import_dm, 0, "rxe siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"re-registered", rereg_mr, IBV_ACCESS_LOCAL_WRITE, "rxe siw efa bnxt erdma", EOPNOTSUPP,
	 "", 0, ""},
	{"re-registered, flushable", rereg_mr, 1 << 8, "mlx5 rxe siw irdma efa bnxt hns erdma",
	 EOPNOTSUPP, "", 0, ""},
	{"advice", advise_mr, 0, "siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"address handle", create_ah, 0, "siw erdma", EOPNOTSUPP, "", 0, ""},
	{"multicast", attach_mcast, 0, "siw efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"extended CQ", create_cq_ex, 0, "siw bnxt erdma", EOPNOTSUPP, "", 0, ""},
	{"resized CQ", resize_cq, 0, "siw efa hns erdma", EOPNOTSUPP, "", 0, ""},
	{"moderated CQ", modify_cq, 0, "rxe siw irdma efa bnxt erdma", EOPNOTSUPP, "", 0, ""},
	{"clock", query_rt_values, 0, "rxe siw irdma efa bnxt hns erdma", EOPNOTSUPP, "", 0, ""},
	{"SEND", post_rc, IBV_WR_SEND, "", 0, "", 0, NO_RC},
	{"WRITE", post_rc, IBV_WR_RDMA_WRITE, "", 0, "", 0, NO_RC},
	{"READ", post_rc, IBV_WR_RDMA_READ, "", 0, "", 0, NO_RC},
	{"READ, 2 elements", read_into, 2, "siw", -EINVAL, "", 0, NO_RC " erdma"},
	{"READ, 13 elements", read_into, 13, "", 0, "", 0, NO_RC " siw erdma"},
	{"WRITE WITH IMMEDIATE", post_rc, IBV_WR_RDMA_WRITE_WITH_IMM, "siw", -EINVAL, "", 0, NO_RC},
	{"SEND WITH IMMEDIATE", post_rc, IBV_WR_SEND_WITH_IMM, "siw", -EINVAL, "", 0, NO_RC},
	{"SEND WITH INVALIDATE", post_rc, IBV_WR_SEND_WITH_INV, "", 0, "", 0, NO_RC},
	{"COMPARE AND SWAP", post_rc, IBV_WR_ATOMIC_CMP_AND_SWP, "siw", -EINVAL, "irdma", EINVAL,
	 NO_RC},
	{"FETCH AND ADD", post_rc, IBV_WR_ATOMIC_FETCH_AND_ADD, "siw", -EINVAL, "irdma", EINVAL,
	 NO_RC},
	{"LOCAL INVALIDATE", post_rc, IBV_WR_LOCAL_INV, "siw bnxt erdma", -EINVAL, "hns", EINVAL,
	 NO_RC},
	{"BIND", post_rc, IBV_WR_BIND_MW, "siw bnxt erdma", -EINVAL, "hns", EINVAL, NO_RC},
};

static bool is_among(const char *name, const char *list)
{
	size_t len = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at++)
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

/* --- limits ------------------------------------------------------------------------- */

/* What a queue pair may be asked for, but no more. */
static const struct {
	uint32_t send_sge, recv_sge, inline_data, send_wr;
	enum ibv_qp_type type;
} most[] = {
	{30, 30, 988, 16384, IBV_QPT_RC},  {32, 32, 512, 16384, IBV_QPT_RC},
	{6, 6, 80, 16384, IBV_QPT_RC},	   {13, 13, 101, 8127, IBV_QPT_RC},
	{2, 2, 32, 16384, IBV_QPT_UD},	   {13, 13, 96, 16384, IBV_QPT_RC},
	{32, 32, 1024, 16384, IBV_QPT_RC}, {6, 1, 96, 8192, IBV_QPT_RC},
	{32, 32, 1024, 16384, IBV_QPT_RC},
};

static void check_limit(int device, const char *what, uint32_t *field, uint32_t limit,
			struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	row("%s: %s", names[device], what);
	*field = limit + 1;
	EXPECT_NULL(ibv_create_qp(d.pd, attr), EINVAL);
	*field = limit;
	qp = ibv_create_qp(d.pd, attr);
	EXPECT(qp && *field == limit, "%u is granted", *field);
	if (qp)
		ibv_destroy_qp(qp);
	*field = 1;
}

static void check_limits(int device)
{
	struct ibv_qp_init_attr attr = qp_attr(most[device].type);
	struct ibv_qp *qp;

	check_limit(device, "max_send_sge", &attr.cap.max_send_sge, most[device].send_sge, &attr);
	check_limit(device, "max_recv_sge", &attr.cap.max_recv_sge, most[device].recv_sge, &attr);
	check_limit(device, "max_inline_data", &attr.cap.max_inline_data, most[device].inline_data,
		    &attr);
	check_limit(device, "max_send_wr", &attr.cap.max_send_wr, most[device].send_wr, &attr);
	row("%s: rounded up", names[device]);
	attr.cap.max_inline_data = 0;
	qp = ibv_create_qp(d.pd, &attr);
	EXPECT(qp && attr.cap.max_inline_data <= most[device].inline_data, "%u",
	       attr.cap.max_inline_data);
	if (qp)
		ibv_destroy_qp(qp);
}

static void check_device(int device, struct ibv_device *ibv)
{
	const char *name = names[device];

	row("%s", name);
	NEED(!strcmp(ibv->name, name));
	d.ctx = ibv_open_device(ibv);
	NEED(d.ctx && ibv_query_device(d.ctx, &d.attr) == 0);
	d.pd = ibv_alloc_pd(d.ctx);
	d.cq = ibv_create_cq(d.ctx, 64, NULL, NULL, 0);
	d.mr = ibv_reg_mr(d.pd, d.buf, BYTES, IBV_ACCESS_LOCAL_WRITE);
	NEED(d.pd && d.cq && d.mr);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		int want = is_among(name, rows[i].lacking)  ? rows[i].err
			   : is_among(name, rows[i].others) ? rows[i].other_err
							    : 0,
		    got;

		if (is_among(name, rows[i].unasked))
			continue;
		row("%s: %s", name, rows[i].what);
		errno = 0;
		got = rows[i].call(rows[i].arg);
		EXPECT(got == want, "%d, not %d", got, want);
	}
	check_limits(device);
	NEED(!ibv_dereg_mr(d.mr) && !ibv_destroy_cq(d.cq) && !ibv_dealloc_pd(d.pd));
	NEED(!ibv_close_device(d.ctx));
}

int main(void)
{
	struct ibv_device **list;
	int count;

	sandbox_begin(120);
	setenv("ANYVERBS_DEVICES",
	       "mlx5:as=mlx5,rxe:as=rxe,siw:as=siw,irdma:as=irdma,efa:as=efa,bnxt:as=bnxt,"
	       "hns:as=hns,erdma:as=erdma,any0",
	       1);
	d.buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	list = ibv_get_device_list(&count);
	NEED(d.buf != MAP_FAILED && list && count >= MODELS + 1);
	for (int i = 0; i <= BYSTANDER; i++)
		check_device(i, list[i]);
	ibv_free_device_list(list);
	return sandbox_end();
}
