/* SPDX-License-Identifier: MIT */
#include "copy/copy.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/thread.h"

/*
 * Decides which SIGSEGV and SIGBUS are ours and ends those; passes every other one on to the
 * previous handler, as if we were not there. docs/COPY.md says why a handler is needed at all.
 */

__thread struct av_copy_guard_cache av_copy_guard_cache;
atomic_bool av_copy_guard_installed;

/* The handler before ours is written once, before ours is installed. */
struct hooked_signal {
	int number;
	bool hooked;
	struct sigaction previous;
	atomic_bool reset; /* SA_RESETHAND of @previous has taken effect */
};

static struct hooked_signal hooked[] = {{.number = SIGSEGV}, {.number = SIGBUS}};

static struct hooked_signal *hooked_find(int number)
{
	return number == SIGSEGV ? &hooked[0] : &hooked[1];
}

static uintptr_t instruction_of(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)uc->uc_mcontext.pc;
#else
#error "copy_guard: no instruction pointer known for this machine"
#endif
}

static void continue_at(ucontext_t *uc, uintptr_t landing)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)landing;
#elif defined(__aarch64__)
	uc->uc_mcontext.pc = landing;
#endif
}

/* Not by kill() and its kin (codes up to 0), nor by errors that hardware reports asynchronously. */
static bool is_synchronous(int sig, const siginfo_t *info)
{
	if (info->si_code <= 0)
		return false;
	if (sig == SIGBUS && info->si_code == BUS_MCEERR_AO)
		return false;
#ifdef SEGV_MTEAERR
	if (sig == SIGSEGV && info->si_code == SEGV_MTEAERR)
		return false;
#endif
	return true;
}

static bool leave_guarded(ucontext_t *uc)
{
	const uintptr_t at = instruction_of(uc);

	for (size_t i = 0; i < av_copy_range_count; i++) {
		const struct av_copy_range *range = &av_copy_ranges[i];

		if (at >= (uintptr_t)range->start && at < (uintptr_t)range->end) {
			continue_at(uc, (uintptr_t)range->landing);
			return true;
		}
	}
	return false;
}

/*
 * As the kernel would without us. A synchronous fault repeats as soon as we return. A sent signal
 * is sent again with its original siginfo; it stays blocked until our return restores the mask.
 */
static void pass_to_default(int sig, siginfo_t *info)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};

	sigaction(sig, &dfl, NULL);
	if (is_synchronous(sig, info))
		return;
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info) != 0)
		raise(sig);
}

/* Its mask, SA_NODEFER and SA_RESTART are already in force: ours copied them. */
static void call_previous_handler(int sig, siginfo_t *info, void *uc)
{
	struct hooked_signal *h = hooked_find(sig);
	const struct sigaction *prev = &h->previous;

	if (prev->sa_flags & SA_RESETHAND && atomic_exchange(&h->reset, true)) {
		pass_to_default(sig, info);
	} else if (prev->sa_flags & SA_SIGINFO) {
		prev->sa_sigaction(sig, info, uc);
	} else if (prev->sa_handler == SIG_IGN) {
		/* The kernel lets a program ignore a signal, but not a fault. */
		if (is_synchronous(sig, info))
			pass_to_default(sig, info);
	} else if (prev->sa_handler == SIG_DFL) {
		pass_to_default(sig, info);
	} else {
		prev->sa_handler(sig);
	}
}

static void on_fault(int sig, siginfo_t *info, void *uc)
{
	if (is_synchronous(sig, info) && leave_guarded(uc))
		return;
	call_previous_handler(sig, info, uc);
}

static bool is_real_handler(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO ||
	       (sa->sa_handler != SIG_DFL && sa->sa_handler != SIG_IGN);
}

/*
 * Mirrors the previous settings, so that the chained handler runs as it asked to. On the alternate
 * stack if the thread has one: after a stack overflow there is no other.
 */
static struct sigaction our_action(const struct sigaction *prev)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigemptyset(&sa.sa_mask);
	if (is_real_handler(prev)) {
		sa.sa_mask = prev->sa_mask;
		sa.sa_flags |= prev->sa_flags & (SA_RESTART | SA_NODEFER);
	} else {
		sa.sa_flags |= SA_RESTART; /* an ignored signal interrupts nothing */
	}
	return sa;
}

static bool handler_is_ours(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	       now.sa_sigaction == on_fault;
}

/*
 * Once per process: a program's later handler may call ours; hooking that would make a cycle. In a
 * child that was forked meanwhile, it may be installed, and not marked as hooked.
 */
static int hook(struct hooked_signal *h)
{
	struct sigaction ours, before;

	if (h->hooked || handler_is_ours(h->number))
		return 0;
	/* Read the old handler first: a fault right after the installation must already find it. */
	if (sigaction(h->number, NULL, &h->previous) != 0)
		return -errno;
	ours = our_action(&h->previous);
	if (sigaction(h->number, &ours, &before) != 0)
		return -errno;
	h->previous = before;
	h->hooked = true;
	return 0;
}

static int install_result; /* 0 or -errno */

static void install_handlers(void)
{
	install_result = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(hooked) && install_result == 0; i++)
		install_result = hook(&hooked[i]);
	if (install_result == 0)
		atomic_store_explicit(&av_copy_guard_installed, true, memory_order_release);
}

/*
 * Install the handlers, once per process: a child that was forked while another thread did installs
 * them again, for so does pthread_once(3). Return: 0 or -errno
 */
static int copy_guard_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_handlers);
	return install_result;
}

/* A fault whose signal is blocked kills the process, whatever the handler. */
static bool signals_are_open(void)
{
	sigset_t blocked;

	return pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGSEGV) &&
	       !sigismember(&blocked, SIGBUS);
}

bool av_copy_guard_check(uint64_t now_ns)
{
	av_copy_guard_cache.ready =
		handler_is_ours(SIGSEGV) && handler_is_ours(SIGBUS) && signals_are_open();
	av_copy_guard_cache.checked_ns = now_ns;
	return av_copy_guard_cache.ready;
}

#define LINE	     64u
#define STREAM_LEAST (4ul << 20)
#define STREAM_MOST  (32ul << 20)

static atomic_bool string_usable;
static _Atomic size_t stream_min = SIZE_MAX;

/*
 * Streaming pays when the last-level cache would keep nothing of the copy for its reader. Measured:
 * an eighth of it, since many share it. Bounded: virtual machines report arbitrary sizes.
 */
static size_t stream_threshold(void)
{
	const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	const size_t part = cache > 0 ? (size_t)cache / 8 : 0;

	if (!AV_RAW_WIDE_USABLE)
		return SIZE_MAX;
	return part < STREAM_LEAST ? STREAM_LEAST : part > STREAM_MOST ? STREAM_MOST : part;
}

static void probe_copy_methods(void)
{
	atomic_store_explicit(&string_usable, av_raw_string_usable(), memory_order_relaxed);
	atomic_store_explicit(&stream_min, stream_threshold(), memory_order_relaxed);
}

/*
 * Detect what the processor supports; before, every copy is ORDERED. Any thread.
 * Once: every registration calls it, and asking takes tens of microseconds in a VM.
 */
static void bulk_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, probe_copy_methods);
}

size_t av_bulk_stream_min(void)
{
	return atomic_load_explicit(&stream_min, memory_order_relaxed);
}

static bool apart(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)dst - (uintptr_t)src >= len && (uintptr_t)src - (uintptr_t)dst >= len;
}

bool av_bulk_possible(enum av_bulk_way way, const void *dst, const void *src, size_t len)
{
	switch (way) {
	case AV_BULK_STRING:
		return atomic_load_explicit(&string_usable, memory_order_relaxed) &&
		       ((uintptr_t)dst - (uintptr_t)src) % LINE == 0 && apart(dst, src, len);
	case AV_BULK_STREAM:
		return av_bulk_stream_min() != SIZE_MAX && apart(dst, src, len);
	default:
		return true;
	}
}

enum av_bulk_way av_bulk_choose(const void *dst, const void *src, size_t len)
{
	if (av_unlikely(len >= av_bulk_stream_min()) &&
	    av_bulk_possible(AV_BULK_STREAM, dst, src, len))
		return AV_BULK_STREAM;
	return av_bulk_possible(AV_BULK_STRING, dst, src, len) ? AV_BULK_STRING : AV_BULK_ORDERED;
}

static int ordered(void *dst, const void *src, size_t len)
{
	return AV_RAW_WIDE_USABLE ? av_raw_copy_wide(dst, src, len) : av_raw_copy(dst, src, len);
}

int av_bulk_copy_by(enum av_bulk_way way, void *dst, const void *src, size_t len)
{
	int (*const copy)(void *, const void *, size_t) =
		way == AV_BULK_STREAM ? av_raw_copy_stream : av_raw_copy_string;
	const uintptr_t d = (uintptr_t)dst,
			s = (uintptr_t)src; /* the program's addresses, not objects of ours */
	const size_t begin = -d % LINE;
	const size_t end = begin + (len - begin - 1) / AV_RAW_LINES * AV_RAW_LINES;

	if (way == AV_BULK_ORDERED)
		return ordered(dst, src, len);
	if (av_raw_copy(dst, src, begin) ||
	    copy((void *)(d + begin), (const void *)(s + begin), end - begin))
		return -1;
	return av_raw_copy((void *)(d + end), (const void *)(s + end), len - end);
}

static int bulk_copy(void *dst, const void *src, size_t len)
{
	return av_bulk_copy_by(av_bulk_choose(dst, src, len), dst, src, len);
}

static void add_copy_piece(struct av_pieces *p, uintptr_t memory, size_t bytes)
{
	if (bytes > 0)
		p->at[p->count++] = (struct iovec){.iov_base = (void *)memory, .iov_len = bytes};
}

static size_t up_to_boundary(uint64_t dst, size_t boundary, size_t bytes)
{
	const size_t gap = -dst % boundary;

	return gap < bytes ? gap : bytes;
}

void av_pieces_cut(struct av_pieces *pieces, uint64_t dst, const void *memory, size_t bytes)
{
	const uintptr_t start = (uintptr_t)memory;
	const size_t word = up_to_boundary(dst, AV_PIECES_WORD, bytes);
	const size_t line = up_to_boundary(dst, AV_PIECES_LINE, bytes);
	const size_t behind = bytes - line;
	const size_t lines = behind > 0 ? (behind - 1) / AV_PIECES_LINE * AV_PIECES_LINE : 0;

	pieces->count = 0;
	add_copy_piece(pieces, start, word);
	add_copy_piece(pieces, start + word, line - word);
	add_copy_piece(pieces, start + line, lines);
	add_copy_piece(pieces, start + line + lines, behind - lines);
}

/*
 * Where faults of this thread reach our handler, the guarded routines do the work; otherwise the
 * kernel does it, with a system call or two each. Nothing else here touches the program's memory,
 * with the one exception at may_access(). See docs/COPY.md.
 */

/* The smallest page size; its pieces and offsets suit every larger one. */
#define PAGE_BYTES   4096u
#define BOUNCE_BYTES 1024u

/* As integers: arithmetic on pointers to the program's objects would be undefined. */
static void *at_offset(const void *p, size_t offset)
{
	return (void *)((uintptr_t)p + offset);
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t page_rest(const void *p)
{
	return PAGE_BYTES - (uintptr_t)p % PAGE_BYTES;
}

/* The part of a copy within one page at both ends: all of it is accessible, or none. */
static size_t piece_bytes(const void *dst, const void *src, size_t len)
{
	return min_size(len, min_size(page_rest(dst), page_rest(src)));
}

/*
 * As much as the kernel copies in one call; a result of 0 or less means nothing. getpid() every
 * time: after fork(), a stored number would be the parent's. System calls go by number here and
 * below, because sanitizers check the program's memory in their wrappers.
 */
static ssize_t copy_by_process_vm(void *dst, const void *src, size_t len)
{
	const struct iovec remote = {.iov_base = at_offset(src, 0), .iov_len = len};
	struct av_pieces local;

	av_pieces_cut(&local, (uintptr_t)dst, dst, len);
	return syscall(SYS_process_vm_readv, (long)getpid(), local.at, local.count, &remote, 1UL,
		       0UL);
}

/*
 * The last resort, through a pipe. It needs no permission and, unlike process_vm_readv(), reads
 * memory without struct page (device memory). A new one each time leaves no state for a child to
 * inherit. Filler bytes go first: so the piece has the destination's page offset and cannot tear.
 */
static bool copy_piece_by_pipe(void *dst, const void *src, size_t len)
{
	AV_UNCANCELLED;
	char nothing[AV_PIECES_LINE] = {0};
	const size_t ahead = (uintptr_t)dst % AV_PIECES_LINE;
	const long total = (long)(ahead + len);
	const struct iovec in[2] = {{.iov_base = nothing, .iov_len = ahead},
				    {.iov_base = at_offset(src, 0), .iov_len = len}};
	struct av_pieces out;
	int fds[2];
	bool ok;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	av_pieces_cut(&out, (uintptr_t)dst, dst, len);
	ok = syscall(SYS_writev, fds[1], in, 2UL) == total &&
	     (ahead == 0 || read(fds[0], nothing, ahead) == (ssize_t)ahead) &&
	     syscall(SYS_readv, fds[0], out.at, out.count) == (long)len;
	close(fds[0]);
	close(fds[1]);
	return ok;
}

/* Copy by system calls. Return: bytes copied. What process_vm_readv() refuses, the pipe decides. */
static size_t kernel_copy(void *dst, const void *src, size_t len)
{
	size_t at = 0;

	while (at < len) {
		void *to = at_offset(dst, at);
		const void *from = at_offset(src, at);
		ssize_t done = copy_by_process_vm(to, from, len - at);

		if (done <= 0) {
			done = (ssize_t)piece_bytes(to, from, len - at);
			if (!copy_piece_by_pipe(to, from, (size_t)done))
				break;
		}
		at += (size_t)done;
	}
	return at;
}

/*
 * Through a buffer with the destination's page offset: the store from it cannot tear or overlap the
 * source. A piece ends at a word boundary of the destination, at the copy's end, or at a fault.
 */
static size_t bounced_copy(void *dst, const void *src, size_t len)
{
	char buffer[PAGE_BYTES + BOUNCE_BYTES] AV_ALIGNED(8);
	size_t at = 0;

	while (at < len) {
		void *to = at_offset(dst, at);
		char *middle = buffer + ((uintptr_t)to - (uintptr_t)buffer) % PAGE_BYTES;
		const size_t room = BOUNCE_BYTES - (uintptr_t)to % BOUNCE_BYTES;
		const size_t piece = min_size(len - at, room);
		const size_t got = kernel_copy(middle, at_offset(src, at), piece);
		const size_t put = kernel_copy(to, middle, got);

		at += put;
		if (put < piece)
			break;
	}
	return at;
}

/* May the kernel, copying directly, tear an aligned word of the destination? See copy.h. */
static bool may_tear(const void *dst, const void *src)
{
	return ((uintptr_t)dst - (uintptr_t)src) % AV_PIECES_LINE != 0;
}

/* The kernel reads the source at another address, so its copy loop cannot see an overlap. */
static bool overlap(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)src - (uintptr_t)dst < len;
}

static enum av_copy_result unguarded_copy(void *dst, const void *src, size_t len)
{
	AV_ERRNO_KEPT;
	size_t done = may_tear(dst, src) || overlap(dst, src, len) ? bounced_copy(dst, src, len)
								   : kernel_copy(dst, src, len);

	return done == len ? AV_COPY_OK : AV_COPY_FAULT;
}

/*
 * Have the kernel add zero to the aligned 32-bit word around @addr: its only atomic operation on
 * user memory. The side effects are harmless: the first futex word is our own, and waiters on the
 * second must expect spurious wake-ups anyway.
 */
static bool kernel_touch(const void *addr)
{
	const uintptr_t word = (uintptr_t)addr & ~(uintptr_t)3;
	const unsigned int op = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0);
	unsigned int nobody_waits_here = 0;

	return syscall(SYS_futex, &nobody_waits_here, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 0UL,
		       word, op) >= 0;
}

static enum av_copy_result unguarded_probe(const void *addr, int write)
{
	AV_ERRNO_KEPT;
	char byte;
	const bool ok = kernel_copy(&byte, addr, 1) == 1 && (!write || kernel_touch(addr));

	return ok ? AV_COPY_OK : AV_COPY_FAULT;
}

/*
 * Would a fault of this thread reach our handler? False before the installation, after a handler
 * was replaced, and while this thread blocks one of the two signals. @now_ns: the coarse clock. The
 * answer may be AV_COPY_GUARD_FRESH_NS old.
 */
static bool guard_ready(uint64_t now_ns)
{
	if (!atomic_load_explicit(&av_copy_guard_installed, memory_order_acquire))
		return false;
	if (av_likely(now_ns - av_copy_guard_cache.checked_ns < AV_COPY_GUARD_FRESH_NS))
		return av_copy_guard_cache.ready;
	return av_copy_guard_check(now_ns);
}

int av_copy_init(void)
{
	bulk_init();
	return copy_guard_install();
}

enum av_copy_result av_copy_at(void *dst, const void *src, size_t len, uint64_t now_ns)
{
	int failed;

	/* Without a call in the usual case: it has been found ready a moment ago. */
	if (av_unlikely(now_ns - av_copy_guard_cache.checked_ns >= AV_COPY_GUARD_FRESH_NS ||
			!av_copy_guard_cache.ready) &&
	    !guard_ready(now_ns))
		return unguarded_copy(dst, src, len);
	if (len >= AV_BULK_MIN)
		failed = bulk_copy(dst, src, len);
	else if (len >= AV_RAW_WIDE_MIN && AV_RAW_WIDE_USABLE)
		failed = av_raw_copy_wide(dst, src, len);
	else
		failed = av_raw_copy(dst, src, len);
	return failed ? AV_COPY_FAULT : AV_COPY_OK;
}

enum av_copy_result av_copy_part_at(void *dst, const void *src, size_t len, size_t whole,
				    uint64_t now_ns)
{
	if (av_likely(whole < av_bulk_stream_min()) || len < AV_BULK_MIN ||
	    !av_bulk_possible(AV_BULK_STREAM, dst, src, len) || !guard_ready(now_ns))
		return av_copy_at(dst, src, len, now_ns);
	return av_bulk_copy_by(AV_BULK_STREAM, dst, src, len) ? AV_COPY_FAULT : AV_COPY_OK;
}

enum av_copy_result av_copy_probe_at(const void *addr, int write, uint64_t now_ns)
{
	int failed;

	if (av_unlikely(!guard_ready(now_ns)))
		return unguarded_probe(addr, write);
	failed = write ? av_raw_touch(at_offset(addr, 0)) : av_raw_load(addr);
	return failed ? AV_COPY_FAULT : AV_COPY_OK;
}

/*
 * The kernel offers no 64-bit atomic. Without the guard we probe, then execute the instruction
 * ourselves: the operand's page was writable a moment ago. If another thread unmaps it within that
 * moment, the program gets the signal that its own access would have raised.
 */
static bool may_access(const void *addr, uint64_t now_ns)
{
	return guard_ready(now_ns) || unguarded_probe(addr, 1) == AV_COPY_OK;
}

static enum av_copy_result atomic_result(struct av_raw_atomic r, uint64_t *old)
{
	if (r.status != 0)
		return AV_COPY_FAULT;
	*old = r.old;
	return AV_COPY_OK;
}

enum av_copy_result av_copy_fetch_add(void *addr, uint64_t add, uint64_t *old, uint64_t now_ns)
{
	if (av_unlikely(!may_access(addr, now_ns)))
		return AV_COPY_FAULT;
	return atomic_result(av_raw_fetch_add(addr, add), old);
}

enum av_copy_result av_copy_cmp_swap(void *addr, uint64_t compare, uint64_t swap, uint64_t *old,
				     uint64_t now_ns)
{
	if (av_unlikely(!may_access(addr, now_ns)))
		return AV_COPY_FAULT;
	return atomic_result(av_raw_cmp_swap(addr, compare, swap), old);
}
