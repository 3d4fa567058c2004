/* SPDX-License-Identifier: MIT */
/*
 * The virtual sysfs: a virtual directory as the current directory.
 *
 * What the kernel has in its place is an empty directory of our own, removed once we are in it: its
 * name, which /proc goes on telling, is the virtual path. So children and programs that are
 * executed are in the same place, nothing stays, and a file that somebody creates by a relative
 * path is an error, as in the kernel's own sysfs.
 */
#include "preload/vsysfs_libc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK	   "anyverbs-cwd-"
#define DELETED	   " (deleted)"
#define SLASH	   '%' /* in the name; no name of the tree has one */
#define NAME_BYTES (AV_VSYSFS_PATH_BYTES + 64)

atomic_uint av_vlibc_cwd_seen;

/* Only if nobody has changed the directory since @seen was read. */
static void remember_real(unsigned int seen)
{
	atomic_compare_exchange_strong(&av_vlibc_cwd_seen, &seen, seen | AV_VLIBC_CWD_REAL);
}

static void forget(void)
{
	unsigned int seen = atomic_load(&av_vlibc_cwd_seen);

	while (!atomic_compare_exchange_weak(&av_vlibc_cwd_seen, &seen,
					     (seen + 2) & ~AV_VLIBC_CWD_REAL))
		;
}

/* The virtual path in what /proc says of the directory, @len bytes. */
static bool parse(char *link, size_t len, char path[AV_VSYSFS_PATH_BYTES])
{
	const char *name, *from;
	size_t i;

	if (len <= strlen(DELETED))
		return false;
	len -= strlen(DELETED);
	if (memcmp(link + len, DELETED, strlen(DELETED)) != 0)
		return false;
	link[len] = '\0';
	name = strrchr(link, '/');
	if (!name || strncmp(name + 1, MARK, strlen(MARK)) != 0)
		return false;
	from = strchr(name, SLASH);
	if (!from || strlen(from) >= AV_VSYSFS_PATH_BYTES)
		return false;
	for (i = 0; from[i]; i++)
		path[i] = from[i] == SLASH ? '/' : from[i];
	path[i] = '\0';
	return true;
}

bool av_vlibc_cwd(char path[AV_VSYSFS_PATH_BYTES])
{
	unsigned int seen = atomic_load(&av_vlibc_cwd_seen);
	char link[NAME_BYTES];
	int saved = errno;
	ssize_t len;

	if (seen & AV_VLIBC_CWD_REAL)
		return false;
	len = av_next_readlink()("/proc/thread-self/cwd", link, sizeof(link) - 1);
	errno = saved;
	if (len > 0 && parse(link, (size_t)len, path))
		return true;
	remember_real(seen);
	return false;
}

bool av_vlibc_cwd_is_virtual(void)
{
	char path[AV_VSYSFS_PATH_BYTES];

	return av_vlibc_cwd(path);
}

/* Return: 0, or -1 and errno. */
static int enter_below(const char *base, const struct av_vsysfs_node *node)
{
	char name[NAME_BYTES];
	int len = snprintf(name, sizeof(name), "%s/" MARK "%d-%d", base, getpid(), gettid()), ret;
	size_t i;

	for (i = 0; node->path[i]; i++)
		name[(size_t)len + i] = node->path[i] == '/' ? SLASH : node->path[i];
	name[(size_t)len + i] = '\0';
	if (mkdir(name, 0700))
		return -1;
	ret = av_next_chdir()(name);
	(void)rmdir(name);
	return ret;
}

static int enter(const struct av_vsysfs_node *node)
{
	static const char *const bases[] = {"/dev/shm", "/tmp"};
	char path[AV_VSYSFS_PATH_BYTES];
	int saved = errno;

	if (node->kind != AV_VSYSFS_DIR)
		return av_vlibc_fail(ENOTDIR);
	if (av_next_readlink()("/proc/thread-self/cwd", path, sizeof(path)) < 0)
		return av_vlibc_fail(ENOENT); /* nobody could tell where we are */
	for (size_t i = 0; i < AV_ARRAY_SIZE(bases); i++) {
		if (enter_below(bases[i], node))
			continue;
		forget();
		errno = saved;
		return 0;
	}
	return av_vlibc_fail(EACCES);
}

static int chdir_suspect(const char *path)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim_path(&path, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, &claim))
		return av_next_chdir()(path);
	return claim.error ? av_vlibc_fail(claim.error) : enter(&claim.walk.node);
}

AV_LIBC(int, chdir, (const char *path))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return chdir_suspect(path);
	return av_next_chdir()(path);
}

AV_LIBC(int, fchdir, (int fd))
{
	struct av_vsysfs_node node;
	int saved = errno;
	struct stat st;

	if (av_unlikely(atomic_load_explicit(&av_vlibc_handed_out, memory_order_relaxed)) &&
	    !av_next_fstat()(fd, &st) && av_vlibc_node_of(fd, &st, &node))
		return enter(&node);
	errno = saved;
	return av_next_fchdir()(fd);
}

/* What the C library has found: nothing, if the directory is a removed one. */
static char *getcwd_found(char *found, char *buffer, size_t size, int saved)
{
	char path[AV_VSYSFS_PATH_BYTES];

	if (av_likely(found) || errno != ENOENT || !av_vlibc_cwd(path))
		return found;
	if (buffer ? size <= strlen(path) : size && size <= strlen(path))
		return av_vlibc_fail_null(ERANGE);
	errno = saved;
	if (!buffer)
		buffer = malloc(size ? size : strlen(path) + 1);
	return buffer ? memcpy(buffer, path, strlen(path) + 1) : NULL;
}

AV_LIBC(char *, getcwd, (char *buffer, size_t size))
{
	int saved = errno;

	return getcwd_found(av_next_getcwd()(buffer, size), buffer, size, saved);
}

AV_LIBC(char *, __getcwd_chk, (char *buffer, size_t size, size_t room))
{
	int saved = errno;

	return getcwd_found(av_next___getcwd_chk()(buffer, size, room), buffer, size, saved);
}

AV_LIBC(char *, get_current_dir_name, (void))
{
	int saved = errno;

	return getcwd_found(av_next_get_current_dir_name()(), NULL, 0, saved);
}
