/* SPDX-License-Identifier: MIT */
/*
 * A child that is forked while another thread of its parent installs the handlers: it installs them
 * itself, wherever that thread was.
 */
#include "copy_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>

#include "copy/copy.h"

#define CALLS 8	 /* more than the installation makes */
#define LIMIT 20 /* seconds */

static _Thread_local int stop_at; /* this thread's call that is to wait; 0: none */
static sem_t stopped, go;

int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	int (*next)(int, const struct sigaction *, struct sigaction *);
	int ret;

	*(void **)&next = dlsym(RTLD_NEXT, "sigaction");
	ret = next(sig, new, old);
	if (stop_at && --stop_at == 0) {
		sem_post(&stopped);
		while (sem_wait(&go))
			;
	}
	return ret;
}

static int call; /* behind which the thread waits */

static void *install_in_thread(void *arg)
{
	stop_at = call;
	CHECK(av_copy_init() == 0);
	if (stop_at) /* there are not as many */
		sem_post(&stopped);
	stop_at = 0;
	return NULL;
}

static void install_in_child(void)
{
	alarm(LIMIT);
	init_guard();
	copy_faults();
}

static void fork_during_installation(void)
{
	pthread_t thread;

	set_both(SIG_DFL);
	CHECK(sem_init(&stopped, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
	CHECK(pthread_create(&thread, NULL, install_in_thread, NULL) == 0);
	while (sem_wait(&stopped))
		;
	child_succeeds(install_in_child);
	sem_post(&go);
	CHECK(pthread_join(thread, NULL) == 0);
	copy_faults();
}

TEST(child_installs_while_its_parent_did)
{
	for (call = 1; call <= CALLS; call++)
		child_succeeds(fork_during_installation);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	puts("ThreadSanitizer's pthread_once() waits in a child for its parent's thread");
	return 77;
#else
	return run_cases(NULL, NULL);
#endif
}
