/* SPDX-License-Identifier: MIT */
/*
 * Has the host changed: an address, an interface? And which hardware address has an interface now?
 * Watched from the first channel to the last, in the network namespace of the thread that opened
 * the first one, which is that of the thread of cm.c.
 */
#ifndef AV_CM_CM_HOST_H
#define AV_CM_CM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "device/gid.h"

/* Without netlink nothing is noticed. Context: not locked */
void av_cm_host_begin(void);
void av_cm_host_end(void);

/* Since this was asked last? A change wakes the thread, which asks. Context: any */
AV_MUST_USE bool av_cm_host_has_changed(void);

/*
 * The hardware address of an interface in @netns, the network namespace of this thread; zeros:
 * unknown, or it has none. The host is asked again only if it has changed, since asking takes
 * descriptors of the program's. Context: locked
 */
void av_cm_host_hardware(uint64_t netns, uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES]);

void av_cm_host_forked(void);

#endif
