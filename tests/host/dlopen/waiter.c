/* SPDX-License-Identifier: MIT */
/*
 * A library that waits, while it is loaded, for a thread that calls functions of ours for the first
 * time in the process. Its loader holds the dynamic linker's lock.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 20

extern bool thread_went_on;

__attribute__((visibility("default"))) bool thread_went_on;

static void *call_all(void *unused)
{
	struct rlimit limit;
	void *p = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd;

	p = mremap(p, 1, 1, MREMAP_MAYMOVE);
	munmap(p, 1);
	mlockall(0); /* EINVAL */
	getrlimit(RLIMIT_MEMLOCK, &limit);
	fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC); /* starts a thread of ours */
	if (fd >= 0)
		close(fd);
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	struct timespec until;
	pthread_t thread;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SECONDS;
	if (pthread_create(&thread, NULL, call_all, NULL) == 0)
		thread_went_on = pthread_timedjoin_np(thread, NULL, &until) == 0;
}
