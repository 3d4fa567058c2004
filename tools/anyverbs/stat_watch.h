/* SPDX-License-Identifier: MIT */
/* "anyverbs stat --watch": shows repeatedly what devices do. */
#pragma once

#include <stdint.h>

#include "device/device.h"

struct av_watch {
	double seconds;	    /* between two looks */
	uint64_t looks;	    /* lines of rates per device; 0: until interrupted */
	const char *output; /* file to record to, or NULL */
	bool json;	    /* rates as JSON lines */
};

/* Return: exit status; 0 after SIGINT or SIGTERM. */
int av_stat_watch(const struct av_watch *watch, struct av_device *const *devs, unsigned int count);
