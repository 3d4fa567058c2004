/* SPDX-License-Identifier: MIT */
/*
 * The invariant CRC of a packet whose IP and UDP headers the kernel writes and hides. Pure
 * functions. Source: IBTA volume 1, 7.8.1 and annex A17.3.3.
 *
 * The CRC covers the IPv4 identification, which a UDP socket does not show. It is linear, so the
 * 2^16 identifications give 2^16 different CRCs: the receiver solves for the one that fits. A
 * corrupted packet fits one by chance once in 65,536. IPv6 has no identification.
 */
#ifndef AV_WIRE_ICRC_H
#define AV_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* The fields of the headers around a packet that its ICRC covers. Addresses are GIDs. */
struct av_icrc_path {
	uint8_t src[16], dst[16]; /* both mapped IPv4 addresses: the packet is in IPv4 */
	uint16_t source_port;
	uint16_t identification; /* IPv4 only */
};

/*
 * @packet: @bytes from the BTH, which is whole, to the end of the padding, in an unfragmented
 * datagram to port 4791 with DF set. Return: the ICRC, which av_icrc_put() stores
 */
uint32_t av_icrc_of(const struct av_icrc_path *path, const uint8_t *packet, size_t bytes);

/*
 * Is @icrc right? @path->identification: tried first; with IPv4, if it does not fit, any that
 * does. Return: true, with the identification that fits in @path
 */
AV_MUST_USE bool av_icrc_fits(struct av_icrc_path *path, const uint8_t *packet, size_t bytes,
			      uint32_t icrc);

#endif
