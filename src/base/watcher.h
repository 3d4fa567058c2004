/* SPDX-License-Identifier: MIT */
/*
 * The watcher: a thread that waits until one of our sockets is readable, while there are any. Only
 * sockets: av_own_fd() knows them by inodes, which those of epoll(7) and eventfd(2) share.
 */
#pragma once

#include <sys/queue.h>

#include "base/file.h"

struct av_watch_fd {
	struct av_own_fd socket; /* the caller closes it after av_watch_end() */
	/* Context: the watcher's thread; must not block, or begin or end watching. */
	void (*ready)(struct av_watch_fd *w);
	bool in_vain; /* set by ready() if it could read nothing: the thread naps before the next
			 call */
	LIST_ENTRY(av_watch_fd) entry;
};

/* Watch a socket, if the thread can start. Context: not in ready() or a change of the directory */
void av_watch_begin(struct av_watch_fd *w);

/* End watching it, if it is watched. Waits until ready() has returned. */
void av_watch_end(struct av_watch_fd *w);
