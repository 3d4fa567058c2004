/* SPDX-License-Identifier: MIT */
/* Descriptors of /dev/infiniband/rdma_cm: which numbers may be some. */
#ifndef AV_PRELOAD_CM_HOOKS_H
#define AV_PRELOAD_CM_HOOKS_H

#include <stdbool.h>

#include "base/compiler.h"

/* open(2) of the device. Return: descriptor, or -1 and errno */
AV_MUST_USE int av_cm_hooks_open(int flags);

/* Is it a descriptor of the device? Keeps errno. Async-signal-safe. */
AV_MUST_USE bool av_cm_hooks_is(int fd);

#endif
