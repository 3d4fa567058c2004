/* SPDX-License-Identifier: MIT */
/*
 * How a thread of ours that sleeps in poll(2) is woken: by a pair of sockets, of which one end is
 * the thread's. The program may close either.
 */
#ifndef AV_BASE_WAKER_H
#define AV_BASE_WAKER_H

#include <stdbool.h>

#include "base/own_fd.h"

struct av_waker {
	struct av_own_fd wake;	/* what is sent here wakes the thread, */
	struct av_own_fd woken; /* at its end of the pair: here for the child of a fork() */
};

#define AV_WAKER_NONE                         \
	{                                     \
		.wake.fd = -1, .woken.fd = -1 \
	}

/*
 * Make the pair. @woken: out, the thread's end, which the thread closes. Context: one at a time.
 * Return: false: both ends are closed, and errno says why
 */
AV_MUST_USE bool av_waker_begin(struct av_waker *w, struct av_own_fd *woken);

/*
 * Wake the thread. If the pair is full, it is about to look anyway. Context: any thread; the pair
 * does not end meanwhile. Return: false: it cannot be woken
 */
bool av_waker_wake(const struct av_waker *w);

/* In the thread: forget what has woken it. Closes @woken if the other end is closed. */
void av_waker_drain(struct av_own_fd *woken);

/* Close the end that wakes. The thread has ended, or ends by itself. Keeps errno. */
void av_waker_end(struct av_waker *w);

/* In a forked child, which has no such thread: close both ends. Keeps errno. */
void av_waker_forked(struct av_waker *w);

#endif
