/* SPDX-License-Identifier: MIT */
#include "registry/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "observe/check.h"
#include "observe/flight.h"

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

	if (set && *set)
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

static bool lacks_rights(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0 &&
	       (st.st_mode & 0700) != 0700;
}

/* Made under a umask(2) that takes the owner's rights, it would lock us out for good. */
static void give_rights(const char *path)
{
	int fd AV_CLOSED = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char name[32];

	if (fd < 0)
		return;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (lacks_rights(fd))
		(void)!chmod(name, 0700);
}

/* One of the names that the folder may have. Return: descriptor or -errno; @path: out */
static int open_name(char *path, size_t size, unsigned int number)
{
	int ret = snprintf(path, size, number ? "%s/anyverbs-%u-%u-%u" : "%s/anyverbs-%u-%u",
			   av_folder_base(), (unsigned int)geteuid(), av_layout, number);
	int fd;

	if (ret < 0 || (size_t)ret >= size)
		return -ENAMETOOLONG;
	if (path[0] != '/') {
		av_warn_once("not using %s: ANYVERBS_DIR is not an absolute path", path);
		return -EINVAL;
	}
	give_rights(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		if (ret == -ELOOP || ret == -ENOTDIR)
			av_warn_once("not using %s: it is not a folder", path);
		return ret;
	}
	ret = check_ours(fd, path);
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

/* Is this name somebody else's, so that another one is tried? */
static bool is_taken(int ret)
{
	return ret == -EACCES || ret == -ELOOP || ret == -ENOTDIR;
}

int av_folder_find(char *path, size_t size)
{
	bool free = false;
	int ret = 0;

	for (unsigned int i = 0; i < AV_FOLDER_NAMES; i++) {
		ret = open_name(path, size, i);
		if (ret != -ENOENT && !is_taken(ret))
			return ret;
		free |= ret == -ENOENT;
	}
	return free ? -ENOENT : ret;
}

int av_folder_open(char *path, size_t size)
{
	int ret = av_folder_find(path, size);

	for (unsigned int i = 0; ret == -ENOENT && i < AV_FOLDER_NAMES; i++) {
		ret = open_name(path, size, i);
		if (is_taken(ret)) {
			ret = -ENOENT;
			continue;
		}
		if (ret != -ENOENT)
			return ret;
		if (mkdir(path, 0700) && errno != EEXIST) {
			ret = -errno;
			av_warn_once("cannot make %s: %s; set ANYVERBS_DIR to a folder you may "
				     "write to",
				     path, strerrordesc_np(-ret));
			return ret;
		}
		ret = open_name(path, size, i);
		return ret == -ENOENT ? -EAGAIN : ret; /* the last process removed it meanwhile */
	}
	return ret;
}

void av_folder_full(int fd, uint64_t bytes, int err)
{
	uint64_t wanted = (bytes + 1023) / 1024, left;
	struct statvfs st = {0};

	(void)fstatvfs(fd, &st);
	left = (uint64_t)st.f_bavail * st.f_frsize / 1024;
	(void)av_refuse(err, AV_CHECK_FOLDER_FULL, wanted, left);
	av_warn_once("%s is too small or full: %" PRIu64 " KiB are needed, %" PRIu64
		     " KiB are free. Give the container a larger /dev/shm (docker run "
		     "--shm-size=1g), or set ANYVERBS_DIR to another folder for all processes",
		     av_folder_base(), wanted, left);
}

void av_folder_each(int fd, av_folder_visit *visit, void *arg)
{
	_Alignas(struct dirent64) char buffer[2048];
	ssize_t n;

	while ((n = getdents64(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const struct dirent64 *)(buffer + at);

			if (!visit(fd, e->d_name, arg))
				return;
			at += e->d_reclen;
		}
	}
}

static bool remove_file(int fd, const char *name, void *arg)
{
	if (name[0] != '.')
		unlinkat(fd, name, 0);
	return true;
}

void av_folder_remove(int parent_fd, const char *name)
{
	int fd AV_CLOSED = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		av_folder_each(fd, remove_file, NULL);
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static bool remove_content(int fd, const char *name, void *arg)
{
	if (name[0] == 'c')
		av_folder_remove(fd, name);
	else if (name[0] == 'p' || strncmp(name, AV_FOLDER_NEW, strlen(AV_FOLDER_NEW)) == 0)
		unlinkat(fd, name, 0);
	return true;
}

void av_folder_clear(int fd)
{
	int copy AV_CLOSED = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (copy >= 0)
		av_folder_each(copy, remove_content, NULL);
}

void av_folder_rights(int fd, const char *name, mode_t mode)
{
	(void)!fchmodat(fd, name, mode, 0);
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
	av_folder_rights(parent_fd, name, 0700);
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* --- small files ----------------------------------------------------------------- */

/* The name is predictable: another user's file is refused where everybody may write. */
static bool is_owner_only_file(int fd, const char *path)
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
	int fd AV_CLOSED = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool ours;

	text[0] = '\0';
	if (fd < 0)
		return false;
	ours = is_owner_only_file(fd, path);
	while (ours && have < size - 1 &&
	       ((n = read(fd, text + have, size - 1 - have)) > 0 || (n < 0 && errno == EINTR)))
		have += n > 0 ? (size_t)n : 0;
	text[have] = '\0';
	return ours && n >= 0;
}

static int write_text_fully(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = av_write_quietly(fd, text, bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Written under another name first. A file that has this name was left by a process that died. */
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
	ret = write_text_fully(fd, text, bytes);
	if (close(fd) && ret == 0)
		ret = -errno;
	if (ret == 0 && rename(fresh, path))
		ret = -errno;
	if (ret)
		unlink(fresh);
	return ret;
}

/* This user's other folders, of other layouts and damaged ones: in use, or to be removed. */

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
	int folder AV_CLOSED = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		   dir AV_CLOSED = -1;
	struct stat st;

	if (folder < 0 || fstat(folder, &st) || st.st_uid != geteuid())
		return;
	if (lock_all(folder, &dir)) {
		av_folder_clear(folder);
		unlinkat(folder, "directory", 0);
		unlinkat(folder, AV_FLIGHT_FILE, 0);
		unlinkat(folder, AV_DIR_TOTALS, 0);
		unlinkat(fd, name, AT_REMOVEDIR);
	}
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
static bool remove_if_old(int fd, const char *name, void *arg)
{
	unsigned long layout;

	if (layout_of(name, &layout) && (layout != av_layout || strstr(name, AV_FOLDER_ASIDE)))
		remove_unused(fd, name);
	return true;
}

static void each_in_base(av_folder_visit *visit, void *arg)
{
	int fd AV_CLOSED = open(av_folder_base(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		av_folder_each(fd, visit, arg);
}

void av_folder_sweep(void)
{
	each_in_base(remove_if_old, NULL);
}

static bool is_in_use(int fd, const char *name)
{
	int folder AV_CLOSED = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int dir AV_CLOSED = folder < 0 ? -1 : open_directory(folder);
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return dir >= 0 && fcntl(dir, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

struct other {
	char *name;
	size_t size;
	bool found;
};

static bool match_other(int fd, const char *name, void *arg)
{
	struct other *o = arg;
	unsigned long layout;

	o->found = layout_of(name, &layout) && layout != av_layout && is_in_use(fd, name);
	if (o->found)
		snprintf(o->name, o->size, "%s", name);
	return !o->found;
}

bool av_folder_find_other(char *name, size_t size)
{
	struct other o = {.size = size};

	o.name = name;
	each_in_base(match_other, &o);
	return o.found;
}
