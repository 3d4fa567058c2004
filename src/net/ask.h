/* SPDX-License-Identifier: MIT */
/* Questions to kernels on the way to another host, within net/. net.h has the others. */
#ifndef AV_NET_ASK_H
#define AV_NET_ASK_H

/* No address is open any more, or this is a forked child: there were no questions. */
void av_net_ask_end(void);
void av_net_ask_forked(void);

#endif
