/* SPDX-License-Identifier: MIT */
/* Signals that wait while work of ours is done. */
#ifndef AV_BASE_SIGNALS_H
#define AV_BASE_SIGNALS_H

#include <signal.h>

/*
 * All but those that answer what the thread itself does: copies of the program's memory may raise
 * SIGSEGV and SIGBUS, and any system call SIGSYS, where the program has a filter that traps it
 * (seccomp(2)) and a handler that does it instead. Blocked, they end the process.
 */
static inline void av_signals_of_others(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGSYS);
}

#endif
