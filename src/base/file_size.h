/* SPDX-License-Identifier: MIT */
/* RLIMIT_FSIZE is the program's: a file of ours that grows beyond it would kill it by SIGXFSZ. */
#ifndef AV_BASE_FILE_SIZE_H
#define AV_BASE_FILE_SIZE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/compiler.h"

/* May the file be made so large, or is it already? Return: 0 or -EFBIG */
AV_MUST_USE static inline int av_file_may_have(int fd, uint64_t bytes)
{
	struct rlimit rl;
	struct stat st;

	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur >= bytes)
		return 0;
	return fstat(fd, &st) == 0 && st.st_size >= (off_t)bytes ? 0 : -EFBIG;
}

#endif
