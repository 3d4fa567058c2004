/* SPDX-License-Identifier: MIT */
/* Numbers that count up, each of which must come exactly once, though several threads may note
 * them. */
#ifndef TEST_NUMBER_WINDOW_H
#define TEST_NUMBER_WINDOW_H

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
