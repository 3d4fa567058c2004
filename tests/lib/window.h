/* SPDX-License-Identifier: MIT */
/*
 * Checks that each number of a sequence arrives exactly once, though several threads may record
 * them.
 */
#ifndef TEST_WINDOW_H
#define TEST_WINDOW_H

#include <pthread.h>
#include <stdint.h>

#define WINDOW_SIZE                                                                           \
	16u /* numbers that may be missing at a time; whoever hands out numbers waits for the \
	       oldest */

struct window {
	pthread_mutex_t lock;
	uint32_t seen;	      /* one bit per number from @low on */
	_Atomic uint32_t low; /* the oldest missing number */
};

enum window_verdict {
	WINDOW_FINE,
	WINDOW_AGAIN,	/* it arrived before */
	WINDOW_UNKNOWN, /* it cannot have been handed out yet */
};

void window_init(struct window *w);
/* Record that @number has arrived. Thread-safe. */
enum window_verdict window_note(struct window *w, uint32_t number);

#endif
