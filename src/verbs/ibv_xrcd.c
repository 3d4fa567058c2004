/* SPDX-License-Identifier: MIT */
/* XRC domains: private, or shared by all processes that name the same file. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/uncancelled.h"
#include "registry/directory.h"
#include "verbs/misuse.h"
#include "verbs/ops.h"

/* The number of the domain that the attributes name. Return: number (> 0) or -errno. */
static int number_of(const struct av_context *ctx, const struct ibv_xrcd_init_attr *attr,
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

static int check(const struct av_context *ctx, const struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return av_refuse(EOPNOTSUPP, AV_CHECK_XRCD_MASK, attr->comp_mask, needed);
	if ((attr->comp_mask & needed) != needed)
		return av_refuse(EINVAL, AV_CHECK_XRCD_MASK, attr->comp_mask, needed);
	return av_verb_err(ctx, AV_FAIL_OPEN_XRCD);
}

struct ibv_xrcd *av_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	AV_UNCANCELLED;
	struct av_context *ctx = av_context_of(context);
	struct av_xrcd *xrcd;
	int number = -check(ctx, attr);

	xrcd = av_object_new(AV_VERB_OPEN_XRCD, -number, sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	xrcd->ibv.context = context;
	number = number_of(ctx, attr, &xrcd->shared);
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

int av_close_xrcd(struct ibv_xrcd *ibv)
{
	AV_UNCANCELLED;
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_xrcd *xrcd = av_xrcd_find(ctx, ibv);

	if (!xrcd)
		return av_fail_errno(AV_VERB_CLOSE_XRCD, ENOENT);
	if (atomic_load(&xrcd->users))
		return av_misuse_busy(AV_VERB_CLOSE_XRCD, ctx, "XRCD", xrcd->handle, NULL);
	if (!ctx->forked)
		av_dir_xrcd_close(ctx->seg->ref, xrcd->number);
	av_handles_remove(&ctx->xrcds, xrcd->handle);
	free(xrcd);
	return 0;
}
