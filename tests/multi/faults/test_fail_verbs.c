/* SPDX-License-Identifier: MIT */
/*
 * Every verb fails on demand, with each errno value of its row in turn, and then does what it did
 * before: "anyverbs help fail" says which verbs there are. Meanwhile the same call on another
 * device works. What a failed call has begun it has undone, so in the end nothing is left.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <anyverbs/as_notify.h>

#include "lib/cm_command.h"
#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/to_rts.h"
#include "lib/tool.h"
#include "lib/wait.h"

#define ERRORS 8 /* of a verb */
#define DEPTH  64
#define BYTES  4096
#define FULL                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND)

/* A device and its objects. What a row makes, and could not destroy, waits in @left. */
static struct world {
	const char *name;
	struct ibv_device *device;
	struct ibv_context *ctx, *importer;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq, *xrc_srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp, *ud, *xrc;
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr, *windowed, *odp;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	union ibv_gid gid;
	int cm;
	void *left;
	uint8_t memory[2 * BYTES] __attribute__((aligned(BYTES)));
} faulty = {.name = "any0"}, bystander = {.name = "any1"};

/* --- objects --------------------------------------------------------------------- */

static struct ibv_qp *create_qp(struct world *w, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = w->cq,
		.recv_cq = w->cq,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
		.comp_mask =
			(type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD) |
			(ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = w->pd,
		.xrcd = w->xrcd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(w->ctx, &init);
}

static void connect_to_itself(const struct world *w, struct ibv_qp *qp)
{
	NEED(qp && connect_qp(qp, connect_attr(qp->qp_num, &w->gid)) == 0);
}

static struct ibv_srq *create_xrc_srq(struct world *w)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = w->pd,
		.xrcd = w->xrcd,
		.cq = w->cq,
	};

	return ibv_create_srq_ex(w->ctx, &init);
}

static struct ibv_srq *create_srq(struct world *w)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};

	return ibv_create_srq(w->pd, &init);
}

static struct ibv_dm *create_dm(struct world *w)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};

	return ibv_alloc_dm(w->ctx, &attr);
}

static struct ibv_ah *create_ah(struct world *w)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = w->gid, .hop_limit = 1}};

	return ibv_create_ah(w->pd, &attr);
}

static void world_open(struct world *w)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_cq_init_attr_ex cq = {.cqe = DEPTH};

	for (int i = 0; i < count; i++)
		if (!strcmp(ibv_get_device_name(list[i]), w->name))
			w->device = list[i];
	ibv_free_device_list(list);
	NEED(w->device && (w->ctx = ibv_open_device(w->device)));
	NEED((w->importer = ibv_import_device(dup(w->ctx->cmd_fd))));
	NEED((w->pd = ibv_alloc_pd(w->ctx)) && (w->channel = ibv_create_comp_channel(w->ctx)));
	NEED((w->cq = ibv_create_cq(w->ctx, 4 * DEPTH, NULL, w->channel, 0)));
	NEED((w->cq_ex = ibv_create_cq_ex(w->ctx, &cq)) && !ibv_query_gid(w->ctx, 1, 0, &w->gid));
	NEED((w->xrcd = node_open_xrcd(w->ctx)) && (w->srq = create_srq(w)));
	NEED((w->xrc_srq = create_xrc_srq(w)) && (w->xrc = create_qp(w, IBV_QPT_XRC_RECV, 0)));
	NEED((w->qp = create_qp(w, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE)));
	w->ex = ibv_qp_to_qp_ex(w->qp);
	connect_to_itself(w, w->qp);
	connect_to_itself(w, w->ud = create_qp(w, IBV_QPT_UD, 0));
	NEED((w->mr = ibv_reg_mr(w->pd, w->memory, BYTES, FULL)) && (w->dm = create_dm(w)));
	NEED((w->odp = ibv_reg_mr(w->pd, w->memory + BYTES, BYTES, IBV_ACCESS_ON_DEMAND)));
	NEED((w->windowed = ibv_reg_mr(w->pd, w->memory, BYTES, FULL)));
	NEED((w->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_1)));
	NEED(fcntl(w->channel->fd, F_SETFL, O_NONBLOCK) == 0);
	NEED(fcntl(w->ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	NEED((w->cm = cm_open(O_CLOEXEC | O_NONBLOCK)) >= 0);
}

static void world_close(struct world *w)
{
	row("what is on %s can be destroyed", w->name);
	EXPECT_RET(ibv_dealloc_mw(w->mw), 0);
	EXPECT_RET(ibv_destroy_qp(w->qp), 0);
	EXPECT_RET(ibv_destroy_qp(w->ud), 0);
	EXPECT_RET(ibv_destroy_qp(w->xrc), 0);
	EXPECT_RET(ibv_dereg_mr(w->mr), 0);
	EXPECT_RET(ibv_dereg_mr(w->windowed), 0);
	EXPECT_RET(ibv_dereg_mr(w->odp), 0);
	EXPECT_RET(ibv_free_dm(w->dm), 0);
	EXPECT_RET(ibv_destroy_srq(w->srq), 0);
	EXPECT_RET(ibv_destroy_srq(w->xrc_srq), 0);
	EXPECT_RET(ibv_close_xrcd(w->xrcd), 0);
	EXPECT_RET(ibv_destroy_cq(ibv_cq_ex_to_cq(w->cq_ex)), 0);
	EXPECT_RET(ibv_destroy_cq(w->cq), 0);
	EXPECT_RET(ibv_destroy_comp_channel(w->channel), 0);
	EXPECT_RET(ibv_dealloc_pd(w->pd), 0);
	EXPECT_RET(ibv_close_device(w->importer), 0);
	EXPECT_RET(ibv_close_device(w->ctx), 0);
	close(w->cm);
}

/* --- calls; each returns 0 or the errno value ---------------------------------------- */

/* Defines NAME(): makes an object, and destroys it again. */
#define MAKES(name, type, make, destroy) \
	static int name(struct world *w) \
	{                                \
		type object = make;      \
                                         \
		if (!object)             \
			return errno;    \
		NEED((destroy) == 0);    \
		return 0;                \
	}

/* Defines NAME(): makes an object unless the last call could not destroy it; destroys it. */
#define ENDS(name, type, make, destroy)                                 \
	static int name(struct world *w)                                \
	{                                                               \
		type object = w->left ? w->left : make;                 \
		int err;                                                \
                                                                        \
		NEED(object);                                           \
		err = destroy;                                          \
		w->left = err ? object : NULL;                          \
		EXPECT(!err || errno == err || err == -1, "%d", errno); \
		return err ? errno : 0;                                 \
	}

/* Defines NAME(): a call that returns an errno value. */
#define ASKS(name, ...)                                                            \
	static int name(struct world *w)                                           \
	{                                                                          \
		int err = (__VA_ARGS__);                                           \
                                                                                   \
		EXPECT(!err || errno == err, "returned %d, errno %d", err, errno); \
		return err;                                                        \
	}

/* Defines NAME(): a call that returns a negative number on failure. */
#define SIGNED(name, ...)                             \
	static int name(struct world *w)              \
	{                                             \
		return (__VA_ARGS__) < 0 ? errno : 0; \
	}

#define TEMP(type, ...) (&(type){__VA_ARGS__})

static struct ibv_context *import_context(const struct world *w)
{
	int fd = dup(w->ctx->cmd_fd), saved;
	struct ibv_context *got = ibv_import_device(fd);

	saved = errno;
	if (!got)
		close(fd);
	errno = saved;
	return got;
}

static void *alloc_buf(const struct world *w, void **handle)
{
	void *(*f)(struct ibv_pd *, size_t, void **);

	*(void **)&f = dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	return f(w->pd, BYTES, handle);
}

static int free_buf(void *handle)
{
	void (*f)(void *);

	*(void **)&f = dlsym(RTLD_DEFAULT, "ibv_free_buf");
	f(handle);
	return 0;
}

MAKES(do_open_device, struct ibv_context *, ibv_open_device(w->device), ibv_close_device(object))
MAKES(do_import_device, struct ibv_context *, import_context(w), ibv_close_device(object))
MAKES(do_alloc_pd, struct ibv_pd *, ibv_alloc_pd(w->ctx), ibv_dealloc_pd(object))
MAKES(do_alloc_parent_domain, struct ibv_pd *,
      ibv_alloc_parent_domain(w->ctx, TEMP(struct ibv_parent_domain_init_attr, .pd = w->pd)),
      ibv_dealloc_pd(object))
MAKES(do_alloc_td, struct ibv_td *, ibv_alloc_td(w->ctx, TEMP(struct ibv_td_init_attr, 0)),
      ibv_dealloc_td(object))
MAKES(do_alloc_mw, struct ibv_mw *, ibv_alloc_mw(w->pd, IBV_MW_TYPE_2), ibv_dealloc_mw(object))
MAKES(do_alloc_dm, struct ibv_dm *, create_dm(w), ibv_free_dm(object))
MAKES(do_alloc_null_mr, struct ibv_mr *, ibv_alloc_null_mr(w->pd), ibv_dereg_mr(object))
MAKES(do_create_ah, struct ibv_ah *, create_ah(w), ibv_destroy_ah(object))
MAKES(do_create_comp_channel, struct ibv_comp_channel *, ibv_create_comp_channel(w->ctx),
      ibv_destroy_comp_channel(object))
MAKES(do_create_cq, struct ibv_cq *, ibv_create_cq(w->ctx, 1, NULL, NULL, 0),
      ibv_destroy_cq(object))
MAKES(do_create_qp, struct ibv_qp *, create_qp(w, IBV_QPT_RC, 0), ibv_destroy_qp(object))
MAKES(do_create_srq, struct ibv_srq *, create_srq(w), ibv_destroy_srq(object))
MAKES(do_open_xrcd, struct ibv_xrcd *, node_open_xrcd(w->ctx), ibv_close_xrcd(object))
MAKES(do_open_qp, struct ibv_qp *,
      ibv_open_qp(w->ctx,
		  TEMP(struct ibv_qp_open_attr,
		       .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				    IBV_QP_OPEN_ATTR_TYPE,
		       .qp_num = w->xrc->qp_num, .xrcd = w->xrcd, .qp_type = IBV_QPT_XRC_RECV)),
      ibv_destroy_qp(object))
MAKES(do_reg_mr, struct ibv_mr *, ibv_reg_mr(w->pd, w->memory, BYTES, FULL), ibv_dereg_mr(object))
MAKES(do_reg_dmabuf_mr, struct ibv_mr *, ibv_reg_dmabuf_mr(w->pd, 0, BYTES, 0, -1, 0),
      ibv_dereg_mr(object))
MAKES(do_import_pd, struct ibv_pd *, ibv_import_pd(w->importer, w->pd->handle),
      (ibv_unimport_pd(object), 0))
MAKES(do_import_dm, struct ibv_dm *, ibv_import_dm(w->importer, w->dm->handle),
      (ibv_unimport_dm(object), 0))
MAKES(do_get_device_list, struct ibv_device **, ibv_get_device_list(NULL),
      (ibv_free_device_list(object), 0))

static int do_alloc_buf(struct world *w)
{
	void *handle;

	return alloc_buf(w, &handle) ? free_buf(handle) : errno;
}

static int do_import_mr(struct world *w)
{
	struct ibv_pd *pd = ibv_import_pd(w->importer, w->pd->handle);
	struct ibv_mr *mr;
	int err;

	NEED(pd);
	mr = ibv_import_mr(pd, w->mr->handle);
	err = mr ? 0 : errno;
	if (mr)
		ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	return err;
}

ENDS(do_close_device, struct ibv_context *, ibv_open_device(w->device), ibv_close_device(object))
ENDS(do_dealloc_pd, struct ibv_pd *, ibv_alloc_pd(w->ctx), ibv_dealloc_pd(object))
ENDS(do_dealloc_td, struct ibv_td *, ibv_alloc_td(w->ctx, TEMP(struct ibv_td_init_attr, 0)),
     ibv_dealloc_td(object))
ENDS(do_dealloc_mw, struct ibv_mw *, ibv_alloc_mw(w->pd, IBV_MW_TYPE_2), ibv_dealloc_mw(object))
ENDS(do_free_dm, struct ibv_dm *, create_dm(w), ibv_free_dm(object))
ENDS(do_destroy_ah, struct ibv_ah *, create_ah(w), ibv_destroy_ah(object))
ENDS(do_destroy_comp_channel, struct ibv_comp_channel *, ibv_create_comp_channel(w->ctx),
     ibv_destroy_comp_channel(object))
ENDS(do_destroy_cq, struct ibv_cq *, ibv_create_cq(w->ctx, 1, NULL, NULL, 0),
     ibv_destroy_cq(object))
ENDS(do_destroy_qp, struct ibv_qp *, create_qp(w, IBV_QPT_RC, 0), ibv_destroy_qp(object))
ENDS(do_destroy_srq, struct ibv_srq *, create_srq(w), ibv_destroy_srq(object))
ENDS(do_close_xrcd, struct ibv_xrcd *, node_open_xrcd(w->ctx), ibv_close_xrcd(object))
ENDS(do_dereg_mr, struct ibv_mr *, ibv_reg_mr(w->pd, w->memory, BYTES, FULL), ibv_dereg_mr(object))

static const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 7}};

static int do_attach_mcast(struct world *w)
{
	int err = ibv_attach_mcast(w->ud, &group, 0);

	if (err == 0)
		NEED(ibv_detach_mcast(w->ud, &group, 0) == 0);
	return err;
}

static int do_detach_mcast(struct world *w)
{
	NEED(ibv_attach_mcast(w->ud, &group, 0) == 0); /* once more does nothing */
	return ibv_detach_mcast(w->ud, &group, 0);
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
		       unsigned int *type);

ASKS(do_query_device, ibv_query_device(w->ctx, TEMP(struct ibv_device_attr, .fw_ver = "")))
ASKS(do_query_device_ex,
     ibv_query_device_ex(w->ctx, NULL, TEMP(struct ibv_device_attr_ex, .comp_mask = 0)))
ASKS(do_query_port, ibv_query_port(w->ctx, 1, TEMP(struct ibv_port_attr, .state = 0)))
SIGNED(do_query_gid, ibv_query_gid(w->ctx, 1, 0, TEMP(union ibv_gid, .raw = {0})))
ASKS(do_query_gid_ex, ibv_query_gid_ex(w->ctx, 1, 0, TEMP(struct ibv_gid_entry, .port_num = 0), 0))
SIGNED(do_query_gid_type, ibv_query_gid_type(w->ctx, 1, 0, TEMP(unsigned int, 0)))
SIGNED(do_query_pkey, ibv_query_pkey(w->ctx, 1, 0, TEMP(__be16, 0)))
SIGNED(do_get_pkey_index, ibv_get_pkey_index(w->ctx, 1, 0xffff))
ASKS(do_query_qp, ibv_query_qp(w->qp, TEMP(struct ibv_qp_attr, .sq_psn = 0), IBV_QP_STATE,
			       TEMP(struct ibv_qp_init_attr, .qp_type = 0)))
ASKS(do_query_srq, ibv_query_srq(w->srq, TEMP(struct ibv_srq_attr, .max_wr = 0)))
ASKS(do_get_srq_num, ibv_get_srq_num(w->xrc_srq, TEMP(uint32_t, 0)))
ASKS(do_query_rt_values_ex,
     ibv_query_rt_values_ex(w->ctx, TEMP(struct ibv_values_ex, .comp_mask = 0)))
ASKS(do_memcpy_to_dm, ibv_memcpy_to_dm(w->dm, 0, w->memory, 8))
ASKS(do_memcpy_from_dm, ibv_memcpy_from_dm(w->memory, w->dm, 0, 8))
ASKS(do_modify_qp,
     ibv_modify_qp(w->qp, TEMP(struct ibv_qp_attr, .min_rnr_timer = 1), IBV_QP_MIN_RNR_TIMER))
ASKS(do_modify_srq,
     ibv_modify_srq(w->srq, TEMP(struct ibv_srq_attr, .max_wr = DEPTH), IBV_SRQ_MAX_WR))
ASKS(do_modify_cq,
     ibv_modify_cq(w->cq, TEMP(struct ibv_modify_cq_attr, .attr_mask = IBV_CQ_ATTR_MODERATE)))
ASKS(do_resize_cq, ibv_resize_cq(w->cq, 4 * DEPTH))
ASKS(do_advise_mr,
     ibv_advise_mr(w->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
		   TEMP(struct ibv_sge, (uintptr_t)w->memory + BYTES, 1, w->odp->lkey), 1))
ASKS(do_init_ah_from_wc, ibv_init_ah_from_wc(w->ctx, 1, TEMP(struct ibv_wc, .wr_id = 0), NULL,
					     TEMP(struct ibv_ah_attr, .sl = 0)))
SIGNED(do_get_async_event,
       ibv_get_async_event(w->ctx, TEMP(struct ibv_async_event, .event_type = 0)))
SIGNED(do_get_cq_event,
       ibv_get_cq_event(w->channel, TEMP(struct ibv_cq *, NULL), TEMP(void *, NULL)))
ASKS(do_cq_wait, anyverbs_cq_wait(w->cq, TEMP(struct timespec, 0, 0)))
SIGNED(do_poll_cq, ibv_poll_cq(w->cq, 1, TEMP(struct ibv_wc, .wr_id = 0)))
ASKS(do_req_notify_cq, ibv_req_notify_cq(w->cq, 1))

static int do_query_gid_table(struct world *w)
{
	struct ibv_gid_entry entries[256];
	ssize_t n = ibv_query_gid_table(w->ctx, entries, COUNT_OF(entries), 0);

	return n < 0 ? (int)-n : 0;
}

static int do_rereg_mr(struct world *w)
{
	int ret = ibv_rereg_mr(w->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL);

	EXPECT(!ret || ret == IBV_REREG_MR_ERR_CMD, "%d", ret);
	return ret ? errno : 0;
}

static int do_start_poll(struct world *w)
{
	int err = ibv_start_poll(w->cq_ex, TEMP(struct ibv_poll_cq_attr, 0));

	if (err == 0)
		ibv_end_poll(w->cq_ex);
	return err;
}

static int do_bind_mw(struct world *w)
{
	struct ibv_mw_bind bind = {
		.bind_info = {.mr = w->windowed, .addr = (uintptr_t)w->memory, .length = 8}};
	int err = ibv_bind_mw(w->qp, w->mw, &bind);

	EXPECT(!err || errno == err, "returned %d, errno %d", err, errno);
	return err;
}

static int do_post_send(struct world *w)
{
	struct ibv_sge sge = {(uintptr_t)w->memory, 8, w->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)w->memory + 8, w->mr->rkey}},
			   *bad = NULL;
	int err = ibv_post_send(w->qp, &wr, &bad);

	EXPECT(!err == !bad && (!err || (bad == &wr && errno == err)), "bad_wr");
	return err;
}

static int do_wr_complete(struct world *w)
{
	ibv_wr_start(w->ex);
	ibv_wr_rdma_write(w->ex, w->mr->rkey, (uintptr_t)w->memory);
	ibv_wr_set_sge(w->ex, w->mr->lkey, (uintptr_t)w->memory + 8, 8);
	return ibv_wr_complete(w->ex);
}

static int do_post_recv(struct world *w)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad = NULL;
	int err = ibv_post_recv(w->qp, &wr, &bad);

	EXPECT(!err == !bad, "bad_wr");
	return err;
}

static int do_post_srq_recv(struct world *w)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad = NULL;
	int err = ibv_post_srq_recv(w->srq, &wr, &bad);

	EXPECT(!err == !bad, "bad_wr");
	return err;
}

/* --- commands of rdma_cm, on a fresh id ------------------------------------------------- */

#define ON_ID(name, ...)                                          \
	static int name(struct world *w)                          \
	{                                                         \
		uint32_t id;                                      \
		int ret;                                          \
                                                                  \
		NEED(cm_create(w->cm, 1, RDMA_PS_TCP, &id) == 0); \
		ret = (__VA_ARGS__);                              \
		NEED(cm_destroy(w->cm, id) >= 0);                 \
		return ret < 0 ? -ret : 0;                        \
	}
#define COMMAND(number, out, type, ...) \
	cm_do(w->cm, number, &(type){__VA_ARGS__}, sizeof(type), out)

static struct sockaddr_in here(void)
{
	return cm_address("127.0.0.1", 0);
}

static int do_cm_create_event_channel(struct world *w)
{
	int fd = cm_open(O_CLOEXEC);

	return fd < 0 ? -fd : close(fd);
}

static int do_cm_create_id(struct world *w)
{
	uint32_t id;
	int ret = cm_create(w->cm, 1, RDMA_PS_TCP, &id);

	if (ret == 0)
		NEED(cm_destroy(w->cm, id) >= 0);
	return -ret;
}

static int do_cm_destroy_id(struct world *w)
{
	uint32_t id = (uint32_t)(uintptr_t)w->left;
	int ret;

	if (!w->left)
		NEED(cm_create(w->cm, 1, RDMA_PS_TCP, &id) == 0);
	ret = cm_destroy(w->cm, id);
	w->left = ret ? (void *)(uintptr_t)id : NULL;
	return -ret;
}

static int do_cm_get_event(struct world *w)
{
	struct rdma_ucm_event_resp e;

	return -cm_next(w->cm, &e);
}

ON_ID(do_cm_bind,
      cm_bind(w->cm, id, TEMP(struct sockaddr_in, here().sin_family, 0, here().sin_addr, {0})))
ON_ID(do_cm_resolve_addr,
      cm_resolve(w->cm, id, TEMP(struct sockaddr_in, AF_INET, 9, here().sin_addr, {0})))
ON_ID(do_cm_resolve_route, cm_resolve_route(w->cm, id))
ON_ID(do_cm_resolve_addrinfo, cm_resolve_service(w->cm, id))
ON_ID(do_cm_listen, cm_listen(w->cm, id, 1))
ON_ID(do_cm_connect, cm_connect(w->cm, id, "", 0))
ON_ID(do_cm_accept, cm_accept(w->cm, id, 1, "", 0))
ON_ID(do_cm_reject, cm_reject(w->cm, id, 28, "", 0))
ON_ID(do_cm_disconnect, cm_disconnect(w->cm, id))
ON_ID(do_cm_migrate, cm_migrate(w->cm, id, w->cm))
ON_ID(do_cm_set_option,
      cm_option(w->cm, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &(int){1}, 4))
ON_ID(do_cm_write_event, cm_write_event(w->cm, id, 1, 0, 0))
ON_ID(do_cm_init_qp_attr,
      COMMAND(RDMA_USER_CM_CMD_INIT_QP_ATTR, 512, struct rdma_ucm_init_qp_attr, .id = id))
ON_ID(do_cm_notify, COMMAND(RDMA_USER_CM_CMD_NOTIFY, 0, struct rdma_ucm_notify, .id = id))
ON_ID(do_cm_query, COMMAND(RDMA_USER_CM_CMD_QUERY_ROUTE, 512, struct rdma_ucm_query, .id = id))
ON_ID(do_cm_join, COMMAND(RDMA_USER_CM_CMD_JOIN_MCAST, 16, struct rdma_ucm_join_mcast, .id = id))
ON_ID(do_cm_leave, COMMAND(RDMA_USER_CM_CMD_LEAVE_MCAST, 16, struct rdma_ucm_destroy_id, .id = id))

/* --- the rows ------------------------------------------------------------------------ */

static const struct verb {
	const char *name;
	int (*call)(struct world *w);
	int plain;	 /* what it does without faults: 0 or an errno value */
	bool of_process; /* it counts for the process, so the bystander does not call it */
} verbs[] = {
#define VERB(name)                         \
	{                                  \
#name, do_##name, 0, false \
	}
	VERB(advise_mr),
	VERB(alloc_buf),
	VERB(alloc_dm),
	VERB(alloc_mw),
	VERB(alloc_null_mr),
	VERB(alloc_parent_domain),
	VERB(alloc_pd),
	VERB(alloc_td),
	VERB(attach_mcast),
	VERB(bind_mw),
	VERB(close_device),
	VERB(close_xrcd),
	VERB(create_ah),
	VERB(create_comp_channel),
	VERB(create_cq),
	VERB(create_qp),
	VERB(create_srq),
	VERB(dealloc_mw),
	VERB(dealloc_pd),
	VERB(dealloc_td),
	VERB(dereg_mr),
	VERB(destroy_ah),
	VERB(destroy_comp_channel),
	VERB(destroy_cq),
	VERB(destroy_qp),
	VERB(destroy_srq),
	VERB(detach_mcast),
	VERB(free_dm),
	{"get_async_event", do_get_async_event, EAGAIN, false},
	{"get_cq_event", do_get_cq_event, EAGAIN, false},
	VERB(get_pkey_index),
	VERB(get_srq_num),
	VERB(import_device),
	VERB(import_dm),
	VERB(import_mr),
	VERB(import_pd),
	VERB(init_ah_from_wc),
	VERB(memcpy_from_dm),
	VERB(memcpy_to_dm),
	VERB(modify_cq),
	VERB(modify_qp),
	VERB(modify_srq),
	VERB(open_device),
	VERB(open_qp),
	VERB(open_xrcd),
	VERB(poll_cq),
	VERB(post_recv),
	VERB(post_send),
	VERB(post_srq_recv),
	VERB(query_device),
	VERB(query_device_ex),
	VERB(query_gid),
	VERB(query_gid_ex),
	VERB(query_gid_table),
	VERB(query_gid_type),
	VERB(query_pkey),
	VERB(query_port),
	VERB(query_qp),
	VERB(query_rt_values_ex),
	VERB(query_srq),
	{"reg_dmabuf_mr", do_reg_dmabuf_mr, EBADF, false},
	VERB(reg_mr),
	VERB(req_notify_cq),
	VERB(rereg_mr),
	VERB(resize_cq),
	{"start_poll", do_start_poll, ENOENT, false},
	VERB(wr_complete),
	{"anyverbs_cq_wait", do_cq_wait, ETIMEDOUT, false},
	{"get_device_list", do_get_device_list, 0, true},
	{"rdma_accept", do_cm_accept, EINVAL, true},
	{"rdma_bind_addr", do_cm_bind, 0, true},
	{"rdma_connect", do_cm_connect, EINVAL, true},
	{"rdma_create_event_channel", do_cm_create_event_channel, 0, true},
	{"rdma_create_id", do_cm_create_id, 0, true},
	{"rdma_destroy_id", do_cm_destroy_id, 0, true},
	{"rdma_disconnect", do_cm_disconnect, EINVAL, true},
	{"rdma_get_cm_event", do_cm_get_event, EAGAIN, true},
	{"rdma_init_qp_attr", do_cm_init_qp_attr, EINVAL, true},
	{"rdma_join_multicast", do_cm_join, EINVAL, true},
	{"rdma_leave_multicast", do_cm_leave, ENOENT, true},
	{"rdma_listen", do_cm_listen, 0, true},
	{"rdma_migrate_id", do_cm_migrate, 0, true},
	{"rdma_notify", do_cm_notify, EINVAL, true},
	{"rdma_query_route", do_cm_query, EFAULT, true},
	{"rdma_reject", do_cm_reject, EINVAL, true},
	{"rdma_resolve_addr", do_cm_resolve_addr, 0, true},
	{"rdma_resolve_addrinfo", do_cm_resolve_addrinfo, EINVAL, true},
	{"rdma_resolve_route", do_cm_resolve_route, EINVAL, true},
	{"rdma_set_option", do_cm_set_option, 0, true},
	{"rdma_write_cm_event", do_cm_write_event, EINVAL, true},
};

static void set_rules(const char *text)
{
	if (tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", "set", text, NULL))
		DIE("anyverbs faults set '%s'", text);
	if (!strstr(text, "get_pkey_index")) /* by which it hears of them, if it has not yet */
		(void)ibv_get_pkey_index(faulty.ctx, 1, 0);
}

static int errno_of(const char *name)
{
	for (int err = 1; err < 134; err++)
		if (strerrorname_np(err) && !strcmp(strerrorname_np(err), name))
			return err;
	DIE("%s", name);
}

static int call(const struct verb *v, struct world *w)
{
	errno = 0;
	return v->call(w);
}

/* @errors: names, with blanks between, the default first */
static void verb_row(const struct verb *v, char *errors)
{
	int err[ERRORS], count = 0, got;
	char text[1000] = "", *at = text, *rest = NULL;

	for (char *name = strtok_r(errors, " \n", &rest); name;
	     name = strtok_r(NULL, " \n", &rest)) {
		err[count++] = errno_of(name);
		at += sprintf(at, "fail %s %s nth %d;", v->name, count > 1 ? name : "", count);
	}
	EXPECT((got = call(v, &faulty)) == v->plain, "before: %s", strerrorname_np(got));
	set_rules(text);
	for (int i = 0; i < count; i++) {
		got = call(v, &faulty);
		EXPECT(got == err[i], "call %d: %s, not %s", i, strerrorname_np(got),
		       strerrorname_np(err[i]));
		if (!v->of_process)
			EXPECT((got = call(v, &bystander)) == v->plain, "bystander: %d", got);
	}
	got = call(v, &faulty);
	EXPECT(got == v->plain, "then: %s", strerrorname_np(got));
}

/* Every verb of the manual has its row here. */
static void all_verbs(void)
{
	FILE *f = popen("'" ANYVERBS_TOOL "' help fail", "r");
	unsigned int rows = 0;
	char line[300], name[40];
	size_t i;

	while (f && fgets(line, sizeof(line), f)) {
		int end = 0;

		if (sscanf(line, "  fail %39s E%n", name, &end) != 1 || !end ||
		    !strcmp(name, "memory"))
			continue;
		row("%s fails on demand", name);
		for (i = 0; i < COUNT_OF(verbs) && strcmp(verbs[i].name, name); i++)
			;
		if (EXPECT(i < COUNT_OF(verbs), "there is no row"))
			verb_row(&verbs[i], line + end - 1);
		rows++;
	}
	NEED(f && pclose(f) == 0);
	EXPECT(rows == COUNT_OF(verbs), "%u verbs, and %zu rows", rows, COUNT_OF(verbs));
}

/* --- where and when ---------------------------------------------------------------------- */

static int fails_of(int (*f)(struct world *w), int calls)
{
	int failed = 0;

	for (int i = 0; i < calls; i++)
		failed += f(&faulty) != 0;
	return failed;
}

static void object_rows(void)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 1};
	struct ibv_qp_init_attr init;
	char text[100];

	row("a rule about a queue pair leaves the others alone");
	snprintf(text, sizeof(text), "fail query_qp qp %u; fail post_recv qp %u", faulty.qp->qp_num,
		 faulty.ud->qp_num);
	set_rules(text);
	EXPECT_RET(ibv_query_qp(faulty.qp, &attr, IBV_QP_STATE, &init), EIO);
	EXPECT_RET(ibv_query_qp(faulty.ud, &attr, IBV_QP_STATE, &init), 0);
	EXPECT(do_post_recv(&faulty) == 0, "post_recv");
	row("a rule about a key leaves the others alone");
	snprintf(text, sizeof(text), "fail rereg_mr key %u", faulty.odp->lkey);
	set_rules(text);
	EXPECT(do_rereg_mr(&faulty) == 0, "rereg_mr");
	snprintf(text, sizeof(text), "fail rereg_mr EPERM key %u", faulty.mr->lkey);
	set_rules(text);
	EXPECT(do_rereg_mr(&faulty) == EPERM, "rereg_mr");
}

static void chance_rows(void)
{
	int failed;

	row("posts fail by chance");
	set_rules("fail post_srq_recv p 0.5");
	failed = fails_of(do_post_srq_recv, 40);
	EXPECT(failed > 5 && failed < 35, "%d of 40", failed);
	row("any verb, but for posts and polls, and only with its errors");
	set_rules("fail any EBUSY");
	EXPECT(fails_of(do_query_pkey, 2) == 0 && fails_of(do_poll_cq, 2) == 0,
	       "EBUSY is not theirs");
	EXPECT(do_modify_qp(&faulty) == EBUSY, "modify_qp");
	set_rules("fail any");
	EXPECT(do_modify_qp(&faulty) == ENOMEM && do_query_pkey(&faulty) == EIO, "the defaults");
	EXPECT(do_poll_cq(&faulty) == 0, "poll_cq");
	row("the memory fails, and no verb does so by itself");
	set_rules("fail memory");
	EXPECT(do_create_cq(&faulty) == ENOMEM && do_query_pkey(&faulty) == 0, "create_cq");
}

/* Who only polls has no verb or request by which it could hear of the rules. */
static void told_row(void)
{
	row("who only polls is told of new rules");
	if (tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", "set", "fail poll_cq", NULL))
		DIE("anyverbs faults set");
	EXPECT(WAIT_UNTIL(do_poll_cq(&faulty) == EIO, 30000), "poll_cq");
	if (tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", "clear", NULL))
		DIE("anyverbs faults clear");
	EXPECT(do_poll_cq(&faulty) == 0, "poll_cq");
}

int main(void)
{
	setenv("ANYVERBS_DEVICES", "any0,any1", 1);
	sandbox_begin(120);
	world_open(&faulty);
	world_open(&bystander);
	all_verbs();
	object_rows();
	chance_rows();
	told_row();
	world_close(&faulty);
	world_close(&bystander);
	row("nothing is left"); /* when the channels' thread has ended */
	EXPECT(WAIT_UNTIL(sandbox_entries() == 0, 30000), "%u entries", sandbox_entries());
	return sandbox_end();
}
