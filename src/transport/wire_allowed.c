/* SPDX-License-Identifier: MIT */
#include "transport/wire_allowed.h"

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

bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah)
{
	return av_wire_is_possible(seg) && ah->is_global;
}
