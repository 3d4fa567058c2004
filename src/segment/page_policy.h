/* SPDX-License-Identifier: MIT */
/*
 * What pages memory of a kind of object is wished to be on: the variables MLX_*_ALLOC_TYPE,
 * MLX_*_MAX_LOG2_CONTIG_BSIZE and MLX_*_MIN_LOG2_CONTIG_BSIZE, and HUGE_CQ and its like.
 *
 * "Contiguous" is a buffer made of blocks of 2^k bytes, minimum <= k <= maximum, each physically
 * contiguous. Here it is so within one page: k is 12, or up to 21 on huge pages. More than 21 at
 * least cannot be had.
 */
#ifndef AV_SEGMENT_PAGE_POLICY_H
#define AV_SEGMENT_PAGE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/pages.h"

enum av_alloc_type {
	AV_ALLOC_ANON,		/* small pages as usual */
	AV_ALLOC_HUGE,		/* huge pages, or the creation fails */
	AV_ALLOC_CONTIG,	/* contiguous pages, or the creation fails */
	AV_ALLOC_PREFER_CONTIG, /* contiguous, else ANON */
	AV_ALLOC_PREFER_HUGE,	/* huge, else ANON */
	AV_ALLOC_ALL,		/* huge, else contiguous, else ANON */
	AV_ALLOC_N
};

struct av_page_policy {
	enum av_alloc_type type;
	uint8_t min_log2, max_log2; /* of the bytes of a block */
};

/* Name of a type, as in the variables; "" if it is none. */
const char *av_alloc_type_name(unsigned int type);

/* The value of a variable as text; false if it is not set or does not fit. */
typedef bool av_page_variable(const void *where, const char *name, char *value, size_t size);

/* One kind of object. */
struct av_page_object {
	const char *name;	   /* as in the variables: "MR", "QP", "CQ" */
	const char *huge_variable; /* "y" makes HUGE the default; NULL: there is none */
	enum av_alloc_type fallback;
};

/**
 * av_page_policy_read() - what the variables say now
 *
 * Unknown types count as not set. Sizes out of range count as not set, and @complain is told.
 */
struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value));

/* What follows for one buffer. */
struct av_page_plan {
	bool pages; /* to be taken from pages of the segment, with that wish; else where small
		       memory comes from */
	enum av_pages_wish wish;
	bool or_fail; /* if that cannot be had, the creation fails */
	bool never;   /* it cannot be had */
};

struct av_page_plan av_page_plan(const struct av_page_policy *policy);

#endif
