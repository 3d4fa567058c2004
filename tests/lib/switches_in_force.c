/* SPDX-License-Identifier: MIT */
#include "lib/switches_in_force.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"

void switches_in_force(const char *names)
{
	const char *dir = getenv("ANYVERBS_DIR");
	char path[256];
	int fd;

	NEED(dir);
	snprintf(path, sizeof(path), "%s/anyverbs-%u.current", dir, (unsigned int)geteuid());
	if (!names) {
		unlink(path);
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "any0 %s\n", names) < 0 || close(fd))
		DIE("cannot write %s", path);
}
