/* SPDX-License-Identifier: MIT */
#include "preload/netlink_device.h"

#include <errno.h>
#include <string.h>
#include <endian.h>
#include <sys/sysmacros.h>
#include <rdma/rdma_user_cm.h>

#include "device/port.h"
#include "segment/totals.h"
#include "observe/counters.h"
#include "preload/vsysfs.h"

#define ONLY_PORT      1
#define SHARED_NETNS   1 /* every network namespace sees the devices */
#define COPY_ON_FORK   1 /* a child has memory of its own whatever is registered */
#define DRIVER_UNKNOWN 0 /* rdma/ib_user_ioctl_verbs.h: RDMA_DRIVER_UNKNOWN */

static bool is_infiniband(const struct av_device *dev)
{
	return dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

/* --- devices ----------------------------------------------------------------------- */

static void put_device(const struct av_nldev_request *r, const struct av_device *dev,
		       uint16_t flags, struct av_nl_out *out)
{
	av_nl_begin(out, r->header->nlmsg_type, flags);
	av_nldev_put_handle(out, dev);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, dev->attr.phys_port_cnt);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, dev->attr.device_cap_flags);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_FW_VERSION, dev->attr.fw_ver);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_NODE_GUID, dev->guid);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, dev->guid);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, (uint8_t)dev->ibv.node_type);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_DEV_PROTOCOL, is_infiniband(dev) ? "ib" : "roce");
	av_nl_end(out);
}

int av_nldev_device(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_device(r, r->dev, 0, out);
	return 0;
}

int av_nldev_devices(const struct av_nldev_request *r, struct av_nl_out *out)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		put_device(r, list[i], NLM_F_MULTI, out);
	return 0;
}

/* --- ports ------------------------------------------------------------------------- */

/* The first interface that its addresses come from. */
static void put_interface(const struct av_device *dev, struct av_nl_out *out)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids);

	for (unsigned int i = 0; i < count; i++) {
		if (!av_gid_there(gids, count, i) || !gids[i].ifname[0])
			continue;
		av_nl_put_u32(out, RDMA_NLDEV_ATTR_NDEV_INDEX, gids[i].ifindex);
		av_nl_put_text(out, RDMA_NLDEV_ATTR_NDEV_NAME, gids[i].ifname);
		return;
	}
}

/* What only an InfiniBand port has. */
static void put_subnet(const struct av_device *dev, const struct ibv_port_attr *port,
		       struct av_nl_out *out)
{
	struct av_gid row;

	av_gid_from_guid(dev->guid, &row);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, port->port_cap_flags);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_SUBNET_PREFIX, be64toh(row.gid.global.subnet_prefix));
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_LID, port->lid);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_SM_LID, port->sm_lid);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_LMC, port->lmc);
}

static void put_port(const struct av_nldev_request *r, uint16_t flags, struct av_nl_out *out)
{
	struct ibv_port_attr port;

	av_port_attr(r->dev, &port);
	av_nl_begin(out, r->header->nlmsg_type, flags);
	av_nldev_put_handle(out, r->dev);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, ONLY_PORT);
	if (is_infiniband(r->dev))
		put_subnet(r->dev, &port, out);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)port.state);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port.phys_state);
	put_interface(r->dev, out);
	av_nl_end(out);
}

int av_nldev_port(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_port(r, 0, out);
	return 0;
}

int av_nldev_ports(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_port(r, NLM_F_MULTI, out);
	return 0;
}

/* --- statistics -------------------------------------------------------------------- */

void av_nldev_put_counter(struct av_nl_out *out, const char *name, uint64_t value)
{
	size_t entry = av_nl_nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

	av_nl_put_text(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
	av_nl_nest_end(out, entry);
}

int av_nldev_counters(const struct av_nldev_request *r, struct av_nl_out *out)
{
	struct av_counted counted = {0};
	size_t table;

	if (!r->attr[RDMA_NLDEV_ATTR_PORT_INDEX])
		return -EINVAL;
	av_totals_read(r->dev->ibv.name, &counted.total, &counted.link_downed);
	av_nl_begin(out, r->header->nlmsg_type, 0);
	av_nldev_put_handle(out, r->dev);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, ONLY_PORT);
	table = av_nl_nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (unsigned int i = 0; i < av_counter_count; i++)
		if (av_counter_info[i].scope & AV_SCOPE_HW)
			av_nldev_put_counter(out, av_counter_info[i].name,
					     av_counter_value(&av_counter_info[i], &counted));
	av_nl_nest_end(out, table);
	av_nl_end(out);
	return 0;
}

/* --- device nodes ------------------------------------------------------------------ */

static bool is_text(const struct nlattr *attr, const char *text)
{
	return attr && av_nl_length(attr) > strlen(text) &&
	       !memcmp(av_nl_payload(attr), text, strlen(text) + 1);
}

static void put_node(struct av_nl_out *out, dev_t number, uint64_t abi, const char *name)
{
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CHARDEV, number);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
	av_nl_end(out);
}

/* Of a device it is the verbs' node, of none in particular the connection manager's. */
int av_nldev_chardev(const struct av_nldev_request *r, struct av_nl_out *out)
{
	const struct nlattr *type = r->attr[RDMA_NLDEV_ATTR_CHARDEV_TYPE];

	if (!type)
		return -EINVAL;
	if (r->dev && is_text(type, "uverbs")) {
		av_nl_begin(out, r->header->nlmsg_type, 0);
		av_nl_put_u32(out, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, DRIVER_UNKNOWN);
		put_node(out, av_vsysfs_rdev(r->dev), AV_VSYSFS_UVERBS_ABI, r->dev->ibv.dev_name);
		return 0;
	}
	if (!r->attr[RDMA_NLDEV_ATTR_DEV_INDEX] && is_text(type, "rdma_cm")) {
		av_nl_begin(out, r->header->nlmsg_type, 0);
		put_node(out, AV_VSYSFS_CM_RDEV, RDMA_USER_CM_ABI_VERSION, "rdma_cm");
		return 0;
	}
	return -ENOENT;
}

/* --- the system -------------------------------------------------------------------- */

int av_nldev_system(const struct av_nldev_request *r, struct av_nl_out *out)
{
	av_nl_begin(out, r->header->nlmsg_type, 0);
	av_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, SHARED_NETNS);
	av_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, COPY_ON_FORK);
	av_nl_end(out);
	return 0;
}
