/* SPDX-License-Identifier: MIT */
/* Where shared files are: finding, making, replacing and removing them safely. */
#ifndef AV_REGISTRY_FOLDER_H
#define AV_REGISTRY_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

/*
 * Version of everything in shared memory: a checksum of all headers of src/, without comments and
 * blanks (scripts/layout-number.sh). Part of the folder's name, so two builds understand each other
 * wholly or not at all.
 */
extern const uint32_t av_layout;

/* The same for whoever only has the library's file: this, and the number in decimal digits. */
#define AV_LAYOUT_MARK "anyverbs-layout-"
extern const char av_layout_mark[];

/* DIR of registry/directory.h. Never NULL. The string is static or from the environment. */
const char *av_folder_base(void);

/*
 * Open this user's folder, and make it if needed. @path: out. The name is predictable, and
 * everybody may be allowed to write to DIR: anything that is not a directory, not ours, or
 * accessible to others is left alone, and the next of AV_FOLDER_NAMES names is tried. A folder of
 * ours counts before a name that is free, so that all processes find the same one. A relative DIR
 * is refused (-EINVAL): it would be another folder wherever a program goes.
 * Return: descriptor (close-on-exec) or -errno.
 */
#define AV_FOLDER_NAMES 8
AV_MUST_USE int av_folder_open(char *path, size_t size);

/* The same, but does not make it: -ENOENT if there is none. */
AV_MUST_USE int av_folder_find(char *path, size_t size);

/* Remove the main folder if it is empty. Fails silently. */
void av_folder_remove_self(const char *path);

/* Beginning of the name of a file that is being made. */
#define AV_FOLDER_NEW "new-"

/* What a folder that is set aside has behind its name, before a number. */
#define AV_FOLDER_ASIDE ".aside-"

/*
 * The file @fd of the folder cannot get @bytes more, and a verb is going to fail with @err for
 * that: note it for its record, and warn once, as there may be no room for records either.
 */
AV_COLD void av_folder_full(int fd, uint64_t bytes, int err);

/* Does @path lead to the folder @fd? */
bool av_folder_is(int fd, const char *path);

/*
 * Rename the folder @fd, so that a new one can be made at @path. @why, for the warning: it is ...
 * Processes that have it open go on in it. Does nothing if another process has renamed it.
 * Return: 0 or -errno; -EAGAIN: another process is about to
 */
AV_MUST_USE int av_folder_set_aside(int fd, const char *path, const char *why);

/*
 * Remove this user's folders that no living process uses: of other layouts, and those set aside.
 * Context: this process has joined no directory, or one that has just been made.
 */
void av_folder_sweep(void);

/*
 * Does a living process use a folder of this user's that is of another layout? It and processes of
 * this layout do not see each other. @name: out; of the folder
 */
bool av_folder_find_other(char *name, size_t size);

/*
 * Call @visit for each name in a folder. Takes no memory: folders must be removed even when there
 * is none.
 */
void av_folder_each(int fd, void (*visit)(int fd, const char *name));

/* Remove the folders of all contexts, sockets of processes, and files that nobody has finished. */
void av_folder_clear(int fd);

/* Undo what the program's umask(2) took from what was just made in the folder. Changes errno. */
void av_folder_rights(int fd, const char *name, mode_t mode);

/* Make the subfolder @name, mode 0700, in place of one left over. Return: descriptor or -errno. */
AV_MUST_USE int av_folder_make(int parent_fd, const char *name);

/* Remove the subfolder @name with the files in it. It contains no folders. */
void av_folder_remove(int parent_fd, const char *name);

/*
 * Small text files of the user, read and replaced as a whole. Within a change of the directory, so
 * that one at a time changes a file.
 *
 * Read as much as fits, NUL terminated. Return: false if there is no such file, it cannot be read,
 * or (with a warning) others may write it.
 */
AV_MUST_USE bool av_small_file_read(const char *path, char *text, size_t size);

/* Make or replace a file. Return: 0 or -errno; then nothing has changed. */
AV_MUST_USE int av_small_file_write(const char *path, const char *text, size_t bytes);

#endif
