/* SPDX-License-Identifier: MIT */
/* Where shared files are, and making and removing their folders. */
#include "registry/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "observe/log.h"

static bool usable(const char *base)
{
	struct stat st;

	return base && base[0] == '/' && stat(base, &st) == 0 && S_ISDIR(st.st_mode) &&
	       access(base, W_OK | X_OK) == 0;
}

/* All processes of a user must find the same folder, so it depends on nothing else. */
const char *av_folder_base(void)
{
	const char *set = secure_getenv("ANYVERBS_DIR");
	const char *candidates[] = {"/dev/shm", secure_getenv("XDG_RUNTIME_DIR"), "/tmp"};

	if (set)
		return set;
	for (size_t i = 0; i < AV_ARRAY_SIZE(candidates); i++)
		if (usable(candidates[i]))
			return candidates[i];
	return "/tmp";
}

static int check_ours(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid == geteuid() && (st.st_mode & 077) == 0)
		return 0;
	av_warn_once("not using %s: it is not a private folder of this user (owner %u, mode %04o)",
		     path, (unsigned int)st.st_uid, (unsigned int)st.st_mode & 07777u);
	return -EACCES;
}

int av_folder_find(char *path, size_t size)
{
	int ret = snprintf(path, size, "%s/anyverbs-%u-%d", av_folder_base(),
			   (unsigned int)geteuid(), AV_LAYOUT);
	int fd;

	if (ret < 0 || (size_t)ret >= size)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = check_ours(fd, path);
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

int av_folder_open(char *path, size_t size)
{
	int fd = av_folder_find(path, size);

	if (fd != -ENOENT)
		return fd;
	if (mkdir(path, 0700) && errno != EEXIST) {
		int err = errno;

		av_warn_once(
			"cannot make %s (errno %d); set ANYVERBS_DIR to a folder you may write to",
			path, err);
		return -err;
	}
	fd = av_folder_find(path, size);
	return fd == -ENOENT ? -EAGAIN : fd;
}

void av_folder_remove_self(const char *path)
{
	rmdir(path);
}

/*
 * Visit each name in a folder. readdir() would need memory, and folders must be removed even when
 * there is none.
 */
static void each_name(int fd, void (*visit)(int fd, const char *name))
{
	_Alignas(struct dirent64) char buffer[2048];
	ssize_t n;

	while ((n = getdents64(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const struct dirent64 *)(buffer + at);

			visit(fd, e->d_name);
			at += e->d_reclen;
		}
	}
}

static void remove_file(int fd, const char *name)
{
	if (name[0] != '.')
		unlinkat(fd, name, 0);
}

void av_folder_remove(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0) {
		each_name(fd, remove_file);
		close(fd);
	}
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static void remove_context(int fd, const char *name)
{
	if (name[0] == 'c')
		av_folder_remove(fd, name);
}

void av_folder_clear(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (copy < 0)
		return;
	each_name(copy, remove_context);
	close(copy);
}

int av_folder_make(int parent_fd, const char *name)
{
	int fd;

	if (mkdirat(parent_fd, name, 0700)) {
		if (errno != EEXIST)
			return -errno;
		av_folder_remove(parent_fd, name);
		if (mkdirat(parent_fd, name, 0700))
			return -errno;
	}
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
