/* SPDX-License-Identifier: MIT */
/* Commands of a connection: asking, listening, accepting, refusing, ending. */
#include <errno.h>
#include <string.h>

#include "cm/cm_attend.h"
#include "cm/cm_kind.h"
#include "cm/cm_lock.h"
#include "cm/command.h"
#include "device/device.h"
#include "device/port.h"
#include "net/address.h"
#include "registry/cm_ports.h"
#include "registry/directory.h"
#include "transport/wire_allowed.h"
#include "observe/diagnosis.h"

#define HOPS	     64
#define ACK_TIMEOUT  17 /* a packet's life and back: 0.5 s */
#define CM_TIMEOUT   20 /* until a CM answers, as the kernel has it: 4.3 s */
#define CM_RETRIES   15
#define BACKLOG_MOST 1024

/* --- connecting ------------------------------------------------------------------------- */

static uint64_t service_of(const struct av_cm_id *id)
{
	return id->dst.ib ? id->dst.service_id : av_cm_service_id(id->ps, id->dst.port);
}

/* The way to an id's destination. */
static struct av_cm_way way_of(const struct av_cm_id *id)
{
	struct av_cm_way way = {.device = id->where.dev->ibv.name};

	memcpy(way.path.src, id->where.gid, sizeof(way.path.src));
	memcpy(way.path.dst, id->gid, sizeof(way.path.dst));
	memcpy(way.named, id->dst.address, sizeof(way.named));
	way.path.hop_limit = HOPS;
	way.path.traffic_class = id->tos;
	way.proc = av_cm_listener_of(&way, service_of(id));
	return way;
}

static void put_ends(const struct av_cm_id *id, uint8_t *to)
{
	struct av_cm_ip ip = {.v6 = id->dst.v6, .src_port = id->src.port};

	memcpy(ip.src, id->src.address, sizeof(ip.src));
	memcpy(ip.dst, id->dst.address, sizeof(ip.dst));
	av_cm_ip_put(&ip, to);
}

static int refuse_private(size_t bytes, size_t room)
{
	return -av_refuse(EINVAL, AV_CHECK_CM_PRIVATE, bytes, room);
}

/* The program's private data, behind @header bytes. Return: 0 or -EINVAL: it is too long */
static int put_private(struct av_cm_message *m, size_t header, const uint8_t *data, size_t bytes)
{
	if (header + bytes > av_cm_private_bytes(m->attribute))
		return refuse_private(bytes, av_cm_private_bytes(m->attribute) - header);
	memcpy(m->private_data + header, data, bytes);
	return 0;
}

static void put_path(const struct av_cm_id *id, const struct av_cm_way *way, struct av_cm_path *p)
{
	memcpy(p->local_gid, way->path.src, sizeof(p->local_gid));
	memcpy(p->remote_gid, way->path.dst, sizeof(p->remote_gid));
	p->local_lid = p->remote_lid = 0xffff; /* the permissive one: RoCE has none */
	p->hop_limit = way->path.hop_limit;
	p->traffic_class = way->path.traffic_class;
	p->ack_timeout = id->ack_timeout_set ? id->ack_timeout : ACK_TIMEOUT;
	p->subnet_local = true;
}

static uint8_t at_most(uint8_t value, uint8_t most)
{
	return value < most ? value : most;
}

static struct av_cm_message request_of(const struct av_cm_id *id, const struct av_cm_way *way,
				       const struct rdma_ucm_connect *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	bool ud = av_cm_id_is_ud(id);
	struct av_cm_message m = {
		.attribute = ud ? AV_CM_SIDR_REQ : AV_CM_REQ,
		.service_id = service_of(id),
		.ca_guid = be64toh(id->where.dev->attr.node_guid),
		.pkey = AV_PKEY_DEFAULT,
		.local_timeout = CM_TIMEOUT,
		.remote_timeout = CM_TIMEOUT,
		.max_cm_retries = CM_RETRIES,
		.vendor_id = command->ece.vendor_id,
		.attr_mod = command->ece.attr_mod,
	};

	if (!id->dst.ib)
		put_ends(id, m.private_data);
	if (ud)
		return m;
	m.qpn = p->qp_num;
	m.responder_resources = p->responder_resources;
	m.initiator_depth = p->initiator_depth;
	m.flow_control = p->flow_control;
	m.retry_count = at_most(p->retry_count, 7);
	m.rnr_retry_count = at_most(p->rnr_retry_count, 7);
	m.srq = p->srq;
	av_cm_kind_put(&m, id->qp_type);
	m.path_mtu = (uint8_t)av_cm_id_mtu(id);
	put_path(id, way, &m.primary);
	return m;
}

static void remember(struct av_cm_id *id, const struct av_cm_message *m)
{
	struct av_cm_conn *c = id->conn;

	c->qpn = m->qpn & AV_QPN_MASK;
	c->responder_resources = m->responder_resources;
	c->initiator_depth = m->initiator_depth;
	c->retry_count = m->retry_count;
	c->path_mtu = m->path_mtu;
	c->ack_timeout = m->primary.ack_timeout;
}

static int connect_routed(struct av_cm_id *id, const struct av_cm_way *way,
			  const struct rdma_ucm_connect *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	struct av_cm_message m = request_of(id, way, command);
	int ret = put_private(&m, av_cm_id_header(id), p->private_data, p->private_data_len);

	if (ret)
		return ret;
	id->conn = av_cm_conn_new(id, av_cm_id_is_ud(id) ? AV_CM_SIDR_SENT : AV_CM_REQ_SENT, way);
	if (!id->conn)
		return -ENOMEM;
	m.psn = id->conn->psn;
	remember(id, &m);
	id->service_id = m.service_id;
	id->state = AV_CM_ID_CONNECT;
	av_cm_conn_request(id->conn, &m);
	return 0;
}

/* An id that may be connected. Context: locked */
static int find_routed(const struct av_cm_call *call, struct av_cm_id **id)
{
	const struct rdma_ucm_connect *command = AV_CM_BODY(call, struct rdma_ucm_connect);
	int ret = av_cm_id_find(call->channel, command->id, id);

	if (ret)
		return ret;
	if ((*id)->state != AV_CM_ID_ROUTED)
		return av_cm_id_refuse(*id, AV_CM_IN(ROUTE_RESOLVED));
	return command->conn_param.valid ? 0 : -av_refuse(EINVAL, AV_CHECK_CM_PARAMETERS, 0, 0);
}

int av_cm_connect(struct av_cm_call *call)
{
	const struct rdma_ucm_connect *command = AV_CM_BODY(call, struct rdma_ucm_connect);
	struct av_cm_way way;
	struct av_cm_id *id;
	int ret;

	av_cm_lock();
	ret = find_routed(call, &id);
	if (ret == 0)
		way = way_of(id);
	av_cm_unlock();
	if (ret == 0 && !way.proc)
		ret = av_cm_attend(way.path.src);
	if (ret)
		return ret;
	av_cm_lock();
	ret = find_routed(call, &id);
	if (ret == 0)
		ret = connect_routed(id, &way, command);
	av_cm_unlock();
	return ret;
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
static void attend_at(const struct av_cm_where *where)
{
	if (where->dev)
		(void)!av_cm_attend(where->gid);
	else
		av_cm_attend_all();
}

int av_cm_listen(struct av_cm_call *call)
{
	const struct rdma_ucm_listen *command = AV_CM_BODY(call, struct rdma_ucm_listen);
	struct av_cm_where where;
	struct av_cm_id *id;
	int ret;

	av_cm_lock();
	ret = av_cm_id_find(call->channel, command->id, &id);
	if (ret == 0)
		ret = listen_bound(id, command->backlog);
	if (ret == 0)
		where = id->where;
	av_cm_unlock();
	if (ret == 0)
		attend_at(&where);
	return ret;
}

/* --- answering --------------------------------------------------------------------------- */

static int reply(struct av_cm_id *id, const struct av_cm_message *m)
{
	return av_cm_conn_reply(id->conn, m) ? av_cm_id_refuse(id, AV_CM_IN(REQ_RECEIVED)) : 0;
}

static int accept_connection(struct av_cm_id *id, const struct rdma_ucm_accept *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	struct av_cm_conn *c = id->conn;
	struct av_cm_message m = {
		.attribute = AV_CM_REP,
		.psn = c->psn,
		.ca_guid = be64toh(id->where.dev->attr.node_guid),
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control,
		.rnr_retry_count = at_most(p->rnr_retry_count, 7),
		.srq = p->srq,
		.failover_accepted = 1, /* not supported */
		.vendor_id = command->ece.vendor_id,
		.attr_mod = command->ece.attr_mod,
	};
	int ret = put_private(&m, 0, p->private_data, p->private_data_len);

	av_cm_kind_put_qpn(&m, id->qp_type, p->qp_num);
	if (ret == 0)
		ret = reply(id, &m);
	if (ret)
		return ret;
	c->qpn = p->qp_num & AV_QPN_MASK;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	return 0;
}

static int accept_datagrams(struct av_cm_id *id, const struct rdma_ucm_accept *command)
{
	const struct rdma_ucm_conn_param *p = &command->conn_param;
	struct av_cm_message m = {.attribute = AV_CM_SIDR_REP,
				  .status = AV_CM_SIDR_OK,
				  .qpn = p->qp_num,
				  .service_id = id->service_id,
				  .qkey = p->qkey ? p->qkey : AV_CM_UDP_QKEY,
				  .vendor_id = command->ece.vendor_id,
				  .attr_mod = command->ece.attr_mod};
	int ret = put_private(&m, 0, p->private_data, p->private_data_len);

	return ret ? ret : reply(id, &m);
}

/* Of the side that has asked */
static int confirm(struct av_cm_id *id)
{
	return av_cm_conn_ready(id->conn) ? av_cm_id_refuse(id, AV_CM_IN(REP_RECEIVED)) : 0;
}

static int accept_by_kind(struct av_cm_id *id, const struct rdma_ucm_accept *command)
{
	if (!command->conn_param.valid)
		return confirm(id);
	return av_cm_id_is_ud(id) ? accept_datagrams(id, command) : accept_connection(id, command);
}

static int reject(struct av_cm_id *id, uint8_t reason, const void *data, size_t bytes)
{
	int ret = av_cm_conn_reject(id->conn, reason, data, bytes);

	if (ret == 0)
		id->state = AV_CM_ID_DISCONNECTED;
	return ret;
}

/* Whose accept fails has refused, as in the kernel: else the peer would wait for its timeouts. */
int av_cm_accept(struct av_cm_call *call)
{
	const struct rdma_ucm_accept *command = AV_CM_BODY(call, struct rdma_ucm_accept);
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, command->id, &id);

	if (ret)
		return ret;
	if (id->state != AV_CM_ID_CONNECT || !id->conn)
		return av_cm_id_refuse(id, AV_CM_IN(REQ_RECEIVED) | AV_CM_IN(REP_RECEIVED));
	ret = accept_by_kind(id, command);
	if (ret)
		(void)!reject(id, AV_CM_CONSUMER, NULL, 0);
	else if (command->conn_param.valid)
		id->uid = command->uid;
	return ret;
}

int av_cm_reject(struct av_cm_call *call)
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
	if (id->conn &&
	    command->private_data_len >
		    av_cm_private_bytes(av_cm_id_is_ud(id) ? AV_CM_SIDR_REP : AV_CM_REJ))
		return refuse_private(
			command->private_data_len,
			av_cm_private_bytes(av_cm_id_is_ud(id) ? AV_CM_SIDR_REP : AV_CM_REJ));
	if (id->conn && reject(id, reason, command->private_data, command->private_data_len) == 0)
		return 0;
	return av_cm_id_refuse(id, AV_CM_IN(REQ_SENT) | AV_CM_IN(REQ_RECEIVED) |
					   AV_CM_IN(REP_SENT) | AV_CM_IN(REP_RECEIVED));
}

int av_cm_disconnect(struct av_cm_call *call)
{
	const struct rdma_ucm_disconnect *command = AV_CM_BODY(call, struct rdma_ucm_disconnect);
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, command->id, &id);

	if (ret)
		return ret;
	if (!id->conn)
		return av_cm_id_refuse(id, AV_CM_IN(ESTABLISHED) | AV_CM_IN(DREQ_RECEIVED));
	av_cm_conn_disconnect(id->conn);
	return 0;
}
