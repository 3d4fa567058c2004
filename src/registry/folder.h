/* SPDX-License-Identifier: MIT */
/* The folders in which shared files live: where the main one is, and making and removing them
 * safely. */
#ifndef AV_REGISTRY_FOLDER_H
#define AV_REGISTRY_FOLDER_H

#include <stddef.h>

#include "base/compiler.h"

/* Version of everything in shared memory, which is part of the folder's name. It changes with any
 * change of a layout. */
#define AV_LAYOUT 19

/* The folder that this user's is in: DIR of registry/directory.h. Static, or of the environment;
 * never NULL. */
const char *av_folder_base(void);

/**
 * av_folder_open() - open this user's folder, making it if need be
 * @path: out, its path, for messages and for av_folder_remove_self()
 *
 * Refuses a folder that is not a directory, not ours, or open to others: its name is predictable
 * and DIR may be writable by everybody. Return: descriptor (close-on-exec) or -errno
 */
AV_MUST_USE int av_folder_open(char *path, size_t size);

/* The same without making it: -ENOENT if there is none. */
AV_MUST_USE int av_folder_find(char *path, size_t size);

/* Remove the (empty) main folder; fails silently when something is still in it. */
void av_folder_remove_self(const char *path);

/* Remove all subfolders. */
void av_folder_clear(int fd);

/* Make the subfolder @name, mode 0700, removing a left-over of that name first. Return: descriptor
 * or -errno.
 */
AV_MUST_USE int av_folder_make(int parent_fd, const char *name);

/* Remove the subfolder @name with the files in it (it has no folders in it). */
void av_folder_remove(int parent_fd, const char *name);

#endif
