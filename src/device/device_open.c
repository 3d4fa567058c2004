/* SPDX-License-Identifier: MIT */
/* Opening a device. */
#include "device/device.h"

#include <errno.h>

#include "device/port.h"

struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin)
{
	const struct av_seg_device said = {
		.name = dev->ibv.name, .link_layer = dev->port.link_layer, .lid = dev->port.lid};
	struct av_seg *seg = av_seg_create(&said, origin);
	uint32_t switches = 0;
	int port, err;

	if (!seg)
		return NULL;
	port = av_port_open(seg->ref, dev);
	err = port < 0 ? port : av_switches_take(dev->ibv.name, &switches);
	if (err) {
		av_seg_close(seg);
		errno = -err;
		return NULL;
	}
	seg->head->port = (uint32_t)port;
	seg->head->mtu = (uint8_t)av_port_mtu((uint32_t)port, dev);
	seg->head->switches = switches;
	return seg;
}
