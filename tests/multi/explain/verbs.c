/* SPDX-License-Identifier: MIT */
/* Verbs that refuse: a row names the argument that is wrong, and the function makes the call. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/newer_verbs.h"
#include "lib/expect.h"
#include "observe/verb.h"
#include "recorder.h"

#define KNOWN_QP_ATTR (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

/* The call; its argument that is wrong is @value. Return: errno value */
struct verb_row {
	const char *name;
	const char *verb;
	enum av_check check;
	int error;
	int (*call)(uint64_t value);
	uint64_t value;
	uint64_t wanted, limit;
	bool of_qp; /* the record names the queue pair */
};

static struct node *n;

static int failed(const void *object)
{
	return object ? 0 : errno;
}

/* --- memory regions -------------------------------------------------------------- */

static int reg_access(uint64_t access)
{
	return failed(ibv_reg_mr(n->pd, n->arena, 4096, (int)access));
}

static int reg_wrap(uint64_t length)
{
	return failed(ibv_reg_mr(n->pd, (void *)(UINTPTR_MAX - 4095), length, 0));
}

static int reg_iova(uint64_t iova)
{
	return failed(ibv_reg_mr_iova(n->pd, n->arena, 4096, iova, 0));
}

static int reg_unmapped(uint64_t unused)
{
	void *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = failed(ibv_reg_mr(n->pd, p, 4096, IBV_ACCESS_LOCAL_WRITE));

	munmap(p, 4096);
	return err;
}

static int reg_other_pd(uint64_t unused)
{
	struct ibv_pd pd = *n->pd;

	return failed(ibv_reg_mr(&pd, n->arena, 4096, 0));
}

/* enum ibv_rereg_mr_err_code and errno: the latter. */
static int rereg(int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_rereg_mr(n->mr[KEY_FULL], flags, pd, addr, length, access) ? errno : 0;
}

static int rereg_flags(uint64_t flags)
{
	return rereg((int)flags, NULL, NULL, 0, 0);
}

static int rereg_paging(uint64_t access)
{
	return rereg(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)access);
}

static int rereg_pd(uint64_t unused)
{
	struct ibv_pd pd = *n->pd;

	return rereg(IBV_REREG_MR_CHANGE_PD, &pd, NULL, 0, 0);
}

/* --- queue pairs ----------------------------------------------------------------- */

static struct ibv_qp_init_attr_ex plain_qp(void)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = n->pd,
	};
}

static int create_qp(struct ibv_qp_init_attr_ex *attr)
{
	return failed(ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr));
}

#define CREATE_QP(function, field)                            \
	static int function(uint64_t value)                   \
	{                                                     \
		struct ibv_qp_init_attr_ex attr = plain_qp(); \
		attr.field = (__typeof__(attr.field))value;   \
		return create_qp(&attr);                      \
	}
CREATE_QP(qp_send_wr, cap.max_send_wr)
CREATE_QP(qp_recv_wr, cap.max_recv_wr)
CREATE_QP(qp_send_sge, cap.max_send_sge)
CREATE_QP(qp_recv_sge, cap.max_recv_sge)
CREATE_QP(qp_inline, cap.max_inline_data)
CREATE_QP(qp_type, qp_type)
CREATE_QP(qp_send_cq, send_cq)
CREATE_QP(qp_recv_cq, recv_cq)

static int qp_srq(uint64_t unused)
{
	struct ibv_srq srq = {.context = n->ctx, .handle = 999};
	struct ibv_qp_init_attr_ex attr = plain_qp();

	attr.srq = &srq;
	return create_qp(&attr);
}

#define CREATE_QP_EX(function, bit, field)                      \
	static int function(uint64_t value)                     \
	{                                                       \
		struct ibv_qp_init_attr_ex attr = plain_qp();   \
		attr.comp_mask |= bit;                          \
		attr.field = (__typeof__(attr.field))value;     \
		return failed(ibv_create_qp_ex(n->ctx, &attr)); \
	}
CREATE_QP_EX(qp_mask, 0, comp_mask)
CREATE_QP_EX(qp_flags, IBV_QP_INIT_ATTR_CREATE_FLAGS, create_flags)
CREATE_QP_EX(qp_ops, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags)

static int qp_xrcd(uint64_t unused)
{
	struct ibv_xrcd xrcd = {.context = n->ctx};
	struct ibv_qp_init_attr_ex attr = plain_qp();

	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = &xrcd;
	return failed(ibv_create_qp_ex(n->ctx, &attr));
}

/* Of queue pair 0, which is in state RESET, and would go to INIT. */
#define MODIFY_QP(function, bit, field)                                              \
	static int function(uint64_t value)                                          \
	{                                                                            \
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1}; \
		attr.field = (__typeof__(attr.field))value;                          \
		return ibv_modify_qp(n->qp[0], &attr, KNOWN_QP_ATTR | (bit));        \
	}
MODIFY_QP(attr_port, 0, port_num)
MODIFY_QP(attr_pkey, 0, pkey_index)
MODIFY_QP(attr_alt_path, IBV_QP_ALT_PATH, alt_pkey_index)
MODIFY_QP(attr_path_mig, IBV_QP_PATH_MIG_STATE, path_mig_state)
MODIFY_QP(attr_mtu, IBV_QP_PATH_MTU, path_mtu)
MODIFY_QP(attr_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
MODIFY_QP(attr_dest_rd, IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
MODIFY_QP(attr_extra, IBV_QP_QKEY, qkey)
MODIFY_QP(attr_current, IBV_QP_CUR_STATE, cur_qp_state)
MODIFY_QP(attr_state, 0, qp_state)

static int attr_missing(uint64_t mask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	return ibv_modify_qp(n->qp[0], &attr, KNOWN_QP_ATTR & ~(int)mask);
}

static int destroy_other(uint64_t unused)
{
	struct ibv_qp qp = *n->qp[0];

	return ibv_destroy_qp(&qp);
}

/* --- posting --------------------------------------------------------------------- */

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

static int post_recv(struct ibv_qp *qp, int num_sge)
{
	struct ibv_sge sge[NODE_SGE + 2] = {{0}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = num_sge}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static int post_in_reset(uint64_t unused)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	return post(n->qp[0], &wr);
}

static int post_recv_in_reset(uint64_t unused)
{
	return post_recv(n->qp[0], 0);
}

static int post_opcode(uint64_t opcode)
{
	struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode};

	return post(n->qp[1], &wr);
}

static int post_sge(uint64_t count)
{
	struct ibv_sge sge[NODE_SGE + 2] = {{0}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = (int)count};

	return post(n->qp[1], &wr);
}

static int post_inline(uint64_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->arena, .length = (uint32_t)bytes};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};

	return post(n->qp[1], &wr);
}

static int post_inline_op(uint64_t opcode)
{
	struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode,
				 .send_flags = IBV_SEND_INLINE};

	return post(n->qp[1], &wr);
}

static int post_recv_sge(uint64_t count)
{
	return post_recv(n->qp[1], (int)count);
}

static int post_recv_full(uint64_t capacity)
{
	int err = 0;

	for (uint64_t i = 0; i <= capacity && err == 0; i++)
		err = post_recv(n->qp[1], 0);
	return err;
}

/* The peer has no receive for it: everything stays in the queue. */
static int post_full(uint64_t capacity)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	int err = 0;

	for (uint64_t i = 0; i <= capacity && err == 0; i++)
		err = post(n->qp[1], &wr);
	return err;
}

static int post_to_srq_of_others(uint64_t unused)
{
	struct ibv_srq srq = {.context = n->ctx, .handle = 999};
	struct ibv_recv_wr wr = {0}, *bad;

	return ibv_post_srq_recv(&srq, &wr, &bad);
}

static int post_ah(uint64_t unused)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp *qp;
	int err;

	init.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(n->pd, (struct ibv_qp_init_attr *)&init);
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	attr.qp_state = IBV_QPS_RTR;
	err = err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	err = err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	err = err ? err : post(qp, &wr);
	ibv_destroy_qp(qp);
	return err;
}

/* --- completion queues, and the rest --------------------------------------------- */

static int cq_size(uint64_t entries)
{
	return failed(ibv_create_cq(n->ctx, (int)entries, NULL, NULL, 0));
}

static int cq_resize(uint64_t entries)
{
	return ibv_resize_cq(n->cq[0], (int)entries);
}

static int cq_vector(uint64_t vector)
{
	return failed(ibv_create_cq(n->ctx, 1, NULL, NULL, (int)vector));
}

static int cq_channel(uint64_t unused)
{
	struct ibv_context *other = node_open_device();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
	int err = failed(ibv_create_cq(n->ctx, 1, NULL, channel, 0));

	ibv_destroy_comp_channel(channel);
	ibv_close_device(other);
	return err;
}

#define CREATE_CQ_EX(function, bit, field)                                      \
	static int function(uint64_t value)                                     \
	{                                                                       \
		struct ibv_cq_init_attr_ex attr = {.cqe = 1, .comp_mask = bit}; \
		attr.field = (__typeof__(attr.field))value;                     \
		return failed(ibv_create_cq_ex(n->ctx, &attr));                 \
	}
CREATE_CQ_EX(cq_mask, 0, comp_mask)
CREATE_CQ_EX(cq_flags, IBV_CQ_INIT_ATTR_MASK_FLAGS, flags)
CREATE_CQ_EX(cq_parent, IBV_CQ_INIT_ATTR_MASK_PD, parent_domain)
CREATE_CQ_EX(cq_wc_flags, 0, wc_flags)

static int cq_modify(uint64_t mask)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = (uint32_t)mask};

	return ibv_modify_cq(n->cq[0], &attr);
}

static int srq(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};

	return failed(ibv_create_srq(n->pd, &init));
}

static int srq_size(uint64_t value)
{
	return srq((uint32_t)value, 1);
}

static int srq_sge(uint64_t value)
{
	return srq(1, (uint32_t)value);
}

static int change_srq(const struct ibv_srq_attr *attr, int mask)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4}};
	struct ibv_srq *ibv = ibv_create_srq(n->pd, &init);
	struct ibv_srq_attr change = *attr;
	int err = ibv_modify_srq(ibv, &change, mask);

	ibv_destroy_srq(ibv);
	return err;
}

static int srq_limit(uint64_t value)
{
	return change_srq(&(struct ibv_srq_attr){.srq_limit = (uint32_t)value}, IBV_SRQ_LIMIT);
}

static int srq_mask(uint64_t mask)
{
	return change_srq(&(struct ibv_srq_attr){.max_wr = 1}, (int)mask);
}

static int ah(uint8_t port, bool global, uint8_t row_)
{
	struct ibv_ah_attr attr = {
		.port_num = port, .is_global = global, .grh = {.sgid_index = row_}};

	return failed(ibv_create_ah(n->pd, &attr));
}

static int ah_port(uint64_t port)
{
	return ah((uint8_t)port, true, 0);
}

static int ah_global(uint64_t unused)
{
	return ah(1, false, 0);
}

static int ah_sgid(uint64_t index)
{
	return ah(1, true, (uint8_t)index);
}

static int mw_type(uint64_t type)
{
	return failed(ibv_alloc_mw(n->pd, (enum ibv_mw_type)type));
}

static int bind_mw(struct ibv_mr *mr, unsigned int access)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr,
						 .addr = (uintptr_t)n->arena,
						 .length = 64,
						 .mw_access_flags = access}};
	int err = ibv_bind_mw(n->qp[1], mw, &bind);

	ibv_dealloc_mw(mw);
	return err;
}

static int mw_zero_based(uint64_t unused)
{
	return bind_mw(n->mr[KEY_FULL], IBV_ACCESS_ZERO_BASED);
}

static int mw_region(uint64_t unused)
{
	struct ibv_mr *null = ibv_alloc_null_mr(n->pd);
	int err = bind_mw(null, IBV_ACCESS_REMOTE_READ);

	ibv_dereg_mr(null);
	return err;
}

static int mcast_service(uint64_t unused)
{
	union ibv_gid gid = {.raw = {0xff, 0x0e}};

	return ibv_attach_mcast(n->qp[0], &gid, 0);
}

static int mcast_gid(uint64_t unused)
{
	struct ibv_qp_init_attr_ex init = plain_qp();
	union ibv_gid gid = {.raw = {0xfe, 0x80}};
	struct ibv_qp *qp;
	int err;

	init.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(n->pd, (struct ibv_qp_init_attr *)&init);
	err = ibv_attach_mcast(qp, &gid, 0);
	ibv_destroy_qp(qp);
	return err;
}

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->arena, .length = 8, .lkey = lkey};

	return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

static int advise_flags(uint64_t flags)
{
	return advise(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, (uint32_t)flags, 0);
}

static int advise_advice(uint64_t advice)
{
	return advise(n->pd, (enum ibv_advise_mr_advice)advice, IBV_ADVISE_MR_FLAG_FLUSH, 0);
}

static int advise_key(uint64_t unused)
{
	return advise(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
		      n->info.key[KEY_FULL]);
}

static int advise_region(struct ibv_pd *pd, enum ibv_advise_mr_advice advice)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, 4096, IBV_ACCESS_ON_DEMAND);
	int err = advise(pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, mr->lkey);

	ibv_dereg_mr(mr);
	return err;
}

static int advise_pd(uint64_t unused)
{
	return advise_region(n->other_pd, IBV_ADVISE_MR_ADVICE_PREFETCH);
}

static int advise_right(uint64_t unused)
{
	return advise_region(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

static int dm_alloc(uint64_t length, uint32_t align)
{
	struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = align};

	return failed(ibv_alloc_dm(n->ctx, &attr));
}

static int dm_length(uint64_t length)
{
	return dm_alloc(length, 0);
}

static int dm_align(uint64_t align)
{
	return dm_alloc(64, (uint32_t)align);
}

static int with_dm(int (*use)(struct ibv_dm *dm, uint64_t value), uint64_t value)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(n->ctx, &attr);
	int err = use(dm, value);

	ibv_free_dm(dm);
	return err;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset)
{
	return ibv_memcpy_to_dm(dm, offset, n->arena, 8);
}

static int reg_dm_access(struct ibv_dm *dm, uint64_t access)
{
	return failed(ibv_reg_dm_mr(n->pd, dm, 0, 64, (unsigned int)access));
}

static int dm_copy(uint64_t offset)
{
	return with_dm(copy_to, offset);
}

static int dm_access(uint64_t access)
{
	return with_dm(reg_dm_access, access);
}

static int xrcd_mask(uint64_t mask)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = (uint32_t)mask};

	return failed(ibv_open_xrcd(n->ctx, &attr));
}

static int query_row(uint64_t index)
{
	union ibv_gid gid;

	return ibv_query_gid(n->ctx, 1, (int)index, &gid) ? errno : 0;
}

static int busy_pd(uint64_t unused)
{
	return ibv_dealloc_pd(n->pd);
}

static int rss(uint64_t unused)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .pd = n->pd, .cq = n->cq[0]};

	return failed(
		ibv_create_rwq_ind_table(n->ctx, (struct ibv_rwq_ind_table_init_attr *)&attr));
}

static int td_mask(uint64_t mask)
{
	struct ibv_td_init_attr attr = {.comp_mask = (uint32_t)mask};

	return failed(ibv_alloc_td(n->ctx, &attr));
}

static int gone_fd(uint64_t unused)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = 1000};

	return failed(ibv_open_xrcd(n->ctx, &attr));
}

/* As many XRC domains as there can be, and one more. */
static int xrcds_used_up(uint64_t unused)
{
	static struct ibv_xrcd *xrcd[4096];
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	unsigned int count = 0;
	int err = 0;

	while (err == 0 && count < COUNT_OF(xrcd)) {
		xrcd[count] = ibv_open_xrcd(n->ctx, &attr);
		err = failed(xrcd[count]);
		count += err == 0;
	}
	while (count > 0)
		ibv_close_xrcd(xrcd[--count]);
	return err;
}

static int dm_used_up(uint64_t unused)
{
	struct ibv_dm *dm[64];
	struct ibv_alloc_dm_attr attr = {.length = 1};
	struct ibv_device_attr_ex device;
	unsigned int count = 0;
	int err = ibv_query_device_ex(n->ctx, NULL, &device);

	attr.length = device.max_dm_size / 4 + 64;
	while (err == 0 && count < COUNT_OF(dm)) {
		dm[count] = ibv_alloc_dm(n->ctx, &attr);
		err = failed(dm[count]);
		count += err == 0;
	}
	while (count > 0)
		ibv_free_dm(dm[--count]);
	return err;
}

/* Verbs on inherited objects, as the child sees them. */
static int child_of_fork(uint64_t unused)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(ibv_req_notify_cq(n->cq[0], 0));
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

/* clang-format off */
static const struct verb_row rows[] = {
	{"damaged PD",          "ibv_reg_mr",    AV_CHECK_OBJECT_UNKNOWN, ENOENT, reg_other_pd, 0, ANY, ANY, false},
	{"PD in use",           "ibv_dealloc_pd", AV_CHECK_OBJECT_BUSY,   EBUSY,  busy_pd, 0, ANY, ANY, false},
	{"damaged QP",          "ibv_destroy_qp", AV_CHECK_OBJECT_UNKNOWN, ENOENT, destroy_other, 0, ANY, ANY, false},
	{"RSS",                 "ibv_create_rwq_ind_table", AV_CHECK_NOT_SUPPORTED, EOPNOTSUPP, rss, 0, ANY, ANY, false},
	{"thread domain's mask", "ibv_alloc_td", AV_CHECK_ARGUMENT,       EINVAL, td_mask, 1, ANY, ANY, false},
	{"descriptor not open", "ibv_open_xrcd", AV_CHECK_OTHER_ERROR,    EBADF,  gone_fd, 0, ANY, ANY, false},
	{"unmapped memory",     "ibv_reg_mr",    AV_CHECK_BAD_ADDRESS,    EFAULT, reg_unmapped, 0, ANY, ANY, false},
	{"XRC domains used up", "ibv_open_xrcd", AV_CHECK_NO_MEMORY,      ENOMEM, xrcds_used_up, 0, ANY, ANY, false},
	{"device memory used up", "ibv_alloc_dm", AV_CHECK_DM_LENGTH,     ENOMEM, dm_used_up, 0, ANY, ANY, false},
	{"child of fork()",     "ibv_req_notify_cq", AV_CHECK_NOT_PERMITTED, EPERM, child_of_fork, 0, ANY, ANY, false},

	{"REMOTE_WRITE alone",  "ibv_reg_mr",    AV_CHECK_MR_NEEDS_LOCAL, EINVAL, reg_access, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE, false},
	{"REMOTE_ATOMIC alone", "ibv_reg_mr",    AV_CHECK_MR_NEEDS_LOCAL, EINVAL, reg_access, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, false},
	{"persistent memory",   "ibv_reg_mr",    AV_CHECK_MR_PERSISTENT,  EOPNOTSUPP, reg_access, AV_ACCESS_FLUSH_PERSISTENT, AV_ACCESS_FLUSH_PERSISTENT, ANY, false},
	{"unknown flag",        "ibv_reg_mr",    AV_CHECK_MR_FLAGS,       EINVAL, reg_access, 1 << 15, 1 << 15, ANY, false},
	{"region wraps",        "ibv_reg_mr",    AV_CHECK_MR_WRAPS,       EINVAL, reg_wrap, 8192, ANY, 8192, false},
	{"iova elsewhere in its page", "ibv_reg_mr", AV_CHECK_MR_IOVA,    EINVAL, reg_iova, 24, 0, 24, false},
	{"re-register: unknown flags", "ibv_rereg_mr", AV_CHECK_REREG_INPUT, EINVAL, rereg_flags, 64, 64, 0, false},
	{"re-register: nothing", "ibv_rereg_mr", AV_CHECK_REREG_FLAGS,    EINVAL, rereg_flags, 0, 0, ANY, false},
	{"re-register: on demand", "ibv_rereg_mr", AV_CHECK_REREG_PAGING, EOPNOTSUPP, rereg_paging, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND, ANY, false},
	{"re-register: no PD",  "ibv_rereg_mr",  AV_CHECK_REREG_PD,       ENOENT, rereg_pd, 0, ANY, ANY, false},

	{"max_send_wr",         "ibv_create_qp", AV_CHECK_QP_SEND_WR,     EINVAL, qp_send_wr, 1 << 30, 1 << 30, ANY, false},
	{"max_recv_wr",         "ibv_create_qp", AV_CHECK_QP_RECV_WR,     EINVAL, qp_recv_wr, 1 << 30, 1 << 30, ANY, false},
	{"max_send_sge",        "ibv_create_qp", AV_CHECK_QP_SEND_SGE,    EINVAL, qp_send_sge, 1000, 1000, ANY, false},
	{"max_recv_sge",        "ibv_create_qp", AV_CHECK_QP_RECV_SGE,    EINVAL, qp_recv_sge, 1000, 1000, ANY, false},
	{"max_inline_data",     "ibv_create_qp", AV_CHECK_QP_INLINE,      EINVAL, qp_inline, 1 << 20, 1 << 20, ANY, false},
	{"QP type",             "ibv_create_qp", AV_CHECK_QP_TYPE,        EINVAL, qp_type, 77, 77, ANY, false},
	{"raw packets",         "ibv_create_qp", AV_CHECK_QP_TYPE,        EOPNOTSUPP, qp_type, IBV_QPT_RAW_PACKET, IBV_QPT_RAW_PACKET, ANY, false},
	{"no send CQ",          "ibv_create_qp", AV_CHECK_QP_SEND_CQ,     EINVAL, qp_send_cq, 0, ANY, ANY, false},
	{"no receive CQ",       "ibv_create_qp", AV_CHECK_QP_RECV_CQ,     EINVAL, qp_recv_cq, 0, ANY, ANY, false},
	{"no such SRQ",         "ibv_create_qp", AV_CHECK_QP_SRQ,         EINVAL, qp_srq, 0, ANY, ANY, false},
	{"no such XRC domain",  "ibv_create_qp", AV_CHECK_QP_XRCD,        EINVAL, qp_xrcd, 0, ANY, ANY, false},
	{"QP's mask",           "ibv_create_qp_ex", AV_CHECK_QP_MASK,     EOPNOTSUPP, qp_mask, 1u << 20, 1u << 20, ANY, false},
	{"create_flags",        "ibv_create_qp_ex", AV_CHECK_QP_CREATE_FLAGS, EOPNOTSUPP, qp_flags, 4, 4, ANY, false},
	{"send_ops_flags",      "ibv_create_qp_ex", AV_CHECK_QP_SEND_OPS, EOPNOTSUPP, qp_ops, 1ull << 40, 1ull << 40, ANY, false},

	{"port_num",            "ibv_modify_qp", AV_CHECK_ATTR_PORT,      EINVAL, attr_port, 2, 2, 1, true},
	{"pkey_index",          "ibv_modify_qp", AV_CHECK_ATTR_PKEY,      EINVAL, attr_pkey, 5, 5, 0, true},
	{"alternate path",      "ibv_modify_qp", AV_CHECK_ATTR_ALT_PATH,  EINVAL, attr_alt_path, 0, ANY, ANY, true},
	{"path_mig_state",      "ibv_modify_qp", AV_CHECK_ATTR_PATH_MIG,  EINVAL, attr_path_mig, IBV_MIG_ARMED, IBV_MIG_ARMED, IBV_MIG_MIGRATED, true},
	{"path_mtu",            "ibv_modify_qp", AV_CHECK_ATTR_MTU,       EINVAL, attr_mtu, 7, 7, ANY, true},
	{"max_rd_atomic",       "ibv_modify_qp", AV_CHECK_ATTR_RD_ATOMIC, EINVAL, attr_rd_atomic, 255, 255, ANY, true},
	{"max_dest_rd_atomic",  "ibv_modify_qp", AV_CHECK_ATTR_DEST_RD,   EINVAL, attr_dest_rd, 255, 255, ANY, true},
	{"attribute too many",  "ibv_modify_qp", AV_CHECK_STATE_EXTRA,    EINVAL, attr_extra, 0, IBV_QP_QKEY, KNOWN_QP_ATTR & ~IBV_QP_STATE, true},
	{"attribute missing",   "ibv_modify_qp", AV_CHECK_STATE_MISSING,  EINVAL, attr_missing, IBV_QP_PORT, IBV_QP_PORT, KNOWN_QP_ATTR & ~IBV_QP_STATE, true},
	{"cur_qp_state",        "ibv_modify_qp", AV_CHECK_STATE_CURRENT,  EINVAL, attr_current, IBV_QPS_INIT, IBV_QPS_INIT, ANY, true},
	{"RESET to RTS",        "ibv_modify_qp", AV_CHECK_STATE_CHANGE,   EINVAL, attr_state, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RESET, true},

	{"send in RESET",       "ibv_post_send", AV_CHECK_POST_SEND_STATE, EINVAL, post_in_reset, 0, IBV_QPS_RESET, ANY, true},
	{"receive in RESET",    "ibv_post_recv", AV_CHECK_POST_RECV_STATE, EINVAL, post_recv_in_reset, 0, IBV_QPS_RESET, ANY, true},
	{"opcode",              "ibv_post_send", AV_CHECK_POST_OPCODE,    EINVAL, post_opcode, 77, 77, ANY, true},
	{"elements",            "ibv_post_send", AV_CHECK_POST_SEND_SGE,  EINVAL, post_sge, NODE_SGE + 1, NODE_SGE + 1, NODE_SGE, true},
	{"inline data",         "ibv_post_send", AV_CHECK_POST_INLINE,    EINVAL, post_inline, 4000, 4000, 512, true},
	{"inline READ",         "ibv_post_send", AV_CHECK_POST_INLINE_OP, EINVAL, post_inline_op, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, ANY, true},
	{"no address handle",   "ibv_post_send", AV_CHECK_POST_AH,        EINVAL, post_ah, 0, ANY, ANY, false},
	{"elements of a receive", "ibv_post_recv", AV_CHECK_POST_RECV_SGE, EINVAL, post_recv_sge, NODE_SGE + 1, NODE_SGE + 1, NODE_SGE, true},
	{"receive queue full",  "ibv_post_recv", AV_CHECK_POST_RECV_FULL, ENOMEM, post_recv_full, 16, 16, 16, true},
	{"send queue full",     "ibv_post_send", AV_CHECK_POST_SEND_FULL, ENOMEM, post_full, 16, 16, 16, true},
	{"no such SRQ to post to", "ibv_post_srq_recv", AV_CHECK_POST_OBJECT, EINVAL, post_to_srq_of_others, 0, ANY, ANY, false},

	{"CQ of no entries",    "ibv_create_cq", AV_CHECK_CQ_SIZE,        EINVAL, cq_size, 0, 0, ANY, false},
	{"CQ too large",        "ibv_create_cq", AV_CHECK_CQ_SIZE,        EINVAL, cq_size, 1 << 30, 1 << 30, ANY, false},
	{"CQ resized",          "ibv_resize_cq", AV_CHECK_CQ_SIZE,        EINVAL, cq_resize, 1 << 29, 1 << 29, ANY, false},
	{"comp_vector",         "ibv_create_cq", AV_CHECK_CQ_VECTOR,      EINVAL, cq_vector, 1000, 1000, ANY, false},
	{"other's channel",     "ibv_create_cq", AV_CHECK_CQ_CHANNEL,     EINVAL, cq_channel, 0, ANY, ANY, false},
	{"CQ's mask",           "ibv_create_cq_ex", AV_CHECK_CQ_MASK,     EINVAL, cq_mask, 1 << 9, 1 << 9, ANY, false},
	{"CQ's flags",          "ibv_create_cq_ex", AV_CHECK_CQ_FLAGS,    EINVAL, cq_flags, 1 << 9, 1 << 9, ANY, false},
	{"CQ's parent domain",  "ibv_create_cq_ex", AV_CHECK_CQ_PARENT,   EINVAL, cq_parent, 0, ANY, ANY, false},
	{"wc_flags",            "ibv_create_cq_ex", AV_CHECK_CQ_WC_FLAGS, EOPNOTSUPP, cq_wc_flags, 1ull << 50, 1ull << 50, ANY, false},
	{"ibv_modify_cq's mask", "ibv_modify_cq", AV_CHECK_CQ_MODIFY,     EINVAL, cq_modify, 1 << 9, 1 << 9, ANY, false},

	{"SRQ's max_wr",        "ibv_create_srq", AV_CHECK_SRQ_SIZE,      EINVAL, srq_size, 1 << 30, 1 << 30, ANY, false},
	{"SRQ's max_sge",       "ibv_create_srq", AV_CHECK_SRQ_SGE,       EINVAL, srq_sge, 1000, 1000, ANY, false},
	{"SRQ's limit",         "ibv_modify_srq", AV_CHECK_SRQ_LIMIT,     EINVAL, srq_limit, 5, 5, 4, false},
	{"SRQ's mask",          "ibv_modify_srq", AV_CHECK_SRQ_MASK,      EINVAL, srq_mask, 1 << 9, 1 << 9, ANY, false},
	{"AH's port",           "ibv_create_ah", AV_CHECK_AV_PORT,        EINVAL, ah_port, 3, 3, 1, false},
	{"AH without GRH",      "ibv_create_ah", AV_CHECK_AV_GLOBAL,      EINVAL, ah_global, 0, ANY, ANY, false},
	{"AH's sgid_index",     "ibv_create_ah", AV_CHECK_AV_SGID,        EINVAL, ah_sgid, 200, 200, ANY, false},
	{"window type",         "ibv_alloc_mw",  AV_CHECK_MW_TYPE,        EINVAL, mw_type, 9, 9, ANY, false},
	{"zero-based window of type 1", "ibv_bind_mw", AV_CHECK_MW_ZERO_BASED, EINVAL, mw_zero_based, 0, ANY, ANY, false},
	{"window on a null region", "ibv_bind_mw", AV_CHECK_MW_REGION, ENOTSUP, mw_region, 0, ANY, ANY, false},
	{"multicast on RC",     "ibv_attach_mcast", AV_CHECK_MCAST_SERVICE, EINVAL, mcast_service, 0, IBV_QPT_RC, IBV_QPT_UD, false},
	{"group that is none",  "ibv_attach_mcast", AV_CHECK_MCAST_GID,   EINVAL, mcast_gid, 0, 0xfe, 0xff, false},
	{"flags of an advice",  "ibv_advise_mr", AV_CHECK_ADVISE_CALL,    EINVAL, advise_flags, 64, 1, 64, false},
	{"advice",              "ibv_advise_mr", AV_CHECK_ADVISE_ADVICE,  EOPNOTSUPP, advise_advice, 9, 9, ANY, false},
	{"advised region not on demand", "ibv_advise_mr", AV_CHECK_ADVISE_KEY, ENOENT, advise_key, 0, ANY, ANY, false},
	{"advised region of another domain", "ibv_advise_mr", AV_CHECK_ADVISE_PD, EPERM, advise_pd, 0, ANY, ANY, false},
	{"advised region not writable", "ibv_advise_mr", AV_CHECK_ADVISE_RIGHT, EPERM, advise_right, 0, ANY, ANY, false},
	{"device memory, length", "ibv_alloc_dm", AV_CHECK_DM_LENGTH,     EINVAL, dm_length, 1ull << 50, 1ull << 50, ANY, false},
	{"device memory, alignment", "ibv_alloc_dm", AV_CHECK_DM_ALIGN,   EINVAL, dm_align, 60, 60, ANY, false},
	{"copy behind device memory", "ibv_memcpy_to_dm", AV_CHECK_DM_RANGE, EFAULT, dm_copy, 60, 68, 64, false},
	{"copy to an odd place", "ibv_memcpy_to_dm", AV_CHECK_DM_UNIT,    EINVAL, dm_copy, 3, 3, ANY, false},
	{"rights of device memory", "ibv_reg_dm_mr", AV_CHECK_DM_ACCESS,  EINVAL, dm_access, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE, ANY, false},
	{"XRC domain's mask",   "ibv_open_xrcd", AV_CHECK_XRCD_MASK,      EINVAL, xrcd_mask, 0, 0, ANY, false},
	{"row of the GID table", "ibv_query_gid", AV_CHECK_GID_INDEX,     EINVAL, query_row, 999, 999, ANY, false},
};
/* clang-format on */

static void run(const struct verb_row *v)
{
	const struct seed seed = {v->name, v->check, AV_FLIGHT_REFUSAL, v->wanted, v->limit};
	struct av_flight_record r;
	int err;

	row("verb: %s", v->name);
	recorder_begin();
	err = v->call(v->value);
	EXPECT(err == v->error, "errno %d instead of %d", err, v->error);
	if (!recorder_find(&seed, &r))
		return;
	EXPECT(r.error == v->error && (r.has & AV_HAS_VERB), "error %d", r.error);
	EXPECT(!strcmp(av_verb_name(r.verb), v->verb), "verb %s", av_verb_name(r.verb));
	EXPECT(v->call == child_of_fork || (r.pid == getpid() && r.by == getpid()), "pid %d",
	       r.pid);
	if (v->of_qp)
		EXPECT(r.object == AV_OBJECT_QP &&
			       (r.number == n->qp[0]->qp_num || r.number == n->qp[1]->qp_num),
		       "object %u %u", r.object, r.number);
}

void seed_verbs(void)
{
	struct node_qp_spec spec = spec_default();

	n = a.node;
	if (node_create_qp(n, 0, &spec))
		DIE("queue pair");
	pair_create(&a, 1, &b, 1, NULL);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		run(&rows[i]);
	pair_destroy(&a, 1, &b, 1);
	EXPECT(node_destroy_qp(n, 0) == 0, "ibv_destroy_qp");
}
