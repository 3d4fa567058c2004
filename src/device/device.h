/* SPDX-License-Identifier: MIT */
/*
 * The devices: the configured list, the identity, limits and speed that each device reports, and
 * the segment of a new context.
 */
#pragma once

#include "device/model.h"
#include "segment/segment.h"

/* === device ====================================================================== */

/* The devices are the process's own, and constant once read; not so ports (device/port.h). */

#define AV_DEVICE_MAX	16 /* devices in the list */
#define AV_PKEY_DEFAULT 0xffff

/*
 * The lowest number that ibv_get_device_index() and netlink report for a device of ours. The kernel
 * gives the lowest free numbers to its own devices, so the two ranges do not meet.
 */
#define AV_DEVICE_NUMBER_BASE 100000u

#define AV_DEVICE_PEEKED 512 /* bytes: libraries read private fields behind struct ibv_device */

/* The struct ibv_device that programs get for a device after it has failed. Never freed. */
struct av_device_instance {
	struct ibv_device ibv; /* first member; zeros follow */
	uint8_t peek_pad[AV_DEVICE_PEEKED];
	uint32_t number;   /* av_instance_number() */
	uint32_t failures; /* av_dir_failures() when the instance was made */
	const struct av_device_instance *older;
};

struct av_device {
	struct ibv_device ibv;			     /* first member: programs get its address */
	uint8_t peek_pad[AV_DEVICE_PEEKED];	     /* zeros */
	_Atomic(struct av_device_instance *) newest; /* NULL: the device has not failed */

	unsigned int index; /* position in the list */
	bool mtu_follows;   /* Ethernet only: active_mtu is that of av_port_attr() */
	bool gids_paired;   /* Ethernet only: the GID table has mlx5's pairs of rows */
	uint64_t guid;	    /* node and system image GUID, host byte order; not 0; the same in all
			       processes */
	uint32_t strict;    /* the freedoms that it uses against the program: observe/freedom.h */
	uint64_t seed;	    /* of these; 0: each context draws one */
	const struct av_model *model;	   /* that it claims to be */
	const struct av_model *as;	   /* that it behaves as; NULL: none */
	uint32_t max_inline, max_send_sge; /* of a queue pair; no attribute tells the first */
	char pci_name[16]; /* "anyverbs.N": in /sys/kernel/debug/mlx5 and of the "device" link */
	struct ibv_device_attr attr; /* complete: ibv_query_device() copies it */
	struct ibv_port_attr port;   /* complete for a port that is up; av_port_attr() adds the
					current state. Link layer: Ethernet or InfiniBand. LID: 0 on
					Ethernet */
};

/*
 * The configured devices, 1 to AV_DEVICE_MAX, never freed: so each struct ibv_device stays valid.
 * The first call reads ANYVERBS_DEVICES, and logs each mistake once. Any thread; keeps errno.
 */
struct av_device *const *av_devices(unsigned int *count);

/* The device that the library handed out as @dev (any pointer), else NULL. Any thread; no lock. */
struct av_device *av_device_of(const struct ibv_device *dev);

/* The device with that name ("any0") or that uverbs name ("uverbs0"), or NULL. */
struct av_device *av_device_by_name(const char *name);

/*
 * The fault rules of a device, for this process and what it does without a context: counted for
 * all of it, and reloaded if they have changed. NULL: none, or no memory. Any thread; reads files.
 */
struct av_faults *av_device_faults(const struct av_device *dev);

/* What every device has before its configuration. Not complete. */
extern const struct av_device av_device_default;

/* Fill in all fields that follow from the configured ones and @index. A pure function */
void av_device_complete(struct av_device *dev, unsigned int index);

/*
 * The GUID of a device that has none configured, in host byte order: a hash of its name and of a
 * text that identifies the host; locally administered (bit 57 set, bit 56 clear). A pure function
 */
uint64_t av_device_guid(const char *host_id, const char *name);

/* ibv_query_device_ex(3): writes @attr_size bytes, zeros where this build knows none. Return: 0 */
int av_device_query_ex(const struct av_device *dev, struct ibv_device_attr_ex *attr,
		       size_t attr_size);

/* The names that the field's programs print. @type: enum ibv_gid_type. Static strings */
const char *av_link_name(const struct av_device *dev);
const char *av_gid_type_name(uint32_t type);

struct av_port_rate {
	unsigned int lanes;
	unsigned int rate; /* of all lanes together, in 100 Mb/s */
	const char *name;  /* of one lane's speed: "EDR" */
};

/* The nominal speed of @port, from its codes of width and speed. A pure function */
struct av_port_rate av_port_rate(const struct ibv_port_attr *port);

/*
 * An instance is the struct ibv_device that ibv_get_device_list() hands out for a device. After a
 * failure the library hands out a new instance with a new number, as the kernel does for a device
 * that was removed and plugged in again. librdmacm reuses its failed context for a known struct
 * ibv_device, and opens a new context for an unknown one: so a new instance lets it recover. All
 * instances stay valid, and lead to the same device.
 */

/* The current instance, and its number. Context: any thread; lock-free */
struct ibv_device *av_instance(struct av_device *dev);
uint32_t av_instance_number(const struct av_device *dev);

/* The number of any instance, current or older. @ibv: av_device_of() knows it. Context: as above */
uint32_t av_instance_number_of(const struct ibv_device *ibv);

/*
 * Make a new instance: a context of this process on device @name has failed, as failure number
 * @failure. Does nothing if the current instance is newer, if no device has that name, or without
 * memory. Context: the watcher's thread only; the directory is joined
 */
void av_instance_renew(const char *name, uint32_t failure);

/*
 * Make the segment of a new context of this process. Records the device's port, made if needed, the
 * port's MTU, and the switches in force. @origin: the context to import from, or 0
 * Context: the directory is joined; no lock held; makes system calls
 * Return: the segment with one user, which av_seg_close() ends; or NULL and errno
 */
struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin);

/* === config ====================================================================== */

/* Parsing ANYVERBS_DEVICES. anyverbs_config(5) has its grammar and the defaults. */

#define AV_COMPLAINT_MAX   16  /* complaints that are recorded */
#define AV_COMPLAINT_BYTES 200 /* per complaint, with NUL; quotes are cut to fit */

struct av_config {
	unsigned int device_count; /* 1 .. AV_DEVICE_MAX */
	/* LIDs and GUIDs are unique; a GUID of 0 is to be derived. Then av_device_complete() */
	struct av_device device[AV_DEVICE_MAX];
	unsigned int complaint_count; /* of all; only the first AV_COMPLAINT_MAX are recorded */
	char complaint[AV_COMPLAINT_MAX][AV_COMPLAINT_BYTES];
};

/*
 * Parse the text of ANYVERBS_DEVICES; NULL: it is not set. A pure function: knows nothing about the
 * host, allocates nothing, borrows @text only for the call. Each mistake makes a complaint, and the
 * key keeps its default. Omits a device whose name is unusable or taken, and devices beyond
 * AV_DEVICE_MAX. A list without devices becomes "any0".
 */
void av_config_parse(const char *text, struct av_config *config);
