/* SPDX-License-Identifier: MIT */
/*
 * The listener: the thread that reads the events of the process's userfaultfd.
 *
 * It must not deadlock. A program thread that unmaps tracked memory sleeps in the kernel until the
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
 *   av_odp_notify_end(). It touches only shared memory of own contexts, which av_odp_notify_end()
 *   keeps mapped until the listener is done.
 *
 * At its end it unpublishes the descriptor and closes it: that wakes every sleeper and cancels all
 * registrations. Only then may the thread's own end, or av_thread_join(), free memory.
 */
#include "memory/odp.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "memory/region.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)

#define BATCH 16

#define SPINS 200
#define CALLS 16u /* of madvise() at a time whose reports are one event each */

/* A stopped peer must not stop us. In our own process, only a debugger stops a single thread. */
#define PEER_WAIT_NS 10000000u
#define OWN_WAIT_NS  1000000000u

/* What the listener shares with others: no lock, no heap. */
static struct {
	_Atomic int fd;		/* the userfaultfd of this process, or -1 */
	_Atomic uint64_t round; /* odd while the listener may use entries of @context */
	_Atomic uint32_t users; /* other threads that use some */
	_Atomic uint64_t expected_begin, expected_end; /* an unmapping to ignore; equal: none */
	struct {
		_Atomic uint64_t begin, end; /* 0: free; or not said yet */
	} call[CALLS];
	_Atomic uint32_t used; /* length of the part of @context that was ever used */
	_Atomic(struct av_seg *) context[AV_REF_SLOTS];
} listener = {.fd = -1};

static struct {
	pthread_mutex_t mutex; /* guards users, running, thread, page; not for the listener */
	unsigned int users;
	bool running;
	struct av_thread *thread;
	void *page; /* a tracked page of our own; unmapping it wakes the listener */
	struct av_own_fd uffd;
	_Atomic bool stop;
	_Atomic bool refused; /* the kernel refused a userfaultfd; do not ask again */
} notify = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int own_uffd(void)
{
	return atomic_load_explicit(&listener.fd, memory_order_acquire);
}

/* --- contexts -------------------------------------------------------------------- */

static struct av_seg *context_at(uint32_t slot)
{
	return atomic_load_explicit(&listener.context[slot], memory_order_acquire);
}

/* The next tracked context. *@slot: 0 at first. NULL: there are no more */
static struct av_seg *next_context(uint32_t *slot)
{
	struct av_seg *seg = NULL;

	while (!seg && *slot < atomic_load_explicit(&listener.used, memory_order_acquire))
		seg = context_at((*slot)++);
	return seg;
}

/* The entry of @seg (NULL: a free one), or AV_REF_SLOTS. */
static uint32_t find_context(const struct av_seg *seg)
{
	uint32_t i = 0;

	while (i < AV_REF_SLOTS && context_at(i) != seg)
		i++;
	return i;
}

/* One thread at a time; also below. Return: false: no room */
static bool add_to_contexts(struct av_seg *seg)
{
	uint32_t i = find_context(NULL);

	if (i == AV_REF_SLOTS)
		return false;
	atomic_store(&listener.context[i], seg);
	if (i >= atomic_load(&listener.used))
		atomic_store(&listener.used, i + 1);
	return true;
}

/*
 * Invalidate what threads remember of tracked mappings, in all own contexts. Return: one of them,
 * or NULL. They stay until end_use().
 */
static struct av_seg *forget_seen(void)
{
	struct av_seg *seg, *any = NULL;

	atomic_fetch_add(&listener.users, 1);
	for (uint32_t slot = 0; (seg = next_context(&slot));) {
		struct av_odp_root *root = av_odp_root(seg);

		any = seg;
		if (root)
			atomic_fetch_add(&root->unmaps, 1);
	}
	return any;
}

static void end_use(void)
{
	atomic_fetch_sub(&listener.users, 1);
}

/* --- waiting --------------------------------------------------------------------- */

static void pause_or_yield(unsigned int turn)
{
	if (turn < SPINS)
		av_pause();
	else
		sched_yield();
}

/* A turn of a wait for @ns. Return: false: they are over */
static bool wait_a_turn(unsigned int turn, uint64_t *until, uint64_t ns)
{
	pause_or_yield(turn);
	if (turn == 0)
		*until = av_now_ns() + ns;
	return turn <= SPINS || av_now_ns() <= *until;
}

void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire), until;

	for (unsigned int turn = 0;
	     (seq & 1) && atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq &&
	     wait_a_turn(turn, &until, seg->own ? OWN_WAIT_NS : PEER_WAIT_NS);
	     turn++)
		;
}

void av_odp_settle_to_read(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire), until = 0;

	while ((seq & 1) &&
	       atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq &&
	       !av_timed_out(&until))
		sched_yield();
}

/* The listener begins or ends a round, in which it uses contexts. */
static void turn_round(void)
{
	atomic_fetch_add(&listener.round, 1);
}

/* After clearing an entry: wait until the listener cannot be using it any more. */
static void wait_for_round(void)
{
	uint64_t round = atomic_load(&listener.round);

	for (unsigned int turn = 0; (round & 1) && atomic_load(&listener.round) == round; turn++)
		pause_or_yield(turn);
}

/* After the return neither the listener nor another thread uses the context. */
static void remove_from_contexts(const struct av_seg *seg)
{
	uint32_t i = find_context(seg);

	if (i == AV_REF_SLOTS)
		return;
	atomic_store(&listener.context[i], NULL);
	wait_for_round();
	for (unsigned int turn = 0; atomic_load(&listener.users); turn++)
		pause_or_yield(turn);
}

/* Is an event unread? Since Linux 5.7 this ioctl checks that before anything else. */
static bool report_outstanding(int fd)
{
	struct uffdio_writeprotect nothing = {0};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &nothing) && errno == EAGAIN;
}

void av_odp_barrier(void)
{
	AV_ERRNO_KEPT;
	int fd = own_uffd();
	uint64_t until;

	if (fd < 0)
		return;
	/* Not for ever: the unmapping thread may be stopped. */
	for (unsigned int turn = 0;
	     report_outstanding(fd) && wait_a_turn(turn, &until, OWN_WAIT_NS); turn++)
		;
	wait_for_round();
}

/* --- unmappings to ignore -------------------------------------------------------- */

/*
 * Exactly this range is replaced by other memory with the same bytes, one range at a time. If a
 * thread has tracked it meanwhile, the listener ignores its unmapping until expect_end().
 */
static void expect_unmapping(uint64_t addr, uint64_t len)
{
	atomic_store(&listener.expected_begin, addr);
	atomic_store(&listener.expected_end, addr + len);
}

/* The unmapping returned when its event was read. The event is handled when its batch is. */
static void expect_end(void)
{
	wait_for_round();
	atomic_store(&listener.expected_begin, 0);
	atomic_store(&listener.expected_end, 0);
}

static bool is_expected(uint64_t begin, uint64_t end)
{
	return begin == atomic_load(&listener.expected_begin) &&
	       end == atomic_load(&listener.expected_end);
}

/* --- one call, several reports ---------------------------------------------------- */

uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len)
{
	uint32_t i = 0;

	if (addr == 0 || own_uffd() < 0)
		return CALLS;
	while (i < CALLS &&
	       !atomic_compare_exchange_strong(&listener.call[i].begin, &(uint64_t){0}, addr))
		i++;
	if (i < CALLS)
		atomic_store(&listener.call[i].end, addr + len);
	return i;
}

void av_odp_discard_end(uint32_t call)
{
	if (call == CALLS)
		return;
	atomic_store(&listener.call[call].end, 0);
	atomic_store(&listener.call[call].begin, 0);
}

/* Widen the range of a report to that of the madvise() call that caused it. */
static void widen_to_call(uint64_t *begin, uint64_t *end)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t from = atomic_load(&listener.call[i].begin),
			 to = atomic_load(&listener.call[i].end);

		if (from && from <= *begin && *end <= to) {
			*begin = from;
			*end = to;
			return;
		}
	}
}

/* --- the listener ---------------------------------------------------------------- */

/* Make the sequence numbers of all contexts odd (events are being handled) or even (done). */
static void set_seq(uint64_t odd)
{
	struct av_seg *seg;

	for (uint32_t slot = 0; (seg = next_context(&slot));)
		if ((atomic_load(&seg->head->odp_seq) & 1) != odd)
			atomic_fetch_add(&seg->head->odp_seq, 1);
}

/* @unmapped: the range is gone, so it is no longer tracked. */
static void handle_range(uint64_t addr, uint64_t len, bool unmapped)
{
	struct av_seg *seg;

	for (uint32_t slot = 0; (seg = next_context(&slot));) {
		struct av_odp_root *root = av_odp_root(seg);

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
	widen_to_call(&begin, &end);
	handle_range(begin, end - begin, false);
}

static void handle_uffd_event(const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_UNMAP:
		if (!is_expected(msg->arg.remove.start, msg->arg.remove.end))
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

	turn_round();
	set_seq(1);
	ours = av_own_fd(&notify.uffd) == fd;
	if (ours)
		n = read(fd, msg, sizeof(msg));
	set_seq(1); /* for contexts added since */
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*msg); i++)
		handle_uffd_event(&msg[i]);
	set_seq(0);
	turn_round();
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
	struct av_seg *seg;

	turn_round();
	for (uint32_t slot = 0; (seg = next_context(&slot));)
		publish_fd(seg, -1);
	turn_round();
}

static void *listener_main(void *arg)
{
	struct pollfd p = {.fd = own_uffd(), .events = POLLIN};
	bool ours = true;

	while (ours && !atomic_load(&notify.stop))
		if (av_raw_poll(&p, 1, -1) > 0)
			ours = handle_batch(p.fd);
	atomic_store(&listener.fd, -1);
	unpublish_all(); /* before another file can have the number */
	if (ours)
		close(p.fd);
	return NULL;
}

/* --- opening and closing --------------------------------------------------------- */

/* Return: a descriptor with these features, or -1. */
static int open_with(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

/* Without WP_ASYNC (Linux 6.7), only private and memfd memory can be tracked. */
static int open_uffd(void)
{
	int fd = open_with(EVENTS | UFFD_FEATURE_WP_ASYNC);

	if (fd < 0)
		fd = open_with(EVENTS);
	return av_own_fd_keep(&notify.uffd, fd) ? notify.uffd.fd : -1;
}

/* A tracked page of our own. Unmapping it makes the listener check @stop. */
static void *wake_page(int fd)
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
	notify.page = wake_page(fd);
	atomic_store(&notify.stop, false);
	atomic_store(&listener.fd, fd);
	notify.running = notify.page &&
			 av_thread_start(&notify.thread, "anyverbs-odp", listener_main, NULL) == 0;
	if (notify.running)
		return true;
	atomic_store(&listener.fd, -1);
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

/* All of it is the parent's. */
static void reset_listener(void)
{
	atomic_store(&listener.fd, -1);
	atomic_store(&listener.round, 0);
	atomic_store(&listener.users, 0);
	atomic_store(&listener.expected_begin, 0);
	atomic_store(&listener.expected_end, 0);
	for (uint32_t i = 0; i < CALLS; i++)
		av_odp_discard_end(i);
	for (uint32_t i = 0, n = atomic_load(&listener.used); i < n; i++)
		atomic_store(&listener.context[i], NULL);
	atomic_store(&listener.used, 0);
}

/* The child's copy of the descriptor reports the parent's events. */
static void reset_uffd_in_child(void)
{
	pthread_mutex_init(&notify.mutex, NULL);
	av_own_fd_close(&notify.uffd);
	if (notify.running)
		av_munmap(notify.page, av_page_bytes()); /* the child's copy is not tracked */
	notify.running = false;
	notify.users = 0;
	reset_listener();
}

static const struct av_fork_handlers fork_handlers = {.child = reset_uffd_in_child};

/* --- begin and end ----------------------------------------------------------------- */

/* Context: @mutex held, listener running. */
static void add_uffd_context(struct av_seg *seg)
{
	struct av_odp_root *root = av_odp_root_make(seg);

	if (!root)
		return;
	/* Invalidate what threads remember from an earlier descriptor. */
	atomic_fetch_add(&root->unmaps, av_now_ns());
	if (!add_to_contexts(seg))
		return;
	notify.users++;
	publish_fd(seg, own_uffd());
}

static bool is_uffd_open(const struct av_seg *seg)
{
	const struct av_odp_root *root = av_odp_root(seg);

	return root && atomic_load_explicit(&root->uffd, memory_order_relaxed) != 0;
}

void av_odp_notify_begin(struct av_seg *seg)
{
	AV_ERRNO_KEPT;

	if (is_uffd_open(seg) || atomic_load_explicit(&notify.refused, memory_order_relaxed))
		return;
	(void)av_fork_register(AV_FORK_ODP_NOTIFY, &fork_handlers);
	(void)av_copy_init(); /* without it, backing the page table takes the slow path */
	AV_LOCKED(&notify.mutex);
	if (find_context(seg) == AV_REF_SLOTS) {
		if (notify.running || start_uffd_listener())
			add_uffd_context(seg);
		else
			av_log(AV_LOG_INFO,
			       "no userfaultfd: invalidations of on-demand pages are not counted, "
			       "and memory that is unmapped under a region is not noticed");
		if (notify.running && notify.users == 0)
			stop_uffd_listener();
	}
}

void av_odp_notify_end(struct av_seg *seg)
{
	AV_LOCKED(&notify.mutex);
	if (find_context(seg) < AV_REF_SLOTS) {
		publish_fd(seg, -1);
		remove_from_contexts(seg);
		if (atomic_load(&seg->head->odp_seq) & 1)
			atomic_fetch_add(&seg->head->odp_seq, 1);
		if (--notify.users == 0)
			stop_uffd_listener();
	}
}

/* --- what is tracked no more ----------------------------------------------------- */

static void untrack_range(uint64_t addr, uint64_t len)
{
	struct uffdio_range range = {.start = addr, .len = len};
	AV_ERRNO_KEPT;
	int uffd = own_uffd();

	if (uffd >= 0)
		(void)!ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

void av_odp_untrack(uint64_t addr, uint64_t len)
{
	expect_unmapping(addr, len);
	untrack_range(addr, len);
}

void av_odp_release(uint64_t addr, uint64_t len)
{
	untrack_range(addr, len);
	(void)forget_seen();
	end_use();
}

void av_odp_retrack(uint64_t addr, uint64_t len)
{
	struct av_seg *seg;

	expect_end();
	seg = forget_seen(); /* what threads remember of the range concerns other mappings */
	if (seg)
		(void)!av_odp_track(seg, addr, len);
	end_use();
}
