/* SPDX-License-Identifier: MIT */
/*
 * How other processes get at anonymous memory (base/anonymous.h).
 *
 * It has no name by which they could open it. They go through /proc/PID/fd, which works
 * with a stopped process, too, or by a socket in the owner's folder, which needs no common PID
 * namespace and no /proc: the owner's watcher thread (base/watcher.h) sends the descriptor to
 * whoever connects.
 */
#ifndef AV_SEGMENT_HANDOUT_H
#define AV_SEGMENT_HANDOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/own_fd.h"
#include "base/watcher.h"

/* Handing out a descriptor. */
struct av_handout {
	struct av_watched_fd listener;
	const struct av_own_fd *file;
	void (*called)(struct av_handout *h); /* somebody has connected; NULL: that is all */
};

#define AV_HANDOUT_NONE ((struct av_handout){.listener.socket.fd = -1})

/*
 * Hand out @file, which is borrowed, at the socket @path, which is made. Without the socket, /proc
 * remains. @called: in the watcher's thread, must not block. Blocks.
 */
void av_handout_begin(struct av_handout *h, const char *path, const struct av_own_fd *file,
		      void (*called)(struct av_handout *h));

/*
 * May other files of this process be handed out, too, to who names one: if @may says so. They are
 * found among the program's descriptors. @may: in the watcher's thread.
 */
void av_handout_files_by(bool (*may)(uint64_t dev, uint64_t ino));

/* Have @called run in the process that hands out at @path. Never waits; may be in vain. */
void av_handout_call(const char *path);

/* Does not remove the name. */
void av_handout_end(struct av_handout *h);

/* In a forked child, whatever locks were held: the parent goes on. */
void av_handout_forked(struct av_handout *h);

/* Whose descriptor it is, and what it must lead to. */
struct av_handed {
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
AV_MUST_USE int av_handed_open(const struct av_handed *what, const char *path);

#endif
