/* SPDX-License-Identifier: MIT */
/* Bursts within net/; the rest of them is in net/net.h. */
#ifndef AV_NET_BURST_H
#define AV_NET_BURST_H

#include <stddef.h>
#include <stdint.h>

struct av_net_path;

/* Write the ICRC of a packet of ours. @identification: which the kernel will give it */
void av_burst_put_icrc(const struct av_net_path *path, uint8_t *packet, size_t bytes,
		       uint16_t identification);

/* In a forked child, whatever locks were held. */
void av_burst_forked(void);

#endif
