/* SPDX-License-Identifier: MIT */
/* Reading and replacing small files. */
#include "registry/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"

/*
 * Everybody may be allowed to write to the folder, and the name is predictable. So a file that
 * another user put there is refused.
 */
static bool is_ours(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0)
		return true;
	av_warn_once("not using %s: not a file that only this user may write (owner %u, mode %04o)",
		     path, (unsigned int)st.st_uid, (unsigned int)st.st_mode & 07777u);
	return false;
}

bool av_small_file_read(const char *path, char *text, size_t size)
{
	size_t have = 0;
	ssize_t n = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool ours;

	text[0] = '\0';
	if (fd < 0)
		return false;
	ours = is_ours(fd, path);
	while (ours && have < size - 1 &&
	       ((n = read(fd, text + have, size - 1 - have)) > 0 || (n < 0 && errno == EINTR)))
		have += n > 0 ? (size_t)n : 0;
	close(fd);
	text[have] = '\0';
	return ours && n >= 0;
}

/* Return: 0 or -errno */
static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/*
 * The text is written under another name first. A file that has this name is left from a process
 * that died: only one at a time makes changes.
 */
int av_small_file_write(const char *path, const char *text, size_t bytes)
{
	char fresh[PATH_MAX];
	int fd, ret;

	if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = write_all(fd, text, bytes);
	if (close(fd) && ret == 0)
		ret = -errno;
	if (ret == 0 && rename(fresh, path))
		ret = -errno;
	if (ret)
		unlink(fresh);
	return ret;
}
