/* SPDX-License-Identifier: MIT */
/* What a capture writes: which traffic, how much of it, and to which file. */
#ifndef AV_REGISTRY_CAPTURE_SPEC_H
#define AV_REGISTRY_CAPTURE_SPEC_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define AV_CAPTURES 64 /* that can run at the same time */

struct av_capture_spec {
	char path[PATH_MAX]; /* absolute; names the file with this device and inode number */
	uint64_t dev, ino;
	char device[64];  /* "": any */
	bool everybody;	  /* the traffic of all processes, not only of the one that began it */
	uint32_t snaplen; /* bytes written of each frame at most */
	uint64_t limit;	  /* frames after which it ends */
};

#endif
