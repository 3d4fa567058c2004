/* SPDX-License-Identifier: MIT */
#include "device/mtu.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/raw_socket.h"

/* With a whole payload: IPv6 40, UDP 8, BTH 12, XRCETH 4, RETH 16, immediate 4, ICRC 4. */
#define HEADERS 88u

enum ibv_mtu av_mtu_within(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && av_mtu_bytes(mtu) + HEADERS > bytes)
		mtu--;
	return mtu;
}

enum ibv_mtu av_mtu_of_rows(const struct av_gid *rows, unsigned int count)
{
	int saved = errno, fd = av_raw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t least = UINT32_MAX;

	for (unsigned int i = 0; fd >= 0 && i < count; i++) {
		struct ifreq req = {0};

		_Static_assert(sizeof(req.ifr_name) == sizeof(rows->ifname), "both end with a NUL");
		memcpy(req.ifr_name, rows[i].ifname, sizeof(req.ifr_name));
		if (ioctl(fd, SIOCGIFMTU, &req) == 0 && (uint32_t)req.ifr_mtu < least)
			least = (uint32_t)req.ifr_mtu;
	}
	if (fd >= 0)
		close(fd);
	errno = saved;
	return av_mtu_within(least);
}
