/* SPDX-License-Identifier: MIT */
#include "base/file_back.h"

#include <errno.h>
#include <fcntl.h>

/*
 * Kernels before 6.16 give a call up when a signal comes, and take back what it has done. Programs
 * have timers of a millisecond: it has to be done in between.
 */
#define PIECE (1u << 20)

int av_file_back(int fd, uint64_t offset, uint64_t bytes)
{
	uint64_t end = offset + bytes, n;
	int ret = 0;

	for (; ret == 0 && offset < end; offset += n) {
		n = end - offset < PIECE ? end - offset : PIECE;
		do
			ret = posix_fallocate(fd, (off_t)offset, (off_t)n);
		while (ret == EINTR);
	}
	return -ret;
}
