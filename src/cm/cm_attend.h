/* SPDX-License-Identifier: MIT */
/* Messages of other hosts: where they come, and which are lost, doubled or late on demand. */
#ifndef AV_CM_CM_ATTEND_H
#define AV_CM_CM_ATTEND_H

#include <stdint.h>

#include "base/compiler.h"
#include "cm/cm_mad.h"

/*
 * Faults on demand at messages: one that has come is lost, comes again, or comes later. What
 * becomes of it then is what becomes of any. The rules are those of the own address's device.
 */

/* A message has come to this process: av_cm_arrived(), as the rules have it. */
av_cm_receive av_cm_faults_arrived;

/* Let go what has waited long enough. Context: the thread, not locked. Return: when to look again
 */
uint64_t av_cm_faults_look(void);

/* What still waits is lost: nobody is left to hear it. Context: the thread, not locked */
void av_cm_faults_end(void);

/* In a forked child: rules and messages are the parent's. */
void av_cm_faults_forked(void);

/*
 * At which addresses of this host messages come by UDP: those that somebody connects from or
 * listens at. Whoever listens at all addresses listens at those that come later, too.
 */

/*
 * From now on until av_cm_attend_end(). Context: not locked. Return: 0, or -errno of av_net_open();
 * -EOPNOTSUPP: ANYVERBS_TRANSPORT=direct
 */
AV_MUST_USE int av_cm_attend(const uint8_t address[16]);

/*
 * The same of all addresses that our devices have in this thread's network namespace, and will have
 * in that of the thread that calls av_cm_attend_new(). Those that cannot be had are told to the
 * user.
 */
void av_cm_attend_all(void);

/*
 * The host has changed: attend what has come, if all are, and what has come to another interface.
 * An address stays at its old interface as long as a queue pair uses it there.
 * Context: the thread, not locked
 */
void av_cm_attend_new(void);

/* None any more. Context: not locked */
void av_cm_attend_end(void);
void av_cm_attend_forked(void);

#endif
