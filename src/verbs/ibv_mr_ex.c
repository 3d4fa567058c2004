/* SPDX-License-Identifier: MIT */
/* ibv_reg_mr_ex(3): all kinds of registration in one call, selected by a mask. */
#include "verbs/fail.h"
#include "verbs/ibv_buf.h"
#include "verbs/next.h"

static const uint64_t known =
	AV_REG_MR_IOVA | AV_REG_MR_ADDR | AV_REG_MR_FD | AV_REG_MR_FD_OFFSET | AV_REG_MR_BUF;

/* Does the mask name exactly what a region of its kind needs? Return: 0 or errno. */
static int check_mask(uint64_t mask)
{
	const uint64_t file = AV_REG_MR_FD | AV_REG_MR_FD_OFFSET | AV_REG_MR_IOVA;

	if (mask & ~known)
		return EOPNOTSUPP; /* also covers DMA handles, which we do not have */
	if (mask & (AV_REG_MR_FD | AV_REG_MR_FD_OFFSET))
		return (mask & file) == file && !(mask & (AV_REG_MR_ADDR | AV_REG_MR_BUF)) ? 0
											   : EINVAL;
	return mask & AV_REG_MR_ADDR ? 0 : EINVAL;
}

static struct ibv_mr *reg_ex(struct ibv_pd *pd, const struct av_mr_init_attr *attr)
{
	uint64_t mask = attr->comp_mask;
	int err = check_mask(mask);

	if (!err && (mask & AV_REG_MR_BUF))
		err = av_buf_check(pd, attr->buf, attr->addr, attr->length);
	if (err)
		return av_fail_null(AV_VERB_REG_MR_EX, err);
	if (mask & AV_REG_MR_FD)
		return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd,
					 attr->access);
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length,
				mask & AV_REG_MR_IOVA ? attr->iova : (uintptr_t)attr->addr,
				(unsigned int)attr->access);
}

AV_EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	if (!av_ours(pd->context))
		return AV_NEXT_OR(av_fail_null(AV_VERB_REG_MR_EX, EOPNOTSUPP), ibv_reg_mr_ex,
				  "IBVERBS_1.15", pd, attr);
	return reg_ex(pd, (const struct av_mr_init_attr *)(const void *)attr);
}

AV_EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
					size_t length, int access)
{
	const struct av_mr_init_attr attr = {
		.length = length,
		.access = access,
		.comp_mask = AV_REG_MR_BUF | AV_REG_MR_ADDR,
		.addr = addr,
		.buf = buf,
	};

	if (!av_ours(pd->context))
		return AV_NEXT_OR(av_fail_null(AV_VERB_REG_BUF_MR, EOPNOTSUPP), ibv_reg_buf_mr,
				  "IBVERBS_1.17", pd, buf, addr, length, access);
	return reg_ex(pd, &attr);
}
