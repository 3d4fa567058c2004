/* SPDX-License-Identifier: MIT */
#include "base/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIGHEST 2048u /* the kernel's table of descriptors grows with the number */

/* The first number for ours: in the last quarter of what the process may have. */
static int high(void)
{
	struct rlimit rl;
	rlim_t limit;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return 0;
	limit = rl.rlim_cur < HIGHEST ? rl.rlim_cur : HIGHEST;
	return (int)(limit - limit / 4);
}

bool av_own_fd_keep(struct av_own_fd *own, int fd)
{
	struct stat st;
	int moved;

	*own = AV_OWN_FD_NONE;
	if (fd < 0)
		return false;
	if (fstat(fd, &st)) {
		int err = errno;

		close(fd);
		errno = err;
		return false;
	}
	moved = fcntl(fd, F_DUPFD_CLOEXEC, high());
	if (moved >= 0)
		close(fd);
	*own = (struct av_own_fd){moved >= 0 ? moved : fd, st.st_dev, st.st_ino};
	return true;
}

int av_own_fd(const struct av_own_fd *own)
{
	struct stat st;

	if (own->fd >= 0 && fstat(own->fd, &st) == 0 && st.st_dev == own->dev &&
	    st.st_ino == own->ino)
		return own->fd;
	errno = EBADF;
	return -1;
}

void av_own_fd_close(struct av_own_fd *own)
{
	int saved = errno, fd = av_own_fd(own);

	if (fd >= 0)
		close(fd);
	*own = AV_OWN_FD_NONE;
	errno = saved;
}
