/* SPDX-License-Identifier: MIT */
/*
 * The lock of the connection manager, and its alarm.
 *
 * One mutex guards everything in this folder. It is held for moments, never over a wait, and never
 * while sockets of src/net are opened or closed, since those wait for the receiver, which takes it.
 * Order: receiver of src/net, this mutex, directory.
 */
#ifndef AV_CM_CM_LOCK_H
#define AV_CM_CM_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

void av_cm_lock(void);
void av_cm_unlock(void);

/* At exit. Return: false: not to be had (base/lock.h) */
AV_MUST_USE bool av_cm_exit_lock(void);

/* Have the thread look at what is due at that time, or before. Context: locked */
void av_cm_wake(uint64_t due_ns);

/* Sleep until something is due. Context: the thread, locked; sleeps unlocked */
void av_cm_sleep(void);

/* The thread is about to begin. Context: it is the only one */
void av_cm_alarm_begin(void);

/* For the handlers of fork(), which are those of cm.c. */
extern pthread_mutex_t av_cm_mutex __attribute__((visibility("hidden")));

#endif
