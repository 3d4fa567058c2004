/* SPDX-License-Identifier: MIT */
/* The regions that all processes have registered with a device, for whoever shows them. */
#ifndef AV_MEMORY_REGION_REPORT_H
#define AV_MEMORY_REGION_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"
#include "observe/counters.h"

/* What its memory is. */
enum av_region_memory {
	AV_REGION_PLAIN,     /* the program's */
	AV_REGION_ADOPTED,   /* the same, its whole pages moved to where all processes reach them */
	AV_REGION_ON_DEMAND, /* the program's, paged in on demand */
	AV_REGION_DEVICE,    /* device memory */
	AV_REGION_NULL,	     /* none */
	AV_REGION_PAGES,     /* pages of the library's */
	AV_REGION_PRIVATE,   /* memory of the process' own that the library allocated */
	AV_REGION_MAPPED,    /* pages of the library's, without keys */
	AV_REGION_MEMORY_N
};

struct av_region_info {
	int32_t pid;
	uint32_t key;
	uint64_t addr; /* in work requests */
	uint64_t length;
	enum av_region_memory memory;
	unsigned int type;     /* enum av_alloc_type, if the library allocated it */
	uint64_t huge, small;  /* pages of 2 MiB and of 4 KiB, likewise */
	bool shared, writable; /* a shared region; and what others may do with it */
	bool second;	       /* on another region's pages */
	uint64_t counted[AV_MR_N];
};

/**
 * av_region_report() - call @visit for each region of the device @device
 *
 * Joins nothing; opens files. What a process is changing this very moment may be left out, or shown
 * half changed. Context: any thread, no lock held.
 */
void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg);

/* The same, of one context, as a view (segment/segment_view.h) shows it. */
void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg);

/* "plain" and so on. */
const char *av_region_memory_name(enum av_region_memory memory);

#endif
