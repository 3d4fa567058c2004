/* SPDX-License-Identifier: MIT */
/* Reads and writes numbers in network byte order, at any alignment. */
#ifndef AV_WIRE_BYTES_H
#define AV_WIRE_BYTES_H

#include <stdint.h>

static inline void av_put16(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 8);
	to[1] = (uint8_t)v;
}

static inline void av_put24(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 16);
	av_put16(to + 1, v);
}

static inline void av_put32(uint8_t *to, uint32_t v)
{
	av_put16(to, v >> 16);
	av_put16(to + 2, v);
}

static inline void av_put64(uint8_t *to, uint64_t v)
{
	av_put32(to, (uint32_t)(v >> 32));
	av_put32(to + 4, (uint32_t)v);
}

static inline uint16_t av_get16(const uint8_t *from)
{
	return (uint16_t)(from[0] << 8 | from[1]);
}

static inline uint32_t av_get24(const uint8_t *from)
{
	return (uint32_t)from[0] << 16 | av_get16(from + 1);
}

static inline uint32_t av_get32(const uint8_t *from)
{
	return (uint32_t)av_get16(from) << 16 | av_get16(from + 2);
}

static inline uint64_t av_get64(const uint8_t *from)
{
	return (uint64_t)av_get32(from) << 32 | av_get32(from + 4);
}

#endif
