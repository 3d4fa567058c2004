/* SPDX-License-Identifier: MIT */
#include "lib/cable.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/expect.h"

#define QUIET_MS 5

static int ends[2];
static pthread_t carrier;
static _Atomic bool ended;
static void (*handed_to)(int from, const uint8_t *frame, size_t bytes);

static int interface(const char *name)
{
	struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	strcpy(r.ifr_name, name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r)) {
		printf("skipped: no permission to make interfaces of one's own\n");
		exit(77);
	}
	return fd;
}

void cable_lay(void)
{
	ends[0] = interface("v0");
	ends[1] = interface("v1");
}

static void *carry_all(void *unused)
{
	struct pollfd p[2] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
	uint8_t frame[CABLE_FRAME_MAX];

	while (!atomic_load(&ended)) {
		if (poll(p, 2, QUIET_MS) == 0)
			handed_to(-1, NULL, 0);
		for (int host = 0; host < 2; host++) {
			ssize_t n = p[host].revents ? read(ends[host], frame, sizeof(frame)) : 0;

			if (n > 0)
				handed_to(host, frame, (size_t)n);
		}
	}
	return NULL;
}

void cable_carry(void (*carry)(int from, const uint8_t *frame, size_t bytes))
{
	handed_to = carry;
	NEED(pthread_create(&carrier, NULL, carry_all, NULL) == 0);
}

void cable_put(int host, const uint8_t *frame, size_t bytes)
{
	if (write(ends[host], frame, bytes) != (ssize_t)bytes)
		DIE("a frame of %zu bytes", bytes);
}

void cable_end(void)
{
	atomic_store(&ended, true);
	pthread_join(carrier, NULL);
}
