/* SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "registry/directory.h"

/* NULL: the first one, which is the device itself. */
static struct av_device_instance *newest(const struct av_device *dev)
{
	return atomic_load_explicit(&dev->newest, memory_order_acquire);
}

struct ibv_device *av_instance(struct av_device *dev)
{
	struct av_device_instance *i = newest(dev);

	return i ? &i->ibv : &dev->ibv;
}

uint32_t av_instance_number(const struct av_device *dev)
{
	const struct av_device_instance *i = newest(dev);

	return i ? i->number : AV_DEVICE_NUMBER_BASE + dev->index;
}

uint32_t av_instance_number_of(const struct ibv_device *ibv)
{
	const struct av_device *dev = av_device_of(ibv);

	for (const struct av_device_instance *i = newest(dev); i; i = i->older)
		if (ibv == &i->ibv)
			return i->number;
	return AV_DEVICE_NUMBER_BASE + dev->index;
}

/* Only one thread makes them. */
void av_instance_renew(const char *name, uint32_t failure)
{
	struct av_device *dev = av_device_by_name(name);
	struct av_device_instance *older = dev ? newest(dev) : NULL, *i;

	if (!dev || (older && (int32_t)(failure - older->failures) <= 0))
		return;
	i = calloc(1, sizeof(*i));
	if (!i)
		return;
	i->ibv = dev->ibv;
	i->number = av_instance_number(dev) + AV_DEVICE_MAX;
	i->failures = av_dir_failures();
	i->older = older;
	atomic_store_explicit(&dev->newest, i, memory_order_release);
}
