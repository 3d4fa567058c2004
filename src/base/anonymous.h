/* SPDX-License-Identifier: MIT */
/*
 * Anonymous memory that several processes map: memfd_create(2). The kernel frees it with its last
 * user, and no file system's size limits it.
 */
#ifndef AV_BASE_ANONYMOUS_H
#define AV_BASE_ANONYMOUS_H

#include <stdint.h>

#include "base/own_fd.h"

/*
 * Make some, without pages yet. Its size is fixed. @name: for who reads /proc/PID/maps. Return: 0
 * or -errno; EFBIG: more than RLIMIT_FSIZE
 */
AV_MUST_USE int av_anonymous(struct av_own_fd *own, const char *name, uint64_t bytes);

#endif
