/* SPDX-License-Identifier: MIT */
#include "memory/vm.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t av_vm_call(bool write, struct av_seg *seg, const struct iovec *local, size_t count,
		   const struct iovec *remote, size_t remote_count)
{
	ssize_t n;

	if (!av_seg_alive(seg))
		return -ESRCH;
	if (!seg->same_pidns || atomic_load_explicit(&seg->vm_refused, memory_order_relaxed))
		return -EPERM;
	/* By number: sanitizers would check the program's memory in their wrappers (docs/COPY.md).
	 */
	n = syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, (long)seg->pid, local,
		    count, remote, remote_count, 0UL);
	if (n > 0)
		return n;
	return n == 0 ? -EFAULT : -errno;
}
