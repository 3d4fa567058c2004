/* SPDX-License-Identifier: MIT */
#include "cm/cm_file.h"

#include <errno.h>

#include "base/uncancelled.h"
#include "cm/channel.h"
#include "cm/cm.h"

/* Return: the program's descriptor, or -errno */
static int open_channel(int flags)
{
	AV_UNCANCELLED;
	int fd = av_cm_begin();

	if (fd)
		return fd;
	fd = av_cm_channel_new(flags);
	if (fd < 0)
		av_cm_end();
	return fd;
}

int av_cm_open(int flags)
{
	int saved = errno, fd = open_channel(flags);

	errno = fd < 0 ? -fd : saved;
	return fd < 0 ? -1 : fd;
}

bool av_cm_is_channel(int fd, uint32_t *number)
{
	return av_cm_channel_is(fd, number);
}
