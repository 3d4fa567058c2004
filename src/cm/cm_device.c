/* SPDX-License-Identifier: MIT */
#include "cm/cm_device.h"

#include <string.h>

#include "cm/cm_host.h"
#include "cm/cm_lock.h"
#include "cm/id.h"
#include "device/port.h"

/* --- a device that is gone --------------------------------------------------------------- */

/* A failure, and of which device. */
struct failure {
	const char *device;
	size_t name_bytes;
	uint32_t number; /* of av_dir_failures() */
};

static void remove_before(struct av_cm_id *id, void *arg)
{
	const struct failure *f = arg;

	if ((int32_t)(f->number - id->where.since.failures) > 0 &&
	    strncmp(id->where.dev->ibv.name, f->device, f->name_bytes) == 0)
		av_cm_id_remove(id);
}

void av_cm_device_called(struct av_seg *seg)
{
	struct failure f = {.device = seg->head->device,
			    .name_bytes = sizeof(seg->head->device),
			    .number = atomic_load(&seg->head->fatal)};

	if (!f.number)
		return;
	av_cm_lock();
	av_cm_ids_each(remove_before, &f);
	av_cm_unlock();
}

/* --- an interface with another address --------------------------------------------------- */

static bool is_known(const uint8_t hardware[AV_HARDWARE_BYTES])
{
	static const uint8_t unknown[AV_HARDWARE_BYTES];

	return memcmp(hardware, unknown, AV_HARDWARE_BYTES) != 0;
}

/* @arg: the network namespace of this thread */
static void compare(struct av_cm_id *id, void *arg)
{
	struct av_cm_since *since = &id->where.since;
	uint8_t now[AV_HARDWARE_BYTES];
	bool known = is_known(since->hardware);

	if (since->netns != *(uint64_t *)arg)
		return;
	av_cm_host_hardware(since->netns, id->where.ifindex, now);
	if (!is_known(now) || memcmp(since->hardware, now, AV_HARDWARE_BYTES) == 0)
		return;
	memcpy(since->hardware, now, AV_HARDWARE_BYTES);
	if (known)
		av_cm_id_heard(id, AV_CM_EVENT_ADDR_CHANGE, 0, NULL);
}

void av_cm_device_look(void)
{
	uint64_t netns = av_netns_of_thread();

	av_cm_ids_each(compare, &netns);
}
