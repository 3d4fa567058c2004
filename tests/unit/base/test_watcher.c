/* SPDX-License-Identifier: MIT */
/* The thread that watches sockets, in a program that closes descriptors, lowers limits, and forks.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/watcher.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define PATIENCE_MS 30000
#define THREADS	    4
#define ROUNDS	    1000

#ifdef __SANITIZE_THREAD__
#define CHILD_THREADS false /* ThreadSanitizer has none in a child of several threads */
#else
#define CHILD_THREADS true
#endif

/* A watched socket, and the end that makes it readable. */
struct watched {
	struct av_watch_fd w;
	int other;
	_Atomic unsigned int seen;
};

static void note(struct av_watch_fd *w)
{
	struct watched *p = (struct watched *)((char *)w - offsetof(struct watched, w));
	char byte;

	while (recv(w->socket.fd, &byte, 1, MSG_DONTWAIT) == 1)
		atomic_fetch_add(&p->seen, 1);
}

static void begin(struct watched *p)
{
	int pair[2];

	*p = (struct watched){.w.ready = note};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p->other = pair[1];
	assert_true(av_own_fd_keep(&p->w.socket, pair[0]));
	av_watch_begin(&p->w);
}

static void end(struct watched *p)
{
	av_watch_end(&p->w);
	av_own_fd_close(&p->w.socket);
	close(p->other);
}

static void expect_seen(struct watched *p)
{
	unsigned int before = atomic_load(&p->seen);

	assert_int_equal(send(p->other, "", 1, 0), 1);
	(void)WAIT_UNTIL(atomic_load(&p->seen) != before, PATIENCE_MS);
	assert_int_equal(atomic_load(&p->seen), before + 1);
}

TEST(several)
{
	struct watched a, b;

	begin(&a);
	expect_seen(&a);
	begin(&b);
	expect_seen(&b);
	expect_seen(&a);
	end(&a);
	expect_seen(&b);
	end(&b);
	begin(&a);
	expect_seen(&a);
	end(&a);
}

/* What the kernel says of the watching thread, the last one that there is. */
static int open_stat(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *e;
	char path[64];
	int last = 0, fd;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		if (atoi(e->d_name) > last)
			last = atoi(e->d_name);
	closedir(dir);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", last);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static bool is_asleep(int stat)
{
	char text[256] = "", *state;

	assert_true(pread(stat, text, sizeof(text) - 1, 0) > 0);
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

/* poll(2) takes no more descriptors than there may be. */
TEST(no_descriptors)
{
	struct rlimit all, none;
	struct watched a, b;
	bool asleep;
	int stat;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = (struct rlimit){0, all.rlim_max};
	begin(&a);
	expect_seen(&a);
	stat = open_stat();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	expect_seen(&a);
	asleep = WAIT_UNTIL(is_asleep(stat), PATIENCE_MS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	close(stat);
	assert_true(asleep);
	begin(&b);
	expect_seen(&b);
	expect_seen(&a);
	end(&b);
	end(&a);
}

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

TEST(closed)
{
	struct watched a, b;

	begin(&a);
	expect_seen(&a);
	closefrom(3);
	a.other = -1;
	begin(&b);
	expect_seen(&b);
	end(&a);
	expect_seen(&b);
	end(&b);
}

TEST(in_a_child)
{
	unsigned int before = descriptors();
	struct watched a;
	int status;
	pid_t pid;

	begin(&a);
	expect_seen(&a);
	pid = fork();
	if (pid == 0) {
		struct watched b;

		av_own_fd_close(&a.w.socket);
		close(a.other);
		if (descriptors() != before)
			_exit(1);
		if (CHILD_THREADS) {
			begin(&b);
			expect_seen(&b);
			end(&b);
		}
		_exit(descriptors() != before);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	expect_seen(&a);
	end(&a);
	assert_int_equal(descriptors(), before);
}

/* What was watched is gone at once. */
static void *come_and_go(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct watched *p = malloc(sizeof(*p));

		begin(p);
		send(p->other, "", 1, 0);
		end(p);
		free(p);
	}
	return arg;
}

TEST(many_threads)
{
	unsigned int before = descriptors();
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(descriptors(), before);
}

int main(void)
{
	alarm(120);
	return run_cases(NULL, NULL);
}
