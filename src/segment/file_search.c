/* SPDX-License-Identifier: MIT */
#include "segment/file_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Return: false: that is all */
static bool visit_all(int dir, const char *entries, long bytes, av_file_visit *visit, void *arg)
{
	struct stat st;

	for (long at = 0; at < bytes;) {
		const struct dirent64 *d = (const struct dirent64 *)(const void *)(entries + at);

		at += d->d_reclen;
		if (fstatat(dir, d->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
		    !visit(dir, d->d_name, &st, arg))
			return false;
	}
	return true;
}

void av_file_search(const char *folder, av_file_visit *visit, void *arg)
{
	int dir = (int)syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct dirent64) char entries[2048];
	long n;

	if (dir < 0)
		return;
	do
		n = syscall(SYS_getdents64, dir, entries, sizeof(entries));
	while (n > 0 && visit_all(dir, entries, n, visit, arg));
	syscall(SYS_close, dir);
}
