/* SPDX-License-Identifier: MIT */
/* Removes this user's folders that nobody uses any more: of other layouts, and damaged ones. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/flight.h"
#include "registry/directory_file.h"
#include "registry/folder.h"

/*
 * Lock the directory of a folder against whoever is about to join it. Every layout has its record
 * locks in that file. @dir: out, to be closed at the end; -1: it is not open
 * Return: false: a living process holds a lock there, or nobody can tell
 */
static bool lock_all(int folder, int *dir)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	*dir = openat(folder, "directory", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*dir < 0) /* nothing there that anybody could have joined? */
		return errno == ENOENT || errno == ELOOP || errno == EISDIR || errno == ENXIO;
	return fcntl(*dir, F_OFD_SETLK, &all) == 0;
}

/* Remove what we have made in the folder @name of @fd, and then the folder, if that was all. */
static void remove_unused(int fd, const char *name)
{
	int folder = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), dir;
	struct stat st;

	if (folder < 0)
		return;
	if (fstat(folder, &st) || st.st_uid != geteuid()) {
		close(folder);
		return;
	}
	if (lock_all(folder, &dir)) {
		av_folder_clear(folder);
		unlinkat(folder, "directory", 0);
		unlinkat(folder, AV_FLIGHT_FILE, 0);
		unlinkat(folder, AV_DIR_TOTALS, 0);
		unlinkat(fd, name, AT_REMOVEDIR);
	}
	if (dir >= 0)
		close(dir);
	close(folder);
}

/*
 * Is this anyverbs-UID-LAYOUT of another layout, or one that was set aside? Older layouts have
 * locks of the process, which the holder would lose here. So never one that it may have joined.
 */
static bool is_old(const char *name)
{
	char begin[32], ours[32];
	int n = snprintf(begin, sizeof(begin), "anyverbs-%u-", (unsigned int)geteuid());

	if (strncmp(name, begin, (size_t)n) != 0 || name[n] < '0' || name[n] > '9')
		return false;
	snprintf(ours, sizeof(ours), "%u", av_layout);
	return strncmp(name + n, ours, strlen(ours)) != 0 || strstr(name, AV_FOLDER_ASIDE);
}

static void remove_if_old(int fd, const char *name)
{
	if (is_old(name))
		remove_unused(fd, name);
}

void av_folder_sweep(void)
{
	int fd = open(av_folder_base(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	av_folder_each(fd, remove_if_old);
	close(fd);
}
