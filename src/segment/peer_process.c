/* SPDX-License-Identifier: MIT */
#include "segment/peer_process.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void av_peer_process_open(struct av_own_fd *process, pid_t pid)
{
	/* Close-on-exec of itself. */
	if (!av_own_fd_keep(process, (int)syscall(SYS_pidfd_open, pid, 0)))
		*process = AV_OWN_FD_NONE;
}

/*
 * Signal 0 is none, and is refused by what is no pidfd: on older kernels, other descriptors without
 * a file of their own look like one to av_own_fd(). A zombie has its PID still.
 */
bool av_peer_process_gone(const struct av_own_fd *process)
{
	int saved = errno, fd = av_own_fd(process);
	bool ret = fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) && errno == ESRCH;

	errno = saved;
	return ret;
}
