/* SPDX-License-Identifier: MIT */
/* Commands about multicast groups. On RoCE nobody is asked: queue pairs attach themselves. */
#include <errno.h>
#include <string.h>

#include "cm/command.h"
#include "net/address.h"
#include "observe/diagnosis.h"

#define GROUP_QPN 0xffffffu

static void describe(const struct av_cm_id *id, const struct av_cm_name *name,
		     struct rdma_ucm_ud_param *ud)
{
	memset(ud, 0, sizeof(*ud));
	ud->qp_num = GROUP_QPN;
	ud->qkey = AV_CM_UDP_QKEY;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.sgid_index = (uint8_t)id->where.gid_index;
	ud->ah_attr.grh.hop_limit = 1;
	ud->ah_attr.grh.traffic_class = id->tos;
	memcpy(ud->ah_attr.grh.dgid, name->address, sizeof(ud->ah_attr.grh.dgid));
}

/* An id may join that has a device: it is bound to an address, or has resolved one. */
static bool may_join(const struct av_cm_id *id)
{
	return id->where.dev && (id->state == AV_CM_ID_BOUND || id->state == AV_CM_ID_RESOLVED);
}

static int join(struct av_cm_call *call, uint32_t number, uint64_t uid, uint64_t response,
		const struct sockaddr *address)
{
	struct rdma_ucm_create_id_resp answer;
	struct rdma_ucm_ud_param ud;
	struct av_cm_name name;
	struct av_cm_group *g;
	struct av_cm_id *id;
	int ret;

	if (call->out_bytes < sizeof(answer))
		return -ENOSPC;
	ret = av_cm_id_find(call->channel, number, &id);
	if (ret)
		return ret;
	if (!av_cm_name(address, &name) || !av_net_is_group(name.address) || !av_cm_id_is_ud(id))
		return -av_refuse(EINVAL, AV_CHECK_CM_GROUP, 0, 0);
	if (!may_join(id))
		return av_cm_id_refuse(id, (id->where.dev ? AV_CM_IN(ADDR_BOUND) : 0) |
						   AV_CM_IN(ADDR_RESOLVED));
	g = av_cm_group_new(id, uid);
	if (!g)
		return -ENOMEM;
	answer.id = g->number;
	ret = av_cm_respond(call, response, &answer, sizeof(answer), sizeof(answer));
	if (ret) {
		av_cm_group_destroy(g);
		return ret;
	}
	describe(id, &name, &ud);
	ret = av_cm_group_heard(g, AV_CM_EVENT_MULTICAST_JOIN, 0, &ud);
	if (ret)
		av_cm_group_destroy(g);
	return ret;
}

int av_cm_join_ip_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_join_ip_mcast *command =
		AV_CM_BODY(call, struct rdma_ucm_join_ip_mcast);

	return join(call, command->id, command->uid, command->response,
		    (const struct sockaddr *)&command->addr);
}

int av_cm_join_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_join_mcast *command = AV_CM_BODY(call, struct rdma_ucm_join_mcast);

	if (!command->addr_size || command->addr_size > sizeof(command->addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, command->addr_size, 0);
	if (command->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -av_refuse(EINVAL, AV_CHECK_FLAGS, command->join_flags,
				  RDMA_MC_JOIN_FLAG_RESERVED - 1);
	return join(call, command->id, command->uid, command->response,
		    (const struct sockaddr *)&command->addr);
}

int av_cm_leave_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_destroy_id *command = AV_CM_BODY(call, struct rdma_ucm_destroy_id);
	struct rdma_ucm_destroy_id_resp answer;
	struct av_cm_group *g;
	int ret;

	if (call->out_bytes < sizeof(answer))
		return -ENOSPC;
	ret = av_cm_group_find(call->channel, command->id, &g);
	if (ret)
		return ret;
	answer.events_reported = g->reported;
	av_cm_group_destroy(g);
	av_cm_channel_settle(call->channel, call->fd);
	return av_cm_respond(call, command->response, &answer, sizeof(answer), sizeof(answer));
}
