/* SPDX-License-Identifier: MIT */
#include "registry/process_socket.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "registry/directory_file.h"

#define NAME	     "p%u-%u"
#define NAME_OF(ref) AV_REF_SLOT(ref), (ref) >> AV_REF_SLOT_BITS

/* A socket's address is short. */
bool av_process_socket(struct sockaddr_un *a, uint32_t proc)
{
	const int room = sizeof(a->sun_path);

	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(a->sun_path, room, "%s/" NAME, av_dir_path(), NAME_OF(proc)) < room ||
	       snprintf(a->sun_path, room, "/proc/self/fd/%d/" NAME, av_dir_folder(),
			NAME_OF(proc)) < room;
}

void av_process_socket_remove(uint32_t proc)
{
	char name[32];

	snprintf(name, sizeof(name), NAME, NAME_OF(proc));
	unlinkat(av_dir_folder(), name, 0);
}
