/* SPDX-License-Identifier: MIT */
/*
 * The addresses that this process receives for, and the thread that takes packets while nobody
 * polls.
 */
#ifndef AV_NET_OPEN_H
#define AV_NET_OPEN_H

#include "base/compiler.h"

/* The thread that sleeps until packets come, for when nobody polls. */

/* Have it run. Context: one at a time, as for listen_end(). Return: 0 or -errno */
AV_MUST_USE int av_listen_begin(void);

#endif
