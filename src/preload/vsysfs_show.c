/* SPDX-License-Identifier: MIT */
/* The contents of the virtual files. */
#include "preload/vsysfs_show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device/port.h"
#include "device/device.h"
#include "segment/totals.h"
#include "memory/odp_counters.h"
#include "observe/counters.h"

/* ABI versions from rdma/ib_user_verbs.h and ib_user_mad.h. */
#define VERBS_ABI_VERSION  6
#define UVERBS_ABI_VERSION 1
#define MAD_ABI_VERSION	   5

/* Append text at @len, as far as it fits. Return: the new length. */
static AV_PRINTF(3, 4) ssize_t append(char *bytes, ssize_t len, const char *fmt, ...)
{
	ssize_t room = AV_VSYSFS_CONTENT_BYTES - len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(bytes + len, (size_t)room, fmt, args);
	va_end(args);
	return len + (n < room ? n : room - 1);
}

#define put(bytes, ...) append(bytes, 0, __VA_ARGS__)

/* "NUMBER: NAME" */
static ssize_t put_state(char *bytes, unsigned int number, const char *const *names, size_t count)
{
	const char *name = number < count ? names[number] : NULL;

	return put(bytes, "%u: %s\n", number, name ? name : "<unknown>");
}

/* Defines av_show_NAME() for a file whose content is one formatted text. */
#define SHOW(name, ...)                                                        \
	ssize_t av_show_##name(const struct av_vsysfs_node *node, char *bytes) \
	{                                                                      \
		return put(bytes, __VA_ARGS__);                                \
	}

SHOW(node_type, "%d: CA\n", node->dev->ibv.node_type)
SHOW(fw_ver, "%s\n", node->dev->attr.fw_ver)
SHOW(hw_rev, "%x\n", node->dev->attr.hw_ver)
SHOW(hca_type, "anyverbs\n")
SHOW(board_id, "anyverbs\n")
SHOW(node_desc, "anyverbs %s\n", node->dev->ibv.name)
SHOW(ib_uevent, "NAME=%s\n", node->dev->ibv.name)

/* The node GUID, and the system image GUID, which is the same. */
ssize_t av_show_guid(const struct av_vsysfs_node *node, char *bytes)
{
	uint64_t guid = node->dev->guid;

	return put(bytes, "%04x:%04x:%04x:%04x\n", (unsigned int)(guid >> 48),
		   (unsigned int)(guid >> 32) & 0xffff, (unsigned int)(guid >> 16) & 0xffff,
		   (unsigned int)guid & 0xffff);
}

ssize_t av_show_state(const struct av_vsysfs_node *node, char *bytes)
{
	static const char *const names[] = {"NOP",   "DOWN",   "INIT",
					    "ARMED", "ACTIVE", "ACTIVE_DEFER"};

	struct ibv_port_attr port;

	av_port_attr(node->dev, &port);
	return put_state(bytes, port.state, names, AV_ARRAY_SIZE(names));
}

ssize_t av_show_phys_state(const struct av_vsysfs_node *node, char *bytes)
{
	/* PortInfo.PortPhysicalState; 0 means "no change" and is not a state. */
	static const char *const names[] = {NULL,
					    "Sleep",
					    "Polling",
					    "Disabled",
					    "PortConfigurationTraining",
					    "LinkUp",
					    "LinkErrorRecovery",
					    "Phy Test"};
	struct ibv_port_attr port;

	av_port_attr(node->dev, &port);
	return put_state(bytes, port.phys_state, names, AV_ARRAY_SIZE(names));
}

ssize_t av_show_rate(const struct av_vsysfs_node *node, char *bytes)
{
	const struct av_port_rate r = av_port_rate(&node->dev->port);

	return put(bytes, "%u%s Gb/sec (%uX %s)\n", r.rate / 10, r.rate % 10 ? ".5" : "", r.lanes,
		   r.name);
}

SHOW(lid, "0x%x\n", node->dev->port.lid)
SHOW(lid_mask_count, "%u\n", node->dev->port.lmc)
SHOW(sm_lid, "0x%x\n", node->dev->port.sm_lid)
SHOW(sm_sl, "%u\n", node->dev->port.sm_sl)
SHOW(cap_mask, "0x%08x\n", node->dev->port.port_cap_flags)
SHOW(link_layer, "%s\n",
     node->dev->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand")
SHOW(pkey, "0x%04x\n", AV_PKEY_DEFAULT)

/* Read the GID table row of @node. Return: false if it is empty. */
static bool read_row(const struct av_vsysfs_node *node, struct av_gid *row)
{
	struct av_gid gids[AV_GID_MAX];

	if (!av_gid_there(gids, av_port_gids(node->dev, gids), node->index))
		return false;
	*row = gids[node->index];
	return true;
}

ssize_t av_show_gid(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_gid row;
	ssize_t len = 0;

	/* An empty row reads as the zero GID; only its attributes are unreadable. */
	if (!read_row(node, &row))
		memset(&row, 0, sizeof(row));
	for (size_t i = 0; i < sizeof(row.gid.raw); i += 2)
		len = append(bytes, len, "%s%02x%02x", i ? ":" : "", row.gid.raw[i],
			     row.gid.raw[i + 1]);
	return append(bytes, len, "\n");
}

ssize_t av_show_gid_type(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_gid row;

	if (!read_row(node, &row))
		return -EINVAL;
	return put(bytes, "%s\n", row.type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
}

ssize_t av_show_gid_ndev(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_gid row;

	if (!read_row(node, &row) || !row.ifname[0])
		return -EINVAL;
	return put(bytes, "%s\n", row.ifname);
}

SHOW(verbs_abi, "%u\n", VERBS_ABI_VERSION)
SHOW(uverbs_abi, "%u\n", UVERBS_ABI_VERSION)
SHOW(mad_abi, "%u\n", MAD_ABI_VERSION)
SHOW(ibdev, "%s\n", node->dev->ibv.name)
SHOW(dev, "%u:%u\n", major(av_vsysfs_rdev(node->dev)), minor(av_vsysfs_rdev(node->dev)))
SHOW(uverbs_uevent, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/%s\n", major(av_vsysfs_rdev(node->dev)),
     minor(av_vsysfs_rdev(node->dev)), node->dev->ibv.dev_name)

SHOW(vendor, "0x%04x\n", node->dev->attr.vendor_id)
SHOW(device, "0x%04x\n", node->dev->attr.vendor_part_id)
SHOW(numa_node, "-1\n") /* all NUMA nodes are equally near */

static unsigned int count_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	return count < 1 ? 1 : (unsigned int)count;
}

/* A bitmap in words of 32 bits, the highest first, no wider than needed. */
ssize_t av_show_local_cpus(const struct av_vsysfs_node *node, char *bytes)
{
	unsigned int bits = (count_cpus() - 1) % 32 + 1;
	unsigned int words = (count_cpus() - 1) / 32;
	ssize_t len = put(bytes, "%0*x", (int)(bits + 3) / 4, (unsigned int)((1ull << bits) - 1));

	while (words--)
		len = append(bytes, len, ",ffffffff");
	return append(bytes, len, "\n");
}

ssize_t av_show_local_cpulist(const struct av_vsysfs_node *node, char *bytes)
{
	unsigned int last = count_cpus() - 1;

	return last ? put(bytes, "0-%u\n", last) : put(bytes, "0\n");
}

SHOW(bus_uevent, "DRIVER=anyverbs\n")

ssize_t av_show_counter(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_counted counted = {0};

	av_totals_read(node->dev->ibv.name, &counted.total, &counted.link_downed);
	return put(bytes, "%" PRIu64 "\n",
		   av_counter_value(&av_counter_info[node->index], &counted));
}

ssize_t av_show_odp(const struct av_vsysfs_node *node, char *bytes)
{
	uint64_t value[AV_ODP_COUNTER_N];

	av_odp_report(node->dev->ibv.name, value);
	return put(bytes, "%" PRIu64 "\n", value[node->index]);
}

SHOW(link_to_bus, "../../../devices/virtual/anyverbs/%s", node->dev->pci_name)
SHOW(link_to_ib, "../../../../../class/infiniband/%s", node->dev->ibv.name)
SHOW(link_to_uverbs, "../../../../../class/infiniband_verbs/%s", node->dev->ibv.dev_name)

/* The interface is the kernel's, so this link leads out of the tree. */
SHOW(link_to_net, "../../../../../class/net%s", strrchr(node->path, '/'))
