/* SPDX-License-Identifier: MIT */
/* Listing, naming, opening and closing devices. */
#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/real_files.h"
#include "base/uncancelled.h"
#include "device/instance.h"
#include "verbs/between.h"
#include "verbs/fail.h"
#include "verbs/next.h"

#undef ibv_get_device_list

/* Held in the system's library, whose own lock a child forked meanwhile could never get. */
static pthread_mutex_t foreign_mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct av_fork_handlers fork_handlers = {.mutex = &foreign_mutex};

static void free_foreign(struct ibv_device **list)
{
	void (*next)(struct ibv_device **) = av_next("ibv_free_device_list", "IBVERBS_1.1");

	if (list && next)
		next(list);
}

/* The system's list; NULL: empty. Virtual files are hidden: it has no driver for our devices. */
static struct ibv_device **foreign_list(int *count)
{
	struct ibv_device **(*next)(int *) = av_next("ibv_get_device_list", "IBVERBS_1.1");
	struct ibv_device **devices = NULL;

	*count = 0;
	if (next) {
		(void)av_fork_register(AV_FORK_DEVICE_LIST, &fork_handlers);
		pthread_mutex_lock(&foreign_mutex);
		av_real_files_begin();
		devices = next(count);
		av_real_files_end();
		pthread_mutex_unlock(&foreign_mutex);
	}
	if (devices && *count > 0)
		return devices;
	free_foreign(devices);
	*count = 0;
	return NULL;
}

/* A mark that follows the final NULL of our lists. No program has its address. */
static struct ibv_device end_of_list;

/*
 * Exactly what calloc() returned, since programs such as qperf call free() on it. After the final
 * NULL: the mark, and the system's list, which its own function must free as a whole.
 */
AV_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	AV_UNCANCELLED;
	unsigned int ours;
	struct av_device *const *devices = av_devices(&ours);
	int foreign;
	struct ibv_device **theirs = foreign_list(&foreign);
	size_t count = (size_t)ours + (size_t)foreign;
	struct ibv_device **all = calloc(count + 3, sizeof(struct ibv_device *));

	if (!all) {
		free_foreign(theirs);
		return av_fail_null(AV_VERB_GET_DEVICE_LIST, ENOMEM);
	}
	for (unsigned int i = 0; i < ours; i++)
		all[i] = av_instance(devices[i]);
	if (theirs)
		memcpy(&all[ours], theirs, (size_t)foreign * sizeof(*all));
	all[count + 1] = &end_of_list;
	all[count + 2] = (struct ibv_device *)theirs;
	if (num_devices)
		*num_devices = (int)count;
	return all;
}

AV_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	AV_UNCANCELLED;
	struct ibv_device **at = devices;

	if (!devices)
		return;
	while (*at != &end_of_list) /* not the NULL: the program may have shortened the list */
		at++;
	free_foreign((struct ibv_device **)at[1]);
	free(devices);
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
	return av_device_of(device) ? (int)av_instance_number_of(device)
				    : AV_NEXT(ibv_get_device_index, "IBVERBS_1.9")(device);
}

AV_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	AV_UNCANCELLED;
	struct av_device *dev = av_device_of(device);
	struct ibv_context *ctx;

	if (!dev)
		return AV_NEXT(ibv_open_device, "IBVERBS_1.1")(device);
	ctx = av_context_open(dev, 0);
	if (ctx) {
		ctx->device = device;
		av_context_of(ctx)->made_at = __builtin_return_address(0);
	}
	return ctx;
}

AV_EXPORT int ibv_close_device(struct ibv_context *context)
{
	AV_UNCANCELLED;

	if (!av_ours(context))
		return AV_NEXT(ibv_close_device, "IBVERBS_1.1")(context);
	return av_context_close(av_context_of(context));
}
