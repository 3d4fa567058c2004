/* SPDX-License-Identifier: MIT */
/* Commands that ask: what is known of an id, and what its queue pair needs in each state. */
#include "cm/id.h"

#include <infiniband/ib.h>
#include <infiniband/sa.h>

#define LIFETIME 16 /* of a packet: 4.096 us << it, as the kernel has it for RoCE */
#define EXACTLY	 2  /* the selector of a value in a path record */

static bool has_route(const struct av_cm_id *id)
{
	return id->where.dev && (id->state == AV_CM_ID_ROUTED || id->state == AV_CM_ID_CONNECT ||
				 id->state == AV_CM_ID_DISCONNECTED);
}

/* --- the older one: addresses and path at once ------------------------------------------ */

static void fill_route(const struct av_cm_id *id, struct ib_user_path_rec *p)
{
	memcpy(p->sgid, id->where.gid, sizeof(p->sgid));
	memcpy(p->dgid, id->gid, sizeof(p->dgid));
	p->pkey = htobe16(AV_PKEY_DEFAULT);
	p->mtu = av_cm_id_mtu(id);
	p->mtu_selector = EXACTLY;
	p->reversible = 1;
	p->numb_path = 1;
	p->hop_limit = 64;
	p->traffic_class = id->tos;
	p->packet_life_time = LIFETIME;
	p->packet_life_time_selector = EXACTLY;
}

static void put_ip6(struct sockaddr_in6 *to, const struct av_cm_name *name)
{
	struct sockaddr_storage address = {0};

	if (name->port || name->v6 || name->address[10])
		(void)av_cm_sockaddr_ip(name, &address);
	memcpy(to, &address, sizeof(*to));
}

static int query_route(struct av_cm_call *call)
{
	const struct rdma_ucm_query *command = AV_CM_BODY(call, struct rdma_ucm_query);
	struct rdma_ucm_query_route_resp answer = {0};
	const struct av_cm_id *id = call->id;

	put_ip6(&answer.src_addr, &id->src);
	put_ip6(&answer.dst_addr, &id->dst);
	if (id->where.dev) {
		answer.node_guid = id->where.dev->attr.node_guid;
		answer.ibdev_index = av_instance_number(id->where.dev);
		answer.port_num = 1;
		answer.num_paths = has_route(id);
		fill_route(id, &answer.ib_route[0]);
	}
	return av_cm_respond(call, command->response, &answer, sizeof(answer));
}

/* --- the newer ones --------------------------------------------------------------------- */

static socklen_t put_ib_sockaddr(const struct av_cm_name *name, struct sockaddr_storage *address)
{
	struct sockaddr_ib to = {.sib_family = AF_IB,
				 .sib_pkey = htobe16(AV_PKEY_DEFAULT),
				 .sib_sid = htobe64(name->service_id),
				 .sib_sid_mask = UINT64_MAX};

	memcpy(&to.sib_addr, name->address, sizeof(name->address));
	memset(address, 0, sizeof(*address));
	memcpy(address, &to, sizeof(to));
	return sizeof(to);
}

static socklen_t put_sockaddr(const struct av_cm_name *name, struct sockaddr_storage *address)
{
	if (name->ib)
		return put_ib_sockaddr(name, address);
	return av_cm_sockaddr_ip(name, address);
}

static void put_ends_addr(const struct av_cm_id *id, struct rdma_ucm_query_addr_resp *a)
{
	struct sockaddr_storage address;

	a->src_size = (uint16_t)put_sockaddr(&id->src, &address);
	memcpy(&a->src_addr, &address, sizeof(a->src_addr));
	if (id->state < AV_CM_ID_RESOLVED || id->state == AV_CM_ID_LISTENS)
		return;
	a->dst_size = (uint16_t)put_sockaddr(&id->dst, &address);
	memcpy(&a->dst_addr, &address, sizeof(a->dst_addr));
}

static uint16_t put_query_ib_addr(struct __kernel_sockaddr_storage *to, const uint8_t gid[16],
				  const struct av_cm_id *id, uint16_t port)
{
	struct av_cm_name name = {.ib = true, .service_id = av_cm_service_id(id->ps, port)};
	struct sockaddr_storage address;
	socklen_t bytes;

	if (id->where.dev)
		memcpy(name.address, gid, sizeof(name.address));
	bytes = put_sockaddr(&name, &address);
	memcpy(to, &address, sizeof(*to));
	return (uint16_t)bytes;
}

static void put_ends_gid(const struct av_cm_id *id, struct rdma_ucm_query_addr_resp *a)
{
	a->src_size = put_query_ib_addr(&a->src_addr, id->where.gid, id, id->src.port);
	a->dst_size = put_query_ib_addr(&a->dst_addr, id->gid, id, id->dst.port);
}

static int query_ends(struct av_cm_call *call, bool gids)
{
	const struct rdma_ucm_query *command = AV_CM_BODY(call, struct rdma_ucm_query);
	struct rdma_ucm_query_addr_resp answer = {0};
	const struct av_cm_id *id = call->id;

	if (call->out_bytes < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	if (id->where.dev) {
		answer.node_guid = id->where.dev->attr.node_guid;
		answer.ibdev_index = av_instance_number(id->where.dev);
		answer.port_num = 1;
		answer.pkey = htobe16(AV_PKEY_DEFAULT);
	}
	if (gids)
		put_ends_gid(id, &answer);
	else
		put_ends_addr(id, &answer);
	return av_cm_respond(call, command->response, &answer, sizeof(answer));
}

static void fill_path_record(const struct av_cm_id *id, struct ibv_path_record *p)
{
	if (!has_route(id))
		return;
	memcpy(&p->sgid, id->where.gid, sizeof(p->sgid));
	memcpy(&p->dgid, id->gid, sizeof(p->dgid));
	p->service_id = htobe64(id->service_id);
	p->flowlabel_hoplimit = htobe32(64);
	p->tclass = id->tos;
	p->reversible_numpath = 0x80 | 1;
	p->pkey = htobe16(AV_PKEY_DEFAULT);
	p->mtu = (uint8_t)(EXACTLY << 6 | av_cm_id_mtu(id));
	p->packetlifetime = EXACTLY << 6 | LIFETIME;
}

static int query_path(struct av_cm_call *call)
{
	const struct rdma_ucm_query *command = AV_CM_BODY(call, struct rdma_ucm_query);
	const struct rdma_ucm_query_path_resp head = {.num_paths = has_route(call->id)};
	struct ibv_path_data path = {
		.flags = htobe32(IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)};
	uint8_t answer[sizeof(head) + sizeof(path)];

	if (call->out_bytes < sizeof(head))
		return -ENOSPC;
	fill_path_record(call->id, &path.path);
	memcpy(answer, &head, sizeof(head));
	memcpy(answer + sizeof(head), &path, sizeof(path));
	return av_cm_respond(call, command->response, answer,
			     head.num_paths ? sizeof(answer) : sizeof(head));
}

static int query(struct av_cm_call *call)
{
	const struct rdma_ucm_query *command = AV_CM_BODY(call, struct rdma_ucm_query);

	switch (command->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_ends(call, false);
	case RDMA_USER_CM_QUERY_GID:
		return query_ends(call, true);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(call);
	default:
		return -ENOSYS;
	}
}

/* --- attributes of the queue pair -------------------------------------------------------- */

#define CONNECTED                                                               \
	(AV_CM_IN(REQ_RECEIVED) | AV_CM_IN(REP_SENT) | AV_CM_IN(REP_RECEIVED) | \
	 AV_CM_IN(ESTABLISHED))

/* @c: NULL: there is no connection yet, or datagrams need none */
static void to_init(const struct av_cm_id *id, const struct av_cm_conn *c,
		    struct ib_uverbs_qp_attr *a)
{
	bool ud = av_cm_id_is_ud(id);

	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	a->port_num = 1;
	if (ud)
		a->qkey = AV_CM_UDP_QKEY;
	if (c)
		a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (c && c->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void to_rtr(const struct av_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct av_cm_conn *c = id->conn;

	a->qp_attr_mask =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	av_cm_id_ah(id, &a->ah_attr);
	a->path_mtu = c->path_mtu;
	a->dest_qp_num = c->remote_qpn;
	a->rq_psn = c->psn; /* each end tells the other where to begin: IBTA volume 1, 12.7 */
	if (id->qp_type != IBV_QPT_UC) {
		a->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = c->responder_resources;
	}
}

static void to_rts(const struct av_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct av_cm_conn *c = id->conn;

	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = c->remote_psn;
	if (id->qp_type != IBV_QPT_UC) {
		a->qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC;
		a->timeout = id->ack_timeout_set ? id->ack_timeout : c->ack_timeout;
		a->retry_cnt = c->retry_count;
		a->rnr_retry = c->rnr_retry_count;
		a->max_rd_atomic = c->initiator_depth;
	}
}

static int fill_cm_qp_attr(const struct av_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct av_cm_conn *c = av_cm_id_is_ud(id) ? NULL : id->conn;

	if (!id->where.dev)
		return av_cm_id_refuse(id, AV_CM_IN(ADDR_RESOLVED) | AV_CM_IN(ROUTE_RESOLVED) |
						   CONNECTED);
	if (c && c->state > AV_CM_ESTABLISHED)
		return av_cm_id_refuse(id, CONNECTED);
	if (a->qp_state == IBV_QPS_INIT) {
		to_init(id, c, a);
		return 0;
	}
	if (av_cm_id_is_ud(id))
		return 0;
	if (c && a->qp_state != IBV_QPS_RTR && a->qp_state != IBV_QPS_RTS)
		return -av_refuse(EINVAL, AV_CHECK_CM_QP_STATE, a->qp_state, 0);
	if (!c || c->state == AV_CM_REQ_SENT)
		return av_cm_id_refuse(id, CONNECTED);
	if (a->qp_state == IBV_QPS_RTR)
		to_rtr(id, a);
	else
		to_rts(id, a);
	return 0;
}

static int init_qp_attr(struct av_cm_call *call)
{
	const struct rdma_ucm_init_qp_attr *command =
		AV_CM_BODY(call, struct rdma_ucm_init_qp_attr);
	struct ib_uverbs_qp_attr answer = {.qp_state = command->qp_state};
	struct av_cm_id *id;
	int ret;

	if (command->qp_state > IBV_QPS_ERR)
		return -av_refuse(EINVAL, AV_CHECK_CM_QP_STATE, command->qp_state, 0);
	ret = av_cm_id_find(call->channel, command->id, &id);
	if (ret == 0)
		ret = fill_cm_qp_attr(id, &answer);
	return ret ? ret : av_cm_respond(call, command->response, &answer, sizeof(answer));
}

const struct av_cm_row av_cm_query_rows[] = {
	AV_CM_ROW(QUERY_ROUTE, QUERY, query,
		  offsetof(struct rdma_ucm_query_route_resp, ibdev_index), AV_CM_ID_OF(query),
		  query_route),
	AV_CM_ROW(QUERY, QUERY, query, 0, AV_CM_ID_OF(query), query),
	AV_CM_ROW(INIT_QP_ATTR, INIT_QP_ATTR, init_qp_attr, sizeof(struct ib_uverbs_qp_attr),
		  AV_CM_NO_ID, init_qp_attr),
	{0},
};
