/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>

#include "transport/transport.h"
#include "verbs/misuse.h"

/*
 * Protection, thread and parent domains. A parent domain protects like the domain in it. We never
 * call its allocators: rings must be where peers reach them.
 */

#define AV_PD_FORGOTTEN \
	0x80000000u /* added to the users of a domain that ibv_unimport_pd() has removed */

/* Tells importing contexts, by a bit, whether the domain exists. */
static void publish_pd_bit(struct av_context *ctx, uint32_t handle, bool exists)
{
	uint64_t bit = 1ull << (handle % 64);

	if (handle > AV_MAX_PD || ctx->forked)
		return;
	if (exists)
		atomic_fetch_or(&ctx->seg->head->pds[handle / 64], bit);
	else
		atomic_fetch_and(&ctx->seg->head->pds[handle / 64], ~bit);
}

void av_pd_count(struct av_pd *pd, enum av_pd_user kind, int by)
{
	atomic_fetch_add(&pd->user[kind], (uint32_t)by);
	if (atomic_fetch_add(&pd->users, (uint32_t)by) + (uint32_t)by == AV_PD_FORGOTTEN)
		free(pd);
}

static struct ibv_pd *create_pd(struct av_context *ctx, struct av_pd *contains, struct av_td *td)
{
	const enum av_verb verb = contains ? AV_VERB_ALLOC_PARENT_DOMAIN : AV_VERB_ALLOC_PD;
	/* A forked child may make domains, though it can put nothing into them. */
	int err = ctx->forked ? 0 : av_verb_err(ctx, verb);
	struct av_pd *pd = av_object_new(verb, err, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ibv.context = &ctx->verbs.context;
	pd->contains = contains;
	pd->td = td;
	pd->ibv.handle = av_handles_add(&ctx->pds, pd, (uint32_t)ctx->dev->attr.max_pd);
	if (!pd->ibv.handle)
		return av_object_fail(verb, pd, ENOMEM);
	if (contains)
		av_pd_count(contains, AV_PD_PARENT, 1);
	else
		publish_pd_bit(ctx, pd->ibv.handle, true);
	if (td)
		atomic_fetch_add(&td->users, 1);
	return &pd->ibv;
}

AV_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_alloc_pd, "IBVERBS_1.1", context);
	return AV_MADE_HERE(struct av_pd, create_pd(av_context_of(context), NULL, NULL));
}

/* Notes what is left on a domain: "2 MRs, 1 QP". */
static void note_users(const struct av_pd *pd)
{
	static const char *const names[AV_PD_USERS] = {
		[AV_PD_MR] = "MR",   [AV_PD_MW] = "MW", [AV_PD_QP] = "QP",
		[AV_PD_SRQ] = "SRQ", [AV_PD_AH] = "AH", [AV_PD_PARENT] = "parent domain"};
	const struct av_seg *origin =
		pd->imported ? av_seg_origin(av_context_of(pd->ibv.context)->seg) : NULL;
	char text[128] = "";
	size_t len = 0;

	for (int i = 0; i < AV_PD_USERS; i++) {
		uint32_t count = atomic_load(&pd->user[i]);

		if (count)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u %s%s",
						len ? ", " : "", count, names[i],
						count > 1 ? "s" : "");
	}
	(void)av_refuse(EBUSY, pd->imported ? AV_CHECK_PD_BUSY_IMPORTED : AV_CHECK_PD_BUSY,
			atomic_load(&pd->users) & ~AV_PD_FORGOTTEN,
			origin ? (uint64_t)origin->head->pid : 0);
	av_diag_detail("%s", text);
}

AV_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_import_pd, "IBVERBS_1.10", context, handle);
	AV_FAIL_IF_LACKING(av_fail_null, IMPORT_PD, context);
	AV_FAIL_ON_DEMAND(av_fail_null, IMPORT_PD, context, 0, 0);
	struct av_seg *origin = av_seg_origin(av_context_of(context)->seg);
	bool there = origin && handle && handle <= AV_MAX_PD &&
		     (atomic_load(&origin->head->pds[handle / 64]) & 1ull << (handle % 64));
	struct av_pd *pd = av_object_new(AV_VERB_IMPORT_PD, there ? 0 : ENOENT, sizeof(*pd));
	int err;

	if (!pd)
		return NULL;
	pd->imported = true;
	pd->ibv.context = context;
	pd->ibv.handle = handle;
	err = av_table_add(&av_context_of(context)->pds.table, handle, pd);
	if (err == 0)
		return &pd->ibv;
	return av_object_fail(AV_VERB_IMPORT_PD, pd, err);
}

/* Removes an import. Objects on the domain keep it, and the last of them frees it. */
static void forget_pd(struct av_pd *pd)
{
	av_table_clear(&av_context_of(pd->ibv.context)->pds.table, pd->ibv.handle);
	if (atomic_fetch_add(&pd->users, AV_PD_FORGOTTEN) == 0)
		free(pd);
}

AV_EXPORT void ibv_unimport_pd(struct ibv_pd *ibv)
{
	AV_BEGIN_OR_PASS_ON(ibv->context, ibv_unimport_pd, "IBVERBS_1.10", ibv);
	struct av_pd *pd = av_pd_find(ibv);

	if (pd && pd->imported)
		forget_pd(pd);
}

AV_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DEALLOC_PD, ibv_dealloc_pd, "IBVERBS_1.1", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DEALLOC_PD, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_pd *pd = av_pd_find(ibv);

	if (!pd)
		return av_fail_errno(AV_VERB_DEALLOC_PD, ENOENT);
	if (atomic_load(&pd->users)) {
		note_users(pd);
		return av_misuse_busy(AV_VERB_DEALLOC_PD, AV_MISUSE_OF("PD", pd, ibv->handle));
	}
	if (pd->imported) {
		forget_pd(pd);
		return 0;
	}
	if (!pd->contains)
		publish_pd_bit(ctx, ibv->handle, false);
	av_handles_remove(&ctx->pds, ibv->handle);
	if (pd->contains)
		av_pd_count(pd->contains, AV_PD_PARENT, -1);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	return 0;
}

struct av_td *av_td_find(struct ibv_td *ibv)
{
	struct av_td *td = av_container_of(ibv, struct av_td, ibv);

	return av_table_get(&av_context_of(ibv->context)->tds.table, td->handle) == td ? td : NULL;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	AV_BEGIN(av_fail_null, ALLOC_TD, context);
	struct av_context *ctx = av_context_of(context);
	struct av_td *td;
	int err = 0;

	if (attr->comp_mask)
		err = av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0);
	else if (!ctx->forked)
		err = av_verb_err(ctx, AV_VERB_ALLOC_TD);
	td = av_object_new(AV_VERB_ALLOC_TD, err, sizeof(*td));
	if (!td)
		return NULL;
	td->ibv.context = context;
	td->handle = av_handles_add(&ctx->tds, td, (uint32_t)ctx->dev->attr.max_pd);
	if (!td->handle)
		return av_object_fail(AV_VERB_ALLOC_TD, td, ENOMEM);
	return &td->ibv;
}

static int dealloc_td(struct ibv_td *ibv)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_errno, DEALLOC_TD, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_td *td = av_td_find(ibv);

	if (!td)
		return av_fail_errno(AV_VERB_DEALLOC_TD, ENOENT);
	if (atomic_load(&td->users))
		return av_misuse_busy(AV_VERB_DEALLOC_TD,
				      (struct av_misuse_object){ctx, "TD", td->handle, NULL});
	av_handles_remove(&ctx->tds, td->handle);
	free(td);
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	AV_BEGIN(av_fail_null, ALLOC_PARENT_DOMAIN, context);
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			       AV_PARENT_DOMAIN_MAY_BE_UNPROTECTED; /* any memory suits us */
	struct av_pd *pd = av_pd_in(context, attr->pd);
	struct av_td *td = attr->td && attr->td->context == context ? av_td_find(attr->td) : NULL;

	int err = 0;

	if (attr->comp_mask & ~known)
		err = av_refuse(EOPNOTSUPP, AV_CHECK_COMP_MASK, attr->comp_mask, known);
	else if (!pd)
		err = av_refuse(EINVAL, AV_CHECK_PD_UNKNOWN, 0, 0);
	else if (attr->td && !td)
		err = av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0);
	if (err)
		return av_fail_null(AV_VERB_ALLOC_PARENT_DOMAIN, err);
	return AV_MADE_HERE(struct av_pd, create_pd(av_context_of(context), pd, td));
}

/* --- XRC domains: private, or shared by processes that name the same file -------- */

/* Opens the domain that the attributes name. Return: its number (> 0) or -errno */
static int open_xrcd_number(const struct av_context *ctx, const struct ibv_xrcd_init_attr *attr,
			    bool *shared)
{
	struct stat st;

	*shared = attr->fd != -1;
	if (attr->fd == -1)
		return av_dir_xrcd_open(ctx->seg->ref, 0, 0, O_CREAT);
	if (fstat(attr->fd, &st))
		return -EBADF;
	return av_dir_xrcd_open(ctx->seg->ref, (uint64_t)st.st_dev, (uint64_t)st.st_ino,
				attr->oflags);
}

static int check_xrcd_attr(struct av_context *ctx, const struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return av_refuse(EOPNOTSUPP, AV_CHECK_XRCD_MASK, attr->comp_mask, needed);
	if ((attr->comp_mask & needed) != needed)
		return av_refuse(EINVAL, AV_CHECK_XRCD_MASK, attr->comp_mask, needed);
	return av_verb_err(ctx, AV_VERB_OPEN_XRCD);
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	AV_BEGIN(av_fail_null, OPEN_XRCD, context);
	struct av_context *ctx = av_context_of(context);
	struct av_xrcd *xrcd =
		av_object_new(AV_VERB_OPEN_XRCD, check_xrcd_attr(ctx, attr), sizeof(*xrcd));
	int number;

	if (!xrcd)
		return NULL;
	xrcd->ibv.context = context;
	number = open_xrcd_number(ctx, attr, &xrcd->shared);
	if (number > 0)
		xrcd->handle = av_handles_add(&ctx->xrcds, xrcd, (uint32_t)ctx->dev->attr.max_pd);
	if (number > 0 && xrcd->handle) {
		xrcd->number = (uint32_t)number;
		return &xrcd->ibv;
	}
	if (number > 0)
		av_dir_xrcd_close(ctx->seg->ref, (uint32_t)number);
	free(xrcd);
	if (number == -EINVAL)
		(void)av_refuse(EINVAL, AV_CHECK_XRCD_EXISTS, (uint32_t)attr->fd, 0);
	return av_fail_null(AV_VERB_OPEN_XRCD, number > 0 ? ENOMEM : -number);
}

static int close_xrcd(struct ibv_xrcd *ibv)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_errno, CLOSE_XRCD, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_xrcd *xrcd = av_xrcd_find(ctx, ibv);

	if (!xrcd)
		return av_fail_errno(AV_VERB_CLOSE_XRCD, ENOENT);
	if (atomic_load(&xrcd->users))
		return av_misuse_busy(AV_VERB_CLOSE_XRCD,
				      (struct av_misuse_object){ctx, "XRCD", xrcd->handle, NULL});
	if (!ctx->forked)
		av_dir_xrcd_close(ctx->seg->ref, xrcd->number);
	av_handles_remove(&ctx->xrcds, xrcd->handle);
	free(xrcd);
	return 0;
}

struct av_mw {
	struct ibv_mw ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_pd *pd;
};

AV_FIND(mw, mws)

static struct ibv_mw *alloc_mw(struct ibv_pd *ibv_pd, enum ibv_mw_type type)
{
	AV_BEGIN(av_fail_null, ALLOC_MW, ibv_pd->context);
	struct av_context *ctx = av_context_of(ibv_pd->context);
	struct av_pd *pd = av_pd_find(ibv_pd);
	struct av_mw *mw;
	int err = av_verb_err(ctx, AV_VERB_ALLOC_MW);

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		err = av_refuse(EINVAL, AV_CHECK_MW_TYPE, (uint64_t)(int)type, 0);
	else if (!pd)
		err = ENOENT;
	mw = av_object_new(AV_VERB_ALLOC_MW, err, sizeof(*mw));
	if (!mw)
		return NULL;
	mw->pd = pd;
	mw->ibv.context = ibv_pd->context;
	mw->ibv.pd = ibv_pd;
	mw->ibv.type = type;
	mw->ibv.rkey =
		av_window_create(ctx->seg, type, av_pd_id(pd), (uint32_t)ctx->dev->attr.max_mr);
	mw->ibv.handle = AV_KEY_INDEX(mw->ibv.rkey);
	if (!mw->ibv.rkey || av_table_set(&ctx->mws, mw->ibv.handle, mw)) {
		if (mw->ibv.rkey)
			(void)!av_window_destroy(ctx->seg, mw->ibv.rkey);
		return av_object_fail(AV_VERB_ALLOC_MW, mw, ENOMEM);
	}
	av_pd_count(pd, AV_PD_MW, 1);
	atomic_fetch_add(&ctx->mw_count, 1);
	return &mw->ibv;
}

static int dealloc_mw(struct ibv_mw *ibv)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_errno, DEALLOC_MW, ibv->context, 0, ibv->rkey);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_mw *mw = av_mw_find(ibv);

	if (!mw)
		return av_fail_errno(AV_VERB_DEALLOC_MW, ENOENT);
	/* The handle goes first: another thread may get the key's index as soon as that is free. */
	av_table_clear(&ctx->mws, ibv->handle);
	if (!ctx->forked && av_window_destroy(ctx->seg, ibv->handle << 8)) {
		(void)!av_table_set(&ctx->mws, ibv->handle, mw);
		return av_fail_errno(AV_VERB_DEALLOC_MW, EBUSY);
	}
	atomic_fetch_sub(&ctx->mw_count, 1);
	av_pd_count(mw->pd, AV_PD_MW, -1);
	free(mw);
	return 0;
}

static bool may_bind(const struct ibv_mr *ibv)
{
	const struct av_mr *mr = av_mr_find(ibv);
	enum av_mr_sort sort;

	if (!mr)
		return true; /* an invalid region fails when the bind executes */
	sort = __atomic_load_n(&mr->sort, __ATOMIC_RELAXED); /* it may be re-registered meanwhile */
	return sort == AV_MR_PLAIN || sort == AV_MR_ALLOCATED;
}

/* For windows of type 1. The bind is a work request, whose posting gives the window its new key. */
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = bind->bind_info},
	};
	struct ibv_send_wr *bad;
	int err =
		av_verb_injected(av_context_of(qp->context), AV_VERB_BIND_MW, qp->qp_num, mw->rkey);

	if (err)
		return av_fail_errno(AV_VERB_BIND_MW, err);
	if (!av_mw_find(mw))
		err = av_refuse(EINVAL, AV_CHECK_BIND_WINDOW, 0, 0);
	else if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		err = av_refuse(EINVAL, AV_CHECK_MW_ZERO_BASED, IBV_ACCESS_ZERO_BASED, 0);
	else if (bind->bind_info.mr && !may_bind(bind->bind_info.mr))
		err = av_refuse(ENOTSUP, AV_CHECK_MW_REGION, 0, 0);
	return err ? av_fail_errno(AV_VERB_BIND_MW, err) : ibv_post_send(qp, &wr, &bad);
}

/* An av_table_each() visitor. @arg: the queue pair that ends */
static void unbind_from(uint32_t id, void *object, void *arg)
{
	const struct av_qp_ref *end = arg;

	av_window_queue_pair_ends(end->seg, id << 8, atomic_load(&end->qp->qpn));
}

void av_mw_queue_pair_ends(struct av_context *ctx, struct av_qp_ref *end)
{
	if (atomic_load(&ctx->mw_count))
		av_table_each(&ctx->mws, unbind_from, end);
}

void av_pd_fill_ops(struct verbs_context *verbs)
{
	verbs->alloc_td = alloc_td;
	verbs->dealloc_td = dealloc_td;
	verbs->alloc_parent_domain = alloc_parent_domain;
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
	verbs->context.ops.alloc_mw = alloc_mw;
	verbs->context.ops.bind_mw = bind_mw;
	verbs->context.ops.dealloc_mw = dealloc_mw;
}
