/* SPDX-License-Identifier: MIT */
/* Starting threads. */
#include "base/thread.h"

#include <signal.h>

#define STACK_BYTES (256u << 10) /* little is used, but the program's thread-local variables need room, too \
				  */

int av_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret == 0)
		pthread_setname_np(*thread, name);
	return ret;
}
