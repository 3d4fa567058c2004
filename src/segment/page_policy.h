/* SPDX-License-Identifier: MIT */
/*
 * Which pages an object's memory should have, by kind of object: the variables MLX_*_ALLOC_TYPE,
 * MLX_*_MAX_LOG2_CONTIG_BSIZE and MLX_*_MIN_LOG2_CONTIG_BSIZE, and HUGE_CQ and the like.
 *
 * A "contiguous" buffer consists of blocks of 2^k bytes, minimum <= k <= maximum, each physically
 * contiguous. Here a block lies within one page, so k is 12, or up to 21 on huge pages. A minimum
 * above 21 cannot be met.
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
	AV_ALLOC_HUGE,		/* huge pages, or creation fails */
	AV_ALLOC_CONTIG,	/* contiguous pages, or creation fails */
	AV_ALLOC_PREFER_CONTIG, /* contiguous, else ANON */
	AV_ALLOC_PREFER_HUGE,	/* huge, else ANON */
	AV_ALLOC_ALL,		/* huge, else contiguous, else ANON */
	AV_ALLOC_N
};

struct av_page_policy {
	enum av_alloc_type type;
	uint8_t min_log2, max_log2; /* of the bytes of a block */
};

/* Name of a type as in the variables; "" if there is no such type. */
const char *av_alloc_type_name(unsigned int type);

/* Reads the value of a variable as text. Return: false if it is not set or does not fit. */
typedef bool av_page_variable(const void *where, const char *name, char *value, size_t size);

/* One kind of object. */
struct av_page_object {
	const char *name;	   /* in the variables: "MR", "QP", "CQ" */
	const char *huge_variable; /* "y" makes HUGE the default; NULL: none */
	enum av_alloc_type fallback;
};

/**
 * av_page_policy_read() - read the variables
 *
 * An unknown type counts as not set. So does a size out of range, but @complain is told.
 */
struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value));

/* What this means for a buffer. */
struct av_page_plan {
	bool pages; /* take pages of the segment by @wish, else small memory */
	enum av_pages_wish wish;
	bool or_fail; /* creation fails without them */
	bool never;   /* such pages do not exist */
};

struct av_page_plan av_page_plan(const struct av_page_policy *policy);

#endif
