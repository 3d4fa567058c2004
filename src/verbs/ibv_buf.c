/* SPDX-License-Identifier: MIT */
/* Buffers, dma-bufs, ibv_reg_mr_ex(3). Handles name no context: a list tells ours from others'. */
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "verbs/next.h"

struct buf {
	LIST_ENTRY(buf) link;
	const struct ibv_pd *pd; /* compared, never followed: the program may have freed it */
	void *addr;
	size_t size;
};

static LIST_HEAD(, buf) bufs; /* guarded by mutex */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct av_fork_handlers fork_handlers = {.mutex = &mutex};

/* The buffer of that handle, or NULL. Context: the mutex is held */
static struct buf *find_buf(const struct ibv_buf *handle)
{
	struct buf *buf;

	LIST_FOREACH(buf, &bufs, link)
		if ((const void *)buf == handle)
			break;
	return buf;
}

/* May a region of @pd use that range of @handle, which may be anything? Return: 0 or EINVAL */
static int check_buf(const struct ibv_pd *pd, const struct ibv_buf *handle, const void *addr,
		     size_t length)
{
	const struct buf *buf;
	bool good;

	pthread_mutex_lock(&mutex);
	buf = find_buf(handle);
	good = buf && buf->pd == pd &&
	       av_range_within((uintptr_t)addr, length, (uintptr_t)buf->addr, buf->size);
	pthread_mutex_unlock(&mutex);
	return good ? 0 : av_refuse(EINVAL, AV_CHECK_BUF_RANGE, length, (uintptr_t)addr);
}

AV_EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **handle)
{
	AV_OURS_OR_NEXT(av_fail_null, ALLOC_BUF, ibv_alloc_buf, "IBVERBS_1.17", pd, size, handle);
	AV_FAIL_ON_DEMAND(av_fail_null, ALLOC_BUF, pd->context, 0, 0);
	struct buf *buf = av_object_new(AV_VERB_ALLOC_BUF, 0, sizeof(*buf));
	int err;

	if (!buf)
		return NULL;
	err = posix_memalign(&buf->addr, (size_t)sysconf(_SC_PAGESIZE), size);
	if (err)
		return av_object_fail(AV_VERB_ALLOC_BUF, buf, err);
	buf->pd = pd;
	buf->size = size;
	(void)av_fork_register(AV_FORK_BUFFERS, &fork_handlers);
	pthread_mutex_lock(&mutex);
	LIST_INSERT_HEAD(&bufs, buf, link);
	pthread_mutex_unlock(&mutex);
	*handle = (struct ibv_buf *)(void *)buf;
	return buf->addr;
}

AV_EXPORT void ibv_free_buf(struct ibv_buf *handle)
{
	AV_UNCANCELLED;
	struct buf *buf;

	pthread_mutex_lock(&mutex);
	buf = find_buf(handle);
	if (buf)
		LIST_REMOVE(buf, link);
	pthread_mutex_unlock(&mutex);
	if (!buf)
		return AV_NEXT_OR((void)0, ibv_free_buf, "IBVERBS_1.17", handle);
	free(buf->addr);
	free(buf);
}

/* Our buffers are not dma-bufs. */
AV_EXPORT int ibv_export_buf_dmabuf_fd(struct ibv_buf *handle)
{
	AV_UNCANCELLED;
	bool ours;

	pthread_mutex_lock(&mutex);
	ours = find_buf(handle);
	pthread_mutex_unlock(&mutex);
	if (ours)
		return av_fail_fd(AV_VERB_EXPORT_BUF_DMABUF_FD, ENODATA);
	return AV_NEXT_OR(av_fail_fd(AV_VERB_EXPORT_BUF_DMABUF_FD, EOPNOTSUPP),
			  ibv_export_buf_dmabuf_fd, "IBVERBS_1.18", handle);
}

/* --- dma-bufs: we map one into the process, and register the mapping ------------- */

#define DMABUF_MAGIC 0x444d4142 /* f_type of the kernel's dma-buf file system, "DMAB" */

static const unsigned int permitted = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				      IBV_ACCESS_RELAXED_ORDERING;

/* Is this a dma-buf that contains the range? Return: 0 or errno. */
static int check_buffer(int fd, uint64_t offset, size_t length)
{
	struct statfs fs;
	off_t size;

	if (fcntl(fd, F_GETFD) < 0)
		return EBADF;
	if (fstatfs(fd, &fs) || fs.f_type != DMABUF_MAGIC)
		return av_refuse(EINVAL, AV_CHECK_DMABUF_FD, (uint64_t)fd, 0);
	size = lseek(fd, 0, SEEK_END);
	return size >= 0 && length > 0 && av_range_within(offset, length, 0, (uint64_t)size)
		       ? 0
		       : av_refuse(EINVAL, AV_CHECK_DMABUF_RANGE, offset + length, (uint64_t)size);
}

static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, uint32_t access)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = offset & (page - 1);
	struct av_region_request req = {.length = length, .iova = iova, .access = access};
	struct av_mr *mr;
	struct av_key what;
	void *p;
	int err;

	p = mmap(NULL, length + skip, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)(offset - skip));
	if (p == MAP_FAILED)
		return av_fail_null(AV_VERB_REG_DMABUF_MR,
				    av_refuse(errno == EACCES ? EACCES : EINVAL,
					      AV_CHECK_DMABUF_MAP, (uint64_t)errno, 0));
	req.addr = (uintptr_t)p + skip;
	err = av_region_prepare(av_context_of(pd->context)->seg, &req, &what);
	mr = err ? av_fail_null(AV_VERB_REG_DMABUF_MR, err)
		 : av_mr_publish(pd, &what, (void *)(uintptr_t)offset, NULL);
	if (!mr) {
		av_munmap(p, length + skip);
		return NULL;
	}
	mr->sort = AV_MR_DMABUF;
	mr->mapping = p;
	mr->mapped = length + skip;
	return &mr->ibv;
}

AV_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access)
{
	AV_OURS_OR_NEXT(av_fail_null, REG_DMABUF_MR, ibv_reg_dmabuf_mr, "IBVERBS_1.12", pd, offset,
			length, iova, fd, access);
	int err = av_verb_err(av_context_of(pd->context), AV_VERB_REG_DMABUF_MR);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (err == 0 && ((uint32_t)access & ~permitted))
		err = av_refuse(EINVAL, AV_CHECK_DMABUF_ACCESS, (uint32_t)access, permitted);
	if (err == 0)
		err = av_region_check_access((uint32_t)access);
	if (err == 0 && ((offset ^ iova) & (page - 1)))
		err = av_refuse(EINVAL, AV_CHECK_MR_IOVA, offset & (page - 1), iova & (page - 1));
	if (err == 0)
		err = check_buffer(fd, offset, length);
	return err ? av_fail_null(AV_VERB_REG_DMABUF_MR, err)
		   : reg_dmabuf(pd, offset, length, iova, fd, (uint32_t)access);
}

/* --- all kinds of registration in one call, selected by a mask ------------------- */

static const uint64_t known =
	AV_REG_MR_IOVA | AV_REG_MR_ADDR | AV_REG_MR_FD | AV_REG_MR_FD_OFFSET | AV_REG_MR_BUF;

/* Does the mask name exactly what its kind of region needs? Return: 0 or errno */
static int check_mask(uint64_t mask)
{
	const uint64_t file = AV_REG_MR_FD | AV_REG_MR_FD_OFFSET | AV_REG_MR_IOVA;

	if (mask & ~known)
		return av_refuse(EOPNOTSUPP, AV_CHECK_COMP_MASK, mask,
				 known); /* also covers DMA handles, which we do not have */
	if (mask & (AV_REG_MR_FD | AV_REG_MR_FD_OFFSET)
		    ? (mask & file) == file && !(mask & (AV_REG_MR_ADDR | AV_REG_MR_BUF))
		    : mask & AV_REG_MR_ADDR)
		return 0;
	return av_refuse(EINVAL, AV_CHECK_REG_MASK, mask, known);
}

static struct ibv_mr *reg_ex(struct ibv_pd *pd, const struct av_mr_init_attr *attr)
{
	uint64_t mask = attr->comp_mask;
	int err = check_mask(mask);

	if (!err && (mask & AV_REG_MR_BUF))
		err = check_buf(pd, attr->buf, attr->addr, attr->length);
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
	AV_OURS_OR_NEXT(av_fail_null, REG_MR_EX, ibv_reg_mr_ex, "IBVERBS_1.15", pd, attr);
	return reg_ex(pd, (const struct av_mr_init_attr *)(const void *)attr);
}

AV_EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
					size_t length, int access)
{
	AV_OURS_OR_NEXT(av_fail_null, REG_BUF_MR, ibv_reg_buf_mr, "IBVERBS_1.17", pd, buf, addr,
			length, access);
	const struct av_mr_init_attr attr = {
		.length = length,
		.access = access,
		.comp_mask = AV_REG_MR_BUF | AV_REG_MR_ADDR,
		.addr = addr,
		.buf = buf,
	};

	return reg_ex(pd, &attr);
}
