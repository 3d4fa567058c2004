/* SPDX-License-Identifier: MIT */
/*
 * A program may end its main thread alone: by pthread_exit(3), thrd_exit(3), or by cancelling it.
 * The C library then ends the process, as by exit(0), with the last other thread; but ours count
 * for it, and take no signal. So from then on a thread of ours looks whether any of the program's
 * is left; and all the time where the main thread has never met us, so that nobody hears of its
 * end.
 */
#ifndef AV_BASE_LAST_THREAD_H
#define AV_BASE_LAST_THREAD_H

/* A thread of ours has started. Context: any locks held */
void av_last_thread_started(void);

/* In a forked child, whose main thread is the one that has forked. */
void av_last_thread_forked(void);

#endif
