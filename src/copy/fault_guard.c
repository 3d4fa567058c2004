/* SPDX-License-Identifier: MIT */
/*
 * Decides which SIGSEGV and SIGBUS are ours and ends those; passes every other one on to the
 * previous handler, as if we were not there. docs/COPY.md says why a handler is needed at all.
 */
#include "copy/fault_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

__thread struct av_fault_guard_cache av_fault_guard_cache;
atomic_bool av_fault_guard_installed;

/* The handler before ours is written once, before ours is installed. */
struct hooked_signal {
	int number;
	bool hooked; /* under install_lock */
	struct sigaction previous;
	atomic_bool reset; /* SA_RESETHAND of @previous has taken effect */
};

static struct hooked_signal hooked[] = {{.number = SIGSEGV}, {.number = SIGBUS}};

/* A leaf lock. A child forked while another thread held it cannot install. */
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

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
#error "fault_guard: no instruction pointer known for this machine"
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

/*
 * By the very instruction it interrupted? Not by kill() and its kin (codes up to 0), nor by the two
 * errors that hardware reports asynchronously.
 */
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

	for (size_t i = 0; i < av_fault_range_count; i++) {
		const struct av_fault_range *range = &av_fault_ranges[i];

		if (at >= (uintptr_t)range->start && at < (uintptr_t)range->end) {
			continue_at(uc, (uintptr_t)range->landing);
			return true;
		}
	}
	return false;
}

/*
 * As the kernel would without us. A synchronous fault repeats as soon as we return. A sent signal
 * must be sent again with its original siginfo; it stays blocked until our return restores the
 * mask.
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

/* Once per process: a program's later handler may call ours; hooking that would make a cycle. */
static int hook(struct hooked_signal *h)
{
	struct sigaction ours, before;

	if (h->hooked)
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

int av_fault_guard_install(void)
{
	int ret = 0;

	/* Every registration comes here. A fork meanwhile would leave the lock held. */
	if (atomic_load_explicit(&av_fault_guard_installed, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&install_lock);
	for (size_t i = 0; i < AV_ARRAY_SIZE(hooked) && ret == 0; i++)
		ret = hook(&hooked[i]);
	if (ret == 0)
		atomic_store_explicit(&av_fault_guard_installed, true, memory_order_release);
	pthread_mutex_unlock(&install_lock);
	return ret;
}

static bool handler_is_ours(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	       now.sa_sigaction == on_fault;
}

/* A fault whose signal is blocked kills the process, whatever the handler. */
static bool signals_are_open(void)
{
	sigset_t blocked;

	return pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGSEGV) &&
	       !sigismember(&blocked, SIGBUS);
}

bool av_fault_guard_check(uint64_t now_ns)
{
	av_fault_guard_cache.ready =
		handler_is_ours(SIGSEGV) && handler_is_ours(SIGBUS) && signals_are_open();
	av_fault_guard_cache.checked_ns = now_ns;
	return av_fault_guard_cache.ready;
}
