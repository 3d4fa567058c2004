/* SPDX-License-Identifier: MIT */
#include "exp/exp.h"

/* Device memory: ibv_exp_alloc_dm() and the verbs for its result. */

AV_EXPORT struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context,
					      struct ibv_exp_alloc_dm_attr *attr)
{
	AV_UNCANCELLED;
	AV_EXP_KNOWN(NULL, EXP_ALLOC_DM, attr->comp_mask, IBV_EXP_ALLOC_DM_ATTR_RESERVED);
	if (!av_ours(context))
		return NULL;
	struct ibv_alloc_dm_attr plain = {.length = attr->length};
	struct ibv_dm *dm = ibv_alloc_dm(context, &plain);

	return dm ? &av_dm_find(dm)->exp : NULL;
}

AV_EXPORT int ibv_exp_free_dm(struct ibv_exp_dm *exp)
{
	AV_UNCANCELLED;
	if (!av_ours(exp->context))
		return ENOSYS;
	struct av_dm *dm = av_dm_of_exp(exp);

	return dm ? ibv_free_dm(&dm->ibv) : av_fail_errno(AV_VERB_EXP_FREE_DM, ENOENT);
}

AV_EXPORT int ibv_exp_memcpy_dm(struct ibv_exp_dm *exp, struct ibv_exp_memcpy_dm_attr *attr)
{
	AV_EXP_KNOWN(EINVAL, EXP_MEMCPY_DM, attr->comp_mask, IBV_EXP_DM_CPY_COMP_MASK_RESERVED);
	if (!av_ours(exp->context))
		return ENOSYS;
	const bool to_host = attr->memcpy_dir == IBV_EXP_DM_CPY_TO_HOST;
	void *bytes;
	int err = av_dm_range(av_dm_of_exp(exp), attr->dm_offset, attr->length, 1, &bytes);

	if (err == EFAULT)
		err = av_refuse_as(EINVAL);
	else if (err == 0 && !to_host && attr->memcpy_dir != IBV_EXP_DM_CPY_TO_DEVICE)
		err = av_refuse(EINVAL, AV_CHECK_DM_DIRECTION, attr->memcpy_dir, 0);
	else if (err == 0 && av_copy(to_host ? attr->host_addr : bytes,
				     to_host ? bytes : attr->host_addr, attr->length) != AV_COPY_OK)
		err = EFAULT;
	return err ? av_fail_errno(AV_VERB_EXP_MEMCPY_DM, err) : 0;
}

/* Access rights; memory regions by kind, re-registered and prefetched; windows of type 1. */

#define SHARED_READ                                                                 \
	(IBV_EXP_ACCESS_SHARED_MR_USER_READ | IBV_EXP_ACCESS_SHARED_MR_GROUP_READ | \
	 IBV_EXP_ACCESS_SHARED_MR_OTHER_READ)
#define SHARED_WRITE                                                                  \
	(IBV_EXP_ACCESS_SHARED_MR_USER_WRITE | IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE | \
	 IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE)
#define SHARED	   (SHARED_READ | SHARED_WRITE)
#define SHARE_PAGE 4096u
#define DM_RIGHTS                                                                                \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define RELAXED_MAX (128ul << 20)

#define BIND_FLAGS (IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED)

/* --- rights ---------------------------------------------------------------------- */

static const struct {
	uint64_t exp;
	unsigned int plain;
} pair[] = {
	{IBV_EXP_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE},
	{IBV_EXP_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE},
	{IBV_EXP_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
	{IBV_EXP_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC},
	{IBV_EXP_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND},
	{IBV_EXP_ACCESS_MW_ZERO_BASED, IBV_ACCESS_ZERO_BASED},
	{IBV_EXP_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND},
	{IBV_EXP_ACCESS_TUNNELED_ATOMIC, AV_ACCESS_TUNNELED},
	{IBV_EXP_ACCESS_RELAXED_ORDERING, IBV_ACCESS_RELAXED_ORDERING},
};

int av_exp_access(uint64_t exp, unsigned int *plain)
{
	uint64_t asked = exp, known = 0;

	*plain = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(pair); i++) {
		if (exp & pair[i].exp)
			*plain |= pair[i].plain;
		exp &= ~pair[i].exp;
		known |= pair[i].exp;
	}
	return exp ? av_refuse(EINVAL, AV_CHECK_MR_FLAGS, asked, known) : 0;
}

/* --- registration ---------------------------------------------------------------- */

static struct ibv_mr *reg_dm(const struct ibv_exp_reg_mr_in *in)
{
	struct av_dm *dm =
		in->dm && in->dm->context == in->pd->context ? av_dm_of_exp(in->dm) : NULL;
	uintptr_t offset = (uintptr_t)in->addr;
	unsigned int access;
	int err;

	if (!dm)
		err = av_refuse(EINVAL, AV_CHECK_DM_UNKNOWN, 0, 0);
	else if (in->exp_access & ~(uint64_t)DM_RIGHTS)
		err = av_refuse(EINVAL, AV_CHECK_DM_ACCESS, in->exp_access, DM_RIGHTS);
	else if (!av_range_within(offset, in->length, 0, dm->length))
		err = av_refuse(EFAULT, AV_CHECK_DM_RANGE, offset + in->length, dm->length);
	else
		err = av_exp_access(in->exp_access, &access);
	return err ? av_fail_null(AV_VERB_EXP_REG_MR, err)
		   : ibv_reg_dm_mr(in->pd, &dm->ibv, offset, in->length,
				   access | IBV_ACCESS_ZERO_BASED);
}

/* RELAXED permits us to make a larger region with more rights. We make the one requested. */
static struct ibv_mr *reg_memory(const struct ibv_exp_reg_mr_in *in)
{
	const bool relaxed = in->exp_access & IBV_EXP_ACCESS_RELAXED;
	unsigned int access;
	int err;

	if (relaxed && (!(in->exp_access & IBV_EXP_ACCESS_ON_DEMAND) || in->length > RELAXED_MAX))
		err = av_refuse(EINVAL, AV_CHECK_MR_RELAXED, in->length, RELAXED_MAX);
	else if (in->exp_access & IBV_EXP_ACCESS_MW_ZERO_BASED)
		err = av_refuse(EINVAL, AV_CHECK_MR_ZERO_BASED, in->exp_access, 0);
	else
		err = av_exp_access(in->exp_access & ~(uint64_t)IBV_EXP_ACCESS_RELAXED, &access);
	return err ? av_fail_null(AV_VERB_EXP_REG_MR, err)
		   : av_reg_mr(in->pd, in->addr, in->length, (uintptr_t)in->addr, access);
}

/* Keeps the user's rights to a shared region. Groups and others do not reach the device. */
static uint8_t share_of(uint64_t exp_access)
{
	uint8_t share = exp_access & SHARED ? AV_SHARED : 0;

	if (exp_access & IBV_EXP_ACCESS_SHARED_MR_USER_READ)
		share |= AV_SHARE_READ;
	if (exp_access & IBV_EXP_ACCESS_SHARED_MR_USER_WRITE)
		share |= AV_SHARE_WRITE;
	return share;
}

/* @contiguous: asked for by IBV_EXP_REG_MR_CREATE_CONTIG, with or without an address */
static struct ibv_mr *reg_allocated(struct ibv_exp_reg_mr_in *in, bool contiguous)
{
	const uint64_t kind = IBV_EXP_ACCESS_ALLOCATE_MR | SHARED | IBV_EXP_ACCESS_NO_RDMA;
	bool allocate = in->exp_access & IBV_EXP_ACCESS_ALLOCATE_MR;
	struct av_allocate_request req = {
		.wanted = in->addr,
		.length = in->length,
		.no_rdma = in->exp_access & IBV_EXP_ACCESS_NO_RDMA,
		.share = share_of(in->exp_access),
	};
	struct ibv_mr *mr;
	int err = 0;

	if (allocate && (in->addr || contiguous))
		err = av_refuse(EINVAL, AV_CHECK_MR_ALLOCATE, 0, 0);
	else if (in->exp_access & IBV_EXP_ACCESS_MW_ZERO_BASED)
		err = av_refuse(EINVAL, AV_CHECK_MR_ZERO_BASED, in->exp_access, 0);
	else
		err = av_exp_access(in->exp_access & ~kind, &req.access);
	if (err == 0 && req.share && in->length % SHARE_PAGE)
		err = av_refuse(EINVAL, AV_CHECK_MR_SHARE_LENGTH, in->length, SHARE_PAGE);
	if (err == 0 && req.no_rdma && !req.share)
		err = av_refuse(EINVAL, AV_CHECK_MR_NO_RDMA, 0, 0);
	if (err)
		return av_fail_null(AV_VERB_EXP_REG_MR, err);
	mr = av_mr_allocate(in->pd, &req);
	if (mr)
		in->addr = mr->addr;
	return mr;
}

/* Most programs leave garbage in the fields after comp_mask whose bits are not set. */
AV_EXPORT struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	AV_EXP_OURS(av_fail_null, EXP_REG_MR, in->pd);
	AV_EXP_KNOWN(NULL, EXP_REG_MR, in->comp_mask, IBV_EXP_REG_MR_RESERVED);
	uint32_t flags = in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS ? in->create_flags : 0;

	if (flags & ~(uint32_t)IBV_EXP_REG_MR_CREATE_CONTIG)
		return av_fail_null(AV_VERB_EXP_REG_MR, av_refuse(EINVAL, AV_CHECK_FLAGS, flags,
								  IBV_EXP_REG_MR_CREATE_CONTIG));
	if (in->comp_mask & IBV_EXP_REG_MR_DM)
		return reg_dm(in);
	if (flags || (in->exp_access & IBV_EXP_ACCESS_ALLOCATE_MR))
		return reg_allocated(in, flags);
	return reg_memory(in);
}

AV_EXPORT struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *in)
{
	AV_EXP_OURS(av_fail_null, EXP_REG_SHARED_MR, in->pd);
	AV_EXP_KNOWN(NULL, EXP_REG_SHARED_MR, in->comp_mask, IBV_EXP_REG_SHARED_MR_RESERVED);
	struct av_attach_request req = {
		.handle = in->mr_handle,
		.wanted = in->addr,
		.write = in->exp_access & SHARED_WRITE,
		.no_rdma = in->exp_access & IBV_EXP_ACCESS_NO_RDMA,
	};
	const uint64_t kind = SHARED | IBV_EXP_ACCESS_NO_RDMA;
	int err = in->exp_access & IBV_EXP_ACCESS_MW_ZERO_BASED
			  ? av_refuse(EINVAL, AV_CHECK_MR_ZERO_BASED, in->exp_access, 0)
			  : av_exp_access(in->exp_access & ~kind, &req.access);

	return err ? av_fail_null(AV_VERB_EXP_REG_SHARED_MR, err) : av_mr_attach(in->pd, &req);
}

/* --- re-registration ------------------------------------------------------------- */

/* The ALLOCATE_MR bit of the access counts even if CHANGE_ACCESS is not set. */
static int check_rereg(const struct av_mr_change *c, const struct ibv_exp_rereg_mr_attr *attr)
{
	bool moves = c->flags & IBV_EXP_REREG_MR_CHANGE_TRANSLATION;
	const uint32_t known =
		IBV_EXP_REREG_MR_FLAGS_SUPPORTED & ~(uint32_t)IBV_EXP_REREG_MR_KEEP_VALID;

	if (attr && attr->comp_mask)
		return av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0);
	if (c->flags & ~IBV_EXP_REREG_MR_FLAGS_SUPPORTED)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, (uint32_t)c->flags, known);
	if (c->allocate ? !moves || c->addr : moves && !c->addr)
		return av_refuse(EINVAL, AV_CHECK_REREG_INPUT, (uint32_t)c->flags, 0);
	return c->flags & IBV_EXP_REREG_MR_KEEP_VALID
		       ? av_refuse(ENOTSUP, AV_CHECK_FLAGS, (uint32_t)c->flags, known)
		       : 0;
}

AV_EXPORT int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			       size_t length, uint64_t access, struct ibv_exp_rereg_mr_attr *attr)
{
	AV_EXP_OURS(av_fail_errno, EXP_REREG_MR, mr);
	struct av_mr_change c = {
		.flags = flags,
		.pd = pd,
		.addr = addr,
		.length = length,
		.allocate = access & IBV_EXP_ACCESS_ALLOCATE_MR,
	};
	unsigned int rights = 0;
	int err = check_rereg(&c, attr);

	if (err == 0 && (flags & IBV_EXP_REREG_MR_CHANGE_ACCESS))
		err = access & IBV_EXP_ACCESS_MW_ZERO_BASED
			      ? av_refuse(EINVAL, AV_CHECK_MR_ZERO_BASED, access, 0)
			      : av_exp_access(access & ~(uint64_t)IBV_EXP_ACCESS_ALLOCATE_MR,
					      &rights);
	if (err)
		return av_fail_errno(AV_VERB_EXP_REREG_MR, err);
	c.access = rights;
	return av_mr_rereg(mr, &c) ? errno : 0;
}

/* --- prefetching ----------------------------------------------------------------- */

/*
 * Brings in the pages that can be had, and waits. No errors: a region that is not writable (EPERM),
 * a hole, a range beyond it (EFAULT). One that is not on demand (ENOENT) is. Return: 0 or errno
 */
static int prefetch(const struct ibv_mr *mr, const struct ibv_exp_prefetch_attr *attr)
{
	enum ibv_advise_mr_advice advice = attr->flags & IBV_EXP_PREFETCH_WRITE_ACCESS
						   ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
						   : IBV_ADVISE_MR_ADVICE_PREFETCH;
	const struct av_odp_range range = {(uintptr_t)attr->addr, attr->length};
	int err;

	if (attr->flags & ~(uint32_t)IBV_EXP_PREFETCH_WRITE_ACCESS)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, attr->flags,
				 IBV_EXP_PREFETCH_WRITE_ACCESS);
	err = av_advise_region(av_context_of(mr->context), mr->lkey, advice, &range);
	if (err == EPERM || err == EFAULT) {
		av_diag_drop();
		return 0;
	}
	return err == ENOENT ? av_refuse_as(EINVAL) : err;
}

AV_EXPORT int ibv_exp_prefetch_mr(struct ibv_mr *ibv, struct ibv_exp_prefetch_attr *attr)
{
	AV_EXP_OURS(av_fail_errno, EXP_PREFETCH_MR, ibv);
	AV_EXP_KNOWN(EINVAL, EXP_PREFETCH_MR, attr->comp_mask, IBV_EXP_PREFETCH_MR_RESERVED);
	int err = av_mr_find(ibv) ? prefetch(ibv, attr)
				  : av_refuse(EINVAL, AV_CHECK_OBJECT_UNKNOWN, 0, 0);

	return err ? av_fail_errno(AV_VERB_EXP_PREFETCH_MR, err) : 0;
}

/* --- windows; exp_qp.c binds those of type 2 ----------------------------------- */

AV_EXPORT int(ibv_exp_bind_mw)(struct ibv_exp_mw_bind *mw_bind)
{
	AV_EXP_OURS(av_fail_errno, EXP_BIND_MW, mw_bind->mw);
	AV_EXP_KNOWN(EINVAL, EXP_BIND_MW, mw_bind->comp_mask, IBV_EXP_BIND_MW_RESERVED);
	const struct ibv_exp_mw_bind_info *info = &mw_bind->bind_info;
	struct ibv_mw_bind plain = {
		.wr_id = mw_bind->wr_id,
		.send_flags = (unsigned int)mw_bind->exp_send_flags,
		.bind_info = {.mr = info->mr, .addr = info->addr, .length = info->length},
	};
	int err;

	if (mw_bind->exp_send_flags & ~(uint64_t)BIND_FLAGS)
		err = av_refuse(EINVAL, AV_CHECK_FLAGS, mw_bind->exp_send_flags, BIND_FLAGS);
	else if (!mw_bind->qp || mw_bind->qp->context != mw_bind->mw->context)
		err = av_refuse(EINVAL, AV_CHECK_BIND_QP, 0, 0);
	else
		err = av_exp_access(info->exp_mw_access_flags, &plain.bind_info.mw_access_flags);
	if (err == 0)
		err = ibv_bind_mw(mw_bind->qp, mw_bind->mw, &plain);
	return err ? av_fail_errno(AV_VERB_EXP_BIND_MW, err) : 0;
}
