/* SPDX-License-Identifier: MIT */
/*
 * Has the host changed: an address, an interface? Watched from the first channel to the last, in
 * the network namespace of the thread that opened the first one, which is that of the thread of
 * cm.c.
 */
#ifndef AV_CM_CM_HOST_H
#define AV_CM_CM_HOST_H

#include <stdbool.h>

#include "base/compiler.h"

/* Without netlink nothing is noticed. Context: not locked */
void av_cm_host_begin(void);
void av_cm_host_end(void);

/* Since this was asked last? A change wakes the thread, which asks. Context: any */
AV_MUST_USE bool av_cm_host_has_changed(void);

void av_cm_host_forked(void);

#endif
