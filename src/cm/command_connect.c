/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "cm/cm.h"
#include "cm/id.h"
#include "device/device.h"
#include "net/address.h"
#include "observe/check.h"
#include "registry/directory.h"

/* Commands of a connection: asking, listening, accepting, refusing, ending. */

#define HOPS	     64
#define ACK_TIMEOUT  17 /* a packet's life and back: 0.5 s */
#define CM_TIMEOUT   20 /* until a CM answers, as the kernel has it: 4.3 s */
#define CM_RETRIES   15
#define BACKLOG_MOST 1024

/* Fields @transport and @ext_transport of a REQ. */
enum { RC, UC, EXTENDED = 3, EXTENDED_XRC = 1 };

void av_cm_kind_put(struct av_cm_message *req, uint8_t qp_type)
{
	req->transport = qp_type == IBV_QPT_UC ? UC : qp_type == IBV_QPT_XRC_SEND ? EXTENDED : RC;
	req->ext_transport = qp_type == IBV_QPT_XRC_SEND ? EXTENDED_XRC : 0;
}

uint8_t av_cm_kind_wanted(const struct av_cm_message *request)
{
	if (request->attribute == AV_CM_SIDR_REQ)
		return IBV_QPT_UD;
	switch (request->transport) {
	case RC:
		return IBV_QPT_RC;
	case UC:
		return IBV_QPT_UC;
	case EXTENDED:
		return request->ext_transport == EXTENDED_XRC ? IBV_QPT_XRC_RECV : AV_CM_ANY_KIND;
	default:
		return AV_CM_ANY_KIND;
	}
}

/* An XRC target's is in the place of an EE context. */
uint32_t av_cm_kind_qpn(const struct av_cm_message *rep, uint8_t asking)
{
	return asking == IBV_QPT_XRC_SEND ? rep->eecn : rep->qpn;
}

void av_cm_kind_put_qpn(struct av_cm_message *rep, uint8_t qp_type, uint32_t qpn)
{
	if (qp_type != IBV_QPT_XRC_RECV) {
		rep->qpn = qpn;
		return;
	}
	rep->eecn = qpn;
	rep->srq = true;
}

/* --- connecting ------------------------------------------------------------------------- */

static uint64_t target_service_id(const struct av_cm_id *id)
{
	return id->dst.ib ? id->dst.service_id : av_cm_service_id(id->ps, id->dst.port);
}

static struct av_cm_route way_of(const struct av_cm_id *id)
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
	route = way_of(call->id);
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

/* --- being asked -------------------------------------------------------------------------- */

/* Do its packets come from there? Programs trust addresses. Wildcards may name this host itself. */
static bool is_true(const struct av_cm_ip *ip, const struct av_cm_route *route)
{
	bool src = av_cm_is_any(ip->src), dst = av_cm_is_any(ip->dst);

	if ((src || dst) && av_cm_is_own(route->path.dst))
		return src || memcmp(ip->src, route->path.dst, sizeof(ip->src)) == 0;
	return !dst && memcmp(ip->src, route->path.dst, sizeof(ip->src)) == 0;
}

/* The requester's addresses of both ends; of AF_IB the GIDs. Return: false: none, or untrue ones */
static bool name_ends(struct av_cm_id *id, bool ib, const struct av_cm_route *route,
		      const struct av_cm_message *m)
{
	const uint8_t *src = route->path.src, *dst = route->path.dst;
	struct av_cm_ip ip = {0};

	if (!ib && !(av_cm_ip_get(&ip, m->private_data) && is_true(&ip, route)))
		return false;
	id->src = (struct av_cm_name){.ib = ib,
				      .v6 = ib ? !av_net_is_v4(src) : ip.v6,
				      .port = av_cm_service_port(m->service_id),
				      .service_id = ib ? m->service_id : 0};
	id->dst = (struct av_cm_name){
		.ib = ib, .v6 = ib ? !av_net_is_v4(dst) : ip.v6, .port = ip.src_port};
	memcpy(id->src.address, ib ? src : ip.dst, sizeof(id->src.address));
	memcpy(id->dst.address, ib ? dst : ip.src, sizeof(id->dst.address));
	return true;
}

/* The id of the connection that is asked for. NULL: no memory, or nonsense */
static struct av_cm_id *create_child_id(struct av_cm_id *listener, const struct av_cm_route *route,
					const struct av_cm_message *m)
{
	bool sidr = m->attribute == AV_CM_SIDR_REQ;
	struct av_cm_id *id =
		av_cm_id_new(listener->channel, 0, listener->ps, av_cm_kind_wanted(m));

	if (!id)
		return NULL;
	id->state = AV_CM_ID_CONNECT;
	id->service_id = m->service_id;
	id->tos = listener->tos;
	memcpy(id->gid, route->path.dst, sizeof(id->gid));
	if (name_ends(id, listener->src.ib, route, m) &&
	    av_cm_where_gid(route->path.src, &id->where))
		id->conn = av_cm_conn_new(id, sidr ? AV_CM_SIDR_RECEIVED : AV_CM_REQ_RECEIVED,
					  route, m);
	if (!id->conn) {
		av_cm_id_destroy(id);
		return NULL;
	}
	av_cm_since(&id->where);
	id->conn->route.device = id->where.dev->ibv.name;
	return id;
}

uint16_t av_cm_id_requested(const struct av_cm_route *route, const struct av_cm_message *m)
{
	struct av_cm_id *listener = NULL, *child;
	struct av_cm_port found;

	if (av_cm_listener(route->path.src, m, &found) && found.proc == av_lock_self)
		listener = av_cm_id_listening(found.id);
	if (!listener)
		return AV_CM_INVALID_SERVICE_ID;
	if (listener->qp_type != AV_CM_ANY_KIND && listener->qp_type != av_cm_kind_wanted(m))
		return AV_CM_INVALID_TRANSPORT;
	if (listener->backlog == 0)
		return AV_CM_CONSUMER;
	child = create_child_id(listener, route, m);
	if (!child)
		return AV_CM_NO_RESOURCES;
	if (av_cm_id_asked(listener, child, m))
		return 0;
	av_cm_id_destroy(child);
	return AV_CM_NO_RESOURCES;
}

const struct av_cm_row av_cm_connection_rows[] = {
	{RDMA_USER_CM_CMD_CONNECT, AV_VERB_CM_CONNECT, offsetof(struct rdma_ucm_connect, ece), 0,
	 AV_CM_ID_OF(connect), connect_id},
	AV_CM_ROW(LISTEN, LISTEN, listen, 0, AV_CM_ID_OF(listen), listen_id),
	{RDMA_USER_CM_CMD_ACCEPT, AV_VERB_CM_ACCEPT, offsetof(struct rdma_ucm_accept, ece), 0,
	 AV_CM_ID_OF(accept), accept_id},
	AV_CM_ROW(REJECT, REJECT, reject, 0, AV_CM_NO_ID, reject_id),
	AV_CM_ROW(DISCONNECT, DISCONNECT, disconnect, 0, AV_CM_ID_OF(disconnect), disconnect_id),
	{0},
};
