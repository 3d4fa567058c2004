/* SPDX-License-Identifier: MIT */
/*
 * A program ends its main thread alone, with a device open, which threads of ours serve: the
 * process ends when the last of the program's own threads does, and not before.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"

#define LONG_MS 300u /* longer than a thread of ours takes to look */

static int out; /* where a program tells what it does */
static bool is_child;

/* The leak checker cannot see what the main thread's stack held. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return is_child;
}

static void tell(char what)
{
	NEED(write(out, &what, 1) == 1);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(list && list[0] && ibv_open_device(list[0]));
	ibv_free_device_list(list);
}

static void at_exit(void)
{
	tell('x');
}

static void *go_on(void *opens)
{
	const struct timespec time = {.tv_nsec = LONG_MS * 1000000};

	nanosleep(&time, NULL);
	if (opens)
		open_device();
	nanosleep(&time, NULL);
	tell('t');
	return NULL;
}

/* --- programs ---------------------------------------------------------------------- */

static void no_thread(void)
{
	open_device();
	pthread_exit(NULL);
}

static void a_thread_goes_on(void)
{
	pthread_t thread;

	open_device();
	NEED(pthread_create(&thread, NULL, go_on, NULL) == 0);
	pthread_exit(NULL);
}

static void by_thrd_exit(void)
{
	pthread_t thread;

	open_device();
	NEED(pthread_create(&thread, NULL, go_on, NULL) == 0);
	thrd_exit(0);
}

static void *cancel_and_go_on(void *main_thread)
{
	NEED(pthread_cancel(*(pthread_t *)main_thread) == 0);
	return go_on(NULL);
}

static void cancelled(void)
{
	static pthread_t self;
	pthread_t thread;

	open_device();
	self = pthread_self();
	NEED(pthread_create(&thread, NULL, cancel_and_go_on, &self) == 0);
	for (;;)
		pause();
}

/* @child: what the child does, to its end */
static void *fork_and_wait(void *child)
{
	void (*const *run)(void) = child;
	int status = -1;

	if (fork() == 0)
		(*run)();
	NEED(wait(&status) > 0 && status == 0);
	return NULL;
}

static void fork_in_a_thread(void (*child)(void))
{
	pthread_t thread;

	NEED(pthread_create(&thread, NULL, fork_and_wait, &child) == 0);
	NEED(pthread_join(thread, NULL) == 0);
	pthread_exit(NULL);
}

static void opens(void)
{
	open_device();
	pthread_exit(NULL);
}

static void forked_by_a_thread(void)
{
	fork_in_a_thread(opens);
}

static void a_thread_opens_later(void)
{
	pthread_t thread;

	NEED(pthread_create(&thread, NULL, go_on, &out) == 0);
	pthread_exit(NULL);
}

/* Nothing of the library's runs in the child's main thread. */
static void forked_by_a_thread_before(void)
{
	fork_in_a_thread(a_thread_opens_later);
}

static void without_device(void)
{
	pthread_exit(NULL);
}

static void in_a_forked_child(void)
{
	pthread_t thread;
	int status;

	open_device();
	if (fork() == 0) {
		open_device();
		NEED(pthread_create(&thread, NULL, go_on, NULL) == 0);
		pthread_exit(NULL);
	}
	NEED(wait(&status) > 0 && status == 0);
	pthread_exit(NULL);
}

/* ----------------------------------------------------------------------------------- */

static void program_row(const char *name, void (*program)(void), const char *told)
{
	char said[8] = "";
	int p[2], status = -1;
	size_t n = 0;
	pid_t pid;

	row("the main thread ends: %s", name);
	NEED(pipe(p) == 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing else may end it */
		close(p[0]);
		out = p[1];
		is_child = true;
		atexit(at_exit);
		program();
	}
	close(p[1]);
	while (n < sizeof(said) - 1 && read(p[0], said + n, 1) == 1)
		n++;
	close(p[0]);
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status == 0, "status %#x", status);
	EXPECT(strcmp(said, told) == 0, "'%s' instead of '%s'", said, told);
	EXPECT(sandbox_entries() == 0, "%u entries are left", sandbox_entries());
}

int main(void)
{
	if (UNDER_TSAN) /* it has a thread of its own, which never ends */
		return 77;
	sandbox_enter();
	time_limit(60);
	program_row("no other thread", no_thread, "x");
	program_row("another thread goes on", a_thread_goes_on, "tx");
	program_row("by thrd_exit()", by_thrd_exit, "tx");
	program_row("another thread cancels it", cancelled, "tx");
	program_row("another thread opens a device later", a_thread_opens_later, "tx");
	program_row("there is no device", without_device, "x");
	program_row("in a child that another thread has forked", forked_by_a_thread, "xx");
	program_row("in a child that another thread has forked, before a device is opened",
		    forked_by_a_thread_before, "txx");
	program_row("in a forked child, and in its parent", in_a_forked_child, "txx");
	return sandbox_end();
}
