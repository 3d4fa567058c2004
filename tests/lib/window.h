/* SPDX-License-Identifier: MIT */
/* Numbers that count up, each of which must come exactly once, though several threads may note
 * them. */
#ifndef TEST_WINDOW_H
#define TEST_WINDOW_H

#include <pthread.h>
#include <stdint.h>

/* Numbers that may be missing at a time; whoever gives them out waits for the oldest. */
#define WINDOW_SIZE 16u

struct window {
	pthread_mutex_t lock;
	uint32_t seen;	      /* one bit for each number from @low on */
	_Atomic uint32_t low; /* the oldest number that has not come */
};

enum window_verdict {
	WINDOW_FINE,
	WINDOW_AGAIN,	/* it has come before */
	WINDOW_UNKNOWN, /* it cannot have been given out yet */
};

void window_init(struct window *w);
/* Note that @number has come. Thread-safe. */
enum window_verdict window_note(struct window *w, uint32_t number);

#endif
