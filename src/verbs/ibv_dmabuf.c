/* SPDX-License-Identifier: MIT */
/* ibv_reg_dmabuf_mr(3): maps the dma-buf into the process and registers the mapping. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/map.h"
#include "base/uncancelled.h"
#include "memory/region.h"
#include "verbs/between.h"
#include "verbs/fail.h"
#include "verbs/next.h"

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
	struct ibv_mr *mr = NULL;
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
	if (err)
		errno = err;
	else
		mr = av_mr_publish(pd, &what, (void *)(uintptr_t)offset, NULL);
	if (!mr) {
		av_munmap(p, length + skip);
		return NULL;
	}
	av_mr_find(mr)->sort = AV_MR_DMABUF;
	av_mr_find(mr)->mapping = p;
	av_mr_find(mr)->mapped = length + skip;
	return mr;
}

AV_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access)
{
	AV_UNCANCELLED;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int err;

	AV_OURS_OR_NEXT(av_fail_null, REG_DMABUF_MR, ibv_reg_dmabuf_mr, "IBVERBS_1.12", pd, offset,
			length, iova, fd, access);
	err = av_verb_err(av_context_of(pd->context), AV_FAIL_REG_DMABUF_MR);
	if (err)
		return av_fail_null(AV_VERB_REG_DMABUF_MR, err);
	if ((uint32_t)access & ~permitted)
		err = av_refuse(EINVAL, AV_CHECK_DMABUF_ACCESS, (uint32_t)access, permitted);
	else
		err = av_region_check_access((uint32_t)access);
	if (err == 0 && ((offset ^ iova) & (page - 1)))
		err = av_refuse(EINVAL, AV_CHECK_MR_IOVA, offset & (page - 1), iova & (page - 1));
	if (err == 0)
		err = check_buffer(fd, offset, length);
	return err ? av_fail_null(AV_VERB_REG_DMABUF_MR, err)
		   : reg_dmabuf(pd, offset, length, iova, fd, (uint32_t)access);
}
