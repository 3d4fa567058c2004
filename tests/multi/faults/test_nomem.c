/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of every verb that makes something fails in its turn: the call says ENOMEM and
 * has done nothing. What it has taken it gives back, object numbers and shared memory too: each
 * failure is repeated more often than there are numbers (the limits are low here), and neither the
 * context's file nor the address space grows by it. The process' heap is the leak sanitizer's
 * matter.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/fail_alloc.h"
#include "lib/node.h"
#include "lib/page_backing.h"
#include "lib/sandbox.h"

#define LIMITS	 "any0:max_qp=8:max_cq=8:max_mr=8:max_pd=8"
#define REPEATS	 (TEST_SANITIZED ? 200 : 1500) /* of a failure */
#define MOST	 100			       /* allocations of one call */
#define BYTES	 8192u
#define DEPTH	 32u  /* small rings: thousands are made, and yet seen if they are lost */
#define SLACK	 1024 /* blocks a context's file may grow by: numbers rest before they come again */
#define VM_SLACK (8ul << 20) /* bytes that the address space may grow by: the heap does */
#define FULL	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_device *device;
static struct ibv_context *ctx, *second;
static struct ibv_pd *pd, *other_pd, *imported_pd;
static struct ibv_cq *cq;
static struct ibv_td *td;
static struct ibv_xrcd *xrcd;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_dm *dm;
static union ibv_gid gid;
static uint8_t *memory;

/* --- what the verbs need --------------------------------------------------------- */

enum need {
	NEED_CTX = 1 << 0, /* all that follow need it */
	NEED_PD = 1 << 1,
	NEED_CQ = 1 << 2,
	NEED_TD = 1 << 3,
	NEED_XRCD = 1 << 4,
	NEED_UD = 1 << 5, /* a UD queue pair in INIT */
	NEED_RC = 1 << 6, /* an RC queue pair in INIT */
	NEED_MR = 1 << 7,
	NEED_ODP = 1 << 8,
	NEED_DM = 1 << 9,
	NEED_SECOND = 1 << 10, /* a context that imports from the first */
	NEED_IMPORTED_PD = 1 << 11,
	NEED_SHARED = 1 << 12, /* a shared region */
};

static void must(bool cond, const char *what)
{
	if (!cond)
		DIE("%s: errno %d", what, errno);
}

static struct ibv_qp *create_qp(enum ibv_qp_type type, bool ex)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.xrcd = xrcd,
	};

	if (ex) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	}
	return ibv_create_qp_ex(ctx, &init);
}

static struct ibv_qp *ready_qp(enum ibv_qp_type type)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = FULL};
	struct ibv_qp *made = create_qp(type, false);

	must(made && !ibv_modify_qp(
			     made, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
	     "queue pair");
	return made;
}

static void open_context(void)
{
	ctx = ibv_open_device(device);
	must(ctx && !ibv_query_gid(ctx, 1, 0, &gid), "ibv_open_device");
}

static void *make_xrcd(void)
{
	return node_open_xrcd(ctx);
}

static void *make_td(void)
{
	struct ibv_td_init_attr init = {0};

	return ibv_alloc_td(ctx, &init);
}

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};

	return ibv_alloc_dm(ctx, &attr);
}

static struct ibv_mr *make_shared(void)
{
	struct ibv_exp_reg_mr_in in = {.pd = pd,
				       .length = BYTES,
				       .exp_access = FULL | IBV_EXP_ACCESS_ALLOCATE_MR |
						     IBV_EXP_ACCESS_SHARED_MR_USER_READ |
						     IBV_EXP_ACCESS_SHARED_MR_USER_WRITE};

	return ibv_exp_reg_mr(&in);
}

static void *make_shared_mr(void)
{
	return make_shared();
}

static void prepare_regions(int needs)
{
	if (needs & NEED_SHARED)
		must((mr = make_shared()), "ibv_exp_reg_mr");
	if (needs & NEED_MR)
		must((mr = ibv_reg_mr(pd, memory, BYTES, FULL)), "ibv_reg_mr");
	if (needs & NEED_ODP)
		must((mr = ibv_reg_mr(pd, memory, BYTES, FULL | IBV_ACCESS_ON_DEMAND)),
		     "ibv_reg_mr");
	if (needs & NEED_DM)
		must((dm = make_dm()), "ibv_alloc_dm");
}

static void prepare(int needs)
{
	if (needs)
		open_context();
	if (needs & NEED_PD)
		must((pd = ibv_alloc_pd(ctx)) && (other_pd = ibv_alloc_pd(ctx)), "ibv_alloc_pd");
	if (needs & NEED_CQ)
		must((cq = ibv_create_cq(ctx, 8, NULL, NULL, 0)), "ibv_create_cq");
	if (needs & NEED_TD)
		must((td = make_td()), "ibv_alloc_td");
	if (needs & NEED_XRCD)
		must((xrcd = make_xrcd()), "ibv_open_xrcd");
	if (needs & (NEED_UD | NEED_RC))
		qp = ready_qp(needs & NEED_UD ? IBV_QPT_UD : IBV_QPT_RC);
	prepare_regions(needs);
	if (needs & NEED_SECOND)
		must((second = ibv_import_device(dup(ctx->cmd_fd))), "ibv_import_device");
	if (needs & NEED_IMPORTED_PD)
		must((imported_pd = ibv_import_pd(second, pd->handle)), "ibv_import_pd");
}

static void finish(void)
{
	if (imported_pd)
		ibv_unimport_pd(imported_pd);
	EXPECT(!second || ibv_close_device(second) == 0, "ibv_close_device: errno %d", errno);
	EXPECT(!mr || ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	EXPECT(!dm || ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
	EXPECT(!qp || ibv_destroy_qp(qp) == 0, "ibv_destroy_qp: errno %d", errno);
	EXPECT(!xrcd || ibv_close_xrcd(xrcd) == 0, "ibv_close_xrcd: errno %d", errno);
	EXPECT(!td || ibv_dealloc_td(td) == 0, "ibv_dealloc_td: errno %d", errno);
	EXPECT(!cq || ibv_destroy_cq(cq) == 0, "ibv_destroy_cq: errno %d", errno);
	EXPECT(!pd || (ibv_dealloc_pd(pd) == 0 && ibv_dealloc_pd(other_pd) == 0),
	       "ibv_dealloc_pd: errno %d", errno);
	EXPECT(!ctx || ibv_close_device(ctx) == 0, "ibv_close_device: errno %d", errno);
	imported_pd = pd = other_pd = NULL;
	second = ctx = NULL;
	mr = NULL;
	dm = NULL;
	qp = NULL;
	xrcd = NULL;
	td = NULL;
	cq = NULL;
}

/* --- the verbs ------------------------------------------------------------------- */

/* For verbs that return an errno value. Return: something that is not NULL, or NULL and errno. */
static void *of_int(int ret)
{
	if (ret == 0)
		return &gid;
	EXPECT(errno == ret, "returned %d, errno %d", ret, errno);
	return NULL;
}

static int nothing(void *object)
{
	return 0;
}

static void *make_context(void)
{
	return ibv_open_device(device);
}

static int end_context(void *object)
{
	return ibv_close_device(object);
}

static void *make_import(void)
{
	int fd = dup(ctx->cmd_fd), saved;
	struct ibv_context *got = ibv_import_device(fd);

	saved = errno;
	if (!got)
		close(fd); /* ours again */
	errno = saved;
	return got;
}

static void *make_pd(void)
{
	return ibv_alloc_pd(ctx);
}

static int end_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static int end_td(void *object)
{
	return ibv_dealloc_td(object);
}

static void *make_parent(void)
{
	struct ibv_parent_domain_init_attr init = {.pd = pd, .td = td};

	return ibv_alloc_parent_domain(ctx, &init);
}

static void *make_channel(void)
{
	return ibv_create_comp_channel(ctx);
}

static int end_channel(void *object)
{
	return ibv_destroy_comp_channel(object);
}

static void *make_cq(void)
{
	return ibv_create_cq(ctx, DEPTH, NULL, NULL, 0);
}

static int end_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_cq_ex(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = DEPTH, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &init);

	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

static void *do_resize(void)
{
	return of_int(ibv_resize_cq(cq, 2048)); /* more than lies ready */
}

static int back_to_small(void *object)
{
	return ibv_resize_cq(cq, 8);
}

#define MAKE_QP(name, type, ex)             \
	static void *name(void)             \
	{                                   \
		return create_qp(type, ex); \
	}
MAKE_QP(make_rc, IBV_QPT_RC, false)
MAKE_QP(make_uc, IBV_QPT_UC, false)
MAKE_QP(make_ud, IBV_QPT_UD, false)
MAKE_QP(make_xrc_send, IBV_QPT_XRC_SEND, false)
MAKE_QP(make_xrc_recv, IBV_QPT_XRC_RECV, false)
MAKE_QP(make_rc_ex, IBV_QPT_RC, true)

static void *make_plain_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	return ibv_create_qp(pd, &init);
}

static int end_qp(void *object)
{
	return ibv_destroy_qp(object);
}

/* Towards itself: the port's addresses are looked up. */
static void *do_connect(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}},
	};

	return of_int(ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER));
}

static int back_to_init(void *object)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET, .port_num = 1};
	int ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE);

	attr.qp_state = IBV_QPS_INIT;
	return ret ? ret
		   : ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};

	return ibv_create_srq(pd, &init);
}

static void *make_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex init = node_xrc_srq(DEPTH, pd, xrcd, cq);

	return ibv_create_srq_ex(ctx, &init);
}

static int end_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static int end_xrcd(void *object)
{
	return ibv_close_xrcd(object);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};

	return ibv_create_ah(pd, &attr);
}

static int end_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static union ibv_gid group(void)
{
	union ibv_gid g = {.raw = {0xff, 0x0e, [15] = 7}};

	return g;
}

static void *do_attach(void)
{
	const union ibv_gid g = group();

	return of_int(ibv_attach_mcast(qp, &g, 0));
}

static int detach(void *object)
{
	const union ibv_gid g = group();

	return ibv_detach_mcast(qp, &g, 0);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, memory, BYTES, FULL);
}

static void *make_odp(void)
{
	return ibv_reg_mr(pd, memory, BYTES, FULL | IBV_ACCESS_ON_DEMAND);
}

static void *make_implicit(void)
{
	return ibv_reg_mr(pd, NULL, SIZE_MAX, FULL | IBV_ACCESS_ON_DEMAND);
}

/* Memory of the library's: always pages of the context's, as MLX_MR_ALLOC_TYPE is CONTIG. */
static void *make_allocated(void)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = pd, .length = BYTES, .exp_access = FULL | IBV_EXP_ACCESS_ALLOCATE_MR};

	return ibv_exp_reg_mr(&in);
}

static void *make_attached(void)
{
	struct ibv_exp_reg_shared_mr_in in = {
		.mr_handle = mr->handle, .pd = pd, .exp_access = FULL};

	return ibv_exp_reg_shared_mr(&in);
}

static void *do_reallocate(void)
{
	return ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 2 * BYTES,
				IBV_EXP_ACCESS_ALLOCATE_MR, NULL)
		       ? NULL
		       : mr;
}

static void *make_null(void)
{
	return ibv_alloc_null_mr(pd);
}

static void *make_dm_mr(void)
{
	return ibv_reg_dm_mr(pd, dm, 0, BYTES, FULL | IBV_ACCESS_ZERO_BASED);
}

static int end_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static int end_dm(void *object)
{
	return ibv_free_dm(object);
}

static void *make_mw1(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static void *make_mw2(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int end_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *do_rereg(void)
{
	int ret = ibv_rereg_mr(mr,
			       IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
				       IBV_REREG_MR_CHANGE_ACCESS,
			       other_pd, memory + BYTES, BYTES, IBV_ACCESS_LOCAL_WRITE);

	EXPECT(ret == 0 || ret == IBV_REREG_MR_ERR_CMD, "returned %d", ret);
	return ret ? NULL : mr;
}

static int back_to_old(void *object)
{
	return ibv_rereg_mr(mr,
			    IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
				    IBV_REREG_MR_CHANGE_ACCESS,
			    pd, memory, BYTES, FULL);
}

static void *advise(uint32_t flags)
{
	struct ibv_sge sge = {(uintptr_t)memory, BYTES, mr->lkey};

	return of_int(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flags, &sge, 1));
}

static void *do_advise(void)
{
	return advise(IBV_ADVISE_MR_FLAG_FLUSH);
}

static void *do_advise_later(void)
{
	return advise(0);
}

static void *make_imported_pd(void)
{
	return ibv_import_pd(second, pd->handle);
}

static int end_imported_pd(void *object)
{
	ibv_unimport_pd(object);
	return 0;
}

static void *make_imported_mr(void)
{
	return ibv_import_mr(imported_pd, mr->handle);
}

static int end_imported_mr(void *object)
{
	ibv_unimport_mr(object);
	return 0;
}

static void *make_imported_dm(void)
{
	return ibv_import_dm(second, dm->handle);
}

static int end_imported_dm(void *object)
{
	ibv_unimport_dm(object);
	return 0;
}

struct verb {
	const char *name;
	int needs;
	void *(*make)(void);
	int (*end)(void *object);
	bool never; /* needs no memory */
};

#define QP_NEEDS (NEED_CTX | NEED_PD | NEED_CQ)
#define MR_NEEDS (NEED_CTX | NEED_PD)

static const struct verb verbs[] = {
	{"ibv_open_device", 0, make_context, end_context, false},
	{"ibv_import_device", NEED_CTX, make_import, end_context, false},
	{"ibv_alloc_pd", NEED_CTX, make_pd, end_pd, false},
	{"ibv_alloc_td", NEED_CTX, make_td, end_td, false},
	{"ibv_alloc_parent_domain", NEED_CTX | NEED_PD | NEED_TD, make_parent, end_pd, false},
	{"ibv_create_comp_channel", NEED_CTX, make_channel, end_channel, false},
	{"ibv_create_cq", NEED_CTX, make_cq, end_cq, false},
	{"ibv_create_cq_ex", NEED_CTX, make_cq_ex, end_cq, false},
	{"ibv_resize_cq", NEED_CTX | NEED_CQ, do_resize, back_to_small, false},
	{"ibv_create_qp", QP_NEEDS, make_plain_qp, end_qp, false},
	{"ibv_create_qp_ex: RC", QP_NEEDS, make_rc, end_qp, false},
	{"ibv_create_qp_ex: RC with builders", QP_NEEDS, make_rc_ex, end_qp, false},
	{"ibv_create_qp_ex: UC", QP_NEEDS, make_uc, end_qp, false},
	{"ibv_create_qp_ex: UD", QP_NEEDS, make_ud, end_qp, false},
	{"ibv_create_qp_ex: XRC_SEND", QP_NEEDS, make_xrc_send, end_qp, false},
	{"ibv_create_qp_ex: XRC_RECV", QP_NEEDS | NEED_XRCD, make_xrc_recv, end_qp, false},
	{"ibv_modify_qp: to RTR", QP_NEEDS | NEED_RC, do_connect, back_to_init, true},
	{"ibv_create_srq", MR_NEEDS, make_srq, end_srq, false},
	{"ibv_create_srq_ex: XRC", QP_NEEDS | NEED_XRCD, make_xrc_srq, end_srq, false},
	{"ibv_open_xrcd", NEED_CTX, make_xrcd, end_xrcd, false},
	{"ibv_create_ah", MR_NEEDS, make_ah, end_ah, false},
	{"ibv_attach_mcast", QP_NEEDS | NEED_UD, do_attach, detach, true},
	{"ibv_reg_mr", MR_NEEDS, make_mr, end_mr, false},
	{"ibv_reg_mr: on demand", MR_NEEDS, make_odp, end_mr, false},
	{"ibv_reg_mr: implicit", MR_NEEDS, make_implicit, end_mr, false},
	{"ibv_exp_reg_mr: allocated", MR_NEEDS, make_allocated, end_mr, false},
	{"ibv_exp_reg_mr: shared", MR_NEEDS, make_shared_mr, end_mr, false},
	{"ibv_exp_reg_shared_mr", MR_NEEDS | NEED_SHARED, make_attached, end_mr, false},
	{"ibv_exp_rereg_mr: allocated", MR_NEEDS | NEED_MR, do_reallocate, back_to_old, false},
	{"ibv_alloc_null_mr", MR_NEEDS, make_null, end_mr, false},
	{"ibv_alloc_dm", NEED_CTX, make_dm, end_dm, false},
	{"ibv_reg_dm_mr", MR_NEEDS | NEED_DM, make_dm_mr, end_mr, false},
	{"ibv_alloc_mw: type 1", MR_NEEDS, make_mw1, end_mw, false},
	{"ibv_alloc_mw: type 2", MR_NEEDS, make_mw2, end_mw, false},
	{"ibv_rereg_mr", MR_NEEDS | NEED_MR, do_rereg, back_to_old, true},
	{"ibv_advise_mr", MR_NEEDS | NEED_ODP, do_advise, nothing, false},
	{"ibv_advise_mr: later", MR_NEEDS | NEED_ODP, do_advise_later, nothing, false},
	{"ibv_import_pd", MR_NEEDS | NEED_SECOND, make_imported_pd, end_imported_pd, false},
	{"ibv_import_mr", MR_NEEDS | NEED_MR | NEED_SECOND | NEED_IMPORTED_PD, make_imported_mr,
	 end_imported_mr, false},
	{"ibv_import_dm", NEED_CTX | NEED_DM | NEED_SECOND, make_imported_dm, end_imported_dm,
	 false},
};

/* --- failures -------------------------------------------------------------------- */

/* A full file system is not always told from full memory: opening says which. */
static bool right_error(const struct verb *v, int err)
{
	return err == ENOMEM || (err == ENOSPC && v->end == end_context);
}

enum outcome { DONE, REFUSED, DONE_ALTHOUGH };

static enum outcome attempt(const struct verb *v, enum fail_alloc how, unsigned int nth)
{
	void *object;
	bool failed;
	int err;

	errno = 0;
	fail_alloc_begin(how, nth);
	object = v->make();
	err = errno;
	failed = fail_alloc_end();
	if (object) {
		EXPECT(v->end(object) == 0, "allocation %u failed, then the end: errno %d", nth,
		       errno);
		return failed ? DONE_ALTHOUGH : DONE;
	}
	EXPECT(failed, "no allocation failed, errno %d", err);
	EXPECT(right_error(v, err), "allocation %u failed: errno %d", nth, err);
	return REFUSED;
}

static void expect_good(const struct verb *v, unsigned int nth)
{
	void *object = v->make();

	if (EXPECT(object, "after failures of allocation %u: errno %d", nth, errno))
		EXPECT(v->end(object) == 0, "the end, after failures of allocation %u: errno %d",
		       nth, errno);
}

static long blocks(void)
{
	struct stat st = {0};

	if (ctx)
		must(fstat(ctx->cmd_fd, &st) == 0, "fstat");
	return (long)st.st_blocks;
}

/* In a context that has done nothing yet, and then again and again. Return: was the call refused?
 */
static enum outcome fail_nth(const struct verb *v, enum fail_alloc how, unsigned int nth)
{
	const int repeats =
		v->end == end_context ? 20 : REPEATS; /* a context leaves nothing behind it */
	enum outcome first;
	size_t vm;
	long before;

	prepare(v->needs);
	first = attempt(v, how, nth);
	expect_good(v, nth);
	before = blocks();
	vm = pages_vm_size();
	for (unsigned int n = 1; n < nth && first != DONE; n++)
		attempt(v, how, n);
	for (int i = 0; i < repeats && first != DONE; i++)
		attempt(v, how, nth);
	EXPECT(blocks() - before <= SLACK, "the context's file grew from %ld to %ld blocks", before,
	       blocks());
	EXPECT(TEST_SANITIZED || pages_vm_size() <= vm + VM_SLACK,
	       "the address space grew from %zu to %zu", vm, pages_vm_size());
	expect_good(v, nth);
	finish();
	return first;
}

static void verb_row(const struct verb *v, enum fail_alloc how)
{
	enum outcome outcome = REFUSED;
	unsigned int refused = 0, nth = 0;

	row("%s%s", v->name, how == FAIL_ONCE ? "" : ", no memory from there on");
	while (nth < MOST && outcome != DONE) {
		outcome = fail_nth(v, how, ++nth);
		refused += outcome == REFUSED;
	}
	EXPECT(outcome == DONE, "still failing at allocation %u", nth);
	EXPECT(v->never == (refused == 0), "refused %u times", refused);
}

int main(void)
{
	struct ibv_device **list;

	time_limit(400);
	mallopt(M_ARENA_MAX, 1); /* those of threads reserve much */
	sandbox_enter();
	setenv("ANYVERBS_DEVICES", LIMITS, 1);
	setenv("MLX_MR_ALLOC_TYPE", "CONTIG", 1);
	list = ibv_get_device_list(NULL);
	must(list && list[0], "ibv_get_device_list");
	device = list[0];
	memory = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED, "mmap");
	for (size_t i = 0; i < COUNT_OF(verbs); i++)
		for (int how = FAIL_ONCE; how <= FAIL_ONWARDS; how++)
			verb_row(&verbs[i], (enum fail_alloc)how);
	ibv_free_device_list(list);
	munmap(memory, 2 * BYTES);
	return sandbox_end();
}
