/* SPDX-License-Identifier: MIT */
/* What a capture is to have: which traffic, how much of it, and the file it goes to. */
#ifndef AV_REGISTRY_CAPTURE_SPEC_H
#define AV_REGISTRY_CAPTURE_SPEC_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define AV_CAPTURES 64 /* at a time */

struct av_capture_spec {
	char path[PATH_MAX]; /* absolute; of the file with this device and inode number */
	uint64_t dev, ino;
	char device[64];  /* "": any */
	bool everybody;	  /* of all processes, not of the one that begins it only */
	uint32_t snaplen; /* bytes of a frame that are written at most */
	uint64_t limit;	  /* frames after which it is over */
};

#endif
