/* SPDX-License-Identifier: MIT */
#include "base/wait.h"

#include <sched.h>
#include <string.h>

#include "base/real_calls.h"

/* The instructions, and how to detect them. */

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86gprintrin.h>
#include <x86intrin.h>
#endif

#define REST_CYCLES 100000u /* Linux lets UMWAIT rest no longer than this */
#define LOOP_PAUSES 1000u

static bool always(void)
{
	return true;
}

/* A loop, for machines without such an instruction, and for tests. */
static void loop(const _Atomic uint32_t *word, uint32_t expected)
{
	for (unsigned int i = 0; i < LOOP_PAUSES; i++) {
		if (atomic_load_explicit(word, memory_order_relaxed) != expected)
			return;
		av_pause();
	}
}

#if defined(__x86_64__)

#define WAITPKG	 (1u << 5)  /* leaf 7, ECX */
#define MONITORX (1u << 29) /* leaf 0x80000001, ECX */

static bool has_waitpkg(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & WAITPKG);
}

static bool has_monitorx(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & MONITORX);
}

/* It watches from the first instruction on: a store after the load ends the rest. */
__attribute__((target("waitpkg"))) static void umwait(const _Atomic uint32_t *word,
						      uint32_t expected)
{
	_umonitor((void *)(uintptr_t)word);
	if (atomic_load(word) == expected)
		(void)_umwait(0, __rdtsc() + REST_CYCLES);
}

#define MWAITX_TIMED 2u	   /* the third operand is a number of cycles */
#define MWAITX_C0    0xf0u /* the lightest sleep */

__attribute__((target("mwaitx"))) static void mwaitx(const _Atomic uint32_t *word,
						     uint32_t expected)
{
	_mm_monitorx((void *)(uintptr_t)word, 0, 0);
	if (atomic_load(word) == expected)
		_mm_mwaitx(MWAITX_TIMED, MWAITX_C0, REST_CYCLES);
}

#endif

const struct av_hw_wait av_hw_waits[] = {
#if defined(__x86_64__)
	{"umwait", has_waitpkg, true, umwait},
	{"mwaitx", has_monitorx, true, mwaitx},
#endif
	{"loop", always, false, loop},
	{NULL, NULL, false, NULL},
};

const struct av_hw_wait *av_hw_wait_by_name(const char *name)
{
	for (const struct av_hw_wait *w = av_hw_waits; w->name; w++)
		if (!strcmp(w->name, name))
			return w->available() ? w : NULL;
	return NULL;
}

const struct av_hw_wait *av_hw_wait_best(void)
{
	for (const struct av_hw_wait *w = av_hw_waits; w->name; w++)
		if (w->resting && w->available())
			return w;
	return NULL;
}

#define YIELDS 200u
#define NAP_NS 50000

void av_backoff(unsigned int turn)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (turn < AV_BACKOFF_SPINS)
		av_pause();
	else if (turn < AV_BACKOFF_SPINS + YIELDS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

bool av_waker_begin(struct av_waker *w, struct av_own_fd *woken)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	if (!av_own_fd_keep(woken, pair[0])) {
		close(pair[1]);
		return false;
	}
	w->woken = *woken;
	if (av_own_fd_keep(&w->wake, pair[1]))
		return true;
	av_own_fd_close(woken);
	return false;
}

/* If the pair is full, the thread is about to look anyway. */
bool av_waker_wake(const struct av_waker *w)
{
	int fd = av_own_fd(&w->wake);

	return fd >= 0 &&
	       (av_raw_send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN);
}

/* At the end of the file, the program has closed the other end. */
void av_waker_drain(struct av_own_fd *woken)
{
	char byte;
	ssize_t n = 1;
	int fd;

	while (n > 0 && (fd = av_own_fd(woken)) >= 0)
		n = av_raw_recv(fd, &byte, 1, MSG_DONTWAIT);
	if (n == 0)
		av_own_fd_close(woken);
}

void av_waker_end(struct av_waker *w)
{
	av_own_fd_close(&w->wake);
}

void av_waker_forked(struct av_waker *w)
{
	av_own_fd_close(&w->wake);
	av_own_fd_close(&w->woken);
}
