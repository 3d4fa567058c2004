/* SPDX-License-Identifier: MIT */
#include "lib/userfaultfd.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

bool has_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

void need_userfaultfd(void)
{
	if (has_userfaultfd())
		return;
	puts("no userfaultfd here: the library may not watch memory");
	exit(77);
}
