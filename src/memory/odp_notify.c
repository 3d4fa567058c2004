/* SPDX-License-Identifier: MIT */
/*
 * The listener: the thread that reads the events of the process's userfaultfd.
 *
 * It must not deadlock. A program thread that unmaps watched memory sleeps in the kernel until the
 * listener has read its event. That thread may hold anything: the heap's lock (free() unmaps),
 * locks of this library, locks of the dynamic linker. So while the descriptor is open, the listener
 * - takes no lock, not even a bounded one: a signal handler may unmap while the interrupted thread
 *   holds it;
 * - does not use the heap, which has locks and unmaps;
 * - unmaps nothing itself;
 * - makes only system calls that wait for none of these: poll(), fstat() and read() of the
 *   descriptor. The sleeping thread does not hold the kernel's lock of the address space (the
 *   kernel releases it before the wait), so the listener can take page faults;
 * - waits only for events. Others wait for it: accesses (av_odp_settle(), bounded) and
 *   av_odp_unwatch(). It touches only shared memory of own contexts, and av_odp_unwatch() keeps
 *   that mapped until the listener is done.
 *
 * When it ends, it closes the descriptor first: that wakes every sleeper and cancels all
 * registrations. Only then may the thread's own end, or av_thread_join(), free memory.
 */
#include "memory/odp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "copy/copy.h"
#include "memory/key.h"
#include "memory/region.h"
#include "observe/flight.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)

#define BATCH 16

static struct {
	pthread_mutex_t mutex; /* guards users, running, thread, page; not for the listener */
	unsigned int users;
	bool running;
	struct av_thread *thread;
	void *page; /* a watched page of our own; unmapping it wakes the listener */
	struct av_own_fd uffd;
	_Atomic bool stop;
	_Atomic bool refused; /* the kernel refused a userfaultfd; do not ask again */
} notify = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* --- the listener ---------------------------------------------------------------- */

/* Make the sequence numbers of all contexts odd (events are being handled) or even (done). */
static void set_seq(uint64_t odd)
{
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++) {
		struct av_seg *seg = av_odp_context_at(i);

		if (seg && (atomic_load(&seg->head->odp_seq) & 1) != odd)
			atomic_fetch_add(&seg->head->odp_seq, 1);
	}
}

/* @unmapped: the range is gone, so it is no longer watched. */
static void handle_range(uint64_t addr, uint64_t len, bool unmapped)
{
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++) {
		struct av_seg *seg = av_odp_context_at(i);
		struct av_odp_root *root = seg ? av_odp_root(seg) : NULL;

		if (!root)
			continue;
		if (unmapped) {
			atomic_fetch_add(&root->unmaps, 1);
			av_unmapped_record(seg, addr, len);
		}
		av_odp_invalidate(seg, addr, len);
	}
}

/* Pages of one mapping are about to be discarded. */
static void handle_remove(uint64_t begin, uint64_t end)
{
	av_heap_discard(begin, end - begin);
	av_odp_discarded_by(&begin, &end);
	handle_range(begin, end - begin, false);
}

static void handle_uffd_event(const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_UNMAP:
		if (!av_odp_is_expected(msg->arg.remove.start, msg->arg.remove.end))
			handle_range(msg->arg.remove.start,
				     msg->arg.remove.end - msg->arg.remove.start, true);
		break;
	case UFFD_EVENT_REMOVE:
		handle_remove(msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		handle_range(msg->arg.remap.from, msg->arg.remap.len, true);
		break;
	default: /* no other event was requested */
		break;
	}
}

/* Read and handle pending events. Return: false if the descriptor is no longer ours. */
static bool handle_batch(int fd)
{
	struct uffd_msg msg[BATCH];
	ssize_t n = -1;
	bool ours;

	av_odp_round_begin();
	set_seq(1);
	ours = av_own_fd(&notify.uffd) == fd;
	if (ours)
		n = read(fd, msg, sizeof(msg));
	set_seq(1); /* for contexts added since */
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*msg); i++)
		handle_uffd_event(&msg[i]);
	set_seq(0);
	av_odp_round_end();
	return ours;
}

/* Publish the number by which peers borrow the descriptor. */
static void publish_fd(struct av_seg *seg, int fd)
{
	struct av_odp_root *root = av_odp_root(seg);

	if (root)
		atomic_store(&root->uffd, (uint32_t)(fd + 1));
}

static void unpublish_all(void)
{
	av_odp_round_begin();
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++) {
		struct av_seg *seg = av_odp_context_at(i);

		if (seg)
			publish_fd(seg, -1);
	}
	av_odp_round_end();
}

static void *listener_main(void *arg)
{
	struct pollfd p = {.fd = av_odp_uffd(), .events = POLLIN};
	bool ours = true;

	while (ours && !atomic_load(&notify.stop))
		if (av_raw_poll(&p, 1, -1) > 0)
			ours = handle_batch(p.fd);
	av_odp_uffd_set(-1);
	if (ours)
		close(p.fd);
	unpublish_all();
	return NULL;
}

/* --- opening and closing --------------------------------------------------------- */

/* Return: a descriptor with these features, or -1. */
static int open_with(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 && errno == EINVAL) /* Linux before 5.11 */
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

/* Without WP_ASYNC (Linux 6.7), only private and memfd memory can be watched. */
static int open_uffd(void)
{
	int fd = open_with(EVENTS | UFFD_FEATURE_WP_ASYNC);

	if (fd < 0)
		fd = open_with(EVENTS);
	return av_own_fd_keep(&notify.uffd, fd) ? notify.uffd.fd : -1;
}

/* A watched page of our own. Unmapping it makes the listener check @stop. */
static void *watched_page(int fd)
{
	size_t bytes = av_page_bytes();
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = {.range = {(uintptr_t)p, bytes},
				      .mode = UFFDIO_REGISTER_MODE_WP};

	if (p == MAP_FAILED)
		return NULL;
	if (syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &reg) == 0)
		return p;
	av_munmap(p, bytes);
	return NULL;
}

/* Context: @mutex held. */
static bool start_uffd_listener(void)
{
	int fd = open_uffd();

	if (fd < 0) {
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
			atomic_store(&notify.refused, true);
		return false;
	}
	notify.page = watched_page(fd);
	atomic_store(&notify.stop, false);
	av_odp_uffd_set(fd);
	notify.running = notify.page &&
			 av_thread_start(&notify.thread, "anyverbs-odp", listener_main, NULL) == 0;
	if (notify.running)
		return true;
	av_odp_uffd_set(-1);
	av_own_fd_close(&notify.uffd); /* before the page: its unmapping would wait for a reader */
	if (notify.page)
		av_munmap(notify.page, av_page_bytes());
	return false;
}

/* Context: @mutex held. */
static void stop_uffd_listener(void)
{
	atomic_store(&notify.stop, true);
	av_munmap(notify.page, av_page_bytes());
	av_thread_join(notify.thread);
	notify.running = false;
}

/* The child's copy of the descriptor reports the parent's events. */
static void reset_uffd_in_child(void)
{
	pthread_mutex_init(&notify.mutex, NULL);
	av_own_fd_close(&notify.uffd);
	if (notify.running)
		av_munmap(notify.page, av_page_bytes()); /* the child's copy is not watched */
	notify.running = false;
	notify.users = 0;
	av_odp_uffd_forked();
}

static const struct av_fork_handlers fork_handlers = {.child = reset_uffd_in_child};

/* --- contexts -------------------------------------------------------------------- */

/* Context: @mutex held, listener running. */
static void add_uffd_context(struct av_seg *seg)
{
	struct av_odp_root *root = av_odp_root_make(seg);

	if (!root)
		return;
	/* Invalidate what threads remember from an earlier descriptor: see odp_track.c. */
	atomic_fetch_add(&root->unmaps, av_now_ns());
	if (!av_odp_context_add(seg))
		return;
	notify.users++;
	publish_fd(seg, av_odp_uffd());
}

static bool is_uffd_watched(const struct av_seg *seg)
{
	const struct av_odp_root *root = av_odp_root(seg);

	return root && atomic_load_explicit(&root->uffd, memory_order_relaxed) != 0;
}

void av_odp_watch(struct av_seg *seg)
{
	int saved = errno;

	if (is_uffd_watched(seg) || atomic_load_explicit(&notify.refused, memory_order_relaxed))
		return;
	(void)av_fork_register(AV_FORK_ODP_NOTIFY, &fork_handlers);
	(void)av_copy_init(); /* without it, backing the page table takes the slow path */
	pthread_mutex_lock(&notify.mutex);
	if (!av_odp_context_has(seg)) {
		if (notify.running || start_uffd_listener())
			add_uffd_context(seg);
		else
			av_log(AV_LOG_INFO,
			       "no userfaultfd: invalidations of on-demand pages are not counted, "
			       "and memory that is unmapped under a region is not noticed");
		if (notify.running && notify.users == 0)
			stop_uffd_listener();
	}
	pthread_mutex_unlock(&notify.mutex);
	errno = saved;
}

void av_odp_unwatch(struct av_seg *seg)
{
	pthread_mutex_lock(&notify.mutex);
	if (av_odp_context_has(seg)) {
		publish_fd(seg, -1);
		av_odp_context_remove(seg);
		if (atomic_load(&seg->head->odp_seq) & 1)
			atomic_fetch_add(&seg->head->odp_seq, 1);
		if (--notify.users == 0)
			stop_uffd_listener();
	}
	pthread_mutex_unlock(&notify.mutex);
}
