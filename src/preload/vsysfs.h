/* SPDX-License-Identifier: MIT */
/*
 * The virtual sysfs: files about a device below /sys/class/infiniband and its neighbours. This part
 * knows paths and contents; vsysfs_libc.h presents them. docs/VSYSFS.md has the whole picture.
 * Nothing is stored, so there is nothing to lock, to free or to repair after fork(). But what is
 * asked of a device takes locks and makes system calls: no thread is cancelled in these functions.
 */
#ifndef AV_PRELOAD_VSYSFS_H
#define AV_PRELOAD_VSYSFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "device/device.h"

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

#endif
