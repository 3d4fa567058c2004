/* SPDX-License-Identifier: MIT */
/*
 * The tree and its contents: a table of path patterns. A component in angle brackets stands for all
 * names of devices, table rows, network interfaces or statistics. A directory contains every
 * pattern that is one component longer than its own.
 */
#include "host/vsysfs.h"

#include <inttypes.h>
#include <rdma/rdma_user_cm.h>
#include <stdarg.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device/port.h"
#include "memory/odp.h"
#include "segment/pages.h"

/* ABI versions from rdma/ib_user_verbs.h and ib_user_mad.h. */
#define VERBS_ABI_VERSION 6
#define MAD_ABI_VERSION	  5

/* Append text at @len, as far as it fits. Return: the new length. */
static AV_PRINTF(3, 4) ssize_t append_sysfs_text(char *bytes, ssize_t len, const char *fmt, ...)
{
	ssize_t room = AV_VSYSFS_CONTENT_BYTES - len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(bytes + len, (size_t)room, fmt, args);
	va_end(args);
	return len + (n < room ? n : room - 1);
}

#define put(bytes, ...) append_sysfs_text(bytes, 0, __VA_ARGS__)

/* Defines show_NAME() for a file whose content is one formatted text. */
#define SHOW(name, ...)                                                            \
	static ssize_t show_##name(const struct av_vsysfs_node *node, char *bytes) \
	{                                                                          \
		return put(bytes, __VA_ARGS__);                                    \
	}

SHOW(node_type, "%d: %s\n", node->dev->ibv.node_type,
     node->dev->ibv.node_type == IBV_NODE_CA	 ? "CA"
     : node->dev->ibv.node_type == IBV_NODE_RNIC ? "RNIC"
						 : "unspecified")
SHOW(fw_ver, "%s\n", node->dev->attr.fw_ver)
SHOW(hw_rev, "%x\n", node->dev->attr.hw_ver)
SHOW(hca_type, "%s\n", node->dev->model->type)
SHOW(board_id, "%s\n", node->dev->model->board)
SHOW(ib_uevent, "NAME=%s\n", node->dev->ibv.name)

static ssize_t show_node_desc(const struct av_vsysfs_node *node, char *bytes)
{
	char host[HOST_NAME_MAX + 1] = "";

	if (node->dev->model->names_host)
		(void)gethostname(host, sizeof(host) - 1);
	return put(bytes, "%s %s\n", host[0] ? host : "anyverbs", node->dev->ibv.name);
}

/* The node GUID, and the system image GUID, which is the same. */
static ssize_t show_guid(const struct av_vsysfs_node *node, char *bytes)
{
	uint64_t guid = node->dev->guid;

	return put(bytes, "%04x:%04x:%04x:%04x\n", (unsigned int)(guid >> 48),
		   (unsigned int)(guid >> 32) & 0xffff, (unsigned int)(guid >> 16) & 0xffff,
		   (unsigned int)guid & 0xffff);
}

static ssize_t show_state(const struct av_vsysfs_node *node, char *bytes)
{
	struct ibv_port_attr port;

	av_port_attr(node->dev, &port);
	return put(bytes, "%u: %s\n", port.state,
		   port.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
}

static ssize_t show_phys_state(const struct av_vsysfs_node *node, char *bytes)
{
	struct ibv_port_attr port;

	av_port_attr(node->dev, &port);
	return put(bytes, "%u: %s\n", port.phys_state,
		   port.state == IBV_PORT_ACTIVE ? "LinkUp" : "Disabled");
}

static ssize_t show_rate(const struct av_vsysfs_node *node, char *bytes)
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
SHOW(link_layer, "%s\n", av_link_name(node->dev))
SHOW(pkey, "0x%04x\n", AV_PKEY_DEFAULT)

/* Read the GID table row of @node. Return: false if it is empty. */
static bool read_sysfs_gid_row(const struct av_vsysfs_node *node, struct av_gid *row)
{
	struct av_gid gids[AV_GID_MAX];

	if (!av_gid_there(gids, av_port_gids(node->dev, gids), node->index))
		return false;
	*row = gids[node->index];
	return true;
}

static ssize_t show_gid(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_gid row;
	ssize_t len = 0;

	/* An empty row reads as the zero GID; only its attributes are unreadable. */
	if (!read_sysfs_gid_row(node, &row))
		memset(&row, 0, sizeof(row));
	for (size_t i = 0; i < sizeof(row.gid.raw); i += 2)
		len = append_sysfs_text(bytes, len, "%s%02x%02x", i ? ":" : "", row.gid.raw[i],
					row.gid.raw[i + 1]);
	return append_sysfs_text(bytes, len, "\n");
}

static ssize_t show_gid_type(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_gid row;

	if (!read_sysfs_gid_row(node, &row))
		return -EINVAL;
	return put(bytes, "%s\n",
		   row.type == IBV_GID_TYPE_ROCE_V2 ? av_gid_type_name(row.type) : "IB/RoCE v1");
}

static ssize_t show_gid_ndev(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_gid row;

	if (!read_sysfs_gid_row(node, &row) || !row.ifname[0])
		return -EINVAL;
	return put(bytes, "%s\n", row.ifname);
}

SHOW(verbs_abi, "%u\n", VERBS_ABI_VERSION)
SHOW(uverbs_abi, "%u\n", AV_VSYSFS_UVERBS_ABI)
SHOW(mad_abi, "%u\n", MAD_ABI_VERSION)
SHOW(cm_abi, "%u\n", RDMA_USER_CM_ABI_VERSION)
SHOW(cm_dev, "%u:%u\n", major(AV_VSYSFS_CM_RDEV), minor(AV_VSYSFS_CM_RDEV))
SHOW(cm_uevent, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/rdma_cm\n", major(AV_VSYSFS_CM_RDEV),
     minor(AV_VSYSFS_CM_RDEV))
SHOW(ibdev, "%s\n", node->dev->ibv.name)
SHOW(dev, "%u:%u\n", major(av_vsysfs_rdev(node->dev)), minor(av_vsysfs_rdev(node->dev)))
SHOW(uverbs_uevent, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/%s\n", major(av_vsysfs_rdev(node->dev)),
     minor(av_vsysfs_rdev(node->dev)), node->dev->ibv.dev_name)

SHOW(vendor, "0x%04x\n", node->dev->model->bus_vendor)
SHOW(device, "0x%04x\n", node->dev->attr.vendor_part_id)
SHOW(numa_node, "-1\n") /* all NUMA nodes are equally near */

static unsigned int count_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	return count < 1 ? 1 : (unsigned int)count;
}

/* A bitmap in words of 32 bits, the highest first, no wider than needed. */
static ssize_t show_local_cpus(const struct av_vsysfs_node *node, char *bytes)
{
	unsigned int bits = (count_cpus() - 1) % 32 + 1;
	unsigned int words = (count_cpus() - 1) / 32;
	ssize_t len = put(bytes, "%0*x", (int)(bits + 3) / 4, (unsigned int)((1ull << bits) - 1));

	while (words--)
		len = append_sysfs_text(bytes, len, ",ffffffff");
	return append_sysfs_text(bytes, len, "\n");
}

static ssize_t show_local_cpulist(const struct av_vsysfs_node *node, char *bytes)
{
	unsigned int last = count_cpus() - 1;

	return last ? put(bytes, "0-%u\n", last) : put(bytes, "0\n");
}

SHOW(bus_uevent, "DRIVER=anyverbs\n")

static ssize_t show_counter(const struct av_vsysfs_node *node, char *bytes)
{
	struct av_counted counted = {0};

	av_totals_read(node->dev->ibv.name, &counted.total, &counted.link_downed);
	return put(bytes, "%" PRIu64 "\n",
		   av_counter_value(&av_counter_info[node->index], &counted));
}

static ssize_t show_odp(const struct av_vsysfs_node *node, char *bytes)
{
	uint64_t value[AV_ODP_COUNTER_N];

	av_odp_report(node->dev->ibv.name, value);
	return put(bytes, "%" PRIu64 "\n", value[node->index]);
}

/* Targets of links. They are relative, and begin at the link's directory, without other links. */
SHOW(ib_link, "../../devices/platform/%s/infiniband/%s", node->dev->pci_name, node->dev->ibv.name)
SHOW(uverbs_link, "../../devices/platform/%s/infiniband_verbs/%s", node->dev->pci_name,
     node->dev->ibv.dev_name)
SHOW(cm_link, "../../devices/virtual/misc/rdma_cm")
SHOW(bus_link, "../../../%s", node->dev->pci_name)
SHOW(ib_class, "../../../../../class/infiniband")
SHOW(uverbs_class, "../../../../../class/infiniband_verbs")
SHOW(cm_class, "../../../../class/misc")

/* The bus and the interface are the kernel's, so these links lead out of the tree. */
SHOW(bus_class, "../../../bus/platform")
SHOW(net_link, "../../../../class/net%s", strrchr(node->path, '/'))

#define IB     "/sys/class/infiniband"
#define VERBS  "/sys/class/infiniband_verbs"
#define MAD    "/sys/class/infiniband_mad"
#define CM     "/sys/class/misc/rdma_cm"
#define BUS    "/sys/devices/platform"
#define BUSDEV BUS "/<bus>"
#define IBDEV  BUSDEV "/infiniband/<dev>"
#define PORT   IBDEV "/ports/1"
#define UVERBS BUSDEV "/infiniband_verbs/<uverbs>"
#define CMDEV  "/sys/devices/virtual/misc/rdma_cm"
#define DEBUG  "/sys/kernel/debug/mlx5"
#define DEVDIR "/dev/infiniband"

const struct av_vsysfs_row av_vsysfs_rows[] = {
	{IB, AV_VSYSFS_DIR, true, NULL},
	{IB "/<dev>", AV_VSYSFS_LINK, false, show_ib_link},
	{VERBS, AV_VSYSFS_DIR, true, NULL},
	{VERBS "/abi_version", AV_VSYSFS_FILE, true, show_verbs_abi},
	{VERBS "/<uverbs>", AV_VSYSFS_LINK, false, show_uverbs_link},
	{MAD, AV_VSYSFS_DIR, true, NULL},
	{MAD "/abi_version", AV_VSYSFS_FILE, true, show_mad_abi},
	{CM, AV_VSYSFS_LINK, false, show_cm_link},

	{BUSDEV, AV_VSYSFS_DIR, false, NULL},
	{BUSDEV "/vendor", AV_VSYSFS_FILE, false, show_vendor},
	{BUSDEV "/device", AV_VSYSFS_FILE, false, show_device},
	{BUSDEV "/numa_node", AV_VSYSFS_FILE, false, show_numa_node},
	{BUSDEV "/local_cpus", AV_VSYSFS_FILE, false, show_local_cpus},
	{BUSDEV "/local_cpulist", AV_VSYSFS_FILE, false, show_local_cpulist},
	{BUSDEV "/uevent", AV_VSYSFS_FILE, false, show_bus_uevent},
	{BUSDEV "/subsystem", AV_VSYSFS_LINK, false, show_bus_class},
	{BUSDEV "/infiniband", AV_VSYSFS_DIR, false, NULL},
	{IBDEV, AV_VSYSFS_DIR, false, NULL},
	{IBDEV "/node_type", AV_VSYSFS_FILE, false, show_node_type},
	{IBDEV "/node_guid", AV_VSYSFS_FILE, false, show_guid},
	{IBDEV "/sys_image_guid", AV_VSYSFS_FILE, false, show_guid},
	{IBDEV "/fw_ver", AV_VSYSFS_FILE, false, show_fw_ver},
	{IBDEV "/hw_rev", AV_VSYSFS_FILE, false, show_hw_rev},
	{IBDEV "/hca_type", AV_VSYSFS_FILE, false, show_hca_type},
	{IBDEV "/board_id", AV_VSYSFS_FILE, false, show_board_id},
	{IBDEV "/node_desc", AV_VSYSFS_FILE, false, show_node_desc},
	{IBDEV "/uevent", AV_VSYSFS_FILE, false, show_ib_uevent},
	{IBDEV "/device", AV_VSYSFS_LINK, false, show_bus_link},
	{IBDEV "/subsystem", AV_VSYSFS_LINK, false, show_ib_class},
	{IBDEV "/ports", AV_VSYSFS_DIR, false, NULL},
	{PORT, AV_VSYSFS_DIR, false, NULL},
	{PORT "/state", AV_VSYSFS_FILE, false, show_state},
	{PORT "/phys_state", AV_VSYSFS_FILE, false, show_phys_state},
	{PORT "/rate", AV_VSYSFS_FILE, false, show_rate},
	{PORT "/lid", AV_VSYSFS_FILE, false, show_lid},
	{PORT "/lid_mask_count", AV_VSYSFS_FILE, false, show_lid_mask_count},
	{PORT "/sm_lid", AV_VSYSFS_FILE, false, show_sm_lid},
	{PORT "/sm_sl", AV_VSYSFS_FILE, false, show_sm_sl},
	{PORT "/cap_mask", AV_VSYSFS_FILE, false, show_cap_mask},
	{PORT "/link_layer", AV_VSYSFS_FILE, false, show_link_layer},
	{PORT "/gids", AV_VSYSFS_DIR, false, NULL},
	{PORT "/gids/<gid>", AV_VSYSFS_FILE, false, show_gid},
	{PORT "/gid_attrs", AV_VSYSFS_DIR, false, NULL},
	{PORT "/gid_attrs/types", AV_VSYSFS_DIR, false, NULL},
	{PORT "/gid_attrs/types/<gid>", AV_VSYSFS_FILE, false, show_gid_type},
	{PORT "/gid_attrs/ndevs", AV_VSYSFS_DIR, false, NULL},
	{PORT "/gid_attrs/ndevs/<gid>", AV_VSYSFS_FILE, false, show_gid_ndev},
	{PORT "/pkeys", AV_VSYSFS_DIR, false, NULL},
	{PORT "/pkeys/<pkey>", AV_VSYSFS_FILE, false, show_pkey},
	{PORT "/counters", AV_VSYSFS_DIR, false, NULL},
	{PORT "/counters/<counter>", AV_VSYSFS_FILE, false, show_counter},
	{PORT "/hw_counters", AV_VSYSFS_DIR, false, NULL},
	{PORT "/hw_counters/<hw_counter>", AV_VSYSFS_FILE, false, show_counter},
	{BUSDEV "/infiniband_verbs", AV_VSYSFS_DIR, false, NULL},
	{UVERBS, AV_VSYSFS_DIR, false, NULL},
	{UVERBS "/ibdev", AV_VSYSFS_FILE, false, show_ibdev},
	{UVERBS "/abi_version", AV_VSYSFS_FILE, false, show_uverbs_abi},
	{UVERBS "/dev", AV_VSYSFS_FILE, false, show_dev},
	{UVERBS "/uevent", AV_VSYSFS_FILE, false, show_uverbs_uevent},
	{UVERBS "/device", AV_VSYSFS_LINK, false, show_bus_link},
	{UVERBS "/subsystem", AV_VSYSFS_LINK, false, show_uverbs_class},
	{UVERBS "/<odp>", AV_VSYSFS_FILE, false, show_odp},
	{BUSDEV "/<nets>", AV_VSYSFS_DIR, false, NULL}, /* last: the interfaces are looked up */
	{BUSDEV "/<nets>/<net>", AV_VSYSFS_LINK, false, show_net_link},

	{CMDEV, AV_VSYSFS_DIR, false, NULL},
	{CMDEV "/abi_version", AV_VSYSFS_FILE, false, show_cm_abi},
	{CMDEV "/dev", AV_VSYSFS_FILE, false, show_cm_dev},
	{CMDEV "/uevent", AV_VSYSFS_FILE, false, show_cm_uevent},
	{CMDEV "/subsystem", AV_VSYSFS_LINK, false, show_cm_class},

	{DEBUG, AV_VSYSFS_DIR, true, NULL},
	{DEBUG "/<bus>", AV_VSYSFS_DIR, false, NULL},
	{DEBUG "/<bus>/odp_stats", AV_VSYSFS_DIR, false, NULL},
	{DEBUG "/<bus>/odp_stats/<odp_debug>", AV_VSYSFS_FILE, false, show_odp},

	{DEVDIR, AV_VSYSFS_DIR, true, NULL},
	{DEVDIR "/<uverbs>", AV_VSYSFS_CHAR, true, NULL},
	{AV_VSYSFS_CM_DEVICE, AV_VSYSFS_CHAR, false, NULL},
};
const size_t av_vsysfs_row_count = AV_ARRAY_SIZE(av_vsysfs_rows);

static const char *const prefixes[] = {
	IB, /* VERBS and MAD begin with it, too */
	CM, (BUS "/anyverbs."), CMDEV, DEBUG, DEVDIR,
};
_Static_assert(sizeof(CMDEV) <= AV_VSYSFS_PREFIX_BYTES, "the longest of them");

static bool path_has_prefix(const char *path, const char *with)
{
	return !strncmp(path, with, strlen(with));
}

bool av_vsysfs_has_prefix(const char *path)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(prefixes); i++)
		if (path_has_prefix(path, prefixes[i]))
			return true;
	return false;
}

bool av_vsysfs_is_above(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < AV_ARRAY_SIZE(prefixes); i++)
		if (path_has_prefix(prefixes[i], path) && prefixes[i][len] == '/')
			return true;
	return false;
}

bool av_vsysfs_suspects_below(const char *path)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(prefixes); i++)
		for (const char *at = prefixes[i]; at; at = strchr(at + 1, '/'))
			if (path[0] == at[1] && path_has_prefix(path, at + 1))
				return true;
	return false;
}
