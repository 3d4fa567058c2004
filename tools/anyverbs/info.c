/* SPDX-License-Identifier: MIT */
/* "anyverbs info": everything a device says about itself. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "device/device.h"
#include "device/port.h"
#include "base/limits.h"

struct limit {
	const char *what;
	size_t offset; /* of the int, in struct ibv_device_attr */
};

#define LIMIT(what, member)                                    \
	{                                                      \
		what, offsetof(struct ibv_device_attr, member) \
	}

static const struct limit limits[] = {
	LIMIT("queue pairs", max_qp),
	LIMIT("work requests per queue", max_qp_wr),
	LIMIT("elements per work request", max_sge),
	LIMIT("elements per RDMA READ", max_sge_rd),
	LIMIT("RDMA READs in flight, as target", max_qp_rd_atom),
	LIMIT("RDMA READs in flight, as initiator", max_qp_init_rd_atom),
	LIMIT("completion queues", max_cq),
	LIMIT("entries per completion queue", max_cqe),
	LIMIT("protection domains", max_pd),
	LIMIT("memory regions", max_mr),
	LIMIT("memory windows", max_mw),
	LIMIT("shared receive queues", max_srq),
	LIMIT("requests per shared receive queue", max_srq_wr),
	LIMIT("elements per shared receive", max_srq_sge),
	LIMIT("address handles", max_ah),
	LIMIT("multicast groups", max_mcast_grp),
	LIMIT("queue pairs per multicast group", max_mcast_qp_attach),
};

struct capability {
	const char *name;
	unsigned int flag;
};

#define CAP(name)                        \
	{                                \
#name, IBV_DEVICE_##name \
	}

static const struct capability capabilities[] = {
	CAP(RESIZE_MAX_WR),	 CAP(BAD_PKEY_CNTR),	  CAP(BAD_QKEY_CNTR),
	CAP(RAW_MULTI),		 CAP(AUTO_PATH_MIG),	  CAP(CHANGE_PHY_PORT),
	CAP(UD_AV_PORT_ENFORCE), CAP(CURR_QP_STATE_MOD),  CAP(SHUTDOWN_PORT),
	CAP(INIT_TYPE),		 CAP(PORT_ACTIVE_EVENT),  CAP(SYS_IMAGE_GUID),
	CAP(RC_RNR_NAK_GEN),	 CAP(SRQ_RESIZE),	  CAP(N_NOTIFY_CQ),
	CAP(MEM_WINDOW),	 CAP(UD_IP_CSUM),	  CAP(XRC),
	CAP(MEM_MGT_EXTENSIONS), CAP(MEM_WINDOW_TYPE_2A), CAP(MEM_WINDOW_TYPE_2B),
	CAP(RC_IP_CSUM),	 CAP(RAW_IP_CSUM),	  CAP(MANAGED_FLOW_STEERING),
};

#define LABEL 36

static void print_text(const char *what, const char *text)
{
	printf("  %-*s%s\n", LABEL, what, text);
}

static void print_number(const char *what, uint64_t number)
{
	printf("  %-*s%" PRIu64 "\n", LABEL, what, number);
}

static const char *atomic_name(enum ibv_atomic_cap cap)
{
	switch (cap) {
	case IBV_ATOMIC_NONE:
		return "none";
	case IBV_ATOMIC_HCA:
		return "among all users of this device";
	default:
		return "also with the processor's atomics";
	}
}

static const char *odp_name(const struct av_device *dev)
{
	struct ibv_device_attr_ex ex;

	if (av_device_query_ex(dev, &ex, sizeof(ex)) ||
	    !(ex.odp_caps.general_caps & IBV_ODP_SUPPORT))
		return "no";
	return ex.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT ? "explicit and implicit"
								   : "explicit";
}

static void print_identity(const struct av_device *dev)
{
	print_text("link layer", av_describe_link(dev->link_layer));
	printf("  %-*s%016" PRIx64 "\n", LABEL, "GUID", dev->guid);
	print_text("version", dev->attr.fw_ver);
	print_text("uverbs name", dev->ibv.dev_name);
}

static void print_port(const struct av_device *dev)
{
	struct ibv_port_attr port;

	printf("\n port 1\n");
	av_port_attr(dev, &port);
	print_text("state", av_describe_state(port.state));
	print_number("MTU", av_describe_mtu(port.active_mtu));
	if (dev->link_layer == IBV_LINK_LAYER_INFINIBAND) {
		print_number("LID", dev->port.lid);
		print_number("subnet manager's LID", dev->port.sm_lid);
	}
	print_number("longest message", dev->port.max_msg_sz);
	print_number("partition keys", dev->port.pkey_tbl_len);
	print_number("GID table rows", (uint64_t)dev->port.gid_tbl_len);
}

static void print_limits(const struct av_device *dev)
{
	printf("\n limits\n");
	for (size_t i = 0; i < AV_ARRAY_SIZE(limits); i++) {
		int value;

		memcpy(&value, (const char *)&dev->attr + limits[i].offset, sizeof(value));
		print_number(limits[i].what, (uint64_t)value);
	}
	print_number("bytes of inline data", AV_MAX_INLINE);
}

static void print_capabilities(const struct av_device *dev)
{
	printf("\n capabilities\n");
	print_text("atomics", atomic_name(dev->attr.atomic_cap));
	print_text("on-demand paging", odp_name(dev));
	for (size_t i = 0; i < AV_ARRAY_SIZE(capabilities); i++)
		if (dev->attr.device_cap_flags & capabilities[i].flag)
			print_text(capabilities[i].name, "yes");
}

static void print_gids(const struct av_device *dev)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids);

	printf("\n GIDs\n  %5s  %-10s  %-16s%s\n", "INDEX", "TYPE", "INTERFACE", "GID");
	for (unsigned int i = 0; i < count; i++) {
		char text[AV_GID_TEXT];

		if (av_gid_is_empty(&gids[i]))
			continue;
		printf("  %5u  %-10s  %-16s%s\n", i, av_describe_gid_type(gids[i].type),
		       gids[i].ifname[0] ? gids[i].ifname : "-",
		       av_describe_gid(&gids[i].gid, text));
	}
}

static void print_device(const struct av_device *dev)
{
	printf("%s\n", dev->ibv.name);
	print_identity(dev);
	print_port(dev);
	print_limits(dev);
	print_capabilities(dev);
	print_gids(dev);
}

static int info_main(int argc, char **argv)
{
	struct av_device *const *list;
	const struct av_device *dev;
	unsigned int count;

	if (argc > 2)
		return av_tool_usage(&av_command_info);
	if (argc == 2) {
		dev = av_device_by_name(argv[1]);
		if (!dev) {
			av_tool_complain("there is no device '%s'; 'anyverbs devices' lists them",
					 argv[1]);
			return AV_EXIT_NO;
		}
		print_device(dev);
		return AV_EXIT_OK;
	}
	list = av_devices(&count);
	for (unsigned int i = 0; i < count; i++) {
		if (i)
			putchar('\n');
		print_device(list[i]);
	}
	return AV_EXIT_OK;
}

const struct av_command av_command_info = {
	.name = "info",
	.summary = "Show everything about a device: port, limits, capabilities, GIDs",
	.synopsis = "[DEVICE]",
	.details = "Without DEVICE, shows all devices.\n",
	.main = info_main,
};
