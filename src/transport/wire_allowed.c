/* SPDX-License-Identifier: MIT */
#include "transport/wire_allowed.h"

#include <infiniband/verbs.h>

#include "base/setting.h"

static struct av_setting wire_only = {.variable = "ANYVERBS_TRANSPORT", .value = "wire"};
static struct av_setting direct_only = {.variable = "ANYVERBS_TRANSPORT", .value = "direct"};

bool av_wire_is_forced(void)
{
	return av_setting_is(&wire_only);
}

bool av_wire_is_allowed(void)
{
	return !av_setting_is(&direct_only);
}

bool av_wire_is_possible(const struct av_seg *seg)
{
	return seg->head->link_layer == IBV_LINK_LAYER_ETHERNET && av_wire_is_allowed();
}
