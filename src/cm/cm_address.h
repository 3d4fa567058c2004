/* SPDX-License-Identifier: MIT */
/*
 * Addresses: which device and GID has one, how another is reached, and whether the host has
 * changed.
 */
#ifndef AV_CM_CM_ADDRESS_H
#define AV_CM_CM_ADDRESS_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "device/device.h"
#include "device/port.h"

/*
 * Has the host changed: an address, an interface? And which hardware address has an interface now?
 * Watched from the first channel to the last, in the network namespace of the thread that opened
 * the first one, which is that of the thread of cm.c.
 */

/* Without netlink nothing is noticed. Context: not locked */
void av_cm_host_begin(void);
void av_cm_host_end(void);

/* Since this was asked last? A change wakes the thread, which asks. Context: any */
AV_MUST_USE bool av_cm_host_has_changed(void);

/*
 * The hardware address of an interface in @netns, the network namespace of this thread; zeros:
 * unknown, or it has none. The host is asked again only if it has changed, since asking takes
 * descriptors of the program's. Context: locked
 */
void av_cm_host_hardware(uint64_t netns, uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES]);

void av_cm_host_forked(void);

/* Addresses of the connection manager: whose they are, and how others are reached from here. */

/* What a struct sockaddr says. */
struct av_cm_name {
	uint8_t address[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
	uint16_t port;	     /* host byte order */
	bool v6;	     /* family; of AF_IB, that of the GID */
	bool ib;	     /* AF_IB: a GID, and a service instead of a port */
	uint64_t service_id; /* AF_IB only; @port is in it */
	uint32_t ifindex;    /* scope of an IPv6 address; 0: none */
};

/* Return: false: none of IPv4, IPv6 and AF_IB */
AV_MUST_USE bool av_cm_name(const struct sockaddr *address, struct av_cm_name *name);

/* The other way round; as an address of IP, even if it is of AF_IB. Return: bytes of @address */
socklen_t av_cm_sockaddr_ip(const struct av_cm_name *name, struct sockaddr_storage *address);
socklen_t av_cm_sockaddr(const struct av_cm_name *name, struct sockaddr_storage *address);

/* The port space in which its port is: that of the service, or the id's own. */
static inline uint16_t av_cm_name_ps(const struct av_cm_name *name, uint16_t ps)
{
	return name->ib ? (uint16_t)(name->service_id >> 16) : ps;
}

/* What may change under an id that has a device, as it was when it got it, or has heard last. */
struct av_cm_since {
	uint32_t failures;		     /* av_dir_failures() */
	uint64_t netns;			     /* of the interface */
	uint8_t hardware[AV_HARDWARE_BYTES]; /* its address; zeros: unknown, or it has none */
};

/* A row of RoCE v2 in the GID table of a device. */
struct av_cm_where {
	const struct av_device *dev;
	uint8_t gid[16];
	unsigned int gid_index;
	uint32_t ifindex;
	enum ibv_gid_type type;
	struct av_cm_since since;
};

/*
 * The row of that address: of the first device that has it. Asks the host for its addresses: not
 * for the data path. Context: as av_port_gids(). Return: false: none of our devices has it
 */
bool av_cm_where(const struct sockaddr *address, struct av_cm_where *where);

/*
 * The row by which this host is reached from itself, for an address that stands for any: of the
 * first device that has one, the first of that family, or of the other. Likewise
 */
bool av_cm_where_any(bool v6, struct av_cm_where *where);

/* The same of an address as a GID; and whether there is such a row. */
bool av_cm_where_gid(const uint8_t gid[16], struct av_cm_where *where);
bool av_cm_is_own(const uint8_t gid[16]);

/* Fill in @where->since, which the others leave empty. Context: locked */
void av_cm_since(struct av_cm_where *where);

/*
 * The address from which the kernel reaches @dst, in this thread's network namespace. @src: the one
 * that is bound, or NULL; its port is kept, and its address, unless it is a wildcard.
 * Return: 0 or -errno. -EAFNOSUPPORT; -EINVAL: of different families, or a link-local address
 * without an interface; -EADDRNOTAVAIL: @src is none of ours; -EMFILE, -ENFILE: no descriptor is
 * free, and the kernel was not asked; -ENETUNREACH, -EHOSTUNREACH ...: no route
 */
AV_MUST_USE int av_cm_source(const struct sockaddr *dst, const struct sockaddr *src,
			     struct sockaddr_storage *chosen);

#endif
