/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/real_calls.h"

static _Atomic(const struct av_fork_handlers *) table[AV_FORK_N];
static int unusable; /* what pthread_atfork() returned */

/* Rows, a bit each, whose prepare_fork() has run: another thread may add one during the fork. */
static _Thread_local uint32_t prepared AV_TLS_FAST;
static_assert(AV_FORK_N <= 32, "bits");

static void prepare_fork(void)
{
	AV_UNCANCELLED; /* fork(2) is no cancellation point */

	prepared = 0;
	for (int row = 0; row < AV_FORK_N; row++) {
		const struct av_fork_handlers *h = atomic_load(&table[row]);

		if (!h || (!h->prepare && !h->mutex))
			continue;
		if (h->mutex)
			pthread_mutex_lock(h->mutex);
		if (h->prepare)
			h->prepare();
		prepared |= 1u << row;
	}
}

static void parent(void)
{
	AV_UNCANCELLED;

	for (int row = AV_FORK_N - 1; row >= 0; row--) {
		const struct av_fork_handlers *h = atomic_load(&table[row]);

		if (!(prepared & 1u << row))
			continue;
		if (h->parent)
			h->parent();
		if (h->mutex)
			pthread_mutex_unlock(h->mutex);
	}
}

/* Unlocked first: ThreadSanitizer takes the child's only thread for its holder otherwise. */
static void make_anew(pthread_mutex_t *mutex, bool locked)
{
	if (locked)
		pthread_mutex_unlock(mutex);
	pthread_mutex_init(mutex, NULL);
}

static void child(void)
{
	AV_UNCANCELLED;

	for (int row = AV_FORK_N - 1; row >= 0; row--) {
		const struct av_fork_handlers *h = atomic_load(&table[row]);

		if (h && h->mutex)
			make_anew(h->mutex, prepared & 1u << row);
		if (h && h->child)
			h->child();
	}
}

static void install_atfork_hooks(void)
{
	unusable = pthread_atfork(prepare_fork, parent, child);
}

int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_atfork_hooks);
	atomic_store(&table[row], handlers);
	return unusable;
}

/* Its memory: a page that nobody may touch, its stack, and a page with this. */
struct av_thread {
	size_t stack_bytes;
	LIST_ENTRY(av_thread) entry;
	pthread_t id;
	void *(*run)(void *arg);
	void *arg;
	_Atomic uint32_t tid; /* 0: it does not run yet */
	_Atomic bool ends;    /* it is not counted as ours any more */
	bool left;	      /* guarded by the mutex */
};

static struct {
	pthread_mutex_t mutex;
	LIST_HEAD(, av_thread) all;
} threads = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Atomic unsigned int own;

/* --- the process' last thread ----------------------------------------------------------- */

#define THREADS_FIELD 18 /* behind the name, of proc_pid_stat(5) */

#define LOOK_NS 50000000 /* how long the process may outlive the program's last thread */

static atomic_bool main_ends, awaited;

/* The main thread's value is there, so that the C library calls us when it ends. */
static pthread_key_t key;
static bool has_key;
static _Atomic pid_t asked; /* whose main thread has it */

/* What the kernel says of this process; open all the time, for numbers are the program's. */
static struct av_own_fd file = {.fd = -1};

/* The threads beside the main one. UINT_MAX: that has not ended, or nobody can tell. */
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

/*
 * The same without ours; may be too high, never too low. None of ours starts meanwhile. Who is
 * counted here was there when the kernel was asked.
 */
static unsigned int others_beside_main(void)
{
	AV_LOCKED(&threads.mutex);
	unsigned int n = beside_main();
	struct av_thread *t;

	LIST_FOREACH(t, &threads.all, entry)
		n -= atomic_load(&t->tid) && !atomic_load(&t->ends);
	return n;
}

static void *await_last_thread(void *arg)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};

	while (others_beside_main())
		nanosleep(&nap, NULL);
	exit(0);
}

static void start_last_wait(void)
{
	struct av_thread *thread;

	if (atomic_exchange(&awaited, true))
		return;
	if (av_thread_start(&thread, "anyverbs-last", await_last_thread, NULL))
		atomic_store(&awaited, false);
	else
		av_thread_leave(thread);
}

static void at_end_of_main(void *unused)
{
	AV_UNCANCELLED;

	atomic_store(&main_ends, true);
	if (av_thread_own())
		start_last_wait();
}

/* If this is the main thread, which we may never meet: another may have loaded us, or forked. */
static void ask_to_be_told(void)
{
	if (has_key && gettid() == getpid() && pthread_setspecific(key, &key) == 0)
		atomic_store(&asked, getpid());
}

__attribute__((constructor)) static void create_main_exit_key(void)
{
	has_key = pthread_key_create(&key, at_end_of_main) == 0;
	ask_to_be_told();
}

/* A thread of ours has started. Context: any locks held */
static void last_thread_started(void)
{
	ask_to_be_told();
	if (atomic_load(&main_ends) || atomic_load(&asked) != getpid())
		start_last_wait();
}

/* In a forked child, whose main thread is the one that has forked. */
static void last_thread_forked(void)
{
	ask_to_be_told();
	av_own_fd_close(&file);
	atomic_store(&main_ends, false);
	atomic_store(&awaited, false);
}

#define STACK_BYTES (256u << 10) /* beside the program's thread-local variables */

/* --- memory ---------------------------------------------------------------------------- */

static size_t thread_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t (*least_stack)(const pthread_attr_t *attr); /* the C library's; NULL: it has none */

/* Not later: dlsym() takes a lock (base/real_calls.h). */
__attribute__((constructor)) static void find_least_stack(void)
{
	void *found = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");

	if (!found)
		(void)dlerror(); /* the program must not find our error message */
	least_stack = (__typeof__(least_stack))found;
}

/* The program's thread-local variables are on the stack. This is what the C library adds itself. */
static size_t thread_local_bytes(void)
{
	pthread_attr_t attr;
	size_t ret;

	if (!least_stack)
		return 0;
	pthread_attr_init(&attr);
	ret = least_stack(&attr);
	pthread_attr_destroy(&attr);
	return (size_t)av_round_up(ret, thread_page_bytes());
}

static void *stack_of(struct av_thread *t)
{
	return (uint8_t *)t - t->stack_bytes;
}

static struct av_thread *map_thread(void)
{
	size_t stack = STACK_BYTES + thread_local_bytes();
	size_t page = thread_page_bytes(), all = page + stack + page;
	struct av_thread *t;
	uint8_t *p = av_mmap(NULL, all, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (av_mprotect(p + page, all - page, PROT_READ | PROT_WRITE)) {
		av_munmap(p, all);
		return NULL;
	}
	t = (struct av_thread *)(p + page + stack);
	t->stack_bytes = stack;
	return t;
}

static void unmap_thread(struct av_thread *t)
{
	size_t page = thread_page_bytes();

	av_munmap((uint8_t *)stack_of(t) - page, page + t->stack_bytes + page);
}

/* Context: the mutex is held. */
static void release_thread(struct av_thread *t)
{
	LIST_REMOVE(t, entry);
	unmap_thread(t);
}

/*
 * Has the kernel ended it? (Reuse of its number puts this off.) Nobody joins it: ThreadSanitizer
 * would tell the program of a thread that has ended and was not joined.
 */
static bool is_gone(struct av_thread *t)
{
	uint32_t tid = atomic_load(&t->tid);

	return tid && syscall(SYS_tgkill, getpid(), tid, 0) == -1 && errno == ESRCH;
}

/* Context: the mutex is held. */
static void forget_left(void)
{
	struct av_thread *t = LIST_FIRST(&threads.all), *next;
	AV_ERRNO_KEPT;

	for (; t; t = next) {
		next = LIST_NEXT(t, entry);
		if (t->left && is_gone(t))
			release_thread(t);
	}
}

/* The child has none of them. */
static void release_threads_in_child(void)
{
	while (!LIST_EMPTY(&threads.all))
		release_thread(LIST_FIRST(&threads.all));
	atomic_store(&own, 0);
	last_thread_forked();
}

static const struct av_fork_handlers fork_handlers = {.mutex = &threads.mutex,
						      .child = release_threads_in_child};

/* --- the thread ------------------------------------------------------------------------ */

/* What the C library has for a thread that uses the heap is made by its first use. */
static void use_heap(void)
{
	void *volatile p = malloc(1);

	free(p);
}

static void tell_runs(struct av_thread *t)
{
	atomic_store(&t->tid, (uint32_t)gettid());
	syscall(SYS_futex, &t->tid, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Not for ever: the heap of a program may wait for what the caller holds. */
static void await_runs(struct av_thread *t)
{
	struct timespec ts = av_timespec(AV_PEER_TIMEOUT_NS);
	uint64_t until = 0;
	AV_ERRNO_KEPT;

	while (!atomic_load(&t->tid) && !av_timed_out(&until))
		syscall(SYS_futex, &t->tid, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);
}

static void *counted(void *arg)
{
	struct av_thread *t = arg;
	void *ret;

	use_heap();
	tell_runs(t);
	ret = t->run(t->arg);
	atomic_store(&t->ends, true);
	atomic_fetch_sub(&own, 1);
	return ret;
}

unsigned int av_thread_own(void)
{
	return atomic_load(&own);
}

/* --- start and end --------------------------------------------------------------------- */

/* Return: 0 or errno */
static int create(struct av_thread *t, const char *name)
{
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	ret = pthread_attr_setstack(&attr, stack_of(t), t->stack_bytes);
	if (ret == 0)
		ret = pthread_create(&t->id, &attr, counted, t);
	pthread_attr_destroy(&attr);
	if (ret)
		return ret;
	atomic_fetch_add(&own, 1);
	pthread_setname_np(t->id, name);
	return 0;
}

/* Context: signals are blocked. Return: 0 or errno */
static int create_listed(struct av_thread *t, const char *name)
{
	int ret;

	AV_LOCKED(&threads.mutex);
	forget_left();
	ret = create(t, name);
	if (ret)
		unmap_thread(t);
	else
		LIST_INSERT_HEAD(&threads.all, t, entry);
	return ret;
}

int av_thread_start(struct av_thread **thread, const char *name, void *(*run)(void *arg), void *arg)
{
	struct av_thread *t = map_thread();
	sigset_t others, old;
	int ret;

	if (!t)
		return ENOMEM;
	t->run = run;
	t->arg = arg;
	(void)av_fork_register(AV_FORK_THREADS, &fork_handlers);
	av_signals_of_others(&others);
	pthread_sigmask(SIG_SETMASK, &others, &old);
	ret = create_listed(t, name);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return ret;
	await_runs(t);
	last_thread_started();
	*thread = t;
	return 0;
}

void av_thread_join(struct av_thread *thread)
{
	pthread_join(thread->id, NULL);
	AV_LOCKED(&threads.mutex);
	release_thread(thread);
	forget_left();
}

void av_thread_leave(struct av_thread *thread)
{
	pthread_detach(thread->id);
	AV_LOCKED(&threads.mutex);
	thread->left = true;
}
