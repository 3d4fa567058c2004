/* SPDX-License-Identifier: MIT */
/* "anyverbs info": everything a device says about itself. */
#include "command.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "wire/packet.h"
#include "device/port.h"
#include "base/limits.h"
#include "json_out.h"
#include "pick.h"

struct limit {
	const char *what;
	const char *member;
	size_t offset; /* of the int, in struct ibv_device_attr */
};

#define LIMIT(what, member)                                             \
	{                                                               \
		what, #member, offsetof(struct ibv_device_attr, member) \
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

/* --- one thing that a device says ------------------------------------------------ */

#define LABEL 36

static bool json;
static json_t *section; /* with --json: the object that gets the next member */

/* Show a text as @what, or in JSON as @member. */
static void say_text(const char *member, const char *what, const char *text)
{
	if (json)
		json_object_set_new(section, member, json_string(text));
	else
		printf("  %-*s%s\n", LABEL, what, text);
}

static void say_number(const char *member, const char *what, uint64_t number)
{
	if (json)
		json_object_set_new(section, member, json_integer((json_int_t)number));
	else
		printf("  %-*s%" PRIu64 "\n", LABEL, what, number);
}

/* What follows belongs to this part of @device's object. */
static void begin(json_t *device, const char *member, const char *heading)
{
	if (!json) {
		printf("\n %s\n", heading);
		return;
	}
	section = json_object();
	json_object_set_new(device, member, section);
}

/* --- all of them ----------------------------------------------------------------- */

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

static void say_identity(const struct av_device *dev)
{
	char guid[20];

	snprintf(guid, sizeof(guid), "%016" PRIx64, dev->guid);
	say_text("link_layer", "link layer", av_link_name(dev));
	say_text("guid", "GUID", guid);
	say_text("version", "version", dev->attr.fw_ver);
	say_text("uverbs_name", "uverbs name", dev->ibv.dev_name);
}

static void say_port(const struct av_device *dev)
{
	struct ibv_port_attr port;

	av_port_attr(dev, &port);
	say_text("state", "state", port.state == IBV_PORT_ACTIVE ? "active" : "down");
	say_number("mtu", "MTU", av_mtu_bytes(port.active_mtu));
	if (dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		say_number("lid", "LID", dev->port.lid);
		say_number("sm_lid", "subnet manager's LID", dev->port.sm_lid);
	}
	say_number("max_msg_sz", "longest message", dev->port.max_msg_sz);
	say_number("pkey_tbl_len", "partition keys", dev->port.pkey_tbl_len);
	say_number("gid_tbl_len", "GID table rows", (uint64_t)dev->port.gid_tbl_len);
}

static void say_limits(const struct av_device *dev)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(limits); i++) {
		int value;

		memcpy(&value, (const char *)&dev->attr + limits[i].offset, sizeof(value));
		say_number(limits[i].member, limits[i].what, (uint64_t)value);
	}
	say_number("max_inline_data", "bytes of inline data", AV_MAX_INLINE);
}

static void say_capabilities(const struct av_device *dev)
{
	say_text("atomics", "atomics", atomic_name(dev->attr.atomic_cap));
	say_text("on_demand_paging", "on-demand paging", odp_name(dev));
	for (size_t i = 0; i < AV_ARRAY_SIZE(capabilities); i++)
		if (dev->attr.device_cap_flags & capabilities[i].flag)
			say_text(capabilities[i].name, capabilities[i].name, "yes");
}

static void say_gid(json_t *list, unsigned int index, const struct av_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	(void)inet_ntop(AF_INET6, gid->gid.raw, text, sizeof(text));
	if (json)
		json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "index", (int)index,
						      "type", av_gid_type_name(gid->type),
						      "interface", gid->ifname, "gid", text));
	else
		printf("  %5u  %-10s  %-16s%s\n", index, av_gid_type_name(gid->type),
		       gid->ifname[0] ? gid->ifname : "-", text);
}

static void say_gids(const struct av_device *dev, json_t *list)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids);

	if (!json)
		printf("\n GIDs\n  %5s  %-10s  %-16s%s\n", "INDEX", "TYPE", "INTERFACE", "GID");
	for (unsigned int i = 0; i < count; i++)
		if (!av_gid_is_empty(&gids[i]))
			say_gid(list, i, &gids[i]);
}

/* Return: the device's object; NULL for text output, or if memory is short */
static json_t *say_device(const struct av_device *dev)
{
	json_t *object = json ? json_pack("{s:s}", "device", dev->ibv.name) : NULL,
	       *gids = json ? json_array() : NULL;

	section = object;
	if (!json)
		printf("%s\n", dev->ibv.name);
	say_identity(dev);
	begin(object, "port", "port 1");
	say_port(dev);
	begin(object, "limits", "limits");
	say_limits(dev);
	begin(object, "capabilities", "capabilities");
	say_capabilities(dev);
	say_gids(dev, gids);
	if (json)
		json_object_set_new(object, "gids", gids);
	return object;
}

static int info_main(int argc, char **argv)
{
	struct av_pick pick;

	if (!av_pick(&pick, argc ? argv[0] : NULL))
		return AV_EXIT_NO;
	if (json)
		return av_json_write("devices", av_json_each(pick.list, pick.count, say_device));
	for (unsigned int i = 0; i < pick.count; i++) {
		if (i)
			putchar('\n');
		say_device(pick.list[i]);
	}
	return AV_EXIT_OK;
}

static const struct av_option options[] = {AV_JSON_OPTION(&json), {.name = NULL}};

const struct av_command av_command_info = {
	.name = "info",
	.summary = "Show everything about a device: port, limits, capabilities, GIDs",
	.operands = "[DEVICE]",
	.most = 1,
	.options = options,
	.details = "Without DEVICE, shows all devices.\n",
	.examples = "anyverbs info any0\n"
		    "anyverbs info --json\n",
	.main = info_main,
};
