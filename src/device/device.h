/* SPDX-License-Identifier: MIT */
/* The devices: which there are, with which limits and speed, and which adapter each says it is. */
#ifndef AV_DEVICE_DEVICE_H
#define AV_DEVICE_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/*
 * Which adapter a device says it is. Programs choose their behaviour by it, and test suites compare
 * it. Nothing of this says what the device can do: capabilities and limits are those of all.
 */

struct av_model {
	const char *profile;		 /* its word in ANYVERBS_DEVICES; NULL: none */
	const char *prefix;		 /* of its devices' names, in front of a number */
	const char *firmware;		 /* version, fw_ver */
	const char *type;		 /* hca_type: "CA type" of ibstat */
	const char *board;		 /* board_id */
	uint32_t vendor, part, revision; /* vendor_id, vendor_part_id, hw_ver */
	uint16_t bus_vendor;		 /* in the bus' name space */
	bool gids_paired;		 /* the GID table is that of mlx5: av_gid_table() */
	bool names_host;		 /* its description begins with the host's name, not ours */
};

/* Devices that are named one by one are of this model. */
extern const struct av_model av_model_own;

/* The model of that profile, or NULL. */
const struct av_model *av_model_find(struct av_word profile);

/*
 * The devices, and what each says about itself: names, limits, port, addresses. All of this is
 * private to the process and constant once read. GID tables and port states follow the host's
 * addresses: see device/port.h.
 * ANYVERBS_DEVICES configures the list; without it there is one device, "any0": device/config.h.
 */

#define AV_DEVICE_MAX	16 /* devices in the list */
#define AV_PKEY_DEFAULT 0xffff

/*
 * ibv_get_device_index() and netlink number our devices from here on (device/instance.h). The
 * kernel gives its own the lowest numbers that are free.
 */
#define AV_DEVICE_NUMBER_BASE 100000u

#define AV_DEVICE_PEEKED 512 /* libraries read private fields behind struct ibv_device */

/* What is handed out for a device after a failure: device/instance.h. Never freed. */
struct av_device_instance {
	struct ibv_device ibv; /* first, and zeros behind it */
	uint8_t peek_pad[AV_DEVICE_PEEKED];
	uint32_t number;
	uint32_t failures; /* av_dir_failures() when it was made */
	const struct av_device_instance *older;
};

struct av_device {
	struct ibv_device ibv;			     /* first: ibv_get_device_list() hands it out */
	uint8_t peek_pad[AV_DEVICE_PEEKED];	     /* zeros */
	_Atomic(struct av_device_instance *) newest; /* NULL: it has not failed */

	unsigned int index; /* position in the list */
	bool mtu_follows;   /* Ethernet only: active_mtu is that of av_port_attr() */
	bool gids_paired;   /* Ethernet only: the GID table is that of mlx5 */
	uint64_t guid;	    /* node and system image GUID, host byte order; not 0; the same in all
			       processes */
	const struct av_model *model;
	char pci_name[16]; /* "anyverbs.N": in /sys/kernel/debug/mlx5 and of the "device" link */
	struct ibv_device_attr attr; /* complete: ibv_query_device() copies it */
	struct ibv_port_attr port;   /* complete for a port that is up: av_port_attr(). Its state is
					IBV_PORT_ACTIVE or IBV_PORT_DOWN, its link layer Ethernet or
					InfiniBand, its LID 0 on Ethernet */
};

/*
 * The configured devices, 1 to AV_DEVICE_MAX: a static list, never freed, so that each struct
 * ibv_device stays valid. The first call reads ANYVERBS_DEVICES; mistakes are logged once and left
 * out. Context: any thread; keeps errno
 */
struct av_device *const *av_devices(unsigned int *count);

/*
 * The device if @dev was handed out for one of ours, else NULL. Only compares pointers, so any
 * pointer is allowed.
 */
struct av_device *av_device_of(const struct ibv_device *dev);

/* The device with that name ("any0") or that uverbs name ("uverbs0"), or NULL. */
struct av_device *av_device_by_name(const char *name);

/* Declared in device/config.h. */
struct av_device_spec;

/* Fill in the device at @index of the list from a configuration with GUID. A pure function. */
void av_device_init(struct av_device *dev, const struct av_device_spec *spec, unsigned int index);

/*
 * The GUID of a device that has none configured, in host byte order: a hash of its name and of a
 * text that identifies the host. It is locally administered (bit 57 set, bit 56 clear), so never 0.
 */
uint64_t av_device_guid(const char *host_id, const char *name);

/* ibv_query_device_ex(3): zeroes what is not known here of @attr_size bytes; returns 0. */
int av_device_query_ex(const struct av_device *dev, struct ibv_device_attr_ex *attr,
		       size_t attr_size);

/* As programs of the field print it. @type: enum ibv_gid_type */
const char *av_link_name(const struct av_device *dev);
const char *av_gid_type_name(uint32_t type);

struct av_port_rate {
	unsigned int lanes;
	unsigned int rate; /* of all lanes, in 100 Mb/s */
	const char *name;  /* of a lane's speed */
};

/* The nominal speed of @port, from its codes of width and speed. */
struct av_port_rate av_port_rate(const struct ibv_port_attr *port);

#endif
