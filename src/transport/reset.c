/* SPDX-License-Identifier: MIT */
/* Resetting a device. */
#include "transport/reset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "registry/directory.h"
#include "segment/segment.h"
#include "device/switches.h"
#include "transport/fatal.h"

#define ROUNDS 100 /* contexts may be opened meanwhile */

/* The processes that use the device, and whose contexts on it have failed. */
struct users {
	int32_t *pid;
	size_t room, count;
	uint32_t failed[AV_REF_SLOTS];
	size_t failed_count;
};

static void note_pid(struct users *u, int32_t pid)
{
	for (size_t i = 0; i < u->count && i < u->room; i++)
		if (u->pid[i] == pid)
			return;
	if (u->count < u->room)
		u->pid[u->count] = pid;
	u->count++;
}

static void look_at(struct users *u, struct av_seg *seg, const char *device)
{
	if (strncmp(seg->head->device, device, sizeof(seg->head->device)) || !av_seg_alive_now(seg))
		return;
	if (!atomic_load(&seg->head->fatal))
		note_pid(u, seg->pid);
	else if (u->failed_count < AV_REF_SLOTS)
		u->failed[u->failed_count++] = seg->ref;
}

static void look(struct users *u, const char *device)
{
	uint32_t slot = 0, ref;

	u->failed_count = 0;
	while ((ref = av_dir_context_at(&slot))) {
		struct av_seg *seg = av_seg_get(ref);

		if (seg)
			look_at(u, seg, device);
		av_seg_put(seg);
	}
}

static int reset(struct users *u, const char *device, bool force)
{
	int ret = -EBUSY;

	for (int i = 0; i < ROUNDS && ret == -EBUSY; i++) {
		look(u, device);
		if (u->count && !force)
			return -EBUSY;
		if (force) {
			(void)av_device_fatal(device);
			look(u, device);
		}
		ret = av_switches_reset(device, u->failed, u->failed_count);
	}
	return ret;
}

int av_device_reset(const char *device, bool force, int32_t *pids, size_t room, size_t *count)
{
	struct users *u = calloc(1, sizeof(*u));
	int ret;

	*count = 0;
	if (!u)
		return -ENOMEM;
	u->pid = pids;
	u->room = room;
	ret = reset(u, device, force);
	*count = u->count;
	free(u);
	return ret;
}
