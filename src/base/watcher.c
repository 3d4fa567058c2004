/* SPDX-License-Identifier: MIT */
#include "base/watcher.h"

#include <stdlib.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "base/wait.h"

#define REST_MS 10 /* while what is there cannot be taken, its socket stays readable */

LIST_HEAD(watch_list, av_watch_fd);

static struct {
	pthread_mutex_t life; /* held while the thread is started and ended; it never takes it */
	bool running;
	struct av_thread *thread;
	struct av_waker waker;

	pthread_mutex_t mutex; /* guards the rest, and is held over ready() */
	struct watch_list list;
	bool stop;
} watcher = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.waker = AV_WAKER_NONE,
	.mutex = PTHREAD_MUTEX_INITIALIZER,
};

/* What the thread waits for: its end of the pair first, then the sockets. Owned by the thread. */
struct waiting {
	struct av_own_fd woken;
	struct pollfd *poll;
	size_t room;
};

static bool reserve_pollfds(struct waiting *t, size_t n)
{
	struct pollfd *grown;

	if (n <= t->room)
		return true;
	grown = realloc(t->poll, 2 * n * sizeof(*grown));
	if (!grown)
		return false;
	t->poll = grown;
	t->room = 2 * n;
	return true;
}

/* Return: number of descriptors; 0: the thread is to end. */
static size_t fill_watcher_poll(struct waiting *t)
{
	struct av_watch_fd *w;
	size_t n = 1;

	if (watcher.stop || av_own_fd(&t->woken) < 0)
		return 0;
	t->poll[0] = (struct pollfd){.fd = t->woken.fd, .events = POLLIN};
	LIST_FOREACH(w, &watcher.list, entry)
		if (av_own_fd(&w->socket) >= 0 && reserve_pollfds(t, n + 1))
			t->poll[n++] = (struct pollfd){.fd = w->socket.fd, .events = POLLIN};
	return n;
}

/* If RLIMIT_NOFILE is below @n, poll(2) takes none: sleep until a change. Return: false: nothing */
static bool poll_watches(struct waiting *t, size_t n)
{
	char byte;

	if (av_raw_poll(t->poll, n, -1) >= 0)
		return true;
	if (errno == EINVAL)
		(void)!av_raw_recv(av_own_fd(&t->woken), &byte, 1, 0);
	return false;
}

static bool is_watch_ready(const struct waiting *t, size_t n, const struct av_watch_fd *w)
{
	for (size_t i = 1; i < n; i++)
		if (t->poll[i].fd == w->socket.fd && t->poll[i].revents)
			return av_own_fd(&w->socket) >= 0;
	return false;
}

/* Call whose sockets are ready. Context: the mutex is held. Return: does something stay there? */
static bool notify_ready_fds(const struct waiting *t, size_t n)
{
	struct av_watch_fd *w;
	bool stays = false;

	LIST_FOREACH(w, &watcher.list, entry) {
		if (!is_watch_ready(t, n, w))
			continue;
		w->in_vain = false;
		w->ready(w);
		stays |= w->in_vain;
	}
	return stays;
}

static void *watch_main(void *arg)
{
	struct waiting *t = arg;
	size_t n;

	pthread_mutex_lock(&watcher.mutex);
	while ((n = fill_watcher_poll(t)) > 0) {
		pthread_mutex_unlock(&watcher.mutex);
		n = poll_watches(t, n) ? n : 0;
		av_waker_drain(&t->woken);
		pthread_mutex_lock(&watcher.mutex);
		if (!notify_ready_fds(t, n))
			continue;
		pthread_mutex_unlock(&watcher.mutex);
		(void)av_raw_poll(NULL, 0, REST_MS);
		pthread_mutex_lock(&watcher.mutex);
	}
	pthread_mutex_unlock(&watcher.mutex);
	av_own_fd_close(&t->woken);
	free(t->poll);
	free(t);
	return NULL;
}

/* The child has no such thread, and the sockets are the parent's. */
static void reset_watcher_in_child(void)
{
	pthread_mutex_init(&watcher.life, NULL);
	pthread_mutex_init(&watcher.mutex, NULL);
	av_waker_forked(&watcher.waker);
	watcher.running = false;
	LIST_INIT(&watcher.list);
}

static const struct av_fork_handlers fork_handlers = {.child = reset_watcher_in_child};

static void start_watcher(void)
{
	struct waiting *t = calloc(1, sizeof(*t));

	(void)av_fork_register(AV_FORK_WATCHER, &fork_handlers);
	if (!t)
		return;
	t->woken = AV_OWN_FD_NONE;
	watcher.stop = false;
	watcher.running = reserve_pollfds(t, 4) && av_waker_begin(&watcher.waker, &t->woken) &&
			  av_thread_start(&watcher.thread, "anyverbs-watch", watch_main, t) == 0;
	if (watcher.running)
		return;
	av_own_fd_close(&t->woken);
	av_waker_end(&watcher.waker);
	free(t->poll);
	free(t);
}

static void stop_watcher(void)
{
	if (av_waker_wake(&watcher.waker))
		av_thread_join(watcher.thread);
	else
		av_thread_leave(watcher.thread); /* the program has closed what would wake it */
	av_waker_end(&watcher.waker);
	watcher.running = false;
}

void av_watch_begin(struct av_watch_fd *w)
{
	AV_ERRNO_KEPT;
	AV_LOCKED(&watcher.life);

	pthread_mutex_lock(&watcher.mutex);
	LIST_INSERT_HEAD(&watcher.list, w, entry);
	pthread_mutex_unlock(&watcher.mutex);
	if (watcher.running && !av_waker_wake(&watcher.waker))
		stop_watcher(); /* it ends by itself */
	if (!watcher.running)
		start_watcher();
}

static bool is_watch_listed(const struct av_watch_fd *wanted)
{
	struct av_watch_fd *w;

	LIST_FOREACH(w, &watcher.list, entry)
		if (w == wanted)
			return true;
	return false;
}

void av_watch_end(struct av_watch_fd *w)
{
	AV_ERRNO_KEPT;
	AV_LOCKED(&watcher.life);

	pthread_mutex_lock(&watcher.mutex);
	if (is_watch_listed(w))
		LIST_REMOVE(w, entry);
	watcher.stop = LIST_EMPTY(&watcher.list);
	pthread_mutex_unlock(&watcher.mutex);
	if (watcher.stop && watcher.running)
		stop_watcher();
}
