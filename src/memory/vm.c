/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/key.h"

/* Return: 0, or why not, as av_vm_call() */
static int reachable(struct av_seg *seg)
{
	if (!av_seg_alive(seg))
		return -ESRCH;
	if (!seg->same_pidns || atomic_load_explicit(&seg->vm_refused, memory_order_relaxed))
		return -EPERM;
	return 0;
}

static ssize_t call(bool write, const struct av_seg *seg, const struct iovec *local, size_t count,
		    const struct iovec *remote, size_t remote_count)
{
	/* By number: sanitizers would check the program's memory in their wrappers (docs/COPY.md).
	 */
	ssize_t n = syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, (long)seg->pid,
			    local, count, remote, remote_count, 0UL);

	if (n > 0)
		return n;
	return n == 0 ? -EAGAIN : -errno; /* 0: the remote end has been emptied */
}

ssize_t av_vm_call(bool write, const struct av_vm_remote *remote, const struct iovec *local,
		   size_t count)
{
	ssize_t n = reachable(remote->seg);
	const struct iovec *there;

	if (n)
		return n;
	there = av_revoke_begin(remote->pin, remote->addr, remote->bytes);
	if (there)
		n = call(write, remote->seg, local, count, there, 1);
	return av_revoke_end(remote->pin) ? -EAGAIN : n;
}

ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
			size_t pin_count, const struct iovec *local, size_t count,
			const struct iovec *remote, size_t remote_count)
{
	ssize_t n = reachable(seg);

	if (n)
		return n;
	if (av_revoke_begin_many(pins, pin_count))
		n = call(write, seg, local, count, remote, remote_count);
	return av_revoke_end_many(pins, pin_count) ? -EAGAIN : n;
}
