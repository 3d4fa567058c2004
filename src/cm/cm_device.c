/* SPDX-License-Identifier: MIT */
#include "cm/cm_device.h"

#include <string.h>

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

/* The interface that was asked last. */
struct interface {
	uint64_t netns;
	uint32_t ifindex; /* 0: none yet */
	uint8_t hardware[AV_HARDWARE_BYTES];
};

static bool is_known(const uint8_t hardware[AV_HARDWARE_BYTES])
{
	static const uint8_t unknown[AV_HARDWARE_BYTES];

	return memcmp(hardware, unknown, AV_HARDWARE_BYTES) != 0;
}

static void compare(struct av_cm_id *id, void *arg)
{
	struct av_cm_since *since = &id->where.since;
	struct interface *now = arg;
	bool known = is_known(since->hardware);

	if (since->netns != now->netns)
		return;
	if (id->where.ifindex != now->ifindex) {
		now->ifindex = id->where.ifindex;
		av_gid_interface_hardware(now->ifindex, now->hardware);
	}
	if (!is_known(now->hardware) ||
	    memcmp(since->hardware, now->hardware, AV_HARDWARE_BYTES) == 0)
		return;
	memcpy(since->hardware, now->hardware, AV_HARDWARE_BYTES);
	if (known)
		av_cm_id_heard(id, AV_CM_EVENT_ADDR_CHANGE, 0, NULL);
}

void av_cm_device_look(void)
{
	struct interface now = {.netns = av_netns_of_thread()};

	av_cm_ids_each(compare, &now);
}
