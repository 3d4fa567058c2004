/* SPDX-License-Identifier: MIT */
#include "copy/bulk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "copy/fault_guard.h"

#define LINE	     64u
#define STREAM_LEAST (4ul << 20)
#define STREAM_MOST  (32ul << 20)

static atomic_bool string_usable;
static _Atomic size_t stream_min = SIZE_MAX;

/*
 * The size from which streaming pays: when the last-level cache would keep nothing of the copy for
 * its reader. Measured: an eighth of that cache, since many share it. Bounded on both sides,
 * because virtual machines report arbitrary sizes.
 */
static size_t stream_threshold(void)
{
	const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	const size_t part = cache > 0 ? (size_t)cache / 8 : 0;

	if (!AV_RAW_WIDE_USABLE)
		return SIZE_MAX;
	return part < STREAM_LEAST ? STREAM_LEAST : part > STREAM_MOST ? STREAM_MOST : part;
}

static void look(void)
{
	atomic_store_explicit(&string_usable, av_raw_string_usable(), memory_order_relaxed);
	atomic_store_explicit(&stream_min, stream_threshold(), memory_order_relaxed);
}

/* Once: every registration calls it, and asking takes tens of microseconds in a VM. */
void av_bulk_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look);
}

size_t av_bulk_stream_min(void)
{
	return atomic_load_explicit(&stream_min, memory_order_relaxed);
}

static bool apart(const void *dst, const void *src, size_t len)
{
	return (uintptr_t)dst - (uintptr_t)src >= len && (uintptr_t)src - (uintptr_t)dst >= len;
}

bool av_bulk_possible(enum av_bulk_way way, const void *dst, const void *src, size_t len)
{
	switch (way) {
	case AV_BULK_STRING:
		return atomic_load_explicit(&string_usable, memory_order_relaxed) &&
		       ((uintptr_t)dst - (uintptr_t)src) % LINE == 0 && apart(dst, src, len);
	case AV_BULK_STREAM:
		return av_bulk_stream_min() != SIZE_MAX && apart(dst, src, len);
	default:
		return true;
	}
}

enum av_bulk_way av_bulk_choose(const void *dst, const void *src, size_t len)
{
	if (av_unlikely(len >= av_bulk_stream_min()) &&
	    av_bulk_possible(AV_BULK_STREAM, dst, src, len))
		return AV_BULK_STREAM;
	return av_bulk_possible(AV_BULK_STRING, dst, src, len) ? AV_BULK_STRING : AV_BULK_ORDERED;
}

static int ordered(void *dst, const void *src, size_t len)
{
	return AV_RAW_WIDE_USABLE ? av_raw_copy_wide(dst, src, len) : av_raw_copy(dst, src, len);
}

int av_bulk_copy_by(enum av_bulk_way way, void *dst, const void *src, size_t len)
{
	int (*const copy)(void *, const void *, size_t) =
		way == AV_BULK_STREAM ? av_raw_copy_stream : av_raw_copy_string;
	const uintptr_t d = (uintptr_t)dst,
			s = (uintptr_t)src; /* the program's addresses, not objects of ours */
	const size_t begin = -d % LINE;
	const size_t end = begin + (len - begin - 1) / AV_RAW_LINES * AV_RAW_LINES;

	if (way == AV_BULK_ORDERED)
		return ordered(dst, src, len);
	if (av_raw_copy(dst, src, begin) ||
	    copy((void *)(d + begin), (const void *)(s + begin), end - begin))
		return -1;
	return av_raw_copy((void *)(d + end), (const void *)(s + end), len - end);
}

int av_bulk_copy(void *dst, const void *src, size_t len)
{
	return av_bulk_copy_by(av_bulk_choose(dst, src, len), dst, src, len);
}
