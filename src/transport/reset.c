/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"

/* Failing a device. */

static void fail_queue_pairs(struct av_seg *seg)
{
	for (uint32_t i = 1; i < AV_MAX_QP + AV_OBJ_CHUNK; i++) {
		struct av_qp_ref end = {seg, av_qp_at(seg, i)};

		if (end.qp && atomic_load(&end.qp->qpn) &&
		    atomic_load(&end.qp->state) != IBV_QPS_RESET)
			av_fail(&end);
	}
}

bool av_context_fatal(struct av_seg *seg)
{
	struct av_doorbell_record record = {.event = IBV_EVENT_DEVICE_FATAL, .kind = AV_SLAB_N};
	uint32_t well = 0;

	if (!atomic_compare_exchange_strong(&seg->head->fatal, &well, av_dir_failures_add()))
		return false;
	av_report_fatal(seg);
	fail_queue_pairs(seg);
	av_seg_call(seg);
	return av_doorbell_ring(seg, AV_DOORBELL_ASYNC, &record) == 0;
}

unsigned int av_device_fatal(const char *device)
{
	unsigned int failed = 0;
	struct av_seg *seg;

	for (uint32_t slot = 0; (seg = av_seg_next(&slot)); av_seg_put(seg))
		if (strncmp(seg->head->device, device, sizeof(seg->head->device)) == 0 &&
		    av_seg_alive(seg))
			failed += av_context_fatal(seg);
	return failed;
}

/* Resetting a device. */

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

static void record_device_user(struct users *u, struct av_seg *seg, const char *device)
{
	if (strncmp(seg->head->device, device, sizeof(seg->head->device)) || !av_seg_alive_now(seg))
		return;
	if (!atomic_load(&seg->head->fatal))
		note_pid(u, seg->pid);
	else if (u->failed_count < AV_REF_SLOTS)
		u->failed[u->failed_count++] = seg->ref;
}

static void scan_device_users(struct users *u, const char *device)
{
	struct av_seg *seg;

	u->failed_count = 0;
	for (uint32_t slot = 0; (seg = av_seg_next(&slot)); av_seg_put(seg))
		record_device_user(u, seg, device);
}

static int reset_device(struct users *u, const char *device, bool force)
{
	int ret = -EBUSY;

	for (int i = 0; i < ROUNDS && ret == -EBUSY; i++) {
		scan_device_users(u, device);
		if (u->count && !force)
			return -EBUSY;
		if (force) {
			(void)av_device_fatal(device);
			scan_device_users(u, device);
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
	ret = reset_device(u, device, force);
	*count = u->count;
	free(u);
	return ret;
}
