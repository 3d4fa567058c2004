/* SPDX-License-Identifier: MIT */
/*
 * What devices there are and what each of them says about itself: names, limits, port, addresses.
 * Everything here is private to the process and constant once read, except the GID table and the
 * port's state, which follow the host's addresses.
 *
 * ANYVERBS_DEVICES configures the list: devices separated by commas, each "NAME[:KEY=VALUE]...",
 * for example ANYVERBS_DEVICES="any0,mlx5_0:link=infiniband:lid=7,rxe0:mtu=1024:max_qp=100" Without
 * it there is one device, "any0". See anyverbs(7).
 */
#ifndef AV_DEVICE_DEVICE_H
#define AV_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define AV_DEVICE_MAX 16 /* devices in one list */
/* Rows of the port's GID table (gid_tbl_len is smaller by configuration only). */
#define AV_GID_MAX	64
#define AV_PKEY_DEFAULT 0xffff

/* One populated row of the GID table. */
struct av_gid {
	union ibv_gid gid;
	uint32_t type; /* enum ibv_gid_type: IBV_GID_TYPE_ROCE_V2, or IBV_GID_TYPE_IB on InfiniBand
			*/
	uint32_t ifindex; /* network interface it was derived from; 0 on InfiniBand */
	char ifname[16];  /* its name, NUL terminated; "" on InfiniBand */
};

static inline bool av_gid_is_empty(const struct av_gid *row)
{
	return !row->gid.global.subnet_prefix && !row->gid.global.interface_id;
}

/* Is row @index of a table with @count rows populated? */
static inline bool av_gid_there(const struct av_gid *gids, unsigned int count, unsigned int index)
{
	return index < count && !av_gid_is_empty(&gids[index]);
}

struct av_device {
	struct ibv_device ibv; /* must be first: what ibv_get_device_list() hands out */
	uint8_t peek_pad[512]; /* zeros: libraries look for private fields behind a struct
				  ibv_device */

	unsigned int index; /* position in the list */
	uint8_t link_layer; /* IBV_LINK_LAYER_ETHERNET or IBV_LINK_LAYER_INFINIBAND */
	enum ibv_mtu mtu;   /* active_mtu and max_mtu */
	uint16_t lid;	    /* InfiniBand only, else 0 */
	uint64_t guid; /* node and system image GUID, host byte order; not 0; same in every process
			*/
	char pci_name[16]; /* the name under /sys/kernel/debug/mlx5 and of the "device" link:
			      "anyverbs.N" */
	struct ibv_device_attr attr; /* complete; what ibv_query_device() copies */
	struct ibv_port_attr port;   /* complete, while the port is up: see av_device_port() */
};

/**
 * av_devices() - the configured devices
 * @count: out, 1 .. AV_DEVICE_MAX
 *
 * Read once per process, from ANYVERBS_DEVICES, at the first call. A part of the setting that
 * cannot be understood is reported once through the log and left out; a setting without any usable
 * device gives the default one. Context: any thread. Keeps errno. Ownership: static, never freed,
 * so that a struct ibv_device stays valid for ever.
 */
struct av_device *const *av_devices(unsigned int *count);

/* The device if @dev is one of ours, else NULL. Compares pointers only: safe for any pointer. */
struct av_device *av_device_of(const struct ibv_device *dev);

/* The device of that name ("any0") or that uverbs name ("uverbs0"), or NULL. */
struct av_device *av_device_by_name(const char *name);

/**
 * av_device_gids() - the port's GID table as of now
 * @gids: out, at most AV_GID_MAX rows; see av_gid_there()
 *
 * Ethernet: RoCEv2 rows from the host's addresses. Order: IPv4 (mapped) and global IPv6 of
 * interfaces that are up, in interface order, then link-local IPv6; loopback addresses only when
 * there is nothing else (127.0.0.1, then ::1). InfiniBand: row 0 is fe80:: plus the GUID. While the
 * device is open somewhere, its table (device/port.h) follows the host: rows that stay valid keep
 * their index, others become empty or are used anew. Cost: a getifaddrs() call; not for the data
 * path. Keeps errno. May raise events: no lock held. Return: number of rows, 1 .. port.gid_tbl_len,
 * the last one populated; 0: no memory to ask with
 */
unsigned int av_device_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX]);

/* Keeps errno. What ibv_query_port() says as of now: @dev->port, and the state of the port while
 * the device is open somewhere. */
void av_device_port(const struct av_device *dev, struct ibv_port_attr *port);

/* Declared in device/config.h. */
struct av_device_spec;

/**
 * av_device_init() - fill in a device from what was configured
 * @dev:   out, overwritten
 * @spec:  with a GUID, which is taken over as it is
 * @index: position in the list
 *
 * A pure function; av_devices() and tests use it.
 */
void av_device_init(struct av_device *dev, const struct av_device_spec *spec, unsigned int index);

/**
 * av_device_guid() - the GUID of a device for which none is configured
 * @host_id: text that identifies the host
 *
 * The same arguments always give the same GUID, of the locally administered kind (bit 57 set, bit
 * 56 clear; so never 0), in host byte order. @host_id cannot be read back from it.
 */
uint64_t av_device_guid(const char *host_id, const char *name);

/* ibv_query_device_ex(3): fills min(attr_size, ours) bytes, zeroes the rest, returns 0. */
int av_device_query_ex(const struct av_device *dev, struct ibv_device_attr_ex *attr,
		       size_t attr_size);

#endif
