/* SPDX-License-Identifier: MIT */
/* The folders of the shared files: finding the main one, and making and removing them safely. */
#ifndef AV_REGISTRY_FOLDER_H
#define AV_REGISTRY_FOLDER_H

#include <stddef.h>

#include "base/compiler.h"

/*
 * Version of everything in shared memory. It is part of the folder's name and changes with each
 * change of a layout.
 */
#define AV_LAYOUT 20

/*
 * The folder that contains this user's: DIR of registry/directory.h. Never NULL. The string is
 * static or from the environment.
 */
const char *av_folder_base(void);

/**
 * av_folder_open() - open this user's folder, and make it if needed
 * @path: out, its path, for messages and for av_folder_remove_self()
 *
 * The name is predictable, and everybody may be allowed to write to DIR. So anything that is not a
 * directory, not ours, or accessible to others is refused.
 * Return: descriptor (close-on-exec) or -errno
 */
AV_MUST_USE int av_folder_open(char *path, size_t size);

/* The same, but does not make it: -ENOENT if there is none. */
AV_MUST_USE int av_folder_find(char *path, size_t size);

/* Remove the main folder if it is empty. Fails silently. */
void av_folder_remove_self(const char *path);

/* Remove the folders of all contexts. */
void av_folder_clear(int fd);

/*
 * Make the subfolder @name, mode 0700. One that was left over is removed first. Return: descriptor
 * or -errno.
 */
AV_MUST_USE int av_folder_make(int parent_fd, const char *name);

/* Remove the subfolder @name with the files in it. It contains no folders. */
void av_folder_remove(int parent_fd, const char *name);

#endif
