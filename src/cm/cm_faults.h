/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand at messages: one that has come is lost, comes again, or comes later. What
 * becomes of it then is what becomes of any. The rules are those of the own address's device.
 */
#ifndef AV_CM_CM_FAULTS_H
#define AV_CM_CM_FAULTS_H

#include <stdint.h>

#include "cm/cm_mad.h"

/* A message has come to this process: av_cm_arrived(), as the rules have it. */
av_cm_receive av_cm_faults_arrived;

/* Let go what has waited long enough. Context: the thread, not locked. Return: when to look again
 */
uint64_t av_cm_faults_look(void);

/* What still waits is lost: nobody is left to hear it. Context: the thread, not locked */
void av_cm_faults_end(void);

/* In a forked child: rules and messages are the parent's. */
void av_cm_faults_forked(void);

#endif
