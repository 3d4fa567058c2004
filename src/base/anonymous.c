/* SPDX-License-Identifier: MIT */
#include "base/anonymous.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file_size.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* Linux 6.3; some systems demand it */
#endif

int av_anonymous(struct av_own_fd *own, const char *name, uint64_t bytes)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL), ret;

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	if (!av_own_fd_keep(own, fd))
		return -errno;
	ret = av_file_may_have(own->fd, bytes);
	if (ret == 0 && ftruncate(own->fd, (off_t)bytes))
		ret = -errno;
	if (ret == 0 && fcntl(own->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		ret = -errno;
	if (ret)
		av_own_fd_close(own);
	return ret;
}
