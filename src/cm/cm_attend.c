/* SPDX-License-Identifier: MIT */
#include "cm/cm_attend.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "cm/cm_address.h"
#include "device/device.h"
#include "device/port.h"
#include "net/net.h"
#include "transport/wire_allowed.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static uint8_t attended[AV_GID_MAX][16];
static unsigned int attended_count;
static bool all; /* those that come, too */

/* --- one ------------------------------------------------------------------------------- */

/* One that the host has no more is left alone. While there is room it is not: it may come back. */
static void make_room(void)
{
	unsigned int i = 0;

	while (i < attended_count && av_cm_is_own(attended[i]))
		i++;
	if (i == attended_count)
		return;
	av_net_leave_alone(attended[i]);
	memmove(attended[i], attended[--attended_count], sizeof(attended[i]));
}

/* Return: 0 or -errno */
static int attend(const uint8_t address[16])
{
	int ret;

	for (unsigned int i = 0; i < attended_count; i++)
		if (memcmp(attended[i], address, 16) == 0)
			return 0;
	if (attended_count == AV_GID_MAX)
		make_room();
	if (attended_count == AV_GID_MAX)
		return -ENOSPC;
	ret = av_net_attend(address);
	if (ret == 0)
		memcpy(attended[attended_count++], address, 16);
	return ret;
}

int av_cm_attend(const uint8_t address[16])
{
	int ret;

	if (!av_wire_is_allowed())
		return -EOPNOTSUPP;
	pthread_mutex_lock(&mutex);
	ret = attend(address);
	pthread_mutex_unlock(&mutex);
	if (ret)
		av_net_warn(address, ret);
	return ret;
}

/* --- all ------------------------------------------------------------------------------- */

static void attend_rows(const struct av_device *dev)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int rows = av_port_gids(dev, gids);

	for (unsigned int i = 0; i < rows; i++)
		if (av_gid_there(gids, rows, i) && gids[i].type == IBV_GID_TYPE_ROCE_V2)
			(void)!av_cm_attend(gids[i].gid.raw);
}

static void attend_devices(void)
{
	unsigned int count;
	struct av_device *const *devices = av_devices(&count);

	for (unsigned int i = 0; i < count && av_wire_is_allowed(); i++)
		attend_rows(devices[i]);
}

/* Those that come meanwhile are not missed: they are news. */
void av_cm_attend_all(void)
{
	pthread_mutex_lock(&mutex);
	all = true;
	pthread_mutex_unlock(&mutex);
	attend_devices();
}

void av_cm_attend_new(void)
{
	bool wanted;

	pthread_mutex_lock(&mutex);
	wanted = all;
	pthread_mutex_unlock(&mutex);
	if (wanted)
		attend_devices();
}

/* --- none ------------------------------------------------------------------------------ */

void av_cm_attend_end(void)
{
	pthread_mutex_lock(&mutex);
	all = false;
	while (attended_count)
		av_net_leave_alone(attended[--attended_count]);
	pthread_mutex_unlock(&mutex);
}

void av_cm_attend_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	all = false;
	attended_count = 0;
}
