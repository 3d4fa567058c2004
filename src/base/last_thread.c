/* SPDX-License-Identifier: MIT */
#include "base/last_thread.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/own_fd.h"
#include "base/thread.h"
#include "base/uncancelled.h"

#define THREADS_FIELD 18 /* behind the name, of proc_pid_stat(5) */

#define LOOK_NS 50000000 /* how long the process may outlive the program's last thread */

static atomic_bool main_ends, watched;

/* The main thread's value is there, so that the C library calls us when it ends. */
static pthread_key_t key;
static bool has_key;
static _Atomic pid_t asked; /* whose main thread has it */

/* What the kernel says of this process; open all the time, for numbers are the program's. */
static struct av_own_fd file = {.fd = -1};

/*
 * How many threads does the process have beside the main one? UINT_MAX: that has not ended, or
 * nobody can tell. One look of the kernel's gives both.
 */
static unsigned int beside_main(void)
{
	char text[1024], *field;
	ssize_t n;

	if (av_own_fd(&file) < 0 &&
	    !av_own_fd_keep(&file, open("/proc/self/stat", O_RDONLY | O_CLOEXEC)))
		return UINT_MAX;
	n = pread(av_own_fd(&file), text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	field = strrchr(text, ')'); /* behind the name */
	if (!field || strncmp(field, ") Z ", 4) != 0)
		return UINT_MAX;
	for (int i = 0; field && i < THREADS_FIELD; i++)
		field = strchr(field + 1, ' ');
	return field ? (unsigned int)strtoul(field, NULL, 10) - 1 : UINT_MAX;
}

static void *watch(void *arg)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};

	while (av_thread_others(beside_main))
		nanosleep(&nap, NULL);
	exit(0);
}

static void begin(void)
{
	struct av_thread *thread;

	if (atomic_exchange(&watched, true))
		return;
	if (av_thread_start(&thread, "anyverbs-last", watch, NULL))
		atomic_store(&watched, false);
	else
		av_thread_leave(thread);
}

static void at_end_of_main(void *unused)
{
	AV_UNCANCELLED;

	atomic_store(&main_ends, true);
	if (av_thread_own())
		begin();
}

/*
 * If this is the main thread. It need not be one that we ever meet: another one may have loaded the
 * library, or be the parent of this process.
 */
static void ask_to_be_told(void)
{
	if (has_key && gettid() == getpid() && pthread_setspecific(key, &key) == 0)
		atomic_store(&asked, getpid());
}

__attribute__((constructor)) static void prepare(void)
{
	has_key = pthread_key_create(&key, at_end_of_main) == 0;
	ask_to_be_told();
}

void av_last_thread_started(void)
{
	ask_to_be_told();
	if (atomic_load(&main_ends) || atomic_load(&asked) != getpid())
		begin();
}

void av_last_thread_forked(void)
{
	ask_to_be_told();
	av_own_fd_close(&file);
	atomic_store(&main_ends, false);
	atomic_store(&watched, false);
}
