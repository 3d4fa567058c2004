/* SPDX-License-Identifier: MIT */
#include "lib/number_window.h"

#include <stdatomic.h>

void window_init(struct window *w)
{
	pthread_mutex_init(&w->lock, NULL);
	w->seen = 0;
	atomic_store(&w->low, 0);
}

enum window_verdict window_note(struct window *w, uint32_t number)
{
	enum window_verdict verdict = WINDOW_FINE;
	uint32_t low, place;

	pthread_mutex_lock(&w->lock);
	low = atomic_load(&w->low);
	place = number - low;
	if ((int32_t)place < 0 || (place < WINDOW_SIZE && w->seen >> place & 1)) {
		verdict = WINDOW_AGAIN;
	} else if (place >= WINDOW_SIZE) {
		verdict = WINDOW_UNKNOWN;
	} else {
		w->seen |= 1u << place;
		for (; w->seen & 1; w->seen >>= 1)
			low++;
		atomic_store(&w->low, low);
	}
	pthread_mutex_unlock(&w->lock);
	return verdict;
}
