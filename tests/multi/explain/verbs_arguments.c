/* SPDX-License-Identifier: MIT */
/* Verbs that refuse: masks and flags that are unknown, objects that are none, what is left out. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <anyverbs/as_notify.h>

#include "lib/newer_verbs.h"
#include "lib/to_rts.h"
#include "verbs.h"

#define BYTES 4096u

/* --- nothing instead of an object, and bits without a meaning --------------------- */

static int no_pd(uint64_t unused)
{
	return ibv_dealloc_pd(NULL);
}

static int td_mask(uint64_t mask)
{
	struct ibv_td_init_attr attr = {.comp_mask = (uint32_t)mask};

	return failed(ibv_alloc_td(n->ctx, &attr));
}

static int dm_mask(uint64_t mask)
{
	struct ibv_alloc_dm_attr attr = {.length = 64, .comp_mask = (uint32_t)mask};

	return failed(ibv_alloc_dm(n->ctx, &attr));
}

static int values_mask(uint64_t mask)
{
	struct ibv_values_ex values = {.comp_mask = (uint32_t)mask};

	return ibv_query_rt_values_ex(n->ctx, &values);
}

static int poll_mask(uint64_t mask)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 1};
	struct ibv_poll_cq_attr attr = {.comp_mask = (uint32_t)mask};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(n->ctx, &init);
	int err = ibv_start_poll(cq, &attr);

	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	return err;
}

static int poll_count(uint64_t count)
{
	struct ibv_wc wc;

	return -ibv_poll_cq(n->cq[0], (int)count, &wc);
}

static int gid_flags(uint64_t flags)
{
	struct ibv_gid_entry entry;

	return ibv_query_gid_ex(n->ctx, 1, 0, &entry, (uint32_t)flags);
}

static int gids_flags(uint64_t flags)
{
	struct ibv_gid_entry entry;

	return (int)-ibv_query_gid_table(n->ctx, &entry, 1, (uint32_t)flags);
}

static int gids_room(uint64_t entries)
{
	struct ibv_gid_entry entry;

	return (int)-ibv_query_gid_table(n->ctx, &entry, entries, 0);
}

static int parent_mask(uint64_t mask)
{
	struct ibv_parent_domain_init_attr attr = {.pd = n->pd, .comp_mask = (uint32_t)mask};

	return failed(ibv_alloc_parent_domain(n->ctx, &attr));
}

static int parent_pd(uint64_t unused)
{
	struct ibv_parent_domain_init_attr attr = {.pd = NULL};

	return failed(ibv_alloc_parent_domain(n->ctx, &attr));
}

static int parent_td(uint64_t unused)
{
	struct ibv_td td = {.context = NULL};
	struct ibv_parent_domain_init_attr attr = {.pd = n->pd, .td = &td};

	return failed(ibv_alloc_parent_domain(n->ctx, &attr));
}

static int qp_of_another_context(uint64_t unused)
{
	struct ibv_context *other = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_qp_init_attr_ex attr = plain_qp();
	int err;

	attr.pd = pd;
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS; /* else the header makes it a plain call */
	err = failed(ibv_create_qp_ex(n->ctx, &attr));
	ibv_dealloc_pd(pd);
	ibv_close_device(other);
	return err;
}

/* --- completion queues ----------------------------------------------------------- */

/* Three completions wait for whoever polls: of requests that are flushed. */
static int cq_holds(uint64_t entries)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_cq *cq = ibv_create_cq(n->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp;
	int err;

	init.recv_cq = cq;
	init.cap.max_recv_wr = 4;
	qp = ibv_create_qp(n->pd, (struct ibv_qp_init_attr *)&init);
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	for (int i = 0; i < 3 && err == 0; i++)
		err = ibv_post_recv(qp, &wr, &bad);
	attr.qp_state = IBV_QPS_ERR;
	if (err == 0)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	if (err == 0)
		err = ibv_resize_cq(cq, (int)entries);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return err;
}

static int cq_wait(uint64_t nsec)
{
	const struct timespec timeout = {.tv_sec = -1, .tv_nsec = (long)nsec};

	return anyverbs_cq_wait(n->cq[0], &timeout);
}

static int cq_wait_alone(uint64_t unused)
{
	struct ibv_cq *cq = ibv_create_cq(n->ctx, 8, NULL, NULL, 0);
	int err = anyverbs_cq_wait(cq, NULL);

	ibv_destroy_cq(cq);
	return err;
}

/* --- shared receive queues, XRC -------------------------------------------------- */

static int srq_holds(uint64_t max_wr)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4}};
	struct ibv_srq_attr attr = {.max_wr = (uint32_t)max_wr};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_srq *srq = ibv_create_srq(n->pd, &init);
	int err = 0;

	for (int i = 0; i < 3 && err == 0; i++)
		err = ibv_post_srq_recv(srq, &wr, &bad);
	err = err ? err : ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
	ibv_destroy_srq(srq);
	return err;
}

static int srq_number(uint64_t unused)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4}};
	struct ibv_srq *srq = ibv_create_srq(n->pd, &init);
	uint32_t number;
	int err = ibv_get_srq_num(srq, &number);

	ibv_destroy_srq(srq);
	return err;
}

#define SRQ_ALL                                                                   \
	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | \
	 IBV_SRQ_INIT_ATTR_CQ)

static int srq_ex(uint32_t mask, uint32_t type)
{
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 4},
					    .comp_mask = mask,
					    .srq_type = (enum ibv_srq_type)type,
					    .pd = n->pd,
					    .cq = n->cq[0]};

	return failed(ibv_create_srq_ex(n->ctx, &init));
}

static int srq_mask(uint64_t mask)
{
	return srq_ex((uint32_t)mask, IBV_SRQT_XRC);
}

static int srq_type(uint64_t type)
{
	return srq_ex(SRQ_ALL, (uint32_t)type);
}

static int xrcd_exists(uint64_t unused)
{
	int fd = memfd_create("xrcd", MFD_CLOEXEC);
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = fd,
					  .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(n->ctx, &attr);
	int err;

	attr.oflags = O_CREAT | O_EXCL;
	err = failed(ibv_open_xrcd(n->ctx, &attr));
	ibv_close_xrcd(xrcd);
	close(fd);
	return err;
}

#define OPEN_ALL (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)

static int open_qp(uint32_t mask, uint32_t type)
{
	struct ibv_qp_open_attr attr = {.comp_mask = mask, .qp_type = (enum ibv_qp_type)type};

	return failed(ibv_open_qp(n->ctx, &attr));
}

static int open_mask(uint64_t mask)
{
	return open_qp((uint32_t)mask, IBV_QPT_XRC_RECV);
}

static int open_type(uint64_t type)
{
	return open_qp(OPEN_ALL, (uint32_t)type);
}

/* Opened by its number; its creator destroys it. */
static int qp_ended(uint64_t unused)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp_open_attr attr = {.comp_mask = OPEN_ALL, .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_init_attr old;
	struct ibv_qp_attr now;
	struct ibv_qp *qp, *opened;
	int err;

	init.qp_type = IBV_QPT_XRC_RECV;
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init.xrcd = attr.xrcd = node_open_xrcd(n->ctx);
	qp = ibv_create_qp_ex(n->ctx, &init);
	attr.qp_num = qp->qp_num;
	opened = ibv_open_qp(n->ctx, &attr);
	ibv_destroy_qp(qp);
	err = ibv_query_qp(opened, &now, 0, &old);
	ibv_destroy_qp(opened);
	ibv_close_xrcd(attr.xrcd);
	return err;
}

/* --- addresses ------------------------------------------------------------------- */

static int not_attached(uint64_t unused)
{
	const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 9}};
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp *qp;
	int err;

	init.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(n->pd, (struct ibv_qp_init_attr *)&init);
	err = ibv_detach_mcast(qp, &group, 0);
	ibv_destroy_qp(qp);
	return err;
}

static int ah_grh(uint64_t first)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {.version_tclass_flow = htobe32((uint32_t)first << 24)};
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(n->ctx, 1, &wc, &grh, &attr);
}

/* --- memory ---------------------------------------------------------------------- */

static int implicit_at(uint64_t addr)
{
	return failed(ibv_reg_mr(n->pd, (void *)(uintptr_t)addr, SIZE_MAX, IBV_ACCESS_ON_DEMAND));
}

static int empty_on_demand(uint64_t unused)
{
	return failed(ibv_reg_mr(n->pd, n->arena, 0, IBV_ACCESS_ON_DEMAND));
}

/* Rows of verbs that an older header lacks are called by their names. */
static void *newer(const char *name)
{
	void *f = dlsym(RTLD_DEFAULT, name);

	if (!f)
		DIE("%s", name);
	return f;
}

static int reg_mask(uint64_t mask)
{
	struct {
		size_t length;
		int access;
		uint64_t mask, more[6];
	} attr = {.length = BYTES, .mask = mask};
	struct ibv_mr *(*reg)(struct ibv_pd *, void *);

	reg = (__typeof__(reg))newer("ibv_reg_mr_ex");
	return failed(reg(n->pd, &attr));
}

static int buf_range(uint64_t length)
{
	void *(*alloc)(struct ibv_pd *, size_t, void **) = newer("ibv_alloc_buf");
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, void *, size_t, int);
	void (*release)(void *) = newer("ibv_free_buf");
	void *buf, *p = alloc(n->pd, BYTES, &buf);
	int err;

	reg = (__typeof__(reg))newer("ibv_reg_buf_mr");
	err = failed(reg(n->pd, buf, p, length, 0));
	release(buf);
	return err;
}

static int dmabuf(int fd, uint64_t access)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

	reg = (__typeof__(reg))newer("ibv_reg_dmabuf_mr");
	return failed(reg(n->pd, 0, BYTES, 0, fd, (int)access));
}

static int dmabuf_fd(uint64_t unused)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC), err = dmabuf(fd, 0);

	close(fd);
	return err;
}

static int dmabuf_access(uint64_t access)
{
	return dmabuf(0, access);
}

static int dm_from_nowhere(uint64_t unused)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(n->ctx, &attr);
	void *p = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = ibv_memcpy_to_dm(dm, 0, p, BYTES);

	munmap(p, BYTES);
	ibv_free_dm(dm);
	return err;
}

static int advise_list(uint64_t count)
{
	return ibv_advise_mr(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, (uint32_t)count);
}

static int advise_outside(uint64_t addr)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, BYTES, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {.addr = addr, .length = 1, .lkey = mr->lkey};
	int err = ibv_advise_mr(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
				&sge, 1);

	ibv_dereg_mr(mr);
	return err;
}

/* --- requests built by ibv_wr_*() ------------------------------------------------ */

static int build(void (*request)(struct ibv_qp_ex *ex, uint64_t value), uint64_t value)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp_ex *ex;
	union ibv_gid gid;
	struct ibv_qp *qp;
	int err;

	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
			      IBV_QP_EX_WITH_BIND_MW | QP_EX_WITH_FLUSH;
	init.cap.max_inline_data = 16;
	qp = ibv_create_qp_ex(n->ctx, &init);
	if (ibv_query_gid(n->ctx, 1, 0, &gid) || connect_qp(qp, connect_attr(qp->qp_num, &gid)))
		DIE("queue pair");
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	request(ex, value);
	/* What fails meanwhile is another refusal. */
	EXPECT(ibv_resize_cq(n->cq[0], 0) == EINVAL, "ibv_resize_cq");
	err = ibv_wr_complete(ex);
	ibv_destroy_qp(qp);
	return err;
}

#define BUILD(function, ...)                                             \
	static void add_##function(struct ibv_qp_ex *ex, uint64_t value) \
	{                                                                \
		__VA_ARGS__;                                             \
	}                                                                \
	static int function(uint64_t value)                              \
	{                                                                \
		return build(add_##function, value);                     \
	}
BUILD(wr_inline, ibv_wr_send(ex); ibv_wr_set_inline_data(ex, n->arena, value))
BUILD(wr_inline_read, ibv_wr_rdma_read(ex, 0, 0); ibv_wr_set_inline_data(ex, n->arena, value))
BUILD(wr_inline_none, ibv_wr_send(ex); ibv_wr_set_inline_data_list(ex, value, NULL))
BUILD(wr_elements, struct ibv_sge sge[8] = {{0}}; ibv_wr_send(ex);
      ibv_wr_set_sge_list(ex, value, sge))
BUILD(wr_no_list, ibv_wr_send(ex); ibv_wr_set_sge_list(ex, value, NULL))
BUILD(wr_no_window, ibv_wr_bind_mw(ex, NULL, 0, NULL))
BUILD(wr_no_handle, ibv_wr_send(ex); ibv_wr_set_ud_addr(ex, NULL, 0, 0))
BUILD(wr_flush_kind, flush_of(ex)(ex, 0, 0, 8, (uint8_t)value, RANGE))
BUILD(wr_flush_list, flush_of(ex)(ex, 0, 0, 8, GLOBAL, RANGE); ibv_wr_set_sge(ex, 0, 0, 8))
BUILD(wr_full, for (uint64_t i = 0; i < value; i++) ibv_wr_send(ex))

static int wr_in_reset(uint64_t unused)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp *qp;
	int err;

	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	qp = ibv_create_qp_ex(n->ctx, &init);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	ibv_wr_send(ibv_qp_to_qp_ex(qp));
	err = ibv_wr_complete(ibv_qp_to_qp_ex(qp));
	ibv_destroy_qp(qp);
	return err;
}

/* clang-format off */
static const struct verb_row rows[] = {
	{"no object",           "ibv_dealloc_pd", AV_CHECK_NO_OBJECT,     EINVAL, no_pd, 0, ANY, ANY, false},
	{"thread domain's mask", "ibv_alloc_td", AV_CHECK_COMP_MASK,      EINVAL, td_mask, 1, 1, 0, false},
	{"device memory's mask", "ibv_alloc_dm", AV_CHECK_COMP_MASK,      EINVAL, dm_mask, 2, 2, 0, false},
	{"mask of values",      "ibv_query_rt_values_ex", AV_CHECK_COMP_MASK, EINVAL, values_mask, 8, 8, IBV_VALUES_MASK_RAW_CLOCK, false},
	{"mask of a batch",     "ibv_start_poll", AV_CHECK_COMP_MASK,     EINVAL, poll_mask, 1, 1, 0, false},
	{"number of completions", "ibv_poll_cq", AV_CHECK_POLL_COUNT,     EINVAL, poll_count, (uint64_t)-2, (uint64_t)-2, ANY, false},
	{"flags of a GID",      "ibv_query_gid_ex", AV_CHECK_FLAGS,       EINVAL, gid_flags, 2, 2, 0, false},
	{"flags of GIDs",       "ibv_query_gid_table", AV_CHECK_FLAGS,    EINVAL, gids_flags, 2, 2, 0, false},
	{"no room for GIDs",    "ibv_query_gid_table", AV_CHECK_GID_ROOM, EINVAL, gids_room, 0, 0, ANY, false},
	{"parent domain's mask", "ibv_alloc_parent_domain", AV_CHECK_COMP_MASK, EOPNOTSUPP, parent_mask, 1 << 9, 1 << 9, ANY, false},
	{"parent domain of none", "ibv_alloc_parent_domain", AV_CHECK_PD_UNKNOWN, EINVAL, parent_pd, 0, ANY, ANY, false},
	{"parent domain, no thread domain", "ibv_alloc_parent_domain", AV_CHECK_TD_UNKNOWN, EINVAL, parent_td, 0, ANY, ANY, false},
	{"PD of another context", "ibv_create_qp_ex", AV_CHECK_PD_UNKNOWN, EINVAL, qp_of_another_context, 0, ANY, ANY, false},
	{"CQ resized too small", "ibv_resize_cq", AV_CHECK_CQ_HOLDS,      EINVAL, cq_holds, 2, 3, 2, false},
	{"negative timeout",    "anyverbs_cq_wait", AV_CHECK_CQ_TIMEOUT,  EINVAL, cq_wait, 5, (uint64_t)-1, 5, false},
	{"wait without a channel", "anyverbs_cq_wait", AV_CHECK_CQ_NO_CHANNEL, EINVAL, cq_wait_alone, 0, ANY, ANY, false},
	{"SRQ resized too small", "ibv_modify_srq", AV_CHECK_SRQ_HOLDS,   EINVAL, srq_holds, 2, 3, 2, false},
	{"number of an ordinary SRQ", "ibv_get_srq_num", AV_CHECK_SRQ_NO_NUMBER, EINVAL, srq_number, 0, ANY, ANY, false},
	{"XRC SRQ without a domain", "ibv_create_srq_ex", AV_CHECK_COMP_MASK_LACKS, EINVAL, srq_mask, SRQ_ALL & ~IBV_SRQ_INIT_ATTR_XRCD, SRQ_ALL & ~IBV_SRQ_INIT_ATTR_XRCD, SRQ_ALL, false},
	{"SRQ's unknown mask",  "ibv_create_srq_ex", AV_CHECK_COMP_MASK,  EOPNOTSUPP, srq_mask, 1 << 9, 1 << 9, ANY, false},
	{"SRQ's type",          "ibv_create_srq_ex", AV_CHECK_SRQ_TYPE,   EINVAL, srq_type, 9, 9, ANY, false},
	{"SRQ without XRC domain", "ibv_create_srq_ex", AV_CHECK_SRQ_OBJECTS, EINVAL, srq_type, IBV_SRQT_XRC, ANY, ANY, false},
	{"XRC domain that exists", "ibv_open_xrcd", AV_CHECK_XRCD_EXISTS, EINVAL, xrcd_exists, 0, ANY, ANY, false},
	{"mask of a QP to open", "ibv_open_qp",  AV_CHECK_COMP_MASK,      EOPNOTSUPP, open_mask, 1 << 9, 1 << 9, ANY, false},
	{"QP to open, no number", "ibv_open_qp", AV_CHECK_COMP_MASK_LACKS, EINVAL, open_mask, IBV_QP_OPEN_ATTR_TYPE, IBV_QP_OPEN_ATTR_TYPE, OPEN_ALL, false},
	{"type of a QP to open", "ibv_open_qp",  AV_CHECK_QP_OPEN_TYPE,   EINVAL, open_type, IBV_QPT_RC, IBV_QPT_RC, ANY, false},
	{"XRC domain of a QP to open", "ibv_open_qp", AV_CHECK_QP_XRCD,   EINVAL, open_mask, OPEN_ALL, ANY, ANY, false},
	{"QP that is gone",     "ibv_query_qp",  AV_CHECK_QP_ENDED,       EINVAL, qp_ended, 0, ANY, ANY, false},
	{"not attached",        "ibv_detach_mcast", AV_CHECK_MCAST_NOT_ATTACHED, EINVAL, not_attached, 0, ANY, ANY, false},
	{"header of neither kind", "ibv_init_ah_from_wc", AV_CHECK_AH_GRH, EINVAL, ah_grh, 0x12, 0x12, 0, false},
	{"implicit region at an address", "ibv_reg_mr", AV_CHECK_MR_IMPLICIT, EINVAL, implicit_at, 4096, 4096, ANY, false},
	{"empty region on demand", "ibv_reg_mr", AV_CHECK_MR_EMPTY,       EINVAL, empty_on_demand, 0, ANY, ANY, false},
	{"region of no kind",   "ibv_reg_mr_ex", AV_CHECK_REG_MASK,       EINVAL, reg_mask, 4, 4, ANY, false},
	{"region of unknown kind", "ibv_reg_mr_ex", AV_CHECK_COMP_MASK,   EOPNOTSUPP, reg_mask, 1 << 9, 1 << 9, ANY, false},
	{"more than a buffer",  "ibv_reg_mr_ex", AV_CHECK_BUF_RANGE,      EINVAL, buf_range, 2 * BYTES, 2 * BYTES, ANY, false},
	{"descriptor of no dma-buf", "ibv_reg_dmabuf_mr", AV_CHECK_DMABUF_FD, EINVAL, dmabuf_fd, 0, ANY, ANY, false},
	{"rights of a dma-buf", "ibv_reg_dmabuf_mr", AV_CHECK_DMABUF_ACCESS, EINVAL, dmabuf_access, IBV_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND, ANY, false},
	{"copy from nowhere",   "ibv_memcpy_to_dm", AV_CHECK_BAD_ADDRESS, EFAULT, dm_from_nowhere, 0, ANY, ANY, false},
	{"empty list of advice", "ibv_advise_mr", AV_CHECK_ADVISE_CALL,   EINVAL, advise_list, 3, 3, ANY, false},
	{"advice outside its region", "ibv_advise_mr", AV_CHECK_ADVISE_RANGE, EFAULT, advise_outside, 16, 0, ANY, false},
	{"built: inline data",  "ibv_wr_complete", AV_CHECK_POST_INLINE,  EINVAL, wr_inline, 513, 513, ANY, false},
	{"built: inline READ",  "ibv_wr_complete", AV_CHECK_POST_INLINE_OP, EINVAL, wr_inline_read, 8, IBV_WR_RDMA_READ, ANY, false},
	{"built: no inline data", "ibv_wr_complete", AV_CHECK_POST_SEND_LIST, EINVAL, wr_inline_none, 2, 2, ANY, false},
	{"built: elements",     "ibv_wr_complete", AV_CHECK_POST_SEND_SGE, EINVAL, wr_elements, 8, 8, 1, false},
	{"built: no list",      "ibv_wr_complete", AV_CHECK_POST_SEND_LIST, EINVAL, wr_no_list, 1, 1, ANY, false},
	{"built: no window",    "ibv_wr_complete", AV_CHECK_BIND_WINDOW,  EINVAL, wr_no_window, 0, ANY, ANY, false},
	{"built: no address handle", "ibv_wr_complete", AV_CHECK_POST_AH, EINVAL, wr_no_handle, 0, ANY, ANY, false},
	{"built: FLUSH of no kind", "ibv_wr_complete", AV_CHECK_POST_FLUSH, EINVAL, wr_flush_kind, 8, 8, ANY, false},
	{"built: FLUSH with elements", "ibv_wr_complete", AV_CHECK_POST_NO_LIST, EINVAL, wr_flush_list, 0, WR_FLUSH, ANY, false},
	{"built: too many",     "ibv_wr_complete", AV_CHECK_POST_SEND_FULL, ENOMEM, wr_full, 2, 1, 1, false},
	{"built in RESET",      "ibv_wr_complete", AV_CHECK_POST_SEND_STATE, EINVAL, wr_in_reset, 0, IBV_QPS_RESET, ANY, false},
};
/* clang-format on */

void verbs_of_arguments(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		verb_run(&rows[i]);
}
