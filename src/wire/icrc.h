/* SPDX-License-Identifier: MIT */
/*
 * The invariant CRC of a RoCEv2 packet: it covers what does not change on the way. A pure function.
 * Source: IBTA volume 1, 7.8.1, and annex A17.3.3 (fields that count as ones).
 */
#ifndef AV_WIRE_ICRC_H
#define AV_WIRE_ICRC_H

#include <stddef.h>
#include <stdint.h>

#define AV_ICRC_BYTES 4

/**
 * av_icrc() - the CRC of a packet
 * @ip: the packet from its IP header (IPv4 without options, or IPv6) to the end of its padding
 * @bytes: at least the IP, UDP and base transport headers
 *
 * Fields that may change on the way, such as time-to-live and checksums, may have any value.
 * Return: the CRC; av_icrc_put() writes it
 */
uint32_t av_icrc(const uint8_t *ip, size_t bytes);

/* The only little-endian number of a packet. */
static inline void av_icrc_put(uint8_t *to, uint32_t crc)
{
	for (int i = 0; i < AV_ICRC_BYTES; i++)
		to[i] = (uint8_t)(crc >> 8 * i);
}

static inline uint32_t av_icrc_get(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

#endif
