/* SPDX-License-Identifier: MIT */
/*
 * No cancellation points. A thread that is cancelled (pthread_cancel(3)) in the midst of a verb
 * would keep its locks and execution rights for ever, of the peer as well.
 *
 * A verb that makes system calls is such a block as a whole. The verbs that post and poll make none
 * as a rule, and take some nanoseconds; there, the functions that may wait or call the system are.
 */
#ifndef AV_BASE_UNCANCELLED_H
#define AV_BASE_UNCANCELLED_H

#include <pthread.h>

static inline int av_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void av_cancel_back(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* From here to the end of the block, the thread is not cancelled. It may be as usual afterwards. */
#define AV_UNCANCELLED \
	const int av_cancel __attribute__((cleanup(av_cancel_back), unused)) = av_cancel_off()

#endif
