/* SPDX-License-Identifier: MIT */
/*
 * Threads that are cancelled deep in functions. AddressSanitizer does not see their frames end: it
 * would find fault with who uses the stack next, as it does itself when the thread ends.
 */
#ifndef TEST_CANCELLABLE_H
#define TEST_CANCELLABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "lib/expect.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at))
#endif

#define FRAMES_BYTES (256 << 10) /* of a stack, and more than any test uses */

struct cancellable {
	void *(*run)(void *arg);
	void *arg;
};

/* The stack grows down. */
static inline void cancellable_ended(void *unused)
{
	char *here = __builtin_frame_address(0);

	ASAN_UNPOISON_MEMORY_REGION(here - FRAMES_BYTES, FRAMES_BYTES);
}

static inline void *cancellable_main(void *arg)
{
	struct cancellable c = *(struct cancellable *)arg;
	void *ret;

	free(arg);
	pthread_cleanup_push(cancellable_ended, NULL);
	ret = c.run(c.arg);
	pthread_cleanup_pop(0);
	return ret;
}

/* As pthread_create(3), which must succeed. */
static inline pthread_t start_cancellable(void *(*run)(void *arg), void *arg)
{
	struct cancellable *c = malloc(sizeof(*c));
	pthread_t thread;

	NEED(c);
	*c = (struct cancellable){run, arg};
	NEED(pthread_create(&thread, NULL, cancellable_main, c) == 0);
	return thread;
}

struct cancelled {
	void (*act)(void *arg);
	void *arg;
	bool returned;
};

static inline void *act_cancelled(void *arg)
{
	struct cancelled *c = arg;

	pthread_cancel(pthread_self());
	c->act(c->arg);
	c->returned = true;
	pthread_testcancel();
	return NULL;
}

/*
 * Call it in a thread that has been cancelled before, and ends at the first cancellation point, or
 * else right behind. Return: was there none?
 */
static inline bool outlives_cancellation(void (*act)(void *arg), void *arg)
{
	struct cancelled c = {.act = act, .arg = arg};
	void *result;

	NEED(pthread_join(start_cancellable(act_cancelled, &c), &result) == 0);
	EXPECT(result == PTHREAD_CANCELED, "it ended by itself");
	return c.returned;
}

#endif
