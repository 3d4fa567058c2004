/* SPDX-License-Identifier: MIT */
#include "memory/mapped.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/vma.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable)
{
	uint64_t at = addr, last = addr + bytes;
	int maps = av_vma_open_own();
	struct av_vma vma;

	if (maps < 0)
		return EFAULT;
	while (at != last && av_vma_next(maps, at, &vma) && vma.begin <= at && vma.readable &&
	       (vma.writable || !writable))
		at = vma.end - at < last - at ? vma.end : last;
	close(maps);
	return at == last ? 0 : EFAULT;
}

int av_mapped_populate(uint64_t begin, uint64_t bytes, bool writable)
{
	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, err = 0;

	do
		err = madvise((void *)(uintptr_t)begin, bytes, advice) ? errno : 0;
	while (err == EINTR || err == EAGAIN);
	if (err == 0)
		return 0;
	if (err == EFAULT || err == EHWPOISON || av_mapped_check(begin, bytes, writable))
		return EFAULT;
	return err == ENOMEM ? ENOMEM : EINVAL;
}
