/* SPDX-License-Identifier: MIT */
#include "host/vsysfs.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"
#include "cm/cm.h"

#define FD_LINK_BYTES	 48 /* "/proc/thread-self/fd/N" */
#define SIGNAL_SET_BYTES 8  /* the kernel's */
#define PAGE_BYTES_MIN	 4096
#define PAGES_SEEN	 256

atomic_bool av_vlibc_handed_out;

static void *or_no_message(void *found)
{
	if (!found)
		dlerror(); /* the program must not find our error message */
	return found;
}

/* Before release 2.36, dlsym() finds the older realpath(), which takes no NULL for a buffer. */
static void *newer_realpath(void *next)
{
	void *older = or_no_message(dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.2.5"));

	if (!older || next != older)
		return next;
	return or_no_message(dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3"));
}

void *av_libc_find(const char *name, void *_Atomic *next)
{
	AV_ERRNO_KEPT;
	void *found = or_no_message(dlsym(RTLD_NEXT, name));

	if (!strcmp(name, "realpath"))
		found = newer_realpath(found);
	atomic_store_explicit(next, found, memory_order_relaxed);
	return found;
}

/* The kernel reads the set of signals before it refuses the change, which does not exist. */
static bool kernel_reads(uintptr_t addr)
{
	uintptr_t set = addr & ~(uintptr_t)(SIGNAL_SET_BYTES - 1); /* on the same page */
	AV_ERRNO_KEPT;

	return !syscall(SYS_rt_sigprocmask, -1, set, NULL, SIGNAL_SET_BYTES) || errno != EFAULT;
}

/* Paths are in the same few pages again and again; a system call for each takes time. */
static bool is_memory(uintptr_t addr)
{
	static _Atomic uintptr_t seen[PAGES_SEEN];
	uintptr_t page = addr / PAGE_BYTES_MIN;
	_Atomic uintptr_t *entry = &seen[page % PAGES_SEEN];

	if (av_likely(page == atomic_load_explicit(entry, memory_order_relaxed)))
		return page != 0;
	if (!kernel_reads(addr))
		return false;
	atomic_store_explicit(entry, page, memory_order_relaxed);
	return true;
}

ssize_t av_vlibc_length(const char *text, size_t max)
{
	size_t len = 0;

	while (len < max) {
		uintptr_t addr = (uintptr_t)text + len;
		size_t rest = PAGE_BYTES_MIN - addr % PAGE_BYTES_MIN;
		size_t n = max - len < rest ? max - len : rest;
		const char *end;

		if (!is_memory(addr))
			return -1;
		end = memchr(text + len, '\0', n);
		if (end)
			return end - text;
		len += n;
	}
	return (ssize_t)max;
}

/* --- channels of rdma_cm ------------------------------------------------------------ */

/*
 * Descriptors that may be channels: those that the library opened as /dev/infiniband/rdma_cm, and
 * duplicates of these. For all others a write(2) costs a look at the set; for a member, a query of
 * the kernel for the socket's mark (cm/id.h). No number leaves the set, since the child of vfork()
 * and a thread of unshare(CLONE_FILES) share this memory, but not the descriptors: what is closed
 * there may be open here. All is async-signal-safe.
 */

#define TRACKED	  1024u /* numbers with a bit each; those above share one */
#define WORD_BITS 64u

static _Atomic uint64_t channels[TRACKED / WORD_BITS + 1];

static _Atomic uint64_t *word_of(int fd, uint64_t *bit)
{
	unsigned int number = (unsigned int)fd < TRACKED ? (unsigned int)fd : TRACKED;

	*bit = UINT64_C(1) << number % WORD_BITS;
	return &channels[number / WORD_BITS];
}

static bool may_be_channel(int fd)
{
	uint64_t bit;
	_Atomic uint64_t *word = word_of(fd, &bit);

	return av_unlikely(atomic_load_explicit(word, memory_order_relaxed) & bit);
}

static void mark_cm_fd(int fd)
{
	uint64_t bit;
	_Atomic uint64_t *word = word_of(fd, &bit);

	atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

static bool is_channel(int fd, uint32_t *number)
{
	return may_be_channel(fd) && av_cm_is_channel(fd, number);
}

/* --- whose a descriptor or path is ---------------------------------------------------- */

/* A memfd's link reads "/memfd:NAME (deleted)". A thread may have its own descriptor table. */
static bool read_name(int fd, char name[AV_VSYSFS_PATH_BYTES])
{
	static const char before[] = "/memfd:", after[] = " (deleted)";
	char link[FD_LINK_BYTES], target[AV_VSYSFS_PATH_BYTES + sizeof(before) + sizeof(after)];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	len = av_next_readlink()(link, target, sizeof(target));
	if (len < (ssize_t)(sizeof(before) + sizeof(after)) || len == (ssize_t)sizeof(target))
		return false;
	len -= sizeof(after) - 1;
	if (memcmp(target, before, sizeof(before) - 1) ||
	    memcmp(target + len, after, sizeof(after) - 1))
		return false;
	len -= sizeof(before) - 1;
	if (len >= AV_VSYSFS_PATH_BYTES)
		return false;
	memcpy(name, target + sizeof(before) - 1, (size_t)len);
	name[len] = '\0';
	return true;
}

bool av_vlibc_node_of(int fd, const struct stat *st, struct av_vsysfs_node *node)
{
	char path[AV_VSYSFS_PATH_BYTES];
	AV_ERRNO_KEPT;
	uint32_t channel;

	if (av_unlikely(S_ISSOCK(st->st_mode)) && is_channel(fd, &channel))
		return av_vsysfs_lookup(AV_VSYSFS_CM_DEVICE, node);
	if (av_likely(st->st_mode != AV_VLIBC_MARK || st->st_nlink))
		return false;
	return read_name(fd, path) && av_vsysfs_lookup(path, node);
}

bool av_vlibc_node_of_fd(int fd, struct av_vsysfs_node *node)
{
	AV_ERRNO_KEPT;
	struct stat st;

	return !av_next_fstat()(fd, &st) && av_vlibc_node_of(fd, &st, node);
}

/* The node that relative paths begin at. Return: false if it is not ours. */
static bool find_base(int dirfd, struct av_vsysfs_node *dir)
{
	char path[AV_VSYSFS_PATH_BYTES];

	if (dirfd != AT_FDCWD)
		return av_vlibc_node_of_fd(dirfd, dir);
	return av_vlibc_cwd(path) && av_vsysfs_lookup(path, dir);
}

/* The path of a directory above the tree ("": root). Compares both: other mounts may have it. */
static bool find_above(int dirfd, char path[AV_VSYSFS_PREFIX_BYTES])
{
	char link[FD_LINK_BYTES] = "/proc/thread-self/cwd";
	struct stat there, here;
	ssize_t len;

	if (dirfd != AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", dirfd);
	len = av_next_readlink()(link, path, AV_VSYSFS_PREFIX_BYTES - 1);
	if (len <= 0 || path[0] != '/')
		return false;
	path[len == 1 ? 0 : len] = '\0';
	return av_vsysfs_is_above(path) &&
	       !av_next_fstatat()(AT_FDCWD, len == 1 ? "/" : path, &there, AT_SYMLINK_NOFOLLOW) &&
	       !av_next_fstatat()(dirfd, "", &here, AT_EMPTY_PATH) && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

/* Build @full from @dirfd and @path. Return: false if they do not lead into the tree. */
static bool find_full_path(int dirfd, const char *path, int how, char full[PATH_MAX],
			   struct av_vlibc_claim *claim)
{
	char above[AV_VSYSFS_PREFIX_BYTES];
	struct av_vsysfs_node dir;
	int n;

	claim->error = 0;
	if (!find_base(dirfd, &dir)) {
		if (!av_vsysfs_suspects_below(path) || !find_above(dirfd, above))
			return false;
		n = snprintf(full, PATH_MAX, "%s/%s", above, path);
		claim->error = n < PATH_MAX ? 0 : ENAMETOOLONG;
		return true;
	}
	if (!*path && !(how & AV_VLIBC_EMPTY))
		claim->error = ENOENT;
	else if (*path && dir.kind != AV_VSYSFS_DIR)
		claim->error = ENOTDIR;
	n = snprintf(full, PATH_MAX, "%s%s%s", dir.path, *path ? "/" : "", path);
	if (n >= PATH_MAX)
		claim->error = ENAMETOOLONG;
	return true;
}

static bool is_the_kernels(const struct av_vsysfs_node *node, int how)
{
	struct stat st;

	if (!node->shared || (node->kind == AV_VSYSFS_DIR && (how & AV_VLIBC_UNION)))
		return false;
	return !av_next_fstatat()(AT_FDCWD, node->path, &st, AT_SYMLINK_NOFOLLOW);
}

/* Walk an absolute path. Return: true if it is ours, or fails within the tree. */
static bool claim_full_path(const char *full, int how, struct av_vlibc_claim *claim)
{
	int ret = av_vsysfs_walk(full, how & AV_VLIBC_FOLLOW, &claim->walk);

	claim->error = ret < 0 ? -ret : 0;
	return ret < 0 || (ret && !is_the_kernels(&claim->walk.node, how));
}

bool av_vlibc_claim(int dirfd, const char **path, int how, struct av_vlibc_claim *claim)
{
	char full[PATH_MAX];
	AV_ERRNO_KEPT;
	ssize_t len;
	bool ours;

	claim->walk.leaf_missing = false;
	if (av_real_files_only())
		return false;
	len = av_vlibc_length(*path, PATH_MAX);
	if (len < 0 || len == PATH_MAX) {
		claim->error = len < 0 ? EFAULT : ENAMETOOLONG;
		return true;
	}
	if (**path == '/') {
		ours = claim_full_path(*path, how, claim);
	} else {
		if (!find_full_path(dirfd, *path, how, full, claim))
			return false;
		/* An empty path means the descriptor's own node, even if that is a link. */
		ours = claim->error ||
		       claim_full_path(full, **path ? how : how & ~AV_VLIBC_FOLLOW, claim);
	}
	if (!ours)
		*path = claim->walk.path;
	return ours;
}

/* --- opening ----------------------------------------------------------------------- */

AV_LIBC_NEXT(int, openat, (int, const char *, int, ...));
AV_LIBC_NEXT(FILE *, fopen, (const char *, const char *));

/* Where read(2) fails with EINVAL: a range beyond the largest offset. Elsewhere it returns 0. */
#define UNREADABLE LLONG_MAX

/* Write the content. Return: 0, or -1 and errno. */
static int fill_memfd(int fd, const char *bytes, size_t len)
{
	int err = av_file_may_have(fd, len);

	if (err)
		return av_vlibc_fail(-err);
	return pwrite(fd, bytes, len, 0) == (ssize_t)len ? 0 : -1;
}

/*
 * A descriptor with a file's content as of now; if unreadable, read(2) fails with EINVAL. @flags:
 * open(2)'s, of checked access mode. Return: descriptor, or -errno.
 */
static int vlibc_descriptor(const struct av_vsysfs_node *node, int flags)
{
	char bytes[AV_VSYSFS_CONTENT_BYTES];
	ssize_t len = -EINVAL;
	int fd, err;

	if (node->kind == AV_VSYSFS_FILE && !(flags & O_PATH))
		len = av_vsysfs_read(node, bytes);
	fd = av_memfd(node->path, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (fd < 0)
		return -errno;
	if (fill_memfd(fd, bytes, len < 0 ? 0 : (size_t)len) ||
	    (len < 0 && lseek(fd, UNREADABLE, SEEK_SET) < 0) ||
	    fchmod(fd, AV_VLIBC_MARK & ~(mode_t)S_IFMT)) {
		err = errno;
		close(fd);
		return -err;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	atomic_store_explicit(&av_vlibc_handed_out, true, memory_order_relaxed);
	return fd;
}

/* May a node be opened with these flags? Return: 0 or errno. */
static int check_flags(const struct av_vsysfs_node *node, int flags)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);

	if (flags & O_PATH)
		return (flags & O_DIRECTORY) && node->kind != AV_VSYSFS_DIR ? ENOTDIR : 0;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return node->kind == AV_VSYSFS_DIR ? EOPNOTSUPP : ENOTDIR;
	if ((flags & O_CREAT) && (flags & O_EXCL))
		return EEXIST;
	if (node->kind == AV_VSYSFS_DIR)
		return writes || (flags & O_CREAT) ? EISDIR : 0;
	if (node->kind == AV_VSYSFS_LINK) /* reached only if links are not followed */
		return flags & O_DIRECTORY ? ENOTDIR : ELOOP;
	if (flags & O_DIRECTORY)
		return ENOTDIR;
	if (node->kind == AV_VSYSFS_CHAR)
		return node->dev ? ENXIO : 0; /* there is no driver behind a device's */
	return writes ? EACCES : 0;
}

static int open_cm(int flags)
{
	int fd = av_cm_open(flags);

	if (fd < 0)
		return fd;
	mark_cm_fd(fd);
	atomic_store_explicit(&av_vlibc_handed_out, true, memory_order_relaxed);
	return fd;
}

int av_vlibc_open_node(const struct av_vsysfs_node *node, int flags)
{
	AV_UNCANCELLED;
	int err = check_flags(node, flags);
	int fd;

	if (err)
		return av_vlibc_fail(err);
	if (node->kind == AV_VSYSFS_CHAR && !(flags & O_PATH))
		return open_cm(flags);
	fd = vlibc_descriptor(node, flags);
	return fd < 0 ? av_vlibc_fail(-fd) : fd;
}

/* open(2) of what a claim has found. Nothing can be created in the tree. */
static int open_claimed(const struct av_vlibc_claim *claim, int flags)
{
	bool creates = claim->error == ENOENT && claim->walk.leaf_missing && (flags & O_CREAT) &&
		       !(flags & O_PATH);

	if (claim->error)
		return av_vlibc_fail(creates ? EACCES : claim->error);
	return av_vlibc_open_node(&claim->walk.node, flags);
}

static int open_suspect(int dirfd, const char *path, int flags, mode_t mode)
{
	bool keep = (flags & O_NOFOLLOW) || ((flags & O_CREAT) && (flags & O_EXCL));
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim(dirfd, &path, AV_VLIBC_UNION | (keep ? 0 : AV_VLIBC_FOLLOW), &claim))
		return av_next_openat()(dirfd, path, flags, mode);
	pthread_testcancel(); /* as in open(2), before anything is done */
	return open_claimed(&claim, flags);
}

/* The mode argument exists only if the call may create a file. */
#define TAKES_MODE(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

static mode_t take_mode(int flags, va_list *args)
{
	return TAKES_MODE(flags) ? va_arg(*args, mode_t) : 0;
}

AV_LIBC(int, open, (const char *path, int flags, ...))
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = take_mode(flags, &args);
	va_end(args);
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return open_suspect(AT_FDCWD, path, flags, mode);
	return av_next_open()(path, flags, mode);
}

AV_LIBC(int, openat, (int dirfd, const char *path, int flags, ...))
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = take_mode(flags, &args);
	va_end(args);
	if (av_unlikely(av_vlibc_suspects(dirfd, path)))
		return open_suspect(dirfd, path, flags, mode);
	return av_next_openat()(dirfd, path, flags, mode);
}

/* For fortified calls with two arguments, which the C library ends if they have O_CREAT. */
AV_LIBC(int, __open_2, (const char *path, int flags))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)) && !TAKES_MODE(flags))
		return open_suspect(AT_FDCWD, path, flags, 0);
	return av_next___open_2()(path, flags);
}

AV_LIBC(int, __openat_2, (int dirfd, const char *path, int flags))
{
	if (av_unlikely(av_vlibc_suspects(dirfd, path)) && !TAKES_MODE(flags))
		return open_suspect(dirfd, path, flags, 0);
	return av_next___openat_2()(dirfd, path, flags);
}

AV_LIBC_ALIAS(open64, open);
AV_LIBC_ALIAS(openat64, openat);
AV_LIBC_ALIAS(__open64_2, __open_2);
AV_LIBC_ALIAS(__openat64_2, __openat_2);

/* The open(2) flags of an fopen(3) mode, or -EINVAL. */
static int flags_of_mode(const char *mode)
{
	int flags = O_RDONLY;

	if (*mode == 'w')
		flags = O_WRONLY | O_CREAT | O_TRUNC;
	else if (*mode == 'a')
		flags = O_WRONLY | O_CREAT | O_APPEND;
	else if (*mode != 'r')
		return -EINVAL;
	for (mode++; *mode && *mode != ','; mode++)
		if (*mode == '+')
			flags = (flags & ~O_ACCMODE) | O_RDWR;
		else if (*mode == 'x')
			flags |= O_EXCL;
		else if (*mode == 'e')
			flags |= O_CLOEXEC;
	return flags;
}

static FILE *fopen_claimed(const struct av_vlibc_claim *claim, const char *mode)
{
	AV_UNCANCELLED;
	int flags = flags_of_mode(mode), fd;
	FILE *file;

	if (flags < 0)
		return av_vlibc_fail_null(EINVAL);
	fd = open_claimed(claim, flags);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, mode);
	if (!file) {
		AV_ERRNO_KEPT;
		close(fd);
	}
	return file;
}

static FILE *fopen_suspect(const char *path, const char *mode)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim(AT_FDCWD, &path, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, &claim))
		return av_next_fopen()(path, mode);
	pthread_testcancel(); /* the C library's calls open(2) */
	return fopen_claimed(&claim, mode);
}

AV_LIBC(FILE *, fopen, (const char *path, const char *mode))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return fopen_suspect(path, mode);
	return av_next_fopen()(path, mode);
}

AV_LIBC_ALIAS(fopen64, fopen);

/* --- writing --------------------------------------------------------------------------- */

AV_LIBC(ssize_t, write, (int fd, const void *bytes, size_t count))
{
	uint32_t number;

	if (is_channel(fd, &number))
		return av_cm_write(fd, number, bytes, count);
	return av_next_write()(fd, bytes, count);
}

/* --- closing and duplicating ------------------------------------------------------------- */

static void replaced(const bool *ours)
{
	if (*ours)
		av_own_fd_replace_end();
}

/* From here to the end of the block, nobody uses those numbers as ours. */
#define REPLACES(first, last)                                        \
	const bool ours __attribute__((cleanup(replaced), unused)) = \
		av_own_fd_replace_begin((unsigned int)(first), (unsigned int)(last))

AV_LIBC_NEXT(int, close, (int));

/* Who is cancelled in it would never end the block: only this close() is no cancellation point. */
static int close_own(int fd)
{
	AV_UNCANCELLED;

	return av_next_close()(fd);
}

AV_LIBC(int, close, (int fd))
{
	REPLACES(fd, fd);

	return av_unlikely(ours) ? close_own(fd) : av_next_close()(fd);
}

AV_LIBC(int, close_range, (unsigned int first, unsigned int last, int flags))
{
	REPLACES(first, last);

	return av_next_close_range()(first, last, flags);
}

AV_LIBC(void, closefrom, (int first))
{
	REPLACES(first < 0 ? 0 : first, UINT_MAX);

	av_next_closefrom()(first);
}

/* @copy: what duplicating @fd returned */
static int duplicated(int fd, int copy)
{
	if (copy >= 0 && may_be_channel(fd))
		mark_cm_fd(copy);
	return copy;
}

AV_LIBC(int, dup, (int fd))
{
	return duplicated(fd, av_next_dup()(fd));
}

AV_LIBC(int, dup2, (int fd, int to))
{
	REPLACES(to, to);

	return duplicated(fd, av_next_dup2()(fd, to));
}

AV_LIBC(int, dup3, (int fd, int to, int flags))
{
	REPLACES(to, to);

	return duplicated(fd, av_next_dup3()(fd, to, flags));
}

/* The third argument is a word, if the command has one. */
AV_LIBC(int, fcntl, (int fd, int command, ...))
{
	va_list args;
	void *word;
	int ret;

	va_start(args, command);
	word = va_arg(args, void *);
	va_end(args);
	ret = av_next_fcntl()(fd, command, word);
	if (av_unlikely(command == F_DUPFD || command == F_DUPFD_CLOEXEC))
		return duplicated(fd, ret);
	return ret;
}

AV_LIBC_ALIAS(fcntl64, fcntl);
