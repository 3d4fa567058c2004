/* SPDX-License-Identifier: MIT */
#include "memory/vm.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By number: sanitizers would check the program's memory in their wrappers (docs/COPY.md). */
static ssize_t transfer(bool write, pid_t pid, const struct iovec *local, size_t count,
			const struct iovec *remote, size_t remote_count)
{
	return syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, (long)pid, local,
		       count, remote, remote_count, 0UL);
}

ssize_t av_vm_call(bool write, struct av_seg *seg, const struct iovec *local, size_t count,
		   const struct iovec *remote, size_t remote_count)
{
	ssize_t n;

	if (!av_seg_alive(seg))
		return -ESRCH;
	if (!seg->same_pidns || atomic_load_explicit(&seg->vm_refused, memory_order_relaxed))
		return -EPERM;
	n = transfer(write, seg->pid, local, count, remote, remote_count);
	if (n > 0)
		return n;
	return n == 0 ? -EFAULT : -errno;
}
