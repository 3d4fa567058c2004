/* SPDX-License-Identifier: MIT */
/* The devices: which there are, with which limits and speed, and which adapter each says it is. */
#ifndef AV_DEVICE_DEVICE_H
#define AV_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/text.h"
#include "segment/segment.h"

/* === device ====================================================================== */

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
 * ANYVERBS_DEVICES configures the list; without it there is one device, "any0": device/device.h.
 */

#define AV_DEVICE_MAX	16 /* devices in the list */
#define AV_PKEY_DEFAULT 0xffff

/*
 * ibv_get_device_index() and netlink number our devices from here on (device/device.h). The
 * kernel gives its own the lowest numbers that are free.
 */
#define AV_DEVICE_NUMBER_BASE 100000u

#define AV_DEVICE_PEEKED 512 /* libraries read private fields behind struct ibv_device */

/* What is handed out for a device after a failure: device/device.h. Never freed. */
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

/* Declared in device/device.h. */
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

/* === instance ==================================================================== */

/*
 * What ibv_get_device_list() hands out for a device. After a failure it is another one, with
 * another number, as the kernel has it when a device has gone and come back. librdmacm keeps the
 * context of a device that it knows, and opens one that it does not know: by that it finds the
 * device well again. All that were ever handed out stay valid, and lead to the same device.
 */

/* The one that is handed out now, and its number. Context: any thread; lock-free */
struct ibv_device *av_instance(struct av_device *dev);
uint32_t av_instance_number(const struct av_device *dev);

/* The number of one of ours that was handed out, perhaps before a failure. */
uint32_t av_instance_number_of(const struct ibv_device *ibv);

/*
 * A context of this process on the device of that name has failed, as number @failure of
 * av_dir_failures(): there is another one, unless it is newer already. Without memory there is not.
 * Context: the watcher's thread; the directory is joined
 */
void av_instance_renew(const char *name, uint32_t failure);

/* === device open ================================================================= */

/* Opening a device: a new context's segment, with what the context takes over from the device. */

/*
 * Make the segment of a new context of this process, and the device's port if there is none; take
 * over the switches in force. @origin: context to import from, or 0. Closed by av_seg_close().
 * Context: the directory is joined. Return: the segment with one user, or NULL and errno
 */
struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin);

/* === config ====================================================================== */

/*
 * Parses the text of ANYVERBS_DEVICES. It knows the grammar and the permitted values but nothing
 * about the host: a pure function from a string to device specifications and complaints.
 *
 *     LIST    = ITEM *("," ITEM)
 *     ITEM    = DEVICE / PROFILE
 *     DEVICE  = NAME *(":" KEY "=" VALUE)
 *     PROFILE = "connectx" [":" COUNT] *(":" KEY "=" VALUE)
 *               (1 to 16 devices of that model, one without COUNT: device/device.c)
 *     NAME    = 1 to 63 characters of A-Z a-z 0-9 _ . -
 *               (not "." or "..": it becomes the name of a directory)
 *
 *     link=ethernet|infiniband     link layer of the port; ethernet
 *     mtu=256|512|1024|2048|4096   of the port, in bytes; on InfiniBand 4096, on Ethernet what the
 *                                  interfaces carry
 *     lid=1..49151                 InfiniBand only, unicast; position in the list + 1
 *     guid=16 hex digits, not 0    node GUID; derived from the host's identity
 *     gids=1..AV_GID_MAX           length of the GID table
 *     gid_rows=single|mlx5         Ethernet: which rows it has; single, or as the model
 *     max_qp= max_qp_wr= max_sge= max_cq= max_cqe= max_mr= max_pd=
 *                                  smaller limits: 1 to the default in base/limits.h
 */

#define AV_COMPLAINT_MAX   16  /* complaints that are kept */
#define AV_COMPLAINT_BYTES 200 /* per complaint, with NUL; quotes are cut to fit */

/* One configured device. All fields are final, but for a GUID of 0: to be derived. */
struct av_device_spec {
	char name[IBV_SYSFS_NAME_MAX];
	const struct av_model *model;
	uint8_t link_layer; /* IBV_LINK_LAYER_ETHERNET or IBV_LINK_LAYER_INFINIBAND */
	enum ibv_mtu mtu;   /* active_mtu and max_mtu; @mtu_follows: max_mtu */
	bool mtu_follows;   /* active_mtu is what the interfaces carry; Ethernet */
	unsigned int lid;   /* unique in the list; 0 on Ethernet */
	uint64_t guid;	    /* host byte order; unique in the list; 0: derive one */
	unsigned int gids;
	bool gids_paired; /* as mlx5 has them */
	unsigned int max_qp;
	unsigned int max_qp_wr;
	unsigned int max_sge;
	unsigned int max_cq;
	unsigned int max_cqe;
	unsigned int max_mr;
	unsigned int max_pd;
};

struct av_config {
	unsigned int device_count; /* 1 .. AV_DEVICE_MAX */
	struct av_device_spec device[AV_DEVICE_MAX];
	unsigned int complaint_count; /* of all; the first AV_COMPLAINT_MAX are kept */
	char complaint[AV_COMPLAINT_MAX][AV_COMPLAINT_BYTES];
};

/*
 * Parse the setting; @text NULL: there is none. What is wrong causes a complaint and keeps its
 * default; a device with an unusable name is left out. Without any device the list is "any0".
 * Context: any thread; allocates nothing, keeps nothing
 */
void av_config_parse(const char *text, struct av_config *config);

/* === switches ==================================================================== */

/*
 * Switches of a device, which real adapters have as firmware settings (mlxconfig): a value in force
 * ("current") and one for after the next reset ("next boot"). "anyverbs config" and "anyverbs
 * reset" change them. Two text files of the user have a line per device, with the switches that are
 * on:
 *
 *   current    BASE/anyverbs-UID.current (BASE: av_folder_base()). Without it, next boot is in
 * force: so it is after a restart that clears BASE. next boot  $XDG_CONFIG_HOME/anyverbs/next-boot
 * or $HOME/.config/anyverbs/next-boot. If that cannot be made, or ANYVERBS_DIR is set:
 * BASE/anyverbs-UID.next-boot.
 *
 * A context takes over what is in force when it is opened. A reset needs that no context which has
 * not failed is open: so all in use agree.
 */

enum av_switch {
	AV_SWITCH_ADVANCED_PCI,
	AV_SWITCH_CAPI,
	AV_SWITCH_TUNNELED_ATOMIC,
	AV_SWITCH_AS_NOTIFY,
	AV_SWITCH_N
};

/* A set of switches consists of these bits. */
#define AV_SWITCH_BIT(which) (1u << (which))

struct av_switch_info {
	const char *name; /* as in mlxconfig */
	const char *help; /* one line, no full stop */
	uint32_t needs;	  /* set of switches that must be on as well */
};

/* By enum av_switch. All are off by default. */
extern const struct av_switch_info av_switch_info[AV_SWITCH_N];

struct av_switches {
	uint32_t current, next; /* sets */
};

/* Was it on when the context was opened? Own or peer's segment; one load. */
static inline bool av_switch_on(const struct av_seg *seg, enum av_switch which)
{
	return seg->head->switches & AV_SWITCH_BIT(which);
}

/* The switch with that name, or AV_SWITCH_N. */
enum av_switch av_switch_by_name(const char *name, size_t length);

/* A switch that is missing in @set although @by, out, needs it; AV_SWITCH_N: none. */
enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by);

/* Of any device, also an unknown one; an unreadable file, or no memory: none. Needs no directory.
 */
struct av_switches av_switches_read(const char *device);

/*
 * Change what the next reset brings into force: the switches in @mask become @on.
 * Context: the directory is joined; no lock held; reads and writes files
 * Return: 0, or an error, and nothing has changed. -EPERM: av_switch_lacking(); -ENOMEM; else
 * -errno of writing
 */
AV_MUST_USE int av_switches_set(const char *device, uint32_t mask, uint32_t on);

/*
 * Bring into force what was set for the next reset, and let the device's counters begin at 0.
 * Contexts in @failed do not count.
 * Context: as av_switches_set()
 * Return: 0; -EBUSY: another context is open in a living process; -ENOMEM; or -errno of
 * writing
 */
AV_MUST_USE int av_switches_reset(const char *device, const uint32_t *failed, size_t count);

/*
 * For av_device_open(): what is in force for a new context, whose device is known. Return: 0 or
 * -ENOMEM
 */
AV_MUST_USE int av_switches_take(const char *device, uint32_t *on);

#endif
