/* SPDX-License-Identifier: MIT */
/*
 * The virtual sysfs: what programs that read files about a device find below /sys/class/infiniband
 * and its neighbours. This half knows paths and contents and touches no file; the functions of the
 * C library that present them are in vsysfs_libc.h. docs/VSYSFS.md has the whole picture.
 *
 * The tree is one table of patterns (vsysfs.c) and is computed afresh for each question: nothing is
 * stored, so there is nothing to lock, to free or to repair after fork().
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

#define AV_VSYSFS_PATH_BYTES \
	240 /* longest path of a node, with its NUL; a memfd's name must hold it */
#define AV_VSYSFS_CONTENT_BYTES \
	4096 /* longest content of a file: the kernel's limit for an attribute */

enum av_vsysfs_kind {
	AV_VSYSFS_DIR,
	AV_VSYSFS_FILE,
	AV_VSYSFS_LINK,
	AV_VSYSFS_CHAR, /* a character device */
};

struct av_vsysfs_row; /* of the table in vsysfs.c */

/* One file, directory ... of the tree. A plain value. */
struct av_vsysfs_node {
	const struct av_vsysfs_row *row;
	enum av_vsysfs_kind kind;
	/*
	 * The kernel may have this very path too, if it has devices of its own. Then its directory
	 * and ours are listed together, and of anything else the kernel's is the one to use.
	 */
	bool shared;
	const struct av_device *dev; /* that the path is about, or NULL */
	unsigned int index; /* of the row of a table (GIDs, P_Keys, ODP statistics, counters) */
	char path[AV_VSYSFS_PATH_BYTES]; /* absolute, without symbolic links, ".", ".." or doubled
					    slashes */
};

/* Does @path begin like a path of the tree? The second half of av_vsysfs_suspects(). */
bool av_vsysfs_has_prefix(const char *path);

/**
 * av_vsysfs_suspects() - may @path lead into the tree?
 *
 * Nearly all paths do not and are told apart by their first characters.
 * Return: false: certainly not. true: av_vsysfs_walk() knows.
 */
static inline bool av_vsysfs_suspects(const char *path)
{
	if (av_likely(path[0] != '/' || (path[1] != 's' && path[1] != 'd')))
		return false;
	return av_vsysfs_has_prefix(path);
}

/**
 * av_vsysfs_lookup() - the node at @path, which must be normalised
 * Return: false if there is none; @node is then undefined
 */
AV_MUST_USE bool av_vsysfs_lookup(const char *path, struct av_vsysfs_node *node);

/* The answer of av_vsysfs_walk(). */
struct av_vsysfs_walk {
	struct av_vsysfs_node node; /* if it is in the tree */
	bool leaf_missing;	    /* with -ENOENT: only the last component does not exist */
	char path[PATH_MAX]; /* if it is not: the same place, without passing through the tree */
};

/**
 * av_vsysfs_walk() - follow a path, as path_resolution(7) says
 * @path:   absolute; any mixture of "..", doubled slashes and symbolic links
 * @follow: also if the last component is a symbolic link
 * @walk:   out
 *
 * Directories above the tree ("/sys/class") are taken to be real directories, not symbolic links.
 * Return: 1 in the tree, walk->node is set; 0 outside, the kernel is to be asked for walk->path;
 *         -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG
 */
AV_MUST_USE int av_vsysfs_walk(const char *path, bool follow, struct av_vsysfs_walk *walk);

/**
 * av_vsysfs_read() - the content of a file, as of now, or the target of a symbolic link (no NUL is
 * added) Return: bytes stored; -EINVAL for a file that exists but has nothing to say (an attribute
 * of a GID that is not populated: read(2) of the kernel's file fails with it)
 */
AV_MUST_USE ssize_t av_vsysfs_read(const struct av_vsysfs_node *node,
				   char bytes[AV_VSYSFS_CONTENT_BYTES]);

/* Called for one entry of a directory; returns false to see no more. */
typedef bool av_vsysfs_visit(void *arg, const char *name, enum av_vsysfs_kind kind);

/* Visit the entries of a directory, without "." and "..", in no particular order. */
void av_vsysfs_list(const struct av_vsysfs_node *dir, av_vsysfs_visit *visit, void *arg);

/* The inode number for a path: the same in every process, not 0. */
uint64_t av_vsysfs_ino(const char *path);

/* The device number of the uverbs character device: the numbers the kernel uses, which programs
 * compare. */
dev_t av_vsysfs_rdev(const struct av_device *dev);

#endif
