/* SPDX-License-Identifier: MIT */
/*
 * The virtual sysfs (docs/VSYSFS.md): each call computes its answer, without a lock. Queries of a
 * device do take locks and make system calls, without cancellation.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>

#include "device/device.h"
#include "host/hooks.h"

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

/* One file, directory, link or character device of the tree. A plain value: it owns nothing. */
struct av_vsysfs_node {
	const struct av_vsysfs_row *row;
	enum av_vsysfs_kind kind;
	/* The kernel may have it, too: directories list both, all else is the kernel's. */
	bool shared;
	const struct av_device *dev;	 /* the device that the path names; NULL: none, or all */
	unsigned int index;		 /* the number in the path: of a GID, P_Key, counter ... */
	char path[AV_VSYSFS_PATH_BYTES]; /* absolute and normalised, without links */
};

/* As av_vsysfs_read(), for the nodes of one row. @bytes: AV_VSYSFS_CONTENT_BYTES */
typedef ssize_t av_vsysfs_show(const struct av_vsysfs_node *node, char *bytes);

/* The tree: a row for each pattern of paths. */
struct av_vsysfs_row {
	const char *pattern;
	enum av_vsysfs_kind kind;
	bool shared;	      /* as in the node */
	av_vsysfs_show *show; /* for files and links */
};
extern const struct av_vsysfs_row av_vsysfs_rows[];
extern const size_t av_vsysfs_row_count;

/* Does an absolute @path begin with one of the tree's prefixes? For av_vsysfs_suspects(). */
bool av_vsysfs_has_prefix(const char *path);

/* May an absolute @path lead into the tree? Cheap: two characters rule out nearly all paths. */
static inline bool av_vsysfs_suspects(const char *path)
{
	if (av_likely(path[0] != '/' || (path[1] != 's' && path[1] != 'd')))
		return false;
	return av_vsysfs_has_prefix(path);
}

/* May a relative @path lead into the tree, from a directory above it? */
bool av_vsysfs_suspects_below(const char *path);

/* Is the directory ("": the root) above the tree? It is the kernel's, but paths lead through it. */
bool av_vsysfs_is_above(const char *path);

/* Find the node at a normalised @path. Return: false: there is none, and @node is undefined */
AV_MUST_USE bool av_vsysfs_lookup(const char *path, struct av_vsysfs_node *node);

struct av_vsysfs_walk {
	struct av_vsysfs_node node; /* with 1: the path's node */
	bool leaf_missing;	    /* with -ENOENT: only the last component is missing */
	char path[PATH_MAX];	    /* with 0: the same place, by a path that avoids the tree */
};

/*
 * Resolve an absolute @path as path_resolution(7) says. @follow: also a link in the last component.
 * Assumes that the directories above the tree are not links. Return: 1: the path leads into the
 * tree; 0: it leads out of it, and has walk->path; or -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG
 */
AV_MUST_USE int av_vsysfs_walk(const char *path, bool follow, struct av_vsysfs_walk *walk);

/*
 * Write the current content of a file, or the target of a link, without NUL. Return: the length.
 * -EINVAL: the file exists, but read(2) fails, as the kernel's does for attributes of an empty GID
 */
AV_MUST_USE ssize_t av_vsysfs_read(const struct av_vsysfs_node *node,
				   char bytes[AV_VSYSFS_CONTENT_BYTES]);

/* Called for each entry of a directory. Return: false: stop */
typedef bool av_vsysfs_visit(void *arg, const char *name, enum av_vsysfs_kind kind);

/* Call @visit for the entries of a directory in any order, without "." and "..". */
void av_vsysfs_list(const struct av_vsysfs_node *dir, av_vsysfs_visit *visit, void *arg);

/* The inode number that a path gets: not 0, and the same in all processes. */
uint64_t av_vsysfs_ino(const char *path);

/* The number of the uverbs device: in the kernel's range, since programs compare it. */
dev_t av_vsysfs_rdev(const struct av_device *dev);

/* The connection manager's device. The kernel gives this number to no other device. */
#define AV_VSYSFS_CM_DEVICE "/dev/infiniband/rdma_cm"
#define AV_VSYSFS_CM_RDEV   makedev(10, 254)

/* The version of the uverbs device's protocol that programs read: rdma/ib_user_verbs.h. */
#define AV_VSYSFS_UVERBS_ABI 1

/* === vsysfs libc ================================================================= */

/*
 * What the functions share that we export under the C library's names. The descriptor of a virtual
 * file is a memfd named after the path; an unusual mode (AV_VLIBC_MARK) makes our fstat() look at
 * the name. Passing a call on takes a few instructions, no lock, no memory and no thread-local
 * state.
 */

/* So a function whose name ends in "64" equals the one without. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout of struct stat");
_Static_assert(sizeof(struct statfs) == sizeof(struct statfs64), "one layout of struct statfs");
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one layout of struct dirent");
_Static_assert(sizeof(off_t) == 8, "one width of file offsets");

typedef int av_vlibc_filter(const struct dirent *);
typedef int av_vlibc_compare(const struct dirent **, const struct dirent **);

/* The next functions that hooks of other files call, too. */
AV_LIBC_NEXT(int, access, (const char *, int));
AV_LIBC_NEXT(int, fstat, (int, struct stat *));
AV_LIBC_NEXT(int, fstatat, (int, const char *, struct stat *, int));
AV_LIBC_NEXT(ssize_t, readlink, (const char *, char *, size_t));

/* Has this process opened a virtual file? Until then every descriptor is the kernel's. */
extern atomic_bool av_vlibc_handed_out;

static inline bool av_vlibc_fd_suspects(void)
{
	return av_unlikely(atomic_load_explicit(&av_vlibc_handed_out, memory_order_relaxed));
}

/*
 * What is known of the current directory. AV_VLIBC_CWD_REAL: it is the kernel's. Without this bit
 * it may be virtual, as when a program starts. The other bits count how often we have changed it.
 */
#define AV_VLIBC_CWD_REAL 1u
extern atomic_uint av_vlibc_cwd_seen;

/* Get the path of the current directory. Return: is it virtual? Async-signal-safe; keeps errno */
AV_MUST_USE bool av_vlibc_cwd(char path[AV_VSYSFS_PATH_BYTES]);

/* Is the current directory virtual? Apart because of its stack: threads may have small ones. */
AV_MUST_USE bool av_vlibc_cwd_is_virtual(void);

/*
 * The length of a text of the program's, at most @max. -1: no memory, where reading would end the
 * program, but not the kernel's call. A page that had memory once counts as memory. Keeps errno
 */
AV_MUST_USE ssize_t av_vlibc_length(const char *text, size_t max);

/* May a call with these arguments be ours? If not, the hook passes it on unchanged. */
static inline bool av_vlibc_suspects(int dirfd, const char *path)
{
	if (!path || av_vlibc_length(path, AV_VSYSFS_PREFIX_BYTES) < 0)
		return false;
	if (path[0] == '/')
		return av_unlikely(av_vsysfs_suspects(path));
	if (dirfd != AT_FDCWD
		    ? av_vlibc_fd_suspects()
		    : av_unlikely(!(atomic_load_explicit(&av_vlibc_cwd_seen, memory_order_relaxed) &
				    AV_VLIBC_CWD_REAL)) &&
			      av_vlibc_cwd_is_virtual())
		return true;
	return av_unlikely(av_vsysfs_suspects_below(path));
}

/* How a call uses its path. */
enum {
	AV_VLIBC_FOLLOW = 1, /* it follows a link in the last component */
	AV_VLIBC_UNION = 2,  /* it needs a directory's entries, so a shared directory is ours */
	AV_VLIBC_EMPTY = 4,  /* with an empty path it means the descriptor itself: AT_EMPTY_PATH */
};

struct av_vlibc_claim {
	int error;		    /* errno, or 0: walk.node is the path's node */
	struct av_vsysfs_walk walk; /* also holds the path to pass on */
};

/*
 * Decide who answers a call that av_vlibc_suspects(). @how: AV_VLIBC_... Keeps errno.
 * Return: true: the hook fails with claim->error, or answers from claim->walk.node; false: it
 * passes the call on with @dirfd and *path, which may be another one: absolute, and part of @claim
 */
AV_MUST_USE bool av_vlibc_claim(int dirfd, const char **path, int how,
				struct av_vlibc_claim *claim);

/*
 * Defines the hook of a function that has a parameter @path. @params, @args: all its parameters, as
 * declared and as passed on. The hook passes a call that is not ours on, perhaps with another path.
 * If the path leads to a @node of ours, it returns @answer; if it fails in the tree, errno and
 * @failed. NAME_suspect() is apart because of its stack: threads may have small ones.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): @args has its own */
#define AV_LIBC_PATH(result, name, params, args, dirfd, how, failed, answer)                  \
	AV_LIBC_NEXT(result, name, params);                                                   \
	__attribute__((noinline)) static result name##_suspect params                         \
	{                                                                                     \
		struct av_vlibc_claim claim;                                                  \
		const struct av_vsysfs_node *node __attribute__((unused)) = &claim.walk.node; \
                                                                                              \
		if (!av_vlibc_claim(dirfd, &path, how, &claim))                               \
			return av_next_##name() args;                                         \
		if (!claim.error)                                                             \
			return answer;                                                        \
		errno = claim.error;                                                          \
		return failed;                                                                \
	}                                                                                     \
                                                                                              \
	AV_LIBC(result, name, params)                                                         \
	{                                                                                     \
		if (av_unlikely(av_vlibc_suspects(dirfd, path)))                              \
			return name##_suspect args;                                           \
		return av_next_##name() args;                                                 \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

#define AV_VLIBC_MARK (S_IFREG | S_ISVTX | 0444) /* st_mode of our memfds */

/* Find the node of descriptor @fd. Return: false: @st shows that it is not ours. Keeps errno */
AV_MUST_USE bool av_vlibc_node_of(int fd, const struct stat *st, struct av_vsysfs_node *node);

/* The same for a caller that has no @st. */
AV_MUST_USE bool av_vlibc_node_of_fd(int fd, struct av_vsysfs_node *node);

/* open(2) of a node, with all errors of the kernel's. No cancellation point. */
AV_MUST_USE int av_vlibc_open_node(const struct av_vsysfs_node *node, int flags);

/* Set errno. Return: -1 or NULL */
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
