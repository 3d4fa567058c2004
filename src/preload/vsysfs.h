/* SPDX-License-Identifier: MIT */
/*
 * The virtual sysfs: files about a device below /sys/class/infiniband and its neighbours. vsysfs.c
 * knows the paths, vsysfs_show.c the contents, and vsysfs_libc.c presents them to calls of the C
 * library. docs/VSYSFS.md has the whole picture.
 *
 * Nothing is stored, so there is nothing to lock, to free or to repair after fork(). But what is
 * asked of a device takes locks and makes system calls: no thread is cancelled in these functions.
 */
#ifndef AV_PRELOAD_VSYSFS_H
#define AV_PRELOAD_VSYSFS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "device/device.h"

/* === vsysfs ====================================================================== */

#define AV_VSYSFS_PATH_BYTES	240  /* of a node, NUL included; must fit in a memfd's name */
#define AV_VSYSFS_PREFIX_BYTES	40   /* no prefix of the tree is longer */
#define AV_VSYSFS_CONTENT_BYTES 4096 /* the kernel's limit for an attribute */

enum av_vsysfs_kind {
	AV_VSYSFS_DIR,
	AV_VSYSFS_FILE,
	AV_VSYSFS_LINK,
	AV_VSYSFS_CHAR, /* a character device */
};

/* One file, directory, link or device of the tree. A plain value. */
struct av_vsysfs_node {
	const struct av_vsysfs_row *row;
	enum av_vsysfs_kind kind;
	/* The kernel may have it, too: a directory lists both, else the kernel wins. */
	bool shared;
	const struct av_device *dev; /* the device that the path names; NULL: none, or all */
	unsigned int index;	     /* of the table row (GIDs, P_Keys, ODP statistics, counters) */
	char path[AV_VSYSFS_PATH_BYTES]; /* absolute and normalised, without links */
};

/* To @bytes (AV_VSYSFS_CONTENT_BYTES). Return: the length, or -EINVAL: see av_vsysfs_read(). */
typedef ssize_t av_vsysfs_show(const struct av_vsysfs_node *node, char *bytes);

/* The tree, a row per pattern of paths: vsysfs_show.c. */
struct av_vsysfs_row {
	const char *pattern;
	enum av_vsysfs_kind kind;
	bool shared;	      /* the kernel may have this path, too */
	av_vsysfs_show *show; /* for files and links */
};
extern const struct av_vsysfs_row av_vsysfs_rows[];
extern const size_t av_vsysfs_row_count;

/* Does @path begin like a path of the tree? The second half of av_vsysfs_suspects(). */
bool av_vsysfs_has_prefix(const char *path);

/* May @path lead into the tree? Cheap: its first characters rule out nearly all. */
static inline bool av_vsysfs_suspects(const char *path)
{
	if (av_likely(path[0] != '/' || (path[1] != 's' && path[1] != 'd')))
		return false;
	return av_vsysfs_has_prefix(path);
}

/* The same for a relative @path that begins at a directory above the tree. */
bool av_vsysfs_suspects_below(const char *path);

/* Is the directory above the tree? It is the kernel's, but paths lead through it. "": the root. */
bool av_vsysfs_is_above(const char *path);

/* The node at a normalised @path. Return: false if there is none; @node is undefined then. */
AV_MUST_USE bool av_vsysfs_lookup(const char *path, struct av_vsysfs_node *node);

/* The result of av_vsysfs_walk(). */
struct av_vsysfs_walk {
	struct av_vsysfs_node node; /* if the path leads into the tree */
	bool leaf_missing;	    /* with -ENOENT: only the last component is missing */
	char path[PATH_MAX];	    /* otherwise: the same place, by a path that avoids the tree */
};

/*
 * Follow an absolute @path as path_resolution(7) describes. @follow: also a link in the last
 * component. Return: 1: walk->node is in the tree; 0: ask the kernel about walk->path; or -ENOENT,
 * -ENOTDIR, -ELOOP, -ENAMETOOLONG. Assumes that "/sys/class" and its like are not links.
 */
AV_MUST_USE int av_vsysfs_walk(const char *path, bool follow, struct av_vsysfs_walk *walk);

/*
 * A file's current content, or a link's target, without NUL. Return: bytes stored; -EINVAL: exists,
 * but read(2) fails, as in the kernel's for an attribute of an empty GID row.
 */
AV_MUST_USE ssize_t av_vsysfs_read(const struct av_vsysfs_node *node,
				   char bytes[AV_VSYSFS_CONTENT_BYTES]);

/* Called for each entry of a directory. Return false to stop. */
typedef bool av_vsysfs_visit(void *arg, const char *name, enum av_vsysfs_kind kind);

/* Visit the entries of a directory in any order, without "." and "..". */
void av_vsysfs_list(const struct av_vsysfs_node *dir, av_vsysfs_visit *visit, void *arg);

/* The inode number of a path: not 0, and the same in every process. */
uint64_t av_vsysfs_ino(const char *path);

/* Number of the uverbs device: the kernel's, because programs compare them. */
dev_t av_vsysfs_rdev(const struct av_device *dev);

/* The connection manager's device: a number that the kernel gives no other of its kind. */
#define AV_VSYSFS_CM_DEVICE "/dev/infiniband/rdma_cm"
#define AV_VSYSFS_CM_RDEV   makedev(10, 254)

/* The version of its protocol that the device's node is said to have: rdma/ib_user_verbs.h. */
#define AV_VSYSFS_UVERBS_ABI 1

/* === vsysfs libc ================================================================= */

/*
 * What we export under the C library's names, and what these functions share. The descriptor of a
 * virtual file is a memfd named after its path, so that it can be duplicated, inherited and closed
 * behind our back. Its mode (AV_VLIBC_MARK) tells our fstat() to look at the name.
 *
 * They may run before main(), in a forked child or in a signal handler: passing a call on, after a
 * few instructions, involves no lock, no allocation and no thread-local state.
 */

/* With 64-bit words, a function whose name ends in "64" equals the one without. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout of struct stat");
_Static_assert(sizeof(struct statfs) == sizeof(struct statfs64), "one layout of struct statfs");
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one layout of struct dirent");
_Static_assert(sizeof(off_t) == 8, "one width of file offsets");

/*
 * Defines what is exported as @name. Our own name for it avoids the attributes of the C library's
 * declaration: non-null pointers, checked or redirected calls.
 */
#define AV_LIBC(result, name, params)                          \
	result av_libc_##name params __asm__(#name) AV_EXPORT; \
	result av_libc_##name params

/* Exports a function of the same file under another name, too. */
#define AV_LIBC_ALIAS(name, target)                                                 \
	extern __typeof__(av_libc_##target) av_libc_##name __asm__(#name) AV_EXPORT \
		__attribute__((alias(#target)))

typedef int av_vlibc_filter(const struct dirent *);
typedef int av_vlibc_compare(const struct dirent **, const struct dirent **);

/*
 * X(name, result type, parameters, fallback): what calls are passed on to. No fallback where every
 * C library whose programs call the function has it.
 */
#define AV_VLIBC_FUNCTIONS(X)                                                                    \
	X(open, int, (const char *, int, ...), NULL)                                             \
	X(openat, int, (int, const char *, int, ...), NULL)                                      \
	X(__open_2, int, (const char *, int), NULL)                                              \
	X(__openat_2, int, (int, const char *, int), NULL)                                       \
	X(fopen, FILE *, (const char *, const char *), NULL)                                     \
	X(access, int, (const char *, int), NULL)                                                \
	X(faccessat, int, (int, const char *, int, int), NULL)                                   \
	X(euidaccess, int, (const char *, int), NULL)                                            \
	X(stat, int, (const char *, struct stat *), bare_stat)                                   \
	X(lstat, int, (const char *, struct stat *), bare_lstat)                                 \
	X(fstat, int, (int, struct stat *), bare_fstat)                                          \
	X(fstatat, int, (int, const char *, struct stat *, int), bare_fstatat)                   \
	X(__xstat, int, (int, const char *, struct stat *), NULL)                                \
	X(__lxstat, int, (int, const char *, struct stat *), NULL)                               \
	X(__fxstat, int, (int, int, struct stat *), NULL)                                        \
	X(__fxstatat, int, (int, int, const char *, struct stat *, int), NULL)                   \
	X(statx, int, (int, const char *, int, unsigned int, struct statx *), NULL)              \
	X(statfs, int, (const char *, struct statfs *), NULL)                                    \
	X(fstatfs, int, (int, struct statfs *), NULL)                                            \
	X(getxattr, ssize_t, (const char *, const char *, void *, size_t), NULL)                 \
	X(lgetxattr, ssize_t, (const char *, const char *, void *, size_t), NULL)                \
	X(listxattr, ssize_t, (const char *, char *, size_t), NULL)                              \
	X(llistxattr, ssize_t, (const char *, char *, size_t), NULL)                             \
	X(readlink, ssize_t, (const char *, char *, size_t), NULL)                               \
	X(readlinkat, ssize_t, (int, const char *, char *, size_t), NULL)                        \
	X(__readlink_chk, ssize_t, (const char *, char *, size_t, size_t), NULL)                 \
	X(__readlinkat_chk, ssize_t, (int, const char *, char *, size_t, size_t), NULL)          \
	X(realpath, char *, (const char *, char *), NULL)                                        \
	X(__realpath_chk, char *, (const char *, char *, size_t), NULL)                          \
	X(opendir, DIR *, (const char *), NULL)                                                  \
	X(fdopendir, DIR *, (int), NULL)                                                         \
	X(closedir, int, (DIR *), NULL)                                                          \
	X(readdir, struct dirent *, (DIR *), NULL)                                               \
	X(readdir_r, int, (DIR *, struct dirent *, struct dirent **), NULL)                      \
	X(rewinddir, void, (DIR *), NULL)                                                        \
	X(telldir, long, (DIR *), NULL)                                                          \
	X(seekdir, void, (DIR *, long), NULL)                                                    \
	X(dirfd, int, (DIR *), NULL)                                                             \
	X(chdir, int, (const char *), NULL)                                                      \
	X(fchdir, int, (int), NULL)                                                              \
	X(getcwd, char *, (char *, size_t), NULL)                                                \
	X(__getcwd_chk, char *, (char *, size_t, size_t), NULL)                                  \
	X(get_current_dir_name, char *, (void), NULL)                                            \
	X(socket, int, (int, int, int), NULL)                                                    \
	X(send, ssize_t, (int, const void *, size_t, int), NULL)                                 \
	X(sendto, ssize_t, (int, const void *, size_t, int, const struct sockaddr *, socklen_t), \
	  NULL)                                                                                  \
	X(sendmsg, ssize_t, (int, const struct msghdr *, int), NULL)                             \
	X(write, ssize_t, (int, const void *, size_t), NULL)                                     \
	X(dup, int, (int), NULL)                                                                 \
	X(dup2, int, (int, int), NULL)                                                           \
	X(dup3, int, (int, int, int), NULL)                                                      \
	X(fcntl, int, (int, int, ...), NULL)                                                     \
	X(scandirat, int,                                                                        \
	  (int, const char *, struct dirent ***, av_vlibc_filter *, av_vlibc_compare *), NULL)

enum av_vlibc_index {
#define X(name, result, params, otherwise) AV_VLIBC_##name,
	AV_VLIBC_FUNCTIONS(X)
#undef X
		AV_VLIBC_N,
};

/* The functions found so far, by enum av_vlibc_index; NULL: not looked up yet. */
extern void *_Atomic av_vlibc_next[AV_VLIBC_N];

/* Look up one function. NULL only for a function that nobody can call. Keeps errno. */
void *av_vlibc_find_next(enum av_vlibc_index index);

/* av_next_open() ...: the function of the C library, or of another library between it and us. */
/* NOLINTBEGIN(bugprone-macro-parentheses): @result is a type, which takes none */
#define X(name, result, params, otherwise)                                         \
	static inline __typeof__(result(*) params) av_next_##name(void)            \
	{                                                                          \
		void *next = atomic_load_explicit(&av_vlibc_next[AV_VLIBC_##name], \
						  memory_order_relaxed);           \
                                                                                   \
		return next ? next : av_vlibc_find_next(AV_VLIBC_##name);          \
	}
AV_VLIBC_FUNCTIONS(X)
#undef X
/* NOLINTEND(bugprone-macro-parentheses) */

/* Have virtual files been opened here? Until then every descriptor is the kernel's. */
extern atomic_bool av_vlibc_handed_out;

/*
 * What is known of the current directory: AV_VLIBC_CWD_REAL: it is the kernel's; else it may be
 * virtual, as at the start of a program. Above this bit is how often we have changed it.
 */
#define AV_VLIBC_CWD_REAL 1u
extern atomic_uint av_vlibc_cwd_seen;

/* Is the current directory a virtual one, and which? Keeps errno. Async-signal-safe. */
AV_MUST_USE bool av_vlibc_cwd(char path[AV_VSYSFS_PATH_BYTES]);

/*
 * The same without the path. A program that has no such directory must not need the stack of
 * av_vlibc_claim(): its threads' may be small.
 */
AV_MUST_USE bool av_vlibc_cwd_is_virtual(void);

/*
 * The length of a text of the program's, at most @max; -1: it is in no memory, so that looking at
 * it would end the program, which the kernel does not. Memory that was there once is taken to be
 * there still. Keeps errno.
 */
AV_MUST_USE ssize_t av_vlibc_length(const char *text, size_t max);

/* May a call with these arguments be ours? If not, pass it on unchanged. */
static inline bool av_vlibc_suspects(int dirfd, const char *path)
{
	if (!path || av_vlibc_length(path, AV_VSYSFS_PREFIX_BYTES) < 0)
		return false;
	if (path[0] == '/')
		return av_unlikely(av_vsysfs_suspects(path));
	if (dirfd != AT_FDCWD
		    ? atomic_load_explicit(&av_vlibc_handed_out, memory_order_relaxed)
		    : av_unlikely(!(atomic_load_explicit(&av_vlibc_cwd_seen, memory_order_relaxed) &
				    AV_VLIBC_CWD_REAL)) &&
			      av_vlibc_cwd_is_virtual())
		return true;
	return av_unlikely(av_vsysfs_suspects_below(path));
}

/* How a call uses its path. */
enum {
	AV_VLIBC_FOLLOW = 1, /* follow a symbolic link in the last component */
	AV_VLIBC_UNION = 2,  /* the call needs a directory's entries: a shared one is ours */
	AV_VLIBC_EMPTY = 4,  /* an empty path means the descriptor itself (AT_EMPTY_PATH) */
};

/* The result of av_vlibc_claim(). */
struct av_vlibc_claim {
	int error;		    /* errno, or 0: walk.node is the path's node */
	struct av_vsysfs_walk walk; /* also holds the path to pass on */
};

/*
 * Who answers a call that av_vlibc_suspects()? @how: AV_VLIBC_... Return: true: answer with
 * claim->error or from claim->walk.node; false: pass it on with *dirfd and *path, which may have
 * been replaced and need @claim. Keeps errno.
 */
AV_MUST_USE bool av_vlibc_claim(int *dirfd, const char **path, int how,
				struct av_vlibc_claim *claim);

/* The same for calls without a dirfd. If it replaces *path, the new path is absolute. */
AV_MUST_USE bool av_vlibc_claim_path(const char **path, int how, struct av_vlibc_claim *claim);

#define AV_VLIBC_MARK (S_IFREG | S_ISVTX | 0444) /* st_mode of our memfds */

/* If @st shows that @fd is one of our descriptors, find its node. Keeps errno. */
AV_MUST_USE bool av_vlibc_node_of(int fd, const struct stat *st, struct av_vsysfs_node *node);

/* open(2) for a node, with all of its errors, but no cancellation point. */
AV_MUST_USE int av_vlibc_open_node(const struct av_vsysfs_node *node, int flags);

/* Set errno and return -1. */
static inline int av_vlibc_fail(int error)
{
	errno = error;
	return -1;
}

static inline void *av_vlibc_fail_null(int error)
{
	errno = error;
	return NULL;
}

#endif
