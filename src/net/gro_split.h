/* SPDX-License-Identifier: MIT */
/*
 * Packets out of what a socket hands over: the kernel joins datagrams that came one after another
 * (UDP_GRO). Pure functions, of bytes from strangers.
 */
#ifndef AV_NET_GRO_SPLIT_H
#define AV_NET_GRO_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "net/net.h"

/* Datagrams of one flow, joined. */
struct av_gro_split {
	struct av_net_path path;
	uint16_t source_port;
	bool congested;
	const uint8_t *bytes; /* borrowed */
	size_t count;
	size_t segment; /* each has so many bytes but the last, which has the rest; 0: it is one */
	size_t at;	/* where the next one begins: 0 at first */
	uint16_t identification; /* of the last one, if it is a packet */
};

/*
 * Cut the next one off. @p: out, what it says; its payload stays in @cut. Return: false: that was
 * the last. @fault: out, AV_NET_COUNTS if it is a packet, else AV_NET_SHORT, or
 * AV_NET_BAD_CRC with a @p that may be wrong
 */
AV_MUST_USE bool av_gro_next(struct av_gro_split *cut, struct av_net_packet *p,
			     enum av_net_count *fault);

#endif
