/* SPDX-License-Identifier: MIT */
/* "anyverbs stat --watch": what devices do, time after time. */
#ifndef AV_TOOL_STAT_WATCH_H
#define AV_TOOL_STAT_WATCH_H

#include "device/device.h"

struct av_watch {
	double seconds;	     /* between two looks */
	unsigned long looks; /* how many lines of rates there are per device; 0: until it is
				interrupted */
	const char *output;  /* record to this file, or NULL */
	bool json;	     /* rates as JSON lines */
};

/* Return: exit status. Ends with 0 when SIGINT or SIGTERM comes. */
int av_stat_watch(const struct av_watch *watch, struct av_device *const *devs, unsigned int count);

#endif
