/* SPDX-License-Identifier: MIT */
/* How another process gets at anonymous memory. */
#ifndef AV_SEGMENT_FD_PASS_H
#define AV_SEGMENT_FD_PASS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/watcher.h"

/* Finds files by their inode in a folder, such as /proc/PID/fd. */

/* @dir: descriptor of the folder. Return: false: that is all */
typedef bool av_file_visit(int dir, const char *name, const struct stat *st, void *arg);

/*
 * Visit the regular files that the entries of a folder lead to. Opens none of them: one may be a
 * device that notices. System calls alone, no heap, no cancellation point; changes errno.
 */
void av_file_search(const char *folder, av_file_visit *visit, void *arg);

/*
 * Is a PID still that of the process it was when its segment was mapped?
 *
 * The lock that says "alive" (registry/directory.h) lives as long as the last process that holds
 * the open file: a child that was made past the C library's fork() keeps it. The PID does not.
 */

/*
 * Hold on to the process that has this PID now. The caller has seen it alive before, and looks
 * again afterwards. Without pidfd_open(2), @process is AV_OWN_FD_NONE: nothing is ever known.
 */
void av_peer_process_open(struct av_own_fd *process, pid_t pid);

/* Is its PID free for others? */
bool av_peer_process_gone(const struct av_own_fd *process);

/*
 * How other processes get at anonymous memory (base/file.h).
 *
 * It has no name by which they could open it. They go through /proc/PID/fd, which works
 * with a stopped process, too, or by a socket in the owner's folder, which needs no common PID
 * namespace and no /proc: the owner's watcher thread (base/watcher.h) sends the descriptor to
 * whoever connects.
 */

/* Handing out a descriptor. */
struct av_fd_pass {
	struct av_watched_fd listener;
	const struct av_own_fd *file;
	void (*called)(struct av_fd_pass *h); /* somebody has connected; NULL: that is all */
};

#define AV_FD_PASS_NONE ((struct av_fd_pass){.listener.socket.fd = -1})

/*
 * Hand out @file, which is borrowed, at the socket @path, which is made. Without the socket, /proc
 * remains. @called: in the watcher's thread, must not block. Blocks.
 */
void av_fd_pass_begin(struct av_fd_pass *h, const char *path, const struct av_own_fd *file,
		      void (*called)(struct av_fd_pass *h));

/*
 * May other files of this process be handed out, too, to who names one: if @may says so. They are
 * found among the program's descriptors. @may: in the watcher's thread.
 */
void av_fd_pass_files_by(bool (*may)(uint64_t dev, uint64_t ino));

/* Have @called run in the process that hands out at @path. Never waits; may be in vain. */
void av_fd_pass_call(const char *path);

/* Does not remove the name. */
void av_fd_pass_end(struct av_fd_pass *h);

/* In a forked child, whatever locks were held: the parent goes on. */
void av_fd_pass_forked(struct av_fd_pass *h);

/* Whose descriptor it is, and what it must lead to. */
struct av_fd_passed {
	pid_t pid;	/* 0: unknown */
	int number;	/* -1: unknown */
	uint64_t ino;	/* of the memory: @number may be another file's by now */
	uint64_t bytes; /* of its size; of another file than the socket's own, any */
	uint64_t dev;	/* of another file than the socket's own; else 0 */
};

/*
 * The descriptor, for reading and writing; @path: of its socket, or NULL. Waits at most
 * AV_PATIENCE_NS. System calls are no cancellation points.
 * Return: close-on-exec descriptor, which the caller closes, or -errno
 */
AV_MUST_USE int av_fd_passed_open(const struct av_fd_passed *what, const char *path);

#endif
