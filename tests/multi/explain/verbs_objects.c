/* SPDX-License-Identifier: MIT */
/* Verbs that refuse: completion queues, shared receive queues, addresses, domains. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/few_descriptors.h"
#include "verbs.h"

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

static int no_descriptor(uint64_t unused)
{
	struct rlimit all = few_descriptors(0);
	int err = failed(ibv_create_comp_channel(n->ctx));

	setrlimit(RLIMIT_NOFILE, &all);
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

static int query_row_of_port(uint64_t port)
{
	union ibv_gid gid;

	return ibv_query_gid(n->ctx, (uint8_t)port, 0, &gid) ? errno : 0;
}

static int query_port(uint64_t port)
{
	struct ibv_port_attr attr;

	return ibv_query_port(n->ctx, (uint8_t)port, &attr);
}

static int query_pkey(uint64_t index)
{
	__be16 pkey;

	return ibv_query_pkey(n->ctx, 1, (int)index, &pkey) ? errno : 0;
}

static int query_pkey_of_port(uint64_t port)
{
	__be16 pkey;

	return ibv_query_pkey(n->ctx, (uint8_t)port, 0, &pkey) ? errno : 0;
}

static int pkey_index_of_port(uint64_t port)
{
	int index = ibv_get_pkey_index(n->ctx, (uint8_t)port, htons(0xffff));

	return index < 0 ? errno : 0;
}

static int index_of_pkey(uint64_t pkey)
{
	int index = ibv_get_pkey_index(n->ctx, 1, htons((uint16_t)pkey));

	return index < 0 ? errno : 0;
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
	unsigned int count = 0;
	int err = 0;

	while (err == 0 && count < COUNT_OF(xrcd)) {
		xrcd[count] = node_open_xrcd(n->ctx);
		err = failed(xrcd[count]);
		count += err == 0;
	}
	while (count > 0)
		ibv_close_xrcd(xrcd[--count]);
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
	{"PD in use",           "ibv_dealloc_pd", AV_CHECK_PD_BUSY,       EBUSY,  busy_pd, 0, ANY, ANY, false},
	{"RSS",                 "ibv_create_rwq_ind_table", AV_CHECK_NOT_SUPPORTED, EOPNOTSUPP, rss, 0, ANY, ANY, false},
	{"descriptor not open", "ibv_open_xrcd", AV_CHECK_OTHER_ERROR,    EBADF,  gone_fd, 0, ANY, ANY, false},
	{"XRC domains used up", "ibv_open_xrcd", AV_CHECK_NO_MEMORY,      ENOMEM, xrcds_used_up, 0, ANY, ANY, false},
	{"no descriptor left",  "ibv_create_comp_channel", AV_CHECK_NO_DESCRIPTOR, EMFILE, no_descriptor, 0, ANY, ANY, false},
	{"child of fork()",     "ibv_req_notify_cq", AV_CHECK_NOT_PERMITTED, EPERM, child_of_fork, 0, ANY, ANY, false},
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
	{"multicast on RC",     "ibv_attach_mcast", AV_CHECK_MCAST_SERVICE, EINVAL, mcast_service, 0, IBV_QPT_RC, IBV_QPT_UD, false},
	{"group that is none",  "ibv_attach_mcast", AV_CHECK_MCAST_GID,   EINVAL, mcast_gid, 0, 0xfe, 0xff, false},
	{"XRC domain's mask",   "ibv_open_xrcd", AV_CHECK_XRCD_MASK,      EINVAL, xrcd_mask, 0, 0, ANY, false},
	{"row of the GID table", "ibv_query_gid", AV_CHECK_GID_INDEX,     EINVAL, query_row, 999, 999, ANY, false},
	{"row of the P_Key table", "ibv_query_pkey", AV_CHECK_PKEY_INDEX, EINVAL, query_pkey, 5, 5, 1, false},
	{"port",                "ibv_query_port", AV_CHECK_QUERY_PORT,    EINVAL, query_port, 2, 2, 1, false},
	{"port 0",              "ibv_query_port", AV_CHECK_QUERY_PORT,    EINVAL, query_port, 0, 0, 1, false},
	{"port of a GID",       "ibv_query_gid", AV_CHECK_QUERY_PORT,     EINVAL, query_row_of_port, 2, 2, 1, false},
	{"port of a P_Key",     "ibv_query_pkey", AV_CHECK_QUERY_PORT,    EINVAL, query_pkey_of_port, 2, 2, 1, false},
	{"port of an index",    "ibv_get_pkey_index", AV_CHECK_QUERY_PORT, EINVAL, pkey_index_of_port, 2, 2, 1, false},
	{"P_Key that is none",  "ibv_get_pkey_index", AV_CHECK_PKEY_ABSENT, EINVAL, index_of_pkey, 0x1234, 0x1234, 0xffff, false},
};
/* clang-format on */

void verbs_of_objects(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		verb_run(&rows[i]);
}
