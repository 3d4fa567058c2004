/* SPDX-License-Identifier: MIT */
/* What is refused at once: for each call, which error, and that the call has changed nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define PAGE 4096ul

static struct side here, there; /* two contexts of this process */
static struct node *n, *m;

/* What a call says: a pointer; an errno value, errno set to the same; or -1. Macros, to be printed with their
 * lines. */
#define expect_null(call, want)                                                         \
	do {                                                                            \
		const void *p_ = (call);                                                \
		EXPECT(!p_, "succeeded");                                               \
		EXPECT(p_ || errno == (want), "errno %d instead of %d", errno, (want)); \
	} while (0)

#define expect_errno(call, want)                                                                 \
	do {                                                                                     \
		int ret_ = (call);                                                               \
		EXPECT(ret_ == (want), "returned %d instead of %d", ret_, (want));               \
		EXPECT((want) == 0 || errno == (want), "errno %d instead of %d", errno, (want)); \
	} while (0)

#define expect_minus_one(call, want)                                                                      \
	do {                                                                                              \
		int ret_ = (call);                                                                        \
		EXPECT(ret_ == -1 && errno == (want), "returned %d, errno %d instead of %d", ret_, errno, \
		       (want));                                                                           \
	} while (0)

/* --- ibv_create_cq --- */

static void cq_rows(void)
{
	int max = here.info.device.max_cqe, vectors = (int)here.info.comp_vectors;
	const struct {
		const char *name;
		int cqe, vector;
		struct ibv_comp_channel *channel;
		int want;
	} rows[] = {
		{"no entries", 0, 0, NULL, EINVAL},
		{"-1 entries", -1, 0, NULL, EINVAL},
		{"INT_MIN entries", INT_MIN, 0, NULL, EINVAL},
		{"max_cqe + 1 entries", max + 1, 0, NULL, EINVAL},
		{"INT_MAX entries", INT_MAX, 0, NULL, EINVAL},
		{"vector -1", 1, -1, NULL, EINVAL},
		{"vector num_comp_vectors", 1, vectors, NULL, EINVAL},
		{"channel of another context", 1, 0, m->channel, EINVAL},
		{"1 entry", 1, 0, NULL, 0},
		{"3 entries, last vector", 3, vectors - 1, n->channel, 0},
		{"max_cqe / 2 entries", max / 2, 0, NULL, 0},
		{"max_cqe entries", max, 0, NULL, 0},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_cq *cq;

		row("create_cq: %s", rows[i].name);
		errno = 0;
		cq = ibv_create_cq(n->ctx, rows[i].cqe, n, rows[i].channel, rows[i].vector);
		if (rows[i].want) {
			expect_null(cq, rows[i].want);
		} else if (EXPECT(cq, "errno %d", errno)) {
			EXPECT(cq->cqe == rows[i].cqe, "cqe %d", cq->cqe);
			EXPECT(cq->cq_context == n && cq->channel == rows[i].channel, "fields");
			EXPECT(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
		}
	}
}

/* --- ibv_create_qp --- */

static void check_created(struct ibv_qp *qp, const struct ibv_qp_init_attr *asked,
			  const struct ibv_qp_init_attr *got)
{
	EXPECT(got->cap.max_send_wr >= asked->cap.max_send_wr &&
		       got->cap.max_recv_wr >= asked->cap.max_recv_wr &&
		       got->cap.max_send_sge >= asked->cap.max_send_sge &&
		       got->cap.max_recv_sge >= asked->cap.max_recv_sge &&
		       got->cap.max_inline_data >= asked->cap.max_inline_data,
	       "a capacity is smaller than asked for");
	EXPECT(qp->state == IBV_QPS_RESET && qp->qp_type == IBV_QPT_RC && qp->pd == n->pd &&
		       qp->context == n->ctx && qp->send_cq == asked->send_cq &&
		       qp->recv_cq == asked->recv_cq && qp->qp_context == asked->qp_context,
	       "a field of the queue pair");
	EXPECT(qp->qp_num > 1 && qp->qp_num < 0xffffff, "number 0x%x", qp->qp_num);
	EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

static void qp_row(const char *name, const struct ibv_qp_init_attr *asked, int want)
{
	struct ibv_qp_init_attr attr = *asked;
	struct ibv_qp *qp;

	row("create_qp: %s", name);
	errno = 0;
	qp = ibv_create_qp(n->pd, &attr);
	if (want)
		expect_null(qp, want);
	else if (EXPECT(qp, "errno %d", errno))
		check_created(qp, asked, &attr);
}

static void qp_cap_rows(const struct ibv_qp_init_attr *good)
{
	uint32_t wr = (uint32_t)here.info.device.max_qp_wr, sge = (uint32_t)here.info.device.max_sge;
	const struct {
		const char *name;
		struct ibv_qp_cap cap;
		int want;
	} rows[] = {
		{"max_send_wr one too many", {wr + 1, 1, 1, 1, 0}, EINVAL},
		{"max_recv_wr one too many", {1, wr + 1, 1, 1, 0}, EINVAL},
		{"max_send_sge one too many", {1, 1, sge + 1, 1, 0}, EINVAL},
		{"max_recv_sge one too many", {1, 1, 1, sge + 1, 0}, EINVAL},
		{"everything UINT32_MAX", {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0}, EINVAL},
		{"1 MiB of inline data", {1, 1, 1, 1, 1 << 20}, EINVAL},
		{"no send queue", {0, 1, 1, 1, 0}, 0},
		{"no receive queue", {1, 0, 1, 0, 0}, 0},
		{"nothing at all", {0, 0, 0, 0, 0}, 0},
		{"the largest queues", {wr, wr, sge, sge, 0}, 0},
		{"the largest queues, once more", {wr, wr, sge, sge, 0}, 0},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp_init_attr attr = *good;

		attr.cap = rows[i].cap;
		qp_row(rows[i].name, &attr, rows[i].want);
	}
}

static void qp_rows(void)
{
	const struct ibv_qp_init_attr good = {
		.qp_context = &here,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {4, 4, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr attr = good;

	qp_row("all in order", &good, 0);
	attr.recv_cq = n->cq[0];
	qp_row("one CQ for both", &attr, 0);
	qp_cap_rows(&good);
	for (int type = 0; type < 300; type += type == 0 ? 1 : 99) {
		attr = good;
		attr.qp_type = (enum ibv_qp_type)type;
		qp_row("unknown type", &attr, EINVAL);
	}
	attr = good;
	attr.qp_type = IBV_QPT_DRIVER;
	qp_row("type DRIVER", &attr, EOPNOTSUPP);
	attr = good;
	attr.send_cq = NULL;
	qp_row("no send CQ", &attr, EINVAL);
	attr = good;
	attr.recv_cq = NULL;
	qp_row("no receive CQ", &attr, EINVAL);
	attr = good;
	attr.recv_cq = m->cq[0];
	qp_row("receive CQ of another context", &attr, EINVAL);
}

/* --- damaged handles --- */

enum victim { VICTIM_PD, VICTIM_MR, VICTIM_CQ, VICTIM_QP };

struct victims {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void create_victims(struct victims *v)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	v->pd = ibv_alloc_pd(n->ctx);
	v->mr = ibv_reg_mr(v->pd, n->arena, PAGE, IBV_ACCESS_LOCAL_WRITE);
	v->cq = ibv_create_cq(n->ctx, 10, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = v->cq;
	v->qp = v->cq ? ibv_create_qp(v->pd, &attr) : NULL;
	if (!v->pd || !v->mr || !v->cq || !v->qp)
		DIE("objects: errno %d", errno);
}

static void destroy_victims(struct victims *v)
{
	expect_errno(ibv_destroy_qp(v->qp), 0);
	expect_errno(ibv_destroy_cq(v->cq), 0);
	expect_errno(ibv_dereg_mr(v->mr), 0);
	expect_errno(ibv_dealloc_pd(v->pd), 0);
}

static void use_damaged_pd(struct victims *v)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	attr.send_cq = attr.recv_cq = v->cq;
	expect_errno(ibv_dealloc_pd(v->pd), ENOENT);
	errno = 0;
	expect_null(ibv_reg_mr(v->pd, n->arena, PAGE, 0), ENOENT);
	EXPECT(!ibv_create_qp(v->pd, &attr), "ibv_create_qp accepts it");
}

static void use_damaged_mr(struct victims *v)
{
	expect_errno(ibv_dereg_mr(v->mr), ENOENT);
}

static void use_damaged_cq(struct victims *v)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_wc wc;
	int ret;

	attr.send_cq = attr.recv_cq = v->cq;
	expect_errno(ibv_destroy_cq(v->cq), ENOENT);
	EXPECT(!ibv_create_qp(v->pd, &attr), "ibv_create_qp accepts it");
	ret = ibv_req_notify_cq(v->cq, 0);
	EXPECT(ret == ENOENT || ret == EFAULT || ret == EINVAL, "ibv_req_notify_cq: %d", ret);
	EXPECT(ibv_poll_cq(v->cq, 1, &wc) < 0, "ibv_poll_cq accepts it");
}

static bool refused(int ret)
{
	return (ret == ENOENT || ret == EINVAL) && errno == ret;
}

static void use_damaged_qp(struct victims *v)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_recv_wr receive = {0}, *bad_receive = NULL;

	EXPECT(refused(ibv_destroy_qp(v->qp)), "ibv_destroy_qp: errno %d", errno);
	EXPECT(refused(ibv_modify_qp(v->qp, &attr, IBV_QP_STATE)), "ibv_modify_qp: errno %d", errno);
	EXPECT(refused(ibv_query_qp(v->qp, &attr, IBV_QP_STATE, &init)), "ibv_query_qp: errno %d", errno);
	EXPECT(ibv_post_send(v->qp, &send, &bad_send) && bad_send == &send, "ibv_post_send");
	EXPECT(ibv_post_recv(v->qp, &receive, &bad_receive) && bad_receive == &receive, "ibv_post_recv");
}

static uint32_t *handle_of(struct victims *v, enum victim which)
{
	switch (which) {
	case VICTIM_PD:
		return &v->pd->handle;
	case VICTIM_MR:
		return &v->mr->handle;
	case VICTIM_CQ:
		return &v->cq->handle;
	default:
		return &v->qp->handle;
	}
}

static void handle_rows(void)
{
	static const char *const name[] = {"PD", "MR", "CQ", "QP"};
	static void (*const use[])(struct victims *) = {use_damaged_pd, use_damaged_mr, use_damaged_cq,
							use_damaged_qp};

	for (enum victim which = VICTIM_PD; which <= VICTIM_QP; which++) {
		struct victims v;
		uint32_t *handle, good, bad[5];

		create_victims(&v);
		handle = handle_of(&v, which);
		good = *handle;
		bad[0] = good ^ 0xdeadbeef;
		bad[1] = 0;
		bad[2] = UINT32_MAX;
		bad[3] = good + 1;
		bad[4] = good - 1;
		for (size_t i = 0; i < COUNT_OF(bad); i++) {
			row("%s with handle 0x%x instead of 0x%x is unknown", name[which], bad[i], good);
			*handle = bad[i];
			errno = 0;
			use[which](&v);
		}
		row("%s works after its handle is restored", name[which]);
		*handle = good;
		destroy_victims(&v);
	}
}

static void context_rows(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(n->ctx);

	row("dealloc_pd: a PD of another context is unknown");
	pd->context = m->ctx;
	expect_errno(ibv_dealloc_pd(pd), ENOENT);
	pd->context = n->ctx;
	expect_errno(ibv_dealloc_pd(pd), 0);
}

/* --- objects in use --- */

static void busy_rows(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(n->ctx);
	struct ibv_cq *other = ibv_create_cq(n->ctx, 10, NULL, channel, 0);
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct victims v;
	struct ibv_qp *qp;

	create_victims(&v);
	row("dealloc_pd: a PD with an MR and a QP is busy");
	expect_errno(ibv_dealloc_pd(v.pd), EBUSY);
	row("destroy_cq: a CQ that a QP sends and receives with is busy");
	expect_errno(ibv_destroy_cq(v.cq), EBUSY);
	row("destroy_comp_channel: a channel with a CQ is busy");
	expect_errno(ibv_destroy_comp_channel(channel), EBUSY);
	attr.send_cq = v.cq;
	attr.recv_cq = other;
	qp = ibv_create_qp(v.pd, &attr);
	if (!qp)
		DIE("ibv_create_qp");
	row("destroy_cq: a CQ that a QP only receives with is busy");
	expect_errno(ibv_destroy_cq(other), EBUSY);
	expect_errno(ibv_destroy_qp(v.qp), 0);
	row("destroy_cq: a CQ that a QP only sends with is busy");
	expect_errno(ibv_destroy_cq(v.cq), EBUSY);
	expect_errno(ibv_destroy_qp(qp), 0);
	row("dealloc_pd: a PD with an MR is busy");
	expect_errno(ibv_dealloc_pd(v.pd), EBUSY);
	expect_errno(ibv_dereg_mr(v.mr), 0);
	row("what was busy goes once it is free");
	expect_errno(ibv_dealloc_pd(v.pd), 0);
	expect_errno(ibv_destroy_cq(v.cq), 0);
	expect_errno(ibv_destroy_cq(other), 0);
	expect_errno(ibv_destroy_comp_channel(channel), 0);
}

/* --- ibv_reg_mr --- */

enum {
	LW = IBV_ACCESS_LOCAL_WRITE,
	RW = IBV_ACCESS_REMOTE_WRITE,
	RR = IBV_ACCESS_REMOTE_READ,
	RA = IBV_ACCESS_REMOTE_ATOMIC
};

static void mr_row(const char *name, void *addr, size_t length, int access, int want)
{
	struct ibv_mr *mr;

	row("reg_mr: %s", name);
	errno = 0;
	mr = ibv_reg_mr(n->pd, addr, length, access);
	if (want) {
		expect_null(mr, want);
		return;
	}
	if (!EXPECT(mr, "errno %d", errno))
		return;
	EXPECT(mr->addr == addr && mr->length == length && mr->pd == n->pd && mr->context == n->ctx,
	       "a field");
	EXPECT(mr->lkey != 0 && mr->lkey != UINT32_MAX && mr->rkey != 0, "keys 0x%x 0x%x", mr->lkey,
	       mr->rkey);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void access_rows(void)
{
	static const struct {
		const char *name;
		int access, want;
	} rows[] = {
		{"REMOTE_WRITE without LOCAL_WRITE", RW, EINVAL},
		{"REMOTE_ATOMIC without LOCAL_WRITE", RA, EINVAL},
		{"both without LOCAL_WRITE", RW | RA | RR, EINVAL},
		{"ON_DEMAND", LW | IBV_ACCESS_ON_DEMAND, 0},
		{"no flags", 0, 0},
		{"REMOTE_READ alone", RR, 0},
		{"MW_BIND alone", IBV_ACCESS_MW_BIND, 0},
		{"all rights", LW | RW | RR | RA | IBV_ACCESS_MW_BIND, 0},
		{"ZERO_BASED", LW | IBV_ACCESS_ZERO_BASED, 0},
		{"HUGETLB without ON_DEMAND is ignored", LW | IBV_ACCESS_HUGETLB, 0},
		{"RELAXED_ORDERING", LW | IBV_ACCESS_RELAXED_ORDERING, 0},
		{"FLUSH_GLOBAL of newer headers", 1 << 8, 0},
		{"FLUSH_PERSISTENT of newer headers", 1 << 9, EOPNOTSUPP},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		mr_row(rows[i].name, n->arena, PAGE, rows[i].access, rows[i].want);
	for (int bit = 10; bit < 32; bit++) {
		char name[64];
		bool optional = bit >= 20 && bit <= 29;

		snprintf(name, sizeof(name), "bit %d, %s", bit, optional ? "optional" : "unknown");
		mr_row(name, n->arena, PAGE, (int)(LW | 1u << bit), optional ? 0 : EINVAL);
	}
}

/* Far from where the kernel places what other threads map meanwhile: a hole stays a hole. */
#define LONELY ((void *)0x200000000000)

static void range_rows(void)
{
	uint8_t *p = mmap(LONELY, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t max = here.info.device.max_mr_size;

	munmap(p + 2 * PAGE, PAGE);
	mprotect(p + 4 * PAGE, PAGE, PROT_READ);
	mprotect(p + 6 * PAGE, PAGE, PROT_NONE);
	mr_row("unmapped memory", p + 2 * PAGE, PAGE, LW, EFAULT);
	mr_row("unmapped memory, for reading", p + 2 * PAGE, PAGE, 0, EFAULT);
	mr_row("one byte of unmapped memory at the end", p + PAGE, PAGE + 1, 0, EFAULT);
	mr_row("a hole in the middle", p + PAGE + 1, 2 * PAGE, 0, EFAULT);
	mr_row("address NULL", NULL, PAGE, LW, EFAULT);
	mr_row("bad flags and bad memory: the flags win", p + 2 * PAGE, PAGE, RW, EINVAL);
	mr_row("read-only memory, LOCAL_WRITE", p + 4 * PAGE, PAGE, LW, EFAULT);
	mr_row("read-only memory, MW_BIND", p + 4 * PAGE, PAGE, IBV_ACCESS_MW_BIND, EFAULT);
	mr_row("read-only memory in the middle, LOCAL_WRITE", p + 3 * PAGE, 3 * PAGE, LW, EFAULT);
	mr_row("read-only memory, no flags", p + 4 * PAGE, PAGE, 0, 0);
	mr_row("read-only memory, REMOTE_READ", p + 4 * PAGE, PAGE, RR, 0);
	mr_row("memory without rights", p + 6 * PAGE, PAGE, 0, EFAULT);
	mr_row("shared memory", shared, 2 * PAGE, LW | RW, 0);
	mr_row("text of the program", (void *)(uintptr_t)mr_row, 1, RR, 0);
	mr_row("an address range that wraps", (void *)-PAGE, 2 * PAGE, 0, EINVAL);
	mr_row("a length that wraps", p, SIZE_MAX, 0, EINVAL);
	mr_row("a page round-up that wraps", (void *)-PAGE, PAGE - 1, 0, EINVAL);
	if (max < SIZE_MAX)
		mr_row("longer than max_mr_size", p, max + 1, 0, EINVAL);
	mr_row("length 0", p, 0, LW, 0);
	mr_row("length 0, address not aligned", p + 1, 0, LW, 0);
	mr_row("length 0, unmapped memory", p + 2 * PAGE, 0, LW, 0);
	mr_row("one byte", p + 5, 1, LW | RR, 0);
	mr_row("twice the same range", n->arena, NODE_ARENA, LW, 0);
	munmap(p, 8 * PAGE);
	munmap(shared, 2 * PAGE);
}

static void iova_rows(void)
{
	const struct {
		const char *name;
		uint64_t iova;
		int access, want;
	} rows[] = {
		{"another offset in the page", (uintptr_t)n->arena + 8, LW, EINVAL},
		{"wraps", -PAGE, LW, EINVAL},
		{"0", 0, LW, 0},
		{"anywhere", 0x123456789000, LW | RW, 0},
		{"bad flags", 0, RW, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr;

		row("reg_mr_iova: %s", rows[i].name);
		errno = 0;
		mr = ibv_reg_mr_iova(n->pd, n->arena, 2 * PAGE, rows[i].iova, rows[i].access);
		if (rows[i].want) {
			expect_null(mr, rows[i].want);
		} else if (EXPECT(mr, "errno %d", errno)) {
			EXPECT(mr->addr == n->arena, "addr is the virtual address");
			EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
		}
	}
}

static void key_rows(void)
{
	struct ibv_mr *mr[200];
	uint32_t before;

	row("reg_mr: keys of living regions are all different");
	for (size_t i = 0; i < COUNT_OF(mr); i++) {
		mr[i] = ibv_reg_mr(n->pd, n->arena, PAGE, LW);
		for (size_t k = 0; mr[i] && k < i; k++)
			EXPECT(mr[k]->lkey != mr[i]->lkey, "key 0x%x twice", mr[i]->lkey);
	}
	before = mr[COUNT_OF(mr) - 1]->lkey;
	for (size_t i = 0; i < COUNT_OF(mr); i++)
		EXPECT(ibv_dereg_mr(mr[i]) == 0, "ibv_dereg_mr");
	row("reg_mr: a key is not given out again soon");
	for (size_t i = 0; i < COUNT_OF(mr); i++) {
		struct ibv_mr *again = ibv_reg_mr(n->pd, n->arena, PAGE, LW);

		EXPECT(again->lkey != before, "after %zu registrations", i);
		ibv_dereg_mr(again);
	}
}

/* --- ibv_modify_qp --- */

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                                        \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                               \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static const int full_mask[] = {
	[IBV_QPS_INIT] = INIT_MASK, [IBV_QPS_RTR] = RTR_MASK, [IBV_QPS_RTS] = RTS_MASK};

/* Attributes good for any step towards a connection with itself. */
static struct ibv_qp_attr good_attr(enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {
		.qp_state = to,
		.port_num = 1,
		.qp_access_flags = LW | RW,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = n->qp[0]->qp_num,
		.rq_psn = 0x123456,
		.sq_psn = 0x123456,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = here.info.gid, .hop_limit = 64}},
	};

	return attr;
}

static void to_state(enum ibv_qp_state target)
{
	row("modify_qp: the complete masks lead to state %d", (int)target);
	EXPECT(node_set_state(n, 0, IBV_QPS_RESET) == 0, "to RESET");
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= target && s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = good_attr(s);

		expect_errno(ibv_modify_qp(n->qp[0], &attr, full_mask[s]), 0);
		EXPECT(n->qp[0]->state == s && node_state(n, 0) == s, "state is %d", (int)node_state(n, 0));
	}
}

/* The modification is refused, and the complete one still works: nothing has changed. */
static void refuse(struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state before = node_state(n, 0);

	errno = 0;
	expect_errno(ibv_modify_qp(n->qp[0], attr, mask), EINVAL);
	EXPECT(node_state(n, 0) == before && n->qp[0]->state == before, "the state changed to %d",
	       (int)node_state(n, 0));
}

static void missing_bit_rows(void)
{
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		to_state(to - 1);
		for (int bit = 0; bit < 21; bit++) {
			struct ibv_qp_attr attr = good_attr(to);

			if (!(full_mask[to] & ~IBV_QP_STATE & 1 << bit))
				continue;
			row("modify_qp: to state %d without required bit %d", (int)to, bit);
			refuse(&attr, full_mask[to] & ~(1 << bit));
		}
		to_state(to);
	}
}

static void extra_bit_rows(void)
{
	static const struct {
		enum ibv_qp_state to;
		int extra;
	} rows[] = {
		{IBV_QPS_INIT, IBV_QP_QKEY},	 {IBV_QPS_INIT, IBV_QP_SQ_PSN},
		{IBV_QPS_INIT, IBV_QP_DEST_QPN}, {IBV_QPS_RTR, IBV_QP_SQ_PSN},
		{IBV_QPS_RTR, IBV_QP_TIMEOUT},	 {IBV_QPS_RTS, IBV_QP_DEST_QPN},
		{IBV_QPS_RTS, IBV_QP_AV},	 {IBV_QPS_RTS, IBV_QP_PATH_MTU},
		{IBV_QPS_INIT, IBV_QP_CAP},	 {IBV_QPS_RTS, IBV_QP_RATE_LIMIT},
		{IBV_QPS_RTR, 1 << 30},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp_attr attr = good_attr(rows[i].to);

		to_state(rows[i].to - 1);
		row("modify_qp: to state %d with bit 0x%x, which is neither required nor optional",
		    (int)rows[i].to, (unsigned int)rows[i].extra);
		refuse(&attr, full_mask[rows[i].to] | rows[i].extra);
	}
}

static void transition_rows(void)
{
	static const struct {
		enum ibv_qp_state from, to;
		int mask;
	} rows[] = {
		{IBV_QPS_RESET, IBV_QPS_RTR, RTR_MASK},
		{IBV_QPS_RESET, IBV_QPS_RTS, RTS_MASK},
		{IBV_QPS_RESET, IBV_QPS_ERR, IBV_QP_STATE},
		{IBV_QPS_RESET, IBV_QPS_SQD, IBV_QP_STATE},
		{IBV_QPS_INIT, IBV_QPS_RTS, RTS_MASK},
		{IBV_QPS_INIT, IBV_QPS_SQD, IBV_QP_STATE},
		{IBV_QPS_RTR, IBV_QPS_INIT, INIT_MASK},
		{IBV_QPS_RTR, IBV_QPS_RTR, RTR_MASK},
		{IBV_QPS_RTS, IBV_QPS_INIT, INIT_MASK},
		{IBV_QPS_RTS, IBV_QPS_RTR, RTR_MASK},
		{IBV_QPS_RTS, IBV_QPS_SQE, IBV_QP_STATE},
		{IBV_QPS_RTS, 7, IBV_QP_STATE},
		{IBV_QPS_RTS, -1, IBV_QP_STATE},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp_attr attr = good_attr(rows[i].to);

		to_state(rows[i].from);
		row("modify_qp: there is no transition %d to %d", (int)rows[i].from, (int)rows[i].to);
		refuse(&attr, rows[i].mask);
	}
	to_state(IBV_QPS_RTS);
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_SQE; to++) {
		struct ibv_qp_attr attr = good_attr(to);

		row("modify_qp: there is no transition ERR to %d", (int)to);
		refuse(&attr, to <= IBV_QPS_RTS ? full_mask[to] : IBV_QP_STATE);
	}
}

#define VALUE_ROW(step, text, expression)                  \
	do {                                               \
		struct ibv_qp_attr attr = good_attr(step); \
		row("modify_qp: %s", text);                \
		attr.expression;                           \
		refuse(&attr, full_mask[step]);            \
	} while (0)

static void value_rows(void)
{
	const struct ibv_device_attr *dev = &here.info.device;
	struct ibv_port_attr port;

	ibv_query_port(n->ctx, 1, &port);
	to_state(IBV_QPS_RESET);
	VALUE_ROW(IBV_QPS_INIT, "port 0", port_num = 0);
	VALUE_ROW(IBV_QPS_INIT, "port 2", port_num = 2);
	VALUE_ROW(IBV_QPS_INIT, "P_Key index beyond the table", pkey_index = 1);
	VALUE_ROW(IBV_QPS_INIT, "unknown access flag", qp_access_flags = 1 << 19);
	to_state(IBV_QPS_INIT);
	VALUE_ROW(IBV_QPS_RTR, "path MTU 0", path_mtu = 0);
	VALUE_ROW(IBV_QPS_RTR, "path MTU above the port's", path_mtu = port.max_mtu + 1);
	VALUE_ROW(IBV_QPS_RTR, "min_rnr_timer 32", min_rnr_timer = 32);
	VALUE_ROW(IBV_QPS_RTR, "no GRH", ah_attr.is_global = 0);
	VALUE_ROW(IBV_QPS_RTR, "port 2 in the address vector", ah_attr.port_num = 2);
	VALUE_ROW(IBV_QPS_RTR, "empty row of the GID table",
		  ah_attr.grh.sgid_index = (uint8_t)(port.gid_tbl_len - 1));
	VALUE_ROW(IBV_QPS_RTR, "GID index beyond the table", ah_attr.grh.sgid_index = 255);
	if (dev->max_qp_rd_atom < 255)
		VALUE_ROW(IBV_QPS_RTR, "max_dest_rd_atomic one too many",
			  max_dest_rd_atomic = (uint8_t)(dev->max_qp_rd_atom + 1));
	to_state(IBV_QPS_RTR);
	VALUE_ROW(IBV_QPS_RTS, "timeout 32", timeout = 32);
	VALUE_ROW(IBV_QPS_RTS, "retry_cnt 8", retry_cnt = 8);
	VALUE_ROW(IBV_QPS_RTS, "rnr_retry 8", rnr_retry = 8);
	if (dev->max_qp_init_rd_atom < 255)
		VALUE_ROW(IBV_QPS_RTS, "max_rd_atomic one too many",
			  max_rd_atomic = (uint8_t)(dev->max_qp_init_rd_atom + 1));
	to_state(IBV_QPS_RTS);
}

static void cur_state_rows(void)
{
	struct ibv_qp_attr attr = good_attr(IBV_QPS_RTS);

	to_state(IBV_QPS_RTR);
	row("modify_qp: a current state that permits no such transition");
	attr.cur_qp_state = IBV_QPS_INIT;
	refuse(&attr, RTS_MASK | IBV_QP_CUR_STATE);
	row("modify_qp: the right current state may be given");
	attr.cur_qp_state = IBV_QPS_RTR;
	expect_errno(ibv_modify_qp(n->qp[0], &attr, RTS_MASK | IBV_QP_CUR_STATE), 0);
	row("modify_qp: an optional attribute without a change of state");
	attr.min_rnr_timer = 5;
	expect_errno(ibv_modify_qp(n->qp[0], &attr, IBV_QP_MIN_RNR_TIMER), 0);
	row("modify_qp: a path for migration, which is not offered");
	refuse(&attr, IBV_QP_ALT_PATH);
	row("modify_qp: an attribute that may not change in RTS");
	refuse(&attr, IBV_QP_TIMEOUT);
}

static void query_qp_row(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	to_state(IBV_QPS_RTS);
	row("query_qp: everything reads back as set");
	expect_errno(ibv_query_qp(n->qp[0], &attr, -1, &init), 0);
	EXPECT(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS, "state");
	EXPECT(attr.sq_psn == 0x123456 && attr.rq_psn == 0x123456, "PSNs 0x%x 0x%x", attr.sq_psn,
	       attr.rq_psn);
	EXPECT(attr.path_mtu == IBV_MTU_1024 && attr.dest_qp_num == n->qp[0]->qp_num &&
		       attr.qp_access_flags == (LW | RW),
	       "MTU, destination, access");
	EXPECT(attr.timeout == 14 && attr.retry_cnt == 7 && attr.rnr_retry == 7 && attr.min_rnr_timer == 12,
	       "timers");
	EXPECT(attr.max_rd_atomic == 1 && attr.max_dest_rd_atomic == 1 && attr.port_num == 1,
	       "resources, port");
	EXPECT(!memcmp(&attr.ah_attr.grh.dgid, &here.info.gid, 16) && attr.ah_attr.is_global, "address");
	EXPECT(init.qp_type == IBV_QPT_RC && init.send_cq == n->cq[0] && init.recv_cq == n->cq[1] &&
		       init.cap.max_send_wr == 4 && attr.cap.max_recv_wr == 4,
	       "creation attributes");
}

static void modify_rows(void)
{
	struct node_qp_spec spec = {.cap = {4, 4, 2, 2, 64}, .recv_cq = 1};

	if (node_create_qp(n, 0, &spec))
		DIE("ibv_create_qp");
	missing_bit_rows();
	extra_bit_rows();
	transition_rows();
	value_rows();
	cur_state_rows();
	query_qp_row();
	row("destroy_qp: in RTS");
	EXPECT(node_destroy_qp(n, 0) == 0, "ibv_destroy_qp");
}

/* --- posting --- */

#define SLOTS 4

static struct node_send a_send(uint64_t wr_id)
{
	return (struct node_send){.wr_id = wr_id,
				  .opcode = IBV_WR_SEND,
				  .flags = IBV_SEND_SIGNALED,
				  .num_sge = 1,
				  .sge = {side_sge(&here, KEY_FULL, 0, 8)}};
}

static struct node_recv a_receive(uint64_t wr_id)
{
	return (struct node_recv){.wr_id = wr_id, .num_sge = 1, .sge = {side_sge(&here, KEY_FULL, PAGE, 8)}};
}

static void expect_refused(struct node_posted posted, int bad, int want)
{
	EXPECT(posted.ret == want && posted.errno_ == want, "returned %d, errno %d instead of %d", posted.ret,
	       posted.errno_, want);
	EXPECT(posted.bad == bad, "bad_wr is element %d instead of %d", posted.bad, bad);
}

/* A queue pair of @SLOTS requests connected with itself. */
static void create_self(const struct ibv_qp_cap *cap, enum ibv_qp_state to)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();

	if (cap)
		spec.cap = *cap;
	else
		spec.cap.max_send_wr = spec.cap.max_recv_wr = SLOTS;
	spec.cap.max_send_sge = spec.cap.max_recv_sge = 2;
	pair_create(&here, 0, &here, 0, &spec);
	link.to = to;
	if (to != IBV_QPS_RESET)
		pair_connect(&here, 0, &link, &here, 0, &link);
}

static void post_state_rows(void)
{
	struct node_send send = a_send(1);
	struct node_recv receive = a_receive(1);

	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_RTR; s++) {
		create_self(NULL, s);
		row("post_send in state %d", (int)s);
		expect_refused(node_post_send(n, 0, &send, 1), 0, EINVAL);
		row("post_recv in state %d", (int)s);
		if (s == IBV_QPS_RESET)
			expect_refused(node_post_recv(n, 0, &receive, 1), 0, EINVAL);
		else
			EXPECT(node_post_recv(n, 0, &receive, 1).ret == 0, "refused");
		node_destroy_qp(n, 0);
	}
}

/* [good, bad, good]: the first is executed, the second refused, the third never seen. */
static void bad_in_the_middle(const char *name, struct node_send bad)
{
	struct node_send list[3] = {a_send(1), bad, a_send(3)};
	struct node_recv receive[2] = {a_receive(11), a_receive(12)};
	struct ibv_wc wc[4];

	row("post_send: %s", name);
	create_self(NULL, IBV_QPS_RTS);
	EXPECT(node_post_recv(n, 0, receive, 2).ret == 0, "ibv_post_recv");
	expect_refused(node_post_send(n, 0, list, 3), 1, EINVAL);
	EXPECT(node_poll(n, 0, 2, 0, wc) == 1 && wc[0].wr_id == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "the request before it was not executed, or one behind it was");
	EXPECT(node_poll(n, 1, 2, 0, wc) == 1 && wc[0].wr_id == 11, "receives");
	EXPECT(node_state(n, 0) == IBV_QPS_RTS, "state %d", (int)node_state(n, 0));
	EXPECT(node_post_send(n, 0, list, 1).ret == 0 && node_poll(n, 0, 1, 100, wc) == 1 &&
		       wc[0].status == IBV_WC_SUCCESS,
	       "the queue pair does not go on");
	node_destroy_qp(n, 0);
}

static void bad_request_rows(void)
{
	struct node_send bad = a_send(2);

	bad.opcode = (enum ibv_wr_opcode)99;
	bad_in_the_middle("opcode 99", bad);
	bad.opcode = (enum ibv_wr_opcode) - 1;
	bad_in_the_middle("opcode -1", bad);
	bad.opcode = IBV_WR_DRIVER1;
	bad_in_the_middle("opcode DRIVER1", bad);
	bad.opcode = IBV_WR_TSO;
	bad_in_the_middle("opcode TSO on RC", bad);
	bad = a_send(2);
	bad.num_sge = 3;
	bad.sge[1] = bad.sge[2] = bad.sge[0];
	bad_in_the_middle("one element too many", bad);
	bad.num_sge = -1;
	bad_in_the_middle("-1 elements", bad);
	bad = a_send(2);
	bad.flags |= IBV_SEND_INLINE;
	bad.sge[0].length = 513;
	bad_in_the_middle("one byte of inline data too many", bad);
	bad.sge[0].length = UINT32_MAX;
	bad_in_the_middle("4 GiB of inline data", bad);
	bad.sge[0].length = 8;
	bad.opcode = IBV_WR_RDMA_READ;
	bad.remote_addr = here.info.base[KEY_FULL];
	bad.rkey = here.info.key[KEY_FULL];
	bad_in_the_middle("inline READ", bad);
	bad.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	bad_in_the_middle("inline atomic", bad);
}

static void full_send_queue_row(void)
{
	struct node_send list[SLOTS + 3];
	struct node_recv receive[SLOTS];
	struct ibv_wc wc[SLOTS + 3];

	row("post_send: a full queue refuses the request after the last slot");
	create_self(NULL, IBV_QPS_RTS);
	for (uint64_t i = 0; i < COUNT_OF(list); i++)
		list[i] = a_send(i);
	for (uint64_t i = 0; i < COUNT_OF(receive); i++)
		receive[i] = a_receive(i);
	EXPECT(node_post_recv(n, 0, receive, SLOTS).ret == 0, "ibv_post_recv");
	expect_refused(node_post_send(n, 0, list, SLOTS + 3), SLOTS, ENOMEM);
	expect_refused(node_post_send(n, 0, list, 1), 0, ENOMEM);
	EXPECT(node_poll(n, 0, SLOTS + 1, 0, wc) == SLOTS, "completions");
	for (uint64_t i = 0; i < SLOTS; i++)
		EXPECT(wc[i].wr_id == i && wc[i].status == IBV_WC_SUCCESS, "completion %d", (int)i);
	row("post_send: slots are free once completions are polled");
	EXPECT(node_poll(n, 1, SLOTS, 0, wc) == SLOTS && node_post_recv(n, 0, receive, SLOTS).ret == 0,
	       "receives");
	EXPECT(node_post_send(n, 0, list, SLOTS).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, SLOTS + 1, 0, wc) == SLOTS, "completions");
	node_destroy_qp(n, 0);
}

static void full_receive_queue_row(void)
{
	struct node_recv list[SLOTS + 3];

	row("post_recv: a full queue refuses the request after the last slot");
	create_self(NULL, IBV_QPS_RTS);
	for (uint64_t i = 0; i < COUNT_OF(list); i++)
		list[i] = a_receive(i);
	expect_refused(node_post_recv(n, 0, list, SLOTS + 3), SLOTS, ENOMEM);
	expect_refused(node_post_recv(n, 0, list, 1), 0, ENOMEM);
	node_destroy_qp(n, 0);
	row("post_recv: too many elements in the second of three");
	create_self(NULL, IBV_QPS_RTS);
	list[1].num_sge = 3;
	expect_refused(node_post_recv(n, 0, list, 3), 1, EINVAL);
	list[1].num_sge = -1;
	expect_refused(node_post_recv(n, 0, list, 3), 1, EINVAL);
	list[1] = a_receive(1);
	expect_refused(node_post_recv(n, 0, list, SLOTS), SLOTS - 2, ENOMEM);
	node_destroy_qp(n, 0);
}

static void endless_list_row(void)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

	row("post_recv: a list that loops stops when the queue is full");
	create_self(NULL, IBV_QPS_RTS);
	wr.next = &wr;
	expect_errno(ibv_post_recv(n->qp[0], &wr, &bad), ENOMEM);
	EXPECT(bad == &wr, "bad_wr");
	node_destroy_qp(n, 0);
}

static void no_queue_rows(void)
{
	const struct ibv_qp_cap none = {0};
	struct node_send send = a_send(1);
	struct node_recv receive = a_receive(1);

	row("a queue without slots takes no request");
	create_self(&none, IBV_QPS_RTS);
	expect_refused(node_post_send(n, 0, &send, 1), 0, ENOMEM);
	expect_refused(node_post_recv(n, 0, &receive, 1), 0, ENOMEM);
	node_destroy_qp(n, 0);
}

static void error_state_row(void)
{
	struct node_send send = a_send(7);
	struct node_recv receive = a_receive(8);
	struct ibv_wc wc[2];

	row("posts in state ERR succeed and are flushed");
	create_self(NULL, IBV_QPS_RTS);
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	send.flags = 0;
	EXPECT(node_post_send(n, 0, &send, 1).ret == 0 && node_post_recv(n, 0, &receive, 1).ret == 0,
	       "refused");
	EXPECT(node_poll(n, 0, 2, 0, wc) == 1 && wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[0].wr_id == 7,
	       "send");
	EXPECT(node_poll(n, 1, 2, 0, wc) == 1 && wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[0].wr_id == 8,
	       "receive");
	node_destroy_qp(n, 0);
}

static void post_rows(void)
{
	post_state_rows();
	bad_request_rows();
	full_send_queue_row();
	full_receive_queue_row();
	endless_list_row();
	no_queue_rows();
	error_state_row();
}

/* --- events and queries --- */

static void event_rows(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	row("get_cq_event: nothing to read, non-blocking");
	fcntl(n->channel->fd, F_SETFL, fcntl(n->channel->fd, F_GETFL) | O_NONBLOCK);
	errno = 0;
	expect_minus_one(ibv_get_cq_event(n->channel, &cq, &context), EAGAIN);
	row("get_async_event: nothing to read, non-blocking");
	errno = 0;
	expect_minus_one(ibv_get_async_event(n->ctx, &event), EAGAIN);
	row("poll_cq: no entries wanted, and none there");
	EXPECT(ibv_poll_cq(n->cq[0], 0, &wc) == 0 && ibv_poll_cq(n->cq[0], 1, &wc) == 0, "not 0");
}

static void gid_rows(void)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	union ibv_gid gid;

	ibv_query_port(n->ctx, 1, &port);
	row("query_gid: bounds of index and port");
	expect_minus_one(ibv_query_gid(n->ctx, 1, -1, &gid), EINVAL);
	expect_minus_one(ibv_query_gid(n->ctx, 1, port.gid_tbl_len, &gid), EINVAL);
	expect_minus_one(ibv_query_gid(n->ctx, 0, 0, &gid), EINVAL);
	expect_minus_one(ibv_query_gid(n->ctx, 2, 0, &gid), EINVAL);
	row("query_gid: an empty row is all zeros");
	EXPECT(ibv_query_gid(n->ctx, 1, port.gid_tbl_len - 1, &gid) == 0 && !gid.global.interface_id &&
		       !gid.global.subnet_prefix,
	       "it is not");
	row("query_gid_ex: bounds, flags, an empty row");
	expect_errno(ibv_query_gid_ex(n->ctx, 1, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
	expect_errno(ibv_query_gid_ex(n->ctx, 2, 0, &entry, 0), EINVAL);
	expect_errno(ibv_query_gid_ex(n->ctx, 1, 0, &entry, 1), EINVAL);
	expect_errno(ibv_query_gid_ex(n->ctx, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0), ENODATA);
	expect_errno(ibv_query_gid_ex(n->ctx, 1, 0, &entry, 0), 0);
	row("query_gid_table: no room, bad flags");
	EXPECT(ibv_query_gid_table(n->ctx, &entry, 0, 0) == -EINVAL, "no room");
	EXPECT(ibv_query_gid_table(n->ctx, &entry, 1, 1) == -EINVAL, "flags");
}

static void query_rows(void)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_device_attr_ex ex;
	struct ibv_port_attr port;
	__be16 pkey;

	row("query_pkey: bounds of index and port");
	expect_minus_one(ibv_query_pkey(n->ctx, 1, -1, &pkey), EINVAL);
	expect_minus_one(ibv_query_pkey(n->ctx, 1, 1, &pkey), EINVAL);
	expect_minus_one(ibv_query_pkey(n->ctx, 0, 0, &pkey), EINVAL);
	expect_minus_one(ibv_query_pkey(n->ctx, 2, 0, &pkey), EINVAL);
	EXPECT(ibv_query_pkey(n->ctx, 1, 0, &pkey) == 0 && pkey == htons(0xffff), "the default P_Key");
	EXPECT(ibv_get_pkey_index(n->ctx, 1, htons(0xffff)) == 0, "its index");
	EXPECT(ibv_get_pkey_index(n->ctx, 1, htons(0x1234)) == -1, "an unknown one's");
	row("query_port: bounds of the port");
	expect_errno(ibv_query_port(n->ctx, 0, &port), EINVAL);
	expect_errno(ibv_query_port(n->ctx, 2, &port), EINVAL);
	row("query_device_ex: unknown input");
	EXPECT(ibv_query_device_ex(n->ctx, &input, &ex) == EINVAL,
	       "the inline verb refuses it without errno");
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(100);
	sandbox_enter();
	side_open(&here, NULL);
	side_open(&there, NULL);
	n = here.node;
	m = there.node;
	cq_rows();
	qp_rows();
	handle_rows();
	context_rows();
	busy_rows();
	access_rows();
	range_rows();
	iova_rows();
	key_rows();
	modify_rows();
	post_rows();
	event_rows();
	gid_rows();
	query_rows();
	side_stop(&here);
	side_stop(&there);
	sandbox_leave();
	return summary();
}
