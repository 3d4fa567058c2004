/* SPDX-License-Identifier: MIT */
/* The life of the connection manager in this process: from its first channel to its last. */
#ifndef AV_CM_CM_H
#define AV_CM_CM_H

#include "base/compiler.h"

/*
 * Messages of the connection manager may come to any process that has a socket of src/net: have
 * them passed on, or refused, even if this one has no channel. Before the first socket. Again
 * changes nothing. Return: 0 or -ENOMEM
 */
AV_MUST_USE int av_cm_prepare(void);

/*
 * One more or one less channel: joins the directory, holds the socket for messages of other
 * processes, and runs the thread. Context: not locked. Return: 0 or -errno
 */
AV_MUST_USE int av_cm_begin(void);
void av_cm_end(void);

/*
 * What the thread does each time that it wakes: end what the program has closed, follow the host,
 * repeat and end what is due; then say when to wake next. Context: the thread, not locked
 */
void av_cm_look(void);

/* The process exits: its peers hear of it, as far as that takes no time. */
void av_cm_exit(void);

#endif
