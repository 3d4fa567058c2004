/* SPDX-License-Identifier: MIT */
/*
 * What the hook of write(2) costs the program, which writes to /dev/null: beside the system call
 * itself, before it has an event channel of the connection manager and while it has one.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/expect.h"
#include "measure.h"

#define WRITES 200000

static int null_fd;

static double bare_ns(int count)
{
	uint64_t begin = now_ns();

	for (int i = 0; i < count; i++)
		if (syscall(SYS_write, null_fd, "", 1) != 1)
			DIE("write: errno %d", errno);
	return ns_each(begin, count);
}

static double hooked_ns(int count)
{
	uint64_t begin = now_ns();

	for (int i = 0; i < count; i++)
		if (write(null_fd, "", 1) != 1)
			DIE("write: errno %d", errno);
	return ns_each(begin, count);
}

static void measure(const char *name)
{
	struct series bare = {0}, hooked = {0}, ratio = {0};
	int count = bench_count(WRITES, 10);

	for (int i = 0; i < BENCH_RUNS; i++) {
		double bare_each = bare_ns(count), hooked_each = hooked_ns(count);

		series_add(&bare, bare_each);
		series_add(&hooked, hooked_each);
		series_add(&ratio, hooked_each / bare_each);
	}
	series_print(&bare, "write_syscall_ns", "1B");
	series_print(&hooked, name, "1B");
	series_print_most(&ratio, "write/syscall", "1B", 1.1);
}

int main(void)
{
	int channel;

	time_limit(120);
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null_fd < 0)
		DIE("/dev/null: errno %d", errno);
	measure("write_ns");
	channel = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	if (channel < 0)
		DIE("/dev/infiniband/rdma_cm: errno %d", errno);
	measure("write_beside_channel_ns");
	close(channel);
	close(null_fd);
	return 0;
}
