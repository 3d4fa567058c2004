/* SPDX-License-Identifier: MIT */
/* Lists the regions that all processes have registered with a device. */
#ifndef AV_MEMORY_REGION_REPORT_H
#define AV_MEMORY_REGION_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"
#include "observe/counters.h"

enum av_region_memory {
	AV_REGION_PLAIN,     /* the program's memory */
	AV_REGION_SHARED,    /* the program's memory, on the shared heap: peers map it */
	AV_REGION_EARLY,     /* the program's memory, allocated before it opened a device */
	AV_REGION_ON_DEMAND, /* the program's memory, ODP */
	AV_REGION_DEVICE,    /* device memory */
	AV_REGION_NULL,	     /* no memory */
	AV_REGION_PAGES,     /* pages allocated by the library */
	AV_REGION_PRIVATE,   /* private memory allocated by the library */
	AV_REGION_MAPPED,    /* pages allocated by the library, for mapping only */
	AV_REGION_MEMORY_N
};

struct av_region_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t pd;	  /* number of the protection domain in its context */
	uint32_t key;
	uint64_t addr; /* in work requests */
	uint64_t length;
	enum av_region_memory memory;
	unsigned int type;     /* enum av_alloc_type, if the library allocated it */
	uint64_t huge, small;  /* number of 2 MiB and of 4 KiB pages, if the library allocated it */
	bool shared, writable; /* a shared region; others may write to it */
	bool second;	       /* a region on another region's pages */
	uint64_t counted[AV_MR_N];
};

/*
 * Visit each region of @device. One that is changing may be missing, or half changed. Any thread.
 */
void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg);

/* The same for one context, given as a view (segment/segment_view.h). */
void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg);

const char *av_region_memory_name(enum av_region_memory memory);

#endif
