/* SPDX-License-Identifier: MIT */
/*
 * The listener.
 *
 * Why it cannot deadlock: a thread of the program that unmaps watched memory sleeps in the kernel
 * until the listener has read its event, holding whatever it holds: its heap's lock (free()
 * unmaps), locks of this library, locks of the dynamic linker. Therefore, between the opening and
 * the closing of the descriptor, the listener
 *  - takes no lock at all, not even a bounded one: a signal handler may unmap while the thread it
 * interrupted is inside the lock;
 *  - does not use the heap (which has locks, and unmaps);
 *  - unmaps nothing itself;
 *  - makes no system call that waits for one of those: poll(), fstat() and read() of the
 * descriptor. The sleeping thread does not hold the kernel's lock of the address space (it is
 * released before the wait), so page faults of the listener go through;
 *  - waits for nothing but events. Others wait for it: accesses (av_odp_settle(), bounded) and
 * av_odp_unwatch(). What it touches is shared memory of own contexts, which av_odp_unwatch() keeps
 * mapped until it is done.
 *
 * When it ends it closes the descriptor first: that wakes every sleeper and takes all registrations
 * back. Only then may the thread's own end, or pthread_join(), free memory.
 */
#include "memory/odp_notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/thread.h"
#include "copy/copy.h"
#include "registry/directory.h"
#include "memory/adopted.h"
#include "memory/odp_counters.h"
#include "memory/odp_table.h"
#include "memory/region_count.h"
#include "memory/unmapped.h"
#include "observe/log.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)

#define BATCH 16
#define SPINS 200

/* How long to wait for the listener: a stopped peer must not stop us, and of this process nothing
 * but a debugger stops one thread. */
#define PEER_WAIT_NS 10000000u
#define OWN_WAIT_NS  1000000000u

static struct {
	pthread_mutex_t
		mutex; /* guards users, running, thread, page; never taken by the listener */
	unsigned int users;
	bool running;
	pthread_t thread;
	void *page; /* watched memory of our own, whose unmapping wakes the listener */
	dev_t dev;  /* which file the descriptor is: programs close what they do not know, */
	ino_t ino;  /* and the number is somebody else's then */
	_Atomic int fd;
	_Atomic bool stop;
	_Atomic bool refused;	/* the kernel does not let this process have one: not asked again */
	_Atomic uint64_t round; /* odd while the listener may be using entries of @context */
	_Atomic uint64_t expected_begin, expected_end; /* av_odp_expect(); equal: nothing is */
	_Atomic uint32_t used; /* entries of @context that have ever been used */
	_Atomic(struct av_seg *) context[AV_REF_SLOTS];
} notify = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

int av_odp_uffd(void)
{
	return atomic_load_explicit(&notify.fd, memory_order_acquire);
}

static void pause_or_yield(unsigned int turn)
{
	if (turn < SPINS)
		av_pause();
	else
		sched_yield();
}

void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq)
{
	uint64_t until = av_now_ns() + (seg->own ? OWN_WAIT_NS : PEER_WAIT_NS);

	for (unsigned int turn = 0;
	     atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq; turn++) {
		pause_or_yield(turn);
		if (turn > SPINS && av_now_ns() > until)
			return;
	}
}

/* --- the listener ---------------------------------------------------------------- */

/* The contexts, one after another, with gaps. */
static struct av_seg *context_at(uint32_t i)
{
	return atomic_load_explicit(&notify.context[i], memory_order_acquire);
}

static uint32_t context_slots(void)
{
	return atomic_load_explicit(&notify.used, memory_order_acquire);
}

/* Announce (odd) or end (even) the handling of events. A context may have come in between. */
static void set_seq(uint64_t odd)
{
	for (uint32_t i = 0, n = context_slots(); i < n; i++) {
		struct av_seg *seg = context_at(i);

		if (seg && (atomic_load(&seg->head->odp_seq) & 1) != odd)
			atomic_fetch_add(&seg->head->odp_seq, 1);
	}
}

/* Clear what of a region is in the range. Return: pages that were valid. */
static uint64_t invalidate_region(struct av_seg *seg, const struct av_on_demand *r, uint64_t addr,
				  uint64_t len)
{
	uint64_t last = addr + (len - 1), end = r->addr + (r->length - 1), first, pages;

	if (r->length == 0 || r->addr > last || end < addr)
		return 0;
	first = r->addr > addr ? r->addr : addr;
	pages = av_odp_clear(seg, first, (end < last ? end : last) - first + 1);
	if (pages) {
		av_region_count(seg, r->key, AV_MR_INVALIDATION_PAGES, pages);
		av_region_count(seg, r->key, AV_MR_INVALIDATIONS, 1);
	}
	return pages;
}

/* Region by region, so that each page is counted by one of those it is in; the whole address space
 * last. */
static uint64_t invalidate_regions(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	struct av_on_demand r, whole = {0};
	uint64_t pages = 0;
	uint32_t at = 0;

	for (int i = 0; i < AV_ON_DEMAND_LOOKS && av_on_demand_next(seg, &at, &r); i++) {
		if (r.whole)
			whole = r;
		else
			pages += invalidate_region(seg, &r, addr, len);
	}
	return pages + invalidate_region(seg, &whole, addr, len);
}

void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t pages;

	if (len == 0)
		return;
	pages = invalidate_regions(seg, addr, len) + av_odp_clear(seg, addr, len);
	if (!pages)
		return;
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATION_PAGES, pages);
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATIONS, 1); /* who sees the event sees its pages */
}

/* @unmapped: and so not watched any more. */
static void handle_range(uint64_t addr, uint64_t len, bool unmapped)
{
	for (uint32_t i = 0, n = context_slots(); i < n; i++) {
		struct av_seg *seg = context_at(i);
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

static bool is_expected(uint64_t begin, uint64_t end)
{
	return begin == atomic_load(&notify.expected_begin) &&
	       end == atomic_load(&notify.expected_end);
}

static void handle(const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_UNMAP:
		if (!is_expected(msg->arg.remove.start, msg->arg.remove.end))
			handle_range(msg->arg.remove.start,
				     msg->arg.remove.end - msg->arg.remove.start, true);
		break;
	case UFFD_EVENT_REMOVE:
		av_adopted_discard(msg->arg.remove.start,
				   msg->arg.remove.end - msg->arg.remove.start);
		handle_range(msg->arg.remove.start, msg->arg.remove.end - msg->arg.remove.start,
			     false);
		break;
	case UFFD_EVENT_REMAP:
		handle_range(msg->arg.remap.from, msg->arg.remap.len, true);
		break;
	default: /* none is asked for */
		break;
	}
}

static bool still_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == notify.dev && st.st_ino == notify.ino;
}

/* Read and handle what has come. Return: false if the descriptor is not ours any more. */
static bool handle_batch(int fd)
{
	struct uffd_msg msg[BATCH];
	ssize_t n = -1;
	bool ours;

	atomic_fetch_add(&notify.round, 1);
	set_seq(1);
	ours = still_ours(fd);
	if (ours)
		n = read(fd, msg, sizeof(msg));
	set_seq(1); /* of contexts that have come since */
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*msg); i++)
		handle(&msg[i]);
	set_seq(0);
	atomic_fetch_add(&notify.round, 1);
	return ours;
}

/* Peers borrow the descriptor by this number. */
static void publish_fd(struct av_seg *seg, int fd)
{
	struct av_odp_root *root = av_odp_root(seg);

	if (root)
		atomic_store(&root->uffd, (uint32_t)(fd + 1));
}

static void unpublish_all(void)
{
	atomic_fetch_add(&notify.round, 1);
	for (uint32_t i = 0, n = context_slots(); i < n; i++) {
		struct av_seg *seg = context_at(i);

		if (seg)
			publish_fd(seg, -1);
	}
	atomic_fetch_add(&notify.round, 1);
}

static void *listener_main(void *arg)
{
	struct pollfd p = {.fd = atomic_load(&notify.fd), .events = POLLIN};
	bool ours = true;

	while (ours && !atomic_load(&notify.stop))
		if (poll(&p, 1, -1) > 0)
			ours = handle_batch(p.fd);
	atomic_store(&notify.fd, -1);
	if (ours)
		close(p.fd);
	unpublish_all();
	return NULL;
}

/* --- opening and closing --------------------------------------------------------- */

/* Return: a descriptor with its features chosen, or -1 */
static int open_with(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 && errno == EINVAL) /* before 5.11 */
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

/* WP_ASYNC (6.7) is what allows files to be registered; without it private and memfd memory remain.
 */
static int open_uffd(void)
{
	struct stat st;
	int fd = open_with(EVENTS | UFFD_FEATURE_WP_ASYNC);

	if (fd < 0)
		fd = open_with(EVENTS);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st)) {
		close(fd);
		return -1;
	}
	notify.dev = st.st_dev;
	notify.ino = st.st_ino;
	return fd;
}

/* A page of our own that is watched: unmapping it is how the listener is told to look at @stop. */
static void *watched_page(int fd)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = {.range = {(uintptr_t)p, bytes},
				      .mode = UFFDIO_REGISTER_MODE_WP};

	if (p == MAP_FAILED)
		return NULL;
	if (ioctl(fd, UFFDIO_REGISTER, &reg) == 0)
		return p;
	av_munmap(p, bytes);
	return NULL;
}

/* The caller holds the mutex. */
static bool start(void)
{
	int fd = open_uffd();

	if (fd < 0) {
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
			atomic_store(&notify.refused, true);
		return false;
	}
	notify.page = watched_page(fd);
	atomic_store(&notify.stop, false);
	atomic_store(&notify.fd, fd);
	notify.running = notify.page &&
			 av_thread_start(&notify.thread, "anyverbs-odp", listener_main, NULL) == 0;
	if (notify.running)
		return true;
	atomic_store(&notify.fd, -1);
	close(fd); /* before the page goes, whose unmapping would wait for a reader */
	if (notify.page)
		av_munmap(notify.page, (size_t)sysconf(_SC_PAGESIZE));
	return false;
}

/* The caller holds the mutex. */
static void stop(void)
{
	atomic_store(&notify.stop, true);
	av_munmap(notify.page, (size_t)sysconf(_SC_PAGESIZE));
	pthread_join(notify.thread, NULL);
	notify.running = false;
}

/* Threads and memory of the parent are not here; the child's copy of the descriptor hears of the
 * parent's memory. */
static void after_fork_in_child(void)
{
	int fd = atomic_load(&notify.fd);

	pthread_mutex_init(&notify.mutex, NULL);
	if (fd >= 0 && still_ours(fd))
		close(fd);
	if (notify.running)
		av_munmap(notify.page,
			  (size_t)sysconf(_SC_PAGESIZE)); /* not watched in the child */
	notify.running = false;
	notify.users = 0;
	atomic_store(&notify.fd, -1);
	atomic_store(&notify.round, 0);
	atomic_store(&notify.expected_begin, 0);
	atomic_store(&notify.expected_end, 0);
	for (uint32_t i = 0, n = context_slots(); i < n; i++)
		atomic_store(&notify.context[i], NULL);
	atomic_store(&notify.used, 0);
}

static void register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* --- contexts -------------------------------------------------------------------- */

/* The entry that holds @seg (NULL: a free one), or AV_REF_SLOTS. The caller holds the mutex. */
static uint32_t entry_of(const struct av_seg *seg)
{
	uint32_t i = 0;

	while (i < AV_REF_SLOTS && context_at(i) != seg)
		i++;
	return i;
}

/* The caller holds the mutex, and the listener runs. */
static void add(struct av_seg *seg)
{
	struct av_odp_root *root = av_odp_root_make(seg);
	uint32_t i = entry_of(NULL);

	if (i == AV_REF_SLOTS || !root)
		return;
	/* What threads remember of an earlier descriptor must not be believed of this one: see
	 * odp_track.c.
	 */
	atomic_fetch_add(&root->unmaps, av_now_ns());
	atomic_store(&notify.context[i], seg);
	if (i >= context_slots())
		atomic_store(&notify.used, i + 1);
	notify.users++;
	publish_fd(seg, atomic_load(&notify.fd));
}

void av_odp_forget_seen(void)
{
	for (uint32_t i = 0, n = context_slots(); i < n; i++) {
		struct av_seg *seg = context_at(i);
		struct av_odp_root *root = seg ? av_odp_root(seg) : NULL;

		if (root)
			atomic_fetch_add(&root->unmaps, 1);
	}
}

static bool is_watched(const struct av_seg *seg)
{
	const struct av_odp_root *root = av_odp_root(seg);

	return root && atomic_load_explicit(&root->uffd, memory_order_relaxed) != 0;
}

void av_odp_watch(struct av_seg *seg)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int saved = errno;

	if (is_watched(seg) || atomic_load_explicit(&notify.refused, memory_order_relaxed))
		return;
	pthread_once(&once, register_fork_handler);
	(void)av_copy_init(); /* without it the page table is backed the slow way */
	pthread_mutex_lock(&notify.mutex);
	if (entry_of(seg) == AV_REF_SLOTS) {
		if (notify.running || start())
			add(seg);
		else
			av_log(AV_LOG_INFO,
			       "no userfaultfd: invalidations of on-demand pages are not "
			       "counted, and memory that "
			       "is unmapped under a region is not noticed");
		if (notify.running && notify.users == 0)
			stop();
	}
	pthread_mutex_unlock(&notify.mutex);
	errno = saved;
}

/* After an entry was cleared: wait until the listener cannot be using what it held. */
static void wait_for_round(void)
{
	uint64_t round = atomic_load(&notify.round);

	for (unsigned int turn = 0; (round & 1) && atomic_load(&notify.round) == round; turn++)
		pause_or_yield(turn);
}

/*
 * Does the kernel say that an unmapping is under way whose report has not been taken? It looks at
 * that first (since 5.7), before it finds that nothing is asked of it.
 */
static bool report_outstanding(int fd)
{
	struct uffdio_writeprotect nothing = {0};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &nothing) && errno == EAGAIN;
}

void av_odp_barrier(void)
{
	int fd = av_odp_uffd(), saved = errno;
	uint64_t until = 0;

	if (fd < 0)
		return;
	for (unsigned int turn = 0; report_outstanding(fd); turn++) {
		pause_or_yield(turn);
		if (turn == 0)
			until = av_now_ns() + OWN_WAIT_NS;
		else if (turn > SPINS && av_now_ns() > until)
			break; /* its thread is stopped */
	}
	wait_for_round();
	errno = saved;
}

void av_odp_expect(uint64_t addr, uint64_t len)
{
	atomic_store(&notify.expected_begin, addr);
	atomic_store(&notify.expected_end, addr + len);
}

/* An unmapping has returned when its event was read; it is handled when that batch is. */
void av_odp_expect_end(void)
{
	wait_for_round();
	atomic_store(&notify.expected_begin, 0);
	atomic_store(&notify.expected_end, 0);
}

void av_odp_unwatch(struct av_seg *seg)
{
	uint32_t i;

	pthread_mutex_lock(&notify.mutex);
	i = entry_of(seg);
	if (i < AV_REF_SLOTS) {
		publish_fd(seg, -1);
		atomic_store(&notify.context[i], NULL);
		wait_for_round();
		if (atomic_load(&seg->head->odp_seq) & 1)
			atomic_fetch_add(&seg->head->odp_seq, 1);
		if (--notify.users == 0)
			stop();
	}
	pthread_mutex_unlock(&notify.mutex);
}
