/* SPDX-License-Identifier: MIT */
/*
 * Memory of the shared heap that is more than private, readable and writable: code, protection
 * keys, NUMA policy, locks, advice for forks and dumps, served by the program's own userfaultfd.
 * Whether the program asks for that before or after it registers the memory, it has it then, and
 * its children see what they would without us.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/peer_memory.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

#define CODE_AT (9 * PAGE)
#define RESULT	42
#define SERVED	0xab /* bytes that the pager brings */

/* --- what there is --------------------------------------------------------------- */

static bool is_not_copied(uint8_t *p)
{
	return pages_flag(p, "dc");
}

static bool is_not_dumped(uint8_t *p)
{
	return pages_flag(p, "dd");
}

static bool is_merged(uint8_t *p)
{
	return pages_flag(p, "mg");
}

static bool is_locked(uint8_t *p)
{
	return pages_flag(p, "lo");
}

static bool is_code(uint8_t *p)
{
	int (*function)(void);

	if (!pages_flag(p, "ex"))
		return false;
	memcpy(&function, &(uint8_t *){p + CODE_AT}, sizeof(function));
	return function() == RESULT;
}

static bool is_bound(uint8_t *p)
{
	int mode = 0;

	return syscall(SYS_get_mempolicy, &mode, NULL, 0, p, MPOL_F_ADDR) == 0 && mode == MPOL_BIND;
}

static bool has_key(uint8_t *p)
{
	char key[64] = "0";

	return pages_line(p, "ProtectionKey:", key, sizeof(key)) && strtoul(key, NULL, 10) != 0;
}

static bool is_told(uint8_t *p)
{
	return pages_flag(p + BYTES / 2, "uw");
}

static bool is_gone(uint8_t *p)
{
	return !pages_mapped(p);
}

/* --- making it so ---------------------------------------------------------------- */

static bool not_copied(uint8_t *p)
{
	return madvise(p, BYTES, MADV_DONTFORK) == 0;
}

static bool not_dumped(uint8_t *p)
{
	return madvise(p, BYTES, MADV_DONTDUMP) == 0;
}

static bool merged(uint8_t *p)
{
	return madvise(p, BYTES, MADV_MERGEABLE) == 0;
}

static bool locked(uint8_t *p)
{
	return syscall(SYS_mlock, p, BYTES) == 0;
}

static bool code(uint8_t *p)
{
	return mprotect(p, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

static bool bound(uint8_t *p)
{
	unsigned long node = 1;

	return syscall(SYS_mbind, p, BYTES, MPOL_BIND, &node, 8 * sizeof(node), 0) == 0;
}

static bool keyed(uint8_t *p)
{
	static int key;

	key = key ? key : pkey_alloc(0, 0);
	return key > 0 && pkey_mprotect(p, BYTES, PROT_READ | PROT_WRITE, key) == 0;
}

static const struct special {
	const char *name;
	bool (*make)(uint8_t *p);
	bool (*is)(uint8_t *p);
	bool (*child)(uint8_t *p); /* what the child sees; NULL: the same memory and bytes */
	bool (*child_is)(uint8_t *p);
	bool private; /* from when on it is asked for */
} specials[] = {
	{"MADV_DONTFORK", not_copied, is_not_copied, is_gone, NULL, true},
	{"MADV_DONTDUMP", not_dumped, is_not_dumped, NULL, is_not_dumped, true},
	{"MADV_MERGEABLE", merged, is_merged, NULL, is_merged, true},
	{"code", code, is_code, NULL, is_code, true},
	{"NUMA policy", bound, is_bound, NULL, is_bound, false},
	{"protection key", keyed, has_key, NULL, has_key, true},
	{"mlock", locked, is_locked, NULL, NULL, false},
};

/* --- rows ------------------------------------------------------------------------ */

/* On memory that is nobody's. */
static bool is_possible(const struct special *s)
{
	uint8_t *p = map_private(BYTES);
	bool ret = s->make(p);

	if (!ret)
		printf("left out: %s: errno %d\n", s->name, errno);
	peer_memory_unmap(p, BYTES);
	return ret;
}

/* A function that returns RESULT, among other bytes. */
static void fill_all(uint8_t *p)
{
#if defined(__x86_64__)
	static const uint8_t bytes[] = {0xb8, RESULT, 0, 0, 0, 0xc3};
#elif defined(__aarch64__)
	static const uint32_t bytes[] = {0x52800000 | RESULT << 5, 0xd65f03c0};
#else
#error "a function that returns RESULT"
#endif

	fill(p, BYTES, 70);
	memcpy(p + CODE_AT, bytes, sizeof(bytes));
	__builtin___clear_cache((char *)p + CODE_AT, (char *)p + CODE_AT + sizeof(bytes));
}

static bool is_filled(const uint8_t *p)
{
	return same(p, CODE_AT, 70) == CODE_AT;
}

static void expect_child(const struct special *s, uint8_t *p)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit((s->child ? !s->child(p) : !is_filled(p)) | (s->child_is && !s->child_is(p))
									  << 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %#x", status);
	EXPECT(s->is(p), "lost by fork()");
	EXPECT(is_filled(p), "other bytes");
}

static void special_row(const struct special *s, bool region_first)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = region_first ? reg(p, BYTES) : NULL;

	row("%s, %s a region", s->name, region_first ? "of" : "then");
	fill_all(p);
	EXPECT(s->make(p), "errno %d", errno);
	mr = mr ? mr : reg(p, BYTES);
	EXPECT(s->is(p), "refused without a word");
	expect_shared(p, !s->private);
	expect_child(s, p);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	dereg(mr);
	EXPECT(s->is(p), "lost by deregistration");
	peer_memory_unmap(p, BYTES);
}

/* The kernel has that for memory of no file only. */
static void wipe_row(void)
{
	uint8_t *p = map_private(BYTES);

	row("MADV_WIPEONFORK");
	fill_all(p);
	EXPECT(madvise(p, BYTES, MADV_WIPEONFORK) == -1 && errno == EINVAL, "errno %d", errno);
	EXPECT(is_filled(p), "other bytes");
	peer_memory_unmap(p, BYTES);
}

/* --- a userfaultfd of the program's own ------------------------------------------ */

/* By the pager; in memory that it shares. */
static _Atomic uint32_t *unprotected;

static void serve_one(int uffd, const struct uffd_msg *msg)
{
	static uint8_t bytes[PAGE];
	uint64_t at = msg->arg.pagefault.address & ~(PAGE - 1);
	struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)bytes, .len = PAGE};
	struct uffdio_writeprotect end = {.range = {at, PAGE}};

	memset(bytes, SERVED, PAGE);
	if (!(msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)) {
		ioctl(uffd, UFFDIO_COPY, &copy);
		return;
	}
	atomic_fetch_add(unprotected, 1);
	ioctl(uffd, UFFDIO_WRITEPROTECT, &end);
}

static void serve(int uffd)
{
	struct uffd_msg msg;

	while (read(uffd, &msg, sizeof(msg)) == sizeof(msg))
		serve_one(uffd, &msg);
	_exit(0);
}

/* Have a process serve the pages of what is registered there. Return: -1: not possible here */
static int begin_to_serve(pid_t *pager)
{
	struct uffdio_api api = {.api = UFFD_API};
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) {
		printf("left out: no userfaultfd for the kernel's faults: errno %d\n", errno);
		close(uffd);
		return -1;
	}
	unprotected = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*pager = fork();
	if (*pager == 0)
		serve(uffd);
	return uffd;
}

static void end_serving(int uffd, pid_t pager)
{
	close(uffd);
	kill(pager, SIGKILL);
	waitpid(pager, NULL, 0);
	munmap((void *)unprotected, PAGE);
}

/* The second half of the memory at @p. Return: errno */
static int register_half(int uffd, const uint8_t *p, uint64_t mode)
{
	struct uffdio_register r = {{(uintptr_t)p + BYTES / 2, BYTES / 2}, mode, 0};

	return ioctl(uffd, UFFDIO_REGISTER, &r) ? errno : 0;
}

static bool is_all_served(const uint8_t *p)
{
	return p[0] == SERVED && !memcmp(p, p + 1, BYTES - 1);
}

static void expect_served_anew(uint8_t *p, const char *when)
{
	EXPECT(pages_flag(p + BYTES / 2, "um"), "lost by %s", when);
	madvise(p + BYTES / 2, BYTES / 2, MADV_DONTNEED);
	EXPECT(is_all_served(p), "not served after %s", when);
}

/* A child's memory is not served, without a feature that the program did not ask for. */
static void expect_served_here(uint8_t *p)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit((is_all_served(p) ? 0 : 1) | pages_flag(p + BYTES / 2, "um") << 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %#x", status);
	expect_served_anew(p, "fork()");
}

/* The second half, by a process that is older than the memory. */
static void served_row(bool region_first)
{
	struct ibv_mr *mr;
	pid_t pager = 0;
	uint8_t *p;
	int uffd;

	row("memory that the program serves, %s a region", region_first ? "of" : "then");
	uffd = begin_to_serve(&pager);
	if (uffd < 0)
		return;
	p = map_private(BYTES);
	mr = region_first ? reg(p, BYTES) : NULL;
	EXPECT(register_half(uffd, p, UFFDIO_REGISTER_MODE_MISSING) == 0, "errno %d", errno);
	expect_shared(p, false);
	madvise(p, BYTES, MADV_DONTNEED);
	memset(p, SERVED, BYTES / 2);
	mr = mr ? mr : reg(p, BYTES);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, BYTES, IBV_WC_SUCCESS);
	EXPECT(is_all_served(p), "other bytes");
	expect_served_here(p);
	dereg(mr);
	expect_served_anew(p, "deregistration");
	munmap(p + BYTES / 2, BYTES / 2);
	EXPECT(!pages_mapped(p + BYTES / 2), "it is mapped");
	end_serving(uffd, pager);
	peer_memory_unmap(p, BYTES);
}

/* Each page says once that it is written, to and by whomever. */
static void told_row(void)
{
	struct uffdio_writeprotect protect = {.mode = UFFDIO_WRITEPROTECT_MODE_WP};
	struct ibv_mr *mr;
	pid_t pager = 0;
	uint8_t *p;
	int uffd;

	row("memory whose writes the program hears of");
	uffd = begin_to_serve(&pager);
	if (uffd < 0)
		return;
	p = map_private(BYTES);
	fill_all(p);
	mr = reg(p, BYTES);
	protect.range = (struct uffdio_range){(uintptr_t)p + BYTES / 2, BYTES / 2};
	if (register_half(uffd, p, UFFDIO_REGISTER_MODE_WP) == 0 &&
	    EXPECT(ioctl(uffd, UFFDIO_WRITEPROTECT, &protect) == 0, "errno %d", errno)) {
		expect_shared(p, false);
		expect_child(&(struct special){.is = is_told}, p);
		p[BYTES - 1] = 1;
		EXPECT(atomic_load(unprotected) == 1, "%u pages told", atomic_load(unprotected));
		p[BYTES - 1] = 2;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p + BYTES / 2, mr->rkey, PAGE,
			     IBV_WC_SUCCESS);
		EXPECT(atomic_load(unprotected) == 2, "%u pages told", atomic_load(unprotected));
	} else {
		printf("left out: errno %d\n", errno);
	}
	dereg(mr);
	end_serving(uffd, pager);
	peer_memory_unmap(p, BYTES);
}

/* --- other memory ---------------------------------------------------------------- */

static struct {
	const struct special *what;
	uint8_t *p;
	bool made;
} asked;

static void *ask_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	asked.made = asked.what->make(asked.p);
	pthread_testcancel();
	return NULL;
}

/* None of these calls is a point where a thread is cancelled. */
static void cancelled_row(void)
{
	static const struct special *const kept[] = {&specials[0], &specials[1], &specials[3]};

	for (size_t i = 0; i < COUNT_OF(kept); i++) {
		uint8_t *p = map_private(BYTES);
		struct ibv_mr *mr;
		pthread_t thread;

		row("a region, then %s by a thread that was cancelled", kept[i]->name);
		fill_all(p);
		mr = reg(p, BYTES);
		asked.what = kept[i];
		asked.p = p;
		asked.made = false;
		NEED(pthread_create(&thread, NULL, ask_cancelled, NULL) == 0);
		pthread_join(thread, NULL);
		EXPECT(asked.made && kept[i]->is(p), "cancelled within");
		dereg(mr);
		peer_memory_unmap(p, BYTES);
	}
}

/* The kernel refuses what the program may not read. */
static bool is_guarded(const uint8_t *p)
{
	int to[2];
	bool ret;

	NEED(pipe(to) == 0);
	ret = write(to[1], p, 1) == -1 && errno == EFAULT;
	close(to[0]);
	close(to[1]);
	return ret;
}

static void guard_row(void)
{
	uint8_t *p = map_private(BYTES), *last = p + BYTES - PAGE;
	struct ibv_mr *mr;
	int status = -1;
	pid_t child;

	row("a region, then MADV_GUARD_INSTALL");
	fill_all(p);
	mr = reg(p, BYTES);
	if (madvise(last, PAGE, MADV_GUARD_INSTALL)) {
		printf("left out: errno %d\n", errno);
	} else {
		child = fork();
		if (child == 0)
			_exit(!is_guarded(last));
		waitpid(child, &status, 0);
		EXPECT(status == 0, "not in the child");
		EXPECT(is_guarded(last), "lost by fork()");
	}
	dereg(mr);
	EXPECT(status == -1 || is_guarded(last), "lost by deregistration");
	EXPECT(is_filled(p), "other bytes");
	peer_memory_unmap(p, BYTES);
}

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(specials); i++)
		if (is_possible(&specials[i])) {
			special_row(&specials[i], false);
			special_row(&specials[i], true);
		}
	wipe_row();
	served_row(false);
	served_row(true);
	told_row();
	cancelled_row();
	guard_row();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
