/* SPDX-License-Identifier: MIT */
/* Listing, naming, opening and closing devices. */
#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "front/context.h"
#include "front/vsysfs.h"

#undef ibv_get_device_list

/* The system's library holds a lock of its own meanwhile; a child born then would never get it. */
static pthread_mutex_t foreign_mutex = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&foreign_mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&foreign_mutex);
}

static void after_fork_in_child(void)
{
	pthread_mutex_init(&foreign_mutex, NULL);
}

static void prepare_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* The system's list, taken while the virtual files are off: it would find our devices there, without a
 * driver. */
static struct ibv_device **foreign_list(int *count)
{
	static pthread_once_t prepared = PTHREAD_ONCE_INIT;
	struct ibv_device **(*next)(int *) = av_next("ibv_get_device_list", "IBVERBS_1.1");
	struct ibv_device **devices = NULL;

	*count = 0;
	if (next) {
		pthread_once(&prepared, prepare_forks);
		pthread_mutex_lock(&foreign_mutex);
		av_vsysfs_suspend(true);
		devices = next(count);
		av_vsysfs_suspend(false);
		pthread_mutex_unlock(&foreign_mutex);
	}
	if (!devices)
		*count = 0;
	return devices;
}

/*
 * The array handed out: a hidden first element holds the system's list, which must be freed as a whole with
 * the function it came from.
 */
AV_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	unsigned int ours;
	struct av_device *const *devices = av_devices(&ours);
	int foreign;
	struct ibv_device **theirs = foreign_list(&foreign);
	struct ibv_device **all = calloc((size_t)ours + (size_t)foreign + 2, sizeof(*all));

	if (!all) {
		void (*next_free)(struct ibv_device **) = av_next("ibv_free_device_list", "IBVERBS_1.1");

		if (theirs && next_free)
			next_free(theirs);
		return av_fail_null(ENOMEM);
	}
	all[0] = (struct ibv_device *)theirs;
	for (unsigned int i = 0; i < ours; i++)
		all[1 + i] = &devices[i]->ibv;
	if (theirs)
		memcpy(&all[1 + ours], theirs, (size_t)foreign * sizeof(*all));
	if (num_devices)
		*num_devices = (int)ours + foreign;
	return all + 1;
}

AV_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	struct ibv_device **theirs;

	if (!devices)
		return;
	theirs = (struct ibv_device **)devices[-1];
	if (theirs)
		AV_NEXT(ibv_free_device_list, "IBVERBS_1.1")(theirs);
	free(devices - 1);
}

AV_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

AV_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct av_device *dev = av_device_of(device);

	return dev ? htobe64(dev->guid) : AV_NEXT(ibv_get_device_guid, "IBVERBS_1.1")(device);
}

AV_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	struct av_device *dev = av_device_of(device);

	return dev ? (int)dev->index : AV_NEXT(ibv_get_device_index, "IBVERBS_1.9")(device);
}

AV_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct av_device *dev = av_device_of(device);

	return dev ? av_context_open(dev, 0) : AV_NEXT(ibv_open_device, "IBVERBS_1.1")(device);
}

AV_EXPORT int ibv_close_device(struct ibv_context *context)
{
	if (!av_ours(context))
		return AV_NEXT(ibv_close_device, "IBVERBS_1.1")(context);
	return av_context_close(av_context_of(context));
}
