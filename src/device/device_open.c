/* SPDX-License-Identifier: MIT */
/* Opening a device. */
#include "device/device_open.h"

#include <errno.h>

#include "device/port.h"
#include "device/switches.h"

struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin)
{
	const struct av_seg_device said = {
		.name = dev->ibv.name, .link_layer = dev->link_layer, .lid = dev->lid};
	struct av_seg *seg = av_seg_create(&said, origin);
	int port;

	if (!seg)
		return NULL;
	port = av_port_open(seg->ref, dev);
	if (port < 0) {
		av_seg_close(seg);
		errno = -port;
		return NULL;
	}
	seg->head->port = (uint32_t)port;
	seg->head->mtu = (uint8_t)av_port_mtu((uint32_t)port, dev);
	seg->head->switches = av_switches_take(dev->ibv.name);
	return seg;
}
