/* SPDX-License-Identifier: MIT */
/*
 * Addresses of the connection manager: struct sockaddr, the device and GID that has an address, the
 * source for a destination, changes of the host. "Locked": the caller holds av_cm_lock() (cm/id.h).
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "device/device.h"
#include "device/port.h"

/* The contents of a struct sockaddr. */
struct av_cm_name {
	uint8_t address[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
	uint16_t port;	     /* host byte order */
	bool v6;	     /* family; for AF_IB, the GID's */
	bool ib;	     /* AF_IB: a GID, and a service ID instead of a port */
	uint64_t service_id; /* AF_IB only; its low bits are @port */
	uint32_t ifindex;    /* scope of an IPv6 address; 0: none */
};

/* Parse @address. Return: false: its family is none of IPv4, IPv6 and AF_IB */
AV_MUST_USE bool av_cm_name(const struct sockaddr *address, struct av_cm_name *name);

/* Write @name as a struct sockaddr of an IP address, even for AF_IB. Return: bytes of @address */
socklen_t av_cm_sockaddr_ip(const struct av_cm_name *name, struct sockaddr_storage *address);

/* What may change of an id's device: as it was then, or at its last RDMA_CM_EVENT_ADDR_CHANGE. */
struct av_cm_since {
	uint32_t failures;		     /* av_dir_failures() */
	uint64_t netns;			     /* of the interface */
	uint8_t hardware[AV_HARDWARE_BYTES]; /* the interface's; zeros: unknown, or none */
};

/* A RoCE v2 row in a device's GID table. */
struct av_cm_where {
	const struct av_device *dev;
	uint8_t gid[16];
	unsigned int gid_index;
	uint32_t ifindex;
	enum ibv_gid_type type;
	struct av_cm_since since;
};

/*
 * Find the row of an address, in the first of our devices that has it. Reads the host's addresses:
 * not for the data path. Context: as av_port_gids(). Return: false: none has it
 */
bool av_cm_where(const struct av_cm_name *name, struct av_cm_where *where);

/*
 * Find the row for a wildcard or loopback destination, by which this host reaches itself: in the
 * first device with rows, the first of the family, else of the other. Context, return: as above
 */
bool av_cm_where_any(bool v6, struct av_cm_where *where);

/* av_cm_where() for a GID; and does it find a row? Context, return: as above */
bool av_cm_where_gid(const uint8_t gid[16], struct av_cm_where *where);
bool av_cm_is_own(const uint8_t gid[16]);

/* Fill in @where->since, which the functions above set to 0. Context: locked; makes system calls */
void av_cm_since(struct av_cm_where *where);

/*
 * The IP address from which the kernel reaches @dst, in this thread's network namespace. AF_IB
 * counts as IP. @src: the bound address, or NULL. @chosen has its port, and its address unless that
 * is a wildcard. Context: makes system calls, but sends nothing; keeps errno
 * Return: 0. -EINVAL: the families differ, or a link-local address has no interface;
 * -EADDRNOTAVAIL: this host does not have @src; -EMFILE, -ENFILE: no descriptor is free, and the
 * kernel was not asked; -ENETUNREACH, -EHOSTUNREACH ...: no route
 */
AV_MUST_USE int av_cm_source(const struct av_cm_name *dst, const struct av_cm_name *src,
			     struct av_cm_name *chosen);
