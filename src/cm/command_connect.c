/* SPDX-License-Identifier: MIT */
#include "cm/cm.h"

/* Commands of a connection: asking, listening, accepting, refusing, confirming, ending. */

#define HOPS	     64
#define ACK_TIMEOUT  17 /* a packet's life and back: 0.5 s */
#define CM_TIMEOUT   20 /* until a CM answers, as the kernel has it: 4.3 s */
#define CM_RETRIES   15
#define BACKLOG_MOST 1024

/* --- connecting ------------------------------------------------------------------------- */

static uint64_t target_service_id(const struct av_cm_id *id)
{
	return id->dst.ib ? id->dst.service_id : av_cm_service_id(id->ps, id->dst.port);
}

static struct av_cm_route route_of(const struct av_cm_id *id)
{
	struct av_cm_route route = {.device = id->where.dev->ibv.name};

	memcpy(route.path.src, id->where.gid, sizeof(route.path.src));
	memcpy(route.path.dst, id->gid, sizeof(route.path.dst));
	memcpy(route.named, id->dst.address, sizeof(route.named));
	route.path.hop_limit = HOPS;
	route.path.traffic_class = id->tos;
	route.proc = av_cm_listener_of(&route, target_service_id(id));
	return route;
}

static void put_ends(const struct av_cm_id *id, uint8_t *to)
{
	struct av_cm_ip ip = {.v6 = id->dst.v6, .src_port = id->src.port};

	memcpy(ip.src, id->src.address, sizeof(ip.src));
	memcpy(ip.dst, id->dst.address, sizeof(ip.dst));
	av_cm_ip_put(&ip, to);
}

/* Return: 0, or -EINVAL and why: the program's private data are too long */
static int check_private(uint16_t attribute, size_t header, size_t bytes)
{
	size_t room = av_cm_private_bytes(attribute) - header;

	return bytes <= room ? 0 : -av_refuse(EINVAL, AV_CHECK_CM_PRIVATE, bytes, room);
}

static void put_path(const struct av_cm_id *id, const struct av_cm_route *route,
		     struct av_cm_path *p)
{
	memcpy(p->local_gid, route->path.src, sizeof(p->local_gid));
	memcpy(p->remote_gid, route->path.dst, sizeof(p->remote_gid));
	p->local_lid = p->remote_lid = 0xffff; /* the permissive one: RoCE has none */
	p->hop_limit = route->path.hop_limit;
	p->traffic_class = route->path.traffic_class;
	p->ack_timeout = id->ack_timeout_set ? id->ack_timeout : ACK_TIMEOUT;
	p->subnet_local = true;
}

static uint8_t at_most(uint8_t value, uint8_t most)
{
	return value < most ? value : most;
}

/*
 * Begin a REQ, a REP, or a message of SIDR with what the program says of its end. The program's
 * private data follow @header bytes. Return: 0 or -EINVAL
 */
static int begin_cm_message(struct av_cm_message *m, uint16_t attribute, const struct av_cm_id *id,
			    const struct rdma_ucm_conn_param *p, const struct rdma_ucm_ece *ece,
			    size_t header)
{
	int ret = check_private(attribute, header, p->private_data_len);

	*m = (struct av_cm_message){
		.attribute = attribute,
		.ca_guid = be64toh(id->where.dev->attr.node_guid),
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control,
		.rnr_retry_count = at_most(p->rnr_retry_count, 7),
		.srq = p->srq,
		.vendor_id = ece->vendor_id,
		.attr_mod = ece->attr_mod,
	};
	if (ret == 0)
		memcpy(m->private_data + header, p->private_data, p->private_data_len);
	return ret;
}

static void keep_own(struct av_cm_conn *c, const struct rdma_ucm_conn_param *p)
{
	c->qpn = p->qp_num & AV_QPN_MASK;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
}

static int connect_routed(struct av_cm_id *id, const struct av_cm_route *route,
			  const struct rdma_ucm_connect *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	bool ud = av_cm_id_is_ud(id);
	struct av_cm_message m;
	int ret = begin_cm_message(&m, ud ? AV_CM_SIDR_REQ : AV_CM_REQ, id, p, &command->ece,
				   av_cm_id_header(id));

	if (ret)
		return ret;
	id->conn = av_cm_conn_new(id, ud ? AV_CM_SIDR_SENT : AV_CM_REQ_SENT, route, NULL);
	if (!id->conn)
		return -ENOMEM;
	m.qpn = p->qp_num;
	m.psn = id->conn->psn;
	m.service_id = target_service_id(id);
	m.pkey = AV_PKEY_DEFAULT;
	m.local_timeout = m.remote_timeout = CM_TIMEOUT;
	m.max_cm_retries = CM_RETRIES;
	m.retry_count = at_most(p->retry_count, 7);
	m.path_mtu = (uint8_t)av_cm_id_mtu(id);
	av_cm_kind_put(&m, id->qp_type);
	put_path(id, route, &m.primary);
	if (!id->dst.ib)
		put_ends(id, m.private_data);
	keep_own(id->conn, p);
	id->service_id = m.service_id;
	id->state = AV_CM_ID_CONNECT;
	return av_cm_conn_send(id->conn, &m);
}

/* Return: 0, or -EINVAL and why: the id may not be connected */
static int check_routed(const struct av_cm_id *id, const struct rdma_ucm_connect *command)
{
	if (id->state != AV_CM_ID_ROUTED)
		return av_cm_id_refuse(id, AV_CM_IN(ROUTE_RESOLVED));
	return command->conn_param.valid ? 0 : -av_refuse(EINVAL, AV_CHECK_CM_PARAMETERS, 0, 0);
}

/* Opening a socket waits. Meanwhile another thread may use, or destroy, the id. */
static int connect_id(struct av_cm_call *call)
{
	const struct rdma_ucm_connect *command = AV_CM_BODY(call, struct rdma_ucm_connect);
	int ret = check_routed(call->id, command);
	struct av_cm_route route;

	if (ret)
		return ret;
	route = route_of(call->id);
	if (!route.proc) {
		av_cm_unlock();
		ret = av_cm_attend(route.path.src);
		av_cm_lock();
		if (ret == 0)
			ret = av_cm_id_find(call->channel, command->id, &call->id);
		if (ret == 0)
			ret = check_routed(call->id, command);
	}
	return ret ? ret : connect_routed(call->id, &route, command);
}

/* --- listening --------------------------------------------------------------------------- */

static int listen_bound(struct av_cm_id *id, uint32_t backlog)
{
	const struct av_cm_name any = {.address = {[10] = 0xff, 0xff}}; /* of IPv4 */
	int ret = 0;

	if (id->state == AV_CM_ID_IDLE)
		ret = av_cm_id_bind(id, &any);
	if (ret == 0 && id->state != AV_CM_ID_BOUND)
		ret = av_cm_id_refuse(id, AV_CM_IN(IDLE) | AV_CM_IN(ADDR_BOUND));
	if (ret == 0)
		ret = av_cm_port_listen(id->port);
	if (ret)
		return ret;
	id->backlog = backlog && backlog < BACKLOG_MOST ? backlog : BACKLOG_MOST;
	id->state = AV_CM_ID_LISTENS;
	return 0;
}

/* At all addresses, if the id has no device. Without them, processes of this host are heard. */
static int listen_id(struct av_cm_call *call)
{
	const struct rdma_ucm_listen *command = AV_CM_BODY(call, struct rdma_ucm_listen);
	int ret = listen_bound(call->id, command->backlog);
	struct av_cm_where where;

	if (ret)
		return ret;
	where = call->id->where;
	av_cm_unlock();
	(void)!av_cm_attend(where.dev ? where.gid : NULL);
	av_cm_lock();
	return 0;
}

/* --- answering --------------------------------------------------------------------------- */

static int accept_request(struct av_cm_id *id, const struct rdma_ucm_accept *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	bool ud = av_cm_id_is_ud(id);
	struct av_cm_message m;
	int ret = begin_cm_message(&m, ud ? AV_CM_SIDR_REP : AV_CM_REP, id, p, &command->ece, 0);

	if (ret)
		return ret;
	av_cm_kind_put_qpn(&m, id->qp_type, p->qp_num);
	m.psn = id->conn->psn;
	m.failover_accepted = 1; /* not supported */
	m.service_id = id->service_id;
	m.status = AV_CM_SIDR_OK;
	if (ud)
		m.qkey = p->qkey ? p->qkey : AV_CM_UDP_QKEY;
	if (av_cm_conn_send(id->conn, &m))
		return av_cm_id_refuse(id, AV_CM_IN(REQ_RECEIVED));
	keep_own(id->conn, p);
	return 0;
}

/* Of the side that has asked */
static int confirm(struct av_cm_id *id)
{
	const struct av_cm_message m = {.attribute = AV_CM_RTU};

	return av_cm_conn_send(id->conn, &m) ? av_cm_id_refuse(id, AV_CM_IN(REP_RECEIVED)) : 0;
}

static int reject(struct av_cm_id *id, uint8_t reason, const void *data, size_t bytes)
{
	int ret = av_cm_conn_reject(id->conn, reason, data, bytes);

	if (ret == 0)
		id->state = AV_CM_ID_DISCONNECTED;
	return ret;
}

/* Whose accept fails has refused, as in the kernel: else the peer would wait for its timeouts. */
static int accept_id(struct av_cm_call *call)
{
	const struct rdma_ucm_accept *command = AV_CM_BODY(call, struct rdma_ucm_accept);
	struct av_cm_id *id = call->id;
	int ret;

	if (id->state != AV_CM_ID_CONNECT || !id->conn)
		return av_cm_id_refuse(id, AV_CM_IN(REQ_RECEIVED) | AV_CM_IN(REP_RECEIVED));
	ret = command->conn_param.valid ? accept_request(id, command) : confirm(id);
	if (ret)
		(void)!reject(id, AV_CM_CONSUMER, NULL, 0);
	else if (command->conn_param.valid)
		id->uid = command->uid;
	return ret;
}

static int reject_id(struct av_cm_call *call)
{
	const struct rdma_ucm_reject *command = AV_CM_BODY(call, struct rdma_ucm_reject);
	uint8_t reason = command->reason ? command->reason : AV_CM_CONSUMER;
	struct av_cm_id *id;
	int ret;

	if (reason != AV_CM_CONSUMER && reason != AV_CM_NO_VENDOR_OPTION)
		return -av_refuse(EINVAL, AV_CHECK_CM_REASON, reason, 0);
	ret = av_cm_id_find(call->channel, command->id, &id);
	if (ret)
		return ret;
	if (id->conn)
		ret = check_private(av_cm_id_is_ud(id) ? AV_CM_SIDR_REP : AV_CM_REJ, 0,
				    command->private_data_len);
	if (ret)
		return ret;
	if (id->conn && reject(id, reason, command->private_data, command->private_data_len) == 0)
		return 0;
	return av_cm_id_refuse(id, AV_CM_IN(REQ_SENT) | AV_CM_IN(REQ_RECEIVED) |
					   AV_CM_IN(REP_SENT) | AV_CM_IN(REP_RECEIVED));
}

static int disconnect_id(struct av_cm_call *call)
{
	if (!call->id->conn)
		return av_cm_id_refuse(call->id, AV_CM_IN(ESTABLISHED) | AV_CM_IN(DREQ_RECEIVED));
	av_cm_conn_disconnect(call->id->conn);
	return 0;
}

static int notify_id(struct av_cm_call *call)
{
	const struct rdma_ucm_notify *command = AV_CM_BODY(call, struct rdma_ucm_notify);
	struct av_cm_id *id = call->id;
	int ret;

	if (command->event != IBV_EVENT_COMM_EST)
		return -av_refuse(EINVAL, AV_CHECK_CM_EVENT, command->event, 0);
	ret = id->conn ? av_cm_conn_established(id->conn) : 1;
	if (ret && ret != -EISCONN)
		return av_cm_id_refuse(id, AV_CM_IN(REP_SENT));
	if (ret == 0)
		ret = av_cm_id_heard(id, AV_CM_EVENT_ESTABLISHED, 0, NULL);
	return ret;
}

const struct av_cm_row av_cm_connection_rows[] = {
	{RDMA_USER_CM_CMD_CONNECT, AV_VERB_CM_CONNECT, offsetof(struct rdma_ucm_connect, ece), 0,
	 AV_CM_ID_OF(connect), connect_id},
	AV_CM_ROW(LISTEN, LISTEN, listen, 0, AV_CM_ID_OF(listen), listen_id),
	{RDMA_USER_CM_CMD_ACCEPT, AV_VERB_CM_ACCEPT, offsetof(struct rdma_ucm_accept, ece), 0,
	 AV_CM_ID_OF(accept), accept_id},
	AV_CM_ROW(REJECT, REJECT, reject, 0, AV_CM_NO_ID, reject_id),
	AV_CM_ROW(DISCONNECT, DISCONNECT, disconnect, 0, AV_CM_ID_OF(disconnect), disconnect_id),
	AV_CM_ROW(NOTIFY, NOTIFY, notify, 0, AV_CM_ID_OF(notify), notify_id),
	{0},
};
