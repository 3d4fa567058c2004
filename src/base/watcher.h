/* SPDX-License-Identifier: MIT */
/*
 * The watcher: one thread of ours that sleeps until somebody makes one of our sockets readable. It
 * runs while there is a socket to watch.
 *
 * Only sockets: each has an inode of its own, by which it is known to be ours (base/file.h).
 * Descriptors of epoll(7) and eventfd(2) have not.
 */
#ifndef AV_BASE_WATCHER_H
#define AV_BASE_WATCHER_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/file.h"

struct av_watched_fd {
	struct av_own_fd socket; /* the caller's, who closes it behind av_watch_end() */
	/* In the watcher's thread, which begins and ends nothing meanwhile. Must not block. */
	void (*ready)(struct av_watched_fd *w);
	bool in_vain; /* out of ready(): what is there cannot be taken now. The thread rests then */
	LIST_ENTRY(av_watched_fd) entry;
};

/*
 * Watch a socket. If the thread cannot be started, nobody does. Context: any thread; not within
 * ready() or a change of the directory
 */
void av_watch_begin(struct av_watched_fd *w);

/* Watch it no longer: ready() is not running afterwards. Also for one that is not watched. */
void av_watch_end(struct av_watched_fd *w);

#endif
