/* SPDX-License-Identifier: MIT */
/* ibv_exp_query_port(), ibv_exp_query_gid_attr(). */
#include <string.h>

#include "verbs/query.h"
#include "exp/exp.h"

#define ALL_FIELDS (2 * IBV_EXP_QUERY_PORT_LINK_LAYER - 1)

/* Fills all fields; the mask names the least that must be filled. */
AV_EXPORT int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num,
				 struct ibv_exp_port_attr *port_attr)
{
	if (port_attr->comp_mask == 0)
		return ibv_query_port(context, port_num, &port_attr->port_attr);
	if (!av_ours(context))
		return -av_exp_absent(AV_VERB_EXP_QUERY_PORT);
	if ((port_attr->comp_mask & ~(uint32_t)IBV_EXP_QUERY_PORT_ATTR_MASK1) ||
	    (port_attr->mask1 & ~(uint32_t)ALL_FIELDS))
		return -av_fail_errno(AV_VERB_EXP_QUERY_PORT, EINVAL);
	return av_query_port(context, port_num, &port_attr->port_attr,
			     sizeof(port_attr->port_attr));
}

/* An empty row of the table reads as zeros, as with ibv_query_gid(). */
AV_EXPORT int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num,
				     unsigned int index, struct ibv_exp_gid_attr *attr)
{
	struct ibv_gid_entry entry;
	int err;

	if (!av_ours(context))
		return ENOSYS;
	AV_EXP_KNOWN_OR_EINVAL(attr->comp_mask, IBV_EXP_QUERY_GID_ATTR_RESERVED);
	err = ibv_query_gid_ex(context, port_num, index, &entry, 0);
	if (err == ENODATA)
		memset(&entry, 0, sizeof(entry));
	else if (err)
		return err;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_TYPE)
		attr->type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_EXP_ROCE_V2_GID_TYPE
								    : IBV_EXP_IB_ROCE_V1_GID_TYPE;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_GID)
		attr->gid = entry.gid;
	return 0;
}
