/* SPDX-License-Identifier: MIT */
/* Bursts and fork(); the rest of it is in net/net.h. */
#ifndef AV_NET_BURST_H
#define AV_NET_BURST_H

/* In a forked child, whatever locks were held. */
void av_burst_forked(void);

#endif
