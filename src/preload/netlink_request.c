/* SPDX-License-Identifier: MIT */
#include "preload/netlink_request.h"

#include <errno.h>

#include "device/instance.h"

static const uint16_t numbers[] = {
	RDMA_NLDEV_ATTR_DEV_INDEX,  RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_RES_LQPN,
	RDMA_NLDEV_ATTR_RES_PDN,    RDMA_NLDEV_ATTR_RES_CQN,	RDMA_NLDEV_ATTR_RES_MRN,
	RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_CTXN,	RDMA_NLDEV_ATTR_RES_SRQN,
	RDMA_NLDEV_ATTR_STAT_RES,
};

static const struct av_device *device_named(const struct nlattr *index)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; index && i < count; i++)
		if (av_instance_number(list[i]) == av_nl_u32(index))
			return list[i];
	return NULL;
}

int av_nldev_parse(const struct nlmsghdr *header, struct av_nldev_request *r)
{
	r->header = header;
	r->command = RDMA_NL_GET_OP(header->nlmsg_type);
	av_nl_attrs(header, r->attr, AV_ARRAY_SIZE(r->attr));
	for (size_t i = 0; i < AV_ARRAY_SIZE(numbers); i++) {
		const struct nlattr *attr = r->attr[numbers[i]];

		if (attr && av_nl_length(attr) < sizeof(uint32_t))
			return -EINVAL;
	}
	r->dev = device_named(r->attr[RDMA_NLDEV_ATTR_DEV_INDEX]);
	return 0;
}

void av_nldev_put_handle(struct av_nl_out *out, const struct av_device *dev)
{
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_DEV_INDEX, av_instance_number(dev));
	av_nl_put_text(out, RDMA_NLDEV_ATTR_DEV_NAME, dev->ibv.name);
}
