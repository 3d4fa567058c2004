/* SPDX-License-Identifier: MIT */
/* The thread that sleeps until packets come, for when nobody polls. */
#ifndef AV_NET_LISTEN_H
#define AV_NET_LISTEN_H

#include "base/compiler.h"

/* Have it run. Context: one at a time, as for av_listen_end(). Return: 0 or -errno */
AV_MUST_USE int av_listen_begin(void);

/* There are other endpoints: it looks again. */
void av_listen_changed(void);

/* It ends, and is not within the receiver afterwards. Context: not within the receiver */
void av_listen_end(void);

/* In a forked child, which has no such thread. */
void av_listen_forked(void);

#endif
