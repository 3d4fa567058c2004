/* SPDX-License-Identifier: MIT */
#include "cm/cm_address.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "base/watcher.h"
#include "cm/id.h"
#include "device/port.h"
#include "net/address.h"
#include "observe/check.h"
#include "registry/directory.h"
#include "wire/cm_message.h"

static void handle_port_change(struct av_watched_fd *w);

static struct av_watched_fd host = {.socket.fd = -1, .ready = handle_port_change};
static _Atomic bool news;
static uint64_t watched; /* network namespace; 0: none, for want of netlink */

/* The interface that was asked last in that namespace. Guarded by the lock. */
static struct {
	uint32_t ifindex; /* 0: none since the host has changed */
	uint8_t hardware[AV_HARDWARE_BYTES];
} asked;

/* In the watcher's thread, which opens no sockets: the other one does what follows. */
static void handle_port_change(struct av_watched_fd *w)
{
	if (!av_port_watch_heard(w->socket.fd))
		return;
	atomic_store(&news, true);
	av_cm_lock();
	asked.ifindex = 0;
	av_cm_wake(0);
	av_cm_unlock();
}

void av_cm_host_begin(void)
{
	asked.ifindex = 0;
	watched = 0;
	if (av_port_watch_open(&host.socket)) {
		watched = av_netns_of_thread();
		av_watch_begin(&host);
	}
}

void av_cm_host_end(void)
{
	av_watch_end(&host);
	av_own_fd_close(&host.socket);
	atomic_store(&news, false);
}

bool av_cm_host_has_changed(void)
{
	return atomic_exchange(&news, false);
}

void av_cm_host_hardware(uint64_t netns, uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES])
{
	if (netns != watched) {
		av_gid_interface_hardware(ifindex, address);
		return;
	}
	if (asked.ifindex != ifindex)
		av_gid_interface_hardware(ifindex, asked.hardware);
	asked.ifindex = ifindex;
	memcpy(address, asked.hardware, AV_HARDWARE_BYTES);
}

void av_cm_host_forked(void)
{
	av_own_fd_close(&host.socket);
	atomic_store(&news, false);
}

/* A GID that is all 0 stands for any. */
static void name_ib(const struct sockaddr_ib *from, struct av_cm_name *name)
{
	memcpy(name->address, &from->sib_addr, sizeof(name->address));
	name->v6 = !av_net_is_v4(name->address);
	name->ib = true;
	name->service_id = be64toh(from->sib_sid);
	name->port = av_cm_service_port(name->service_id);
}

/* Bytes of an address of that family; 0: of another one */
static socklen_t ip_sockaddr_bytes(sa_family_t family)
{
	return family == AF_INET    ? sizeof(struct sockaddr_in)
	       : family == AF_INET6 ? sizeof(struct sockaddr_in6)
				    : 0;
}

bool av_cm_name(const struct sockaddr *address, struct av_cm_name *name)
{
	socklen_t bytes = ip_sockaddr_bytes(address->sa_family);
	union av_net_name from = {0};

	*name = (struct av_cm_name){.v6 = address->sa_family == AF_INET6};
	if (address->sa_family == AF_IB)
		name_ib((const struct sockaddr_ib *)(const void *)address, name);
	if (bytes == 0)
		return name->ib;
	memcpy(&from, address, bytes);
	name->port = av_net_gid(&from, name->address);
	if (name->v6)
		name->ifindex = from.v6.sin6_scope_id;
	return true;
}

static socklen_t put_ib_sockaddr(const struct av_cm_name *name, struct sockaddr_storage *address)
{
	struct sockaddr_ib to = {.sib_family = AF_IB,
				 .sib_pkey = htobe16(AV_PKEY_DEFAULT),
				 .sib_sid = htobe64(name->service_id),
				 .sib_sid_mask = UINT64_MAX};

	memcpy(&to.sib_addr, name->address, sizeof(name->address));
	memset(address, 0, sizeof(*address));
	memcpy(address, &to, sizeof(to));
	return sizeof(to);
}

socklen_t av_cm_sockaddr(const struct av_cm_name *name, struct sockaddr_storage *address)
{
	if (name->ib)
		return put_ib_sockaddr(name, address);
	return av_cm_sockaddr_ip(name, address);
}

socklen_t av_cm_sockaddr_ip(const struct av_cm_name *name, struct sockaddr_storage *address)
{
	union av_net_name to = {0};
	socklen_t bytes = ip_sockaddr_bytes(name->v6 ? AF_INET6 : AF_INET);

	to.any.sa_family = name->v6 ? AF_INET6 : AF_INET;
	av_net_set_port(&to, name->port);
	if (name->v6) {
		memcpy(&to.v6.sin6_addr, name->address, sizeof(name->address));
		to.v6.sin6_scope_id = name->ifindex;
	} else {
		memcpy(&to.v4.sin_addr, name->address + 12, sizeof(to.v4.sin_addr));
	}
	memset(address, 0, sizeof(*address));
	memcpy(address, &to, bytes);
	return bytes;
}

/* --- whose ------------------------------------------------------------------------ */

/* Is it such a row? */
typedef bool suiting(const struct av_gid *row, const struct av_cm_name *name);

static bool has_address(const struct av_gid *row, const struct av_cm_name *name)
{
	return memcmp(row->gid.raw, name->address, sizeof(name->address)) == 0 &&
	       (name->ifindex == 0 || name->ifindex == row->ifindex);
}

static bool has_family(const struct av_gid *row, const struct av_cm_name *name)
{
	return av_net_is_v4(row->gid.raw) == !name->v6;
}

static bool match_any_gid(const struct av_gid *row, const struct av_cm_name *name)
{
	(void)row;
	(void)name;
	return true;
}

static bool find_row(const struct av_device *dev, suiting *suits, const struct av_cm_name *name,
		     struct av_cm_where *where)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids);

	for (unsigned int i = 0; i < count; i++) {
		if (av_gid_is_empty(&gids[i]) || gids[i].type != IBV_GID_TYPE_ROCE_V2 ||
		    !suits(&gids[i], name))
			continue;
		*where = (struct av_cm_where){
			.dev = dev,
			.gid_index = i,
			.ifindex = gids[i].ifindex,
			.type = IBV_GID_TYPE_ROCE_V2,
		};
		memcpy(where->gid, gids[i].gid.raw, sizeof(where->gid));
		return true;
	}
	return false;
}

bool av_cm_where(const struct av_cm_name *name, struct av_cm_where *where)
{
	unsigned int count;
	struct av_device *const *devices = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		if (find_row(devices[i], has_address, name, where))
			return true;
	return false;
}

bool av_cm_where_any(bool v6, struct av_cm_where *where)
{
	const struct av_cm_name any = {.v6 = v6};
	unsigned int count;
	struct av_device *const *devices = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		if (find_row(devices[i], has_family, &any, where) ||
		    find_row(devices[i], match_any_gid, &any, where))
			return true;
	return false;
}

bool av_cm_where_gid(const uint8_t gid[16], struct av_cm_where *where)
{
	struct av_cm_name name = {.v6 = !av_net_is_v4(gid)};

	memcpy(name.address, gid, sizeof(name.address));
	return av_cm_where(&name, where);
}

void av_cm_since(struct av_cm_where *where)
{
	where->since.failures = av_dir_failures();
	where->since.netns = av_netns_of_thread();
	av_cm_host_hardware(where->since.netns, where->ifindex, where->since.hardware);
}

bool av_cm_is_own(const uint8_t gid[16])
{
	struct av_cm_where where;

	return av_cm_where_gid(gid, &where);
}

/* --- from where ------------------------------------------------------------------- */

/* The kernel looks up the route when a socket is connected, and sends nothing. */
static int query_route_source(int fd, struct av_cm_name dst, const struct av_cm_name *src,
			      struct sockaddr *chosen)
{
	struct sockaddr_storage address;
	socklen_t bytes, got = sizeof(address);

	if (src) {
		struct av_cm_name from = *src;

		from.port = 0;
		bytes = av_cm_sockaddr_ip(&from, &address);
		if (av_raw_bind(fd, (struct sockaddr *)&address, bytes))
			return -errno;
	}
	dst.port = AV_ROCE_PORT;
	bytes = av_cm_sockaddr_ip(&dst, &address);
	if (av_raw_connect(fd, (struct sockaddr *)&address, bytes) ||
	    av_raw_getsockname(fd, chosen, &got))
		return -errno;
	return 0;
}

int av_cm_source(const struct av_cm_name *dst, const struct av_cm_name *src,
		 struct av_cm_name *chosen)
{
	AV_UNCANCELLED;
	struct sockaddr_storage got = {0};
	int saved = errno, fd, ret;

	if (src && src->v6 != dst->v6)
		return -av_refuse(EINVAL, AV_CHECK_CM_FAMILY, 0, 0);
	fd = av_raw_socket(dst->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : query_route_source(fd, *dst, src, (struct sockaddr *)&got);
	if (fd >= 0)
		close(fd);
	if (ret == 0 && !av_cm_name((const struct sockaddr *)&got, chosen))
		ret = -EAFNOSUPPORT;
	if (ret == 0)
		chosen->port = src ? src->port : 0;
	errno = saved;
	return ret;
}
