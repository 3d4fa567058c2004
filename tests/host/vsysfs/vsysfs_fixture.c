/* SPDX-License-Identifier: MIT */
#include "vsysfs_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

bool vsysfs_begin(void)
{
	bool taken;

	av_real_files_begin();
	taken = access("/dev/infiniband/uverbs0", F_OK) == 0;
	av_real_files_end();
	setenv("ANYVERBS_DEVICES", "any0:gids=64:guid=0200c0ffee001234", 1);
	return !taken;
}

void assert_reads(int fd, const char *expected)
{
	char bytes[256] = "";
	ssize_t len;

	assert_true(fd >= 0);
	len = read(fd, bytes, sizeof(bytes) - 1);
	assert_int_equal(len, (ssize_t)strlen(expected));
	assert_string_equal(bytes, expected);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), 0);
	close(fd);
}

int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}
