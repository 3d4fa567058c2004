/* SPDX-License-Identifier: MIT */
#include "describe.h"

#include <arpa/inet.h>

#include "base/compiler.h"

const char *av_describe_link(uint8_t link_layer)
{
	return link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
}

const char *av_describe_state(enum ibv_port_state state)
{
	static const char *const names[] = {
		[IBV_PORT_NOP] = "no change",	  [IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "initialising", [IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active",	  [IBV_PORT_ACTIVE_DEFER] = "deferred",
	};

	return (size_t)state < AV_ARRAY_SIZE(names) ? names[state] : "unknown";
}

const char *av_describe_gid_type(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	default:
		return "unknown";
	}
}

unsigned int av_describe_mtu(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

const char *av_describe_gid(const union ibv_gid *gid, char text[AV_GID_TEXT])
{
	const char *s = inet_ntop(AF_INET6, gid->raw, text, AV_GID_TEXT);

	return s ? s : "";
}
