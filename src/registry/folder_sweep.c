/* SPDX-License-Identifier: MIT */
/* This user's other folders, of other layouts and damaged ones: in use, or to be removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/flight.h"
#include "registry/directory.h"
#include "registry/folder.h"

/* Return: descriptor, or -1 and errno: there is none, or it is not to be had. */
static int open_directory(int folder)
{
	return openat(folder, "directory", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/*
 * Lock the directory of a folder against whoever is about to join it. Every layout has its record
 * locks in that file. @dir: out, to be closed at the end; -1: it is not open
 * Return: false: a living process holds a lock there, or nobody can tell
 */
static bool lock_all(int folder, int *dir)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	*dir = open_directory(folder);
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

/* The number in anyverbs-UID-LAYOUT. Return: false: it is another name */
static bool layout_of(const char *name, unsigned long *layout)
{
	char begin[32];
	int n = snprintf(begin, sizeof(begin), "anyverbs-%u-", (unsigned int)geteuid());

	if (strncmp(name, begin, (size_t)n) != 0 || name[n] < '0' || name[n] > '9')
		return false;
	*layout = strtoul(name + n, NULL, 10);
	return true;
}

/*
 * Is it of another layout, or set aside? Older layouts have locks of the process, which the holder
 * would lose here. So never one that it may have joined.
 */
static bool is_old(const char *name)
{
	unsigned long layout;

	return layout_of(name, &layout) && (layout != av_layout || strstr(name, AV_FOLDER_ASIDE));
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

static bool is_in_use(int fd, const char *name)
{
	int folder = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), dir;
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	bool used;

	if (folder < 0)
		return false;
	dir = open_directory(folder);
	used = dir >= 0 && fcntl(dir, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
	if (dir >= 0)
		close(dir);
	close(folder);
	return used;
}

bool av_folder_find_other(char *name, size_t size)
{
	DIR *base = opendir(av_folder_base());
	struct dirent *e;
	unsigned long layout;
	bool found = false;

	while (base && !found && (e = readdir(base)))
		if (layout_of(e->d_name, &layout) && layout != av_layout &&
		    is_in_use(dirfd(base), e->d_name)) {
			snprintf(name, size, "%s", e->d_name);
			found = true;
		}
	if (base)
		closedir(base);
	return found;
}
