/* SPDX-License-Identifier: MIT */
/* Names for the numbers that devices report. Never NULL. */
#ifndef AV_TOOL_DESCRIBE_H
#define AV_TOOL_DESCRIBE_H

#include "device/device.h"

#define AV_GID_TEXT 48 /* bytes of a GID as text, NUL included */

const char *av_describe_link(uint8_t link_layer);
const char *av_describe_state(enum ibv_port_state state);
const char *av_describe_gid_type(uint32_t type);
unsigned int av_describe_mtu(enum ibv_mtu mtu); /* bytes */

/* Written as an IPv6 address; IPv4-mapped ones in dotted form. */
const char *av_describe_gid(const union ibv_gid *gid, char text[AV_GID_TEXT]);

#endif
