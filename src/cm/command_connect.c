/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "cm/id.h"
#include "device/device.h"
#include "device/port.h"
#include "net/address.h"
#include "observe/check.h"
#include "registry/directory.h"
#include "registry/tables.h"
#include "transport/observed.h"

/* Commands of a connection: asking, listening, accepting, refusing, ending. */

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

/* The way to an id's destination. */
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
 * Begin a message with what the program says of its end. It is a REQ, a REP, or one of SIDR, whose
 * private data the program's follow @header bytes. Return: 0 or -EINVAL
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

/* What a connection keeps of what the program says of its end. */
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
	id->conn = av_cm_conn_new(id, ud ? AV_CM_SIDR_SENT : AV_CM_REQ_SENT, route);
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
	if (where.dev)
		(void)!av_cm_attend(where.gid);
	else
		av_cm_attend_all();
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

/* Commands about addresses: binding one, finding the way to another. */

/* --- binding --------------------------------------------------------------------------- */

/* Addresses that many links may have, without the link. */
static bool lacks_link(const struct av_cm_name *name)
{
	return !name->ib && name->ifindex == 0 && av_net_is_link_local(name->address);
}

/* The host could not be asked: @err of av_cm_source() says nothing about an address. */
static bool is_unasked(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

/* No device has that address. A host reaches each of its own from itself. Return: -errno */
static int refuse_foreign(const struct av_cm_name *name)
{
	struct av_cm_name chosen;
	int err = av_cm_source(name, name, &chosen);

	if (is_unasked(err))
		return err;
	return av_cm_refuse_name(err ? EADDRNOTAVAIL : ENODEV, AV_CHECK_CM_NOT_OURS, name);
}

int av_cm_id_bind(struct av_cm_id *id, const struct av_cm_name *name)
{
	struct av_cm_where where = {.dev = NULL};
	bool v6 = !av_net_is_v4(name->address);
	struct av_cm_port p = {.id = id->number,
			       .netns = av_netns_of_thread(),
			       .ps = av_cm_name_ps(name, id->ps),
			       .port = name->port,
			       .v6 = v6,
			       .afonly = id->afonly_set ? id->afonly : !v6,
			       .reuse = id->reuse};
	int handle;

	if (id->state != AV_CM_ID_IDLE)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE));
	if (lacks_link(name))
		return av_cm_refuse_name(EINVAL, AV_CHECK_CM_LINK, name);
	if (!av_cm_is_any(name->address) && !av_cm_where(name, &where))
		return refuse_foreign(name);
	if (where.dev)
		av_cm_since(&where);
	memcpy(p.address, name->address, sizeof(p.address));
	handle = av_cm_port_bind(&p);
	if (handle == -EADDRINUSE || handle == -EADDRNOTAVAIL)
		return av_cm_refuse_name(-handle, AV_CHECK_CM_PORT_TAKEN, name);
	if (handle < 0)
		return handle;
	id->port = handle;
	id->afonly = p.afonly;
	id->src = *name;
	id->src.port = p.port;
	if (name->ib)
		id->src.service_id = (name->service_id & ~(uint64_t)UINT16_MAX) | p.port;
	id->where = where;
	id->state = AV_CM_ID_BOUND;
	return 0;
}

static int bind_to(struct av_cm_id *id, const void *address, size_t bytes)
{
	struct sockaddr_storage copy = {0};
	struct av_cm_name name;

	memcpy(&copy, address, bytes < sizeof(copy) ? bytes : sizeof(copy));
	if (!av_cm_name((const struct sockaddr *)&copy, &name))
		return -EAFNOSUPPORT;
	return av_cm_id_bind(id, &name);
}

static int bind_ip(struct av_cm_call *call)
{
	const struct rdma_ucm_bind_ip *command = AV_CM_BODY(call, struct rdma_ucm_bind_ip);

	return bind_to(call->id, &command->addr, sizeof(command->addr));
}

static int bind_id(struct av_cm_call *call)
{
	const struct rdma_ucm_bind *command = AV_CM_BODY(call, struct rdma_ucm_bind);
	int ret;

	if (command->reserved || !command->addr_size || command->addr_size > sizeof(command->addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, 0, command->addr_size);
	ret = av_cm_id_find(call->channel, command->id, &call->id);
	return ret ? ret : bind_to(call->id, &command->addr, command->addr_size);
}

/* --- the way to another ---------------------------------------------------------------- */

/* The family of an address that stands for any need not be that of a GID. */
static int select_cm_source(const struct av_cm_id *id, const struct av_cm_name *dst,
			    struct av_cm_name *src)
{
	bool other = av_cm_is_any(id->src.address) && id->src.v6 != dst->v6;

	return av_cm_source(dst, other ? NULL : &id->src, src);
}

/*
 * From that address to @dst. A loopback address leads to this host's own: from the device that has
 * it. Return: 0, or -ENODEV, which the event says
 */
static int resolve_id_addr(struct av_cm_id *id, struct av_cm_name src, const struct av_cm_name *dst)
{
	struct av_cm_where where;

	if (!av_cm_where(av_cm_is_any(src.address) ? dst : &src, &where))
		return -ENODEV;
	if (id->where.dev)
		where.since = id->where.since;
	else
		av_cm_since(&where);
	src.port = id->src.port;
	src.ib = id->src.ib;
	src.service_id = id->src.service_id;
	id->src = src;
	id->dst = *dst;
	id->where = where;
	memcpy(id->gid, dst->address, sizeof(id->gid));
	return 0;
}

static void put_loopback(struct av_cm_name *name)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1},
			     v6[16] = {[15] = 1};

	memcpy(name->address, name->v6 ? v6 : v4, sizeof(name->address));
}

/*
 * This host itself, by an address that stands for any: from the id's device and address, if it has
 * one; else from a loopback address. Source: Linux, cma_resolve_loopback(), cma_bind_loopback().
 * Return: 0 or -ENODEV
 */
static int resolve_here(struct av_cm_id *id, const struct av_cm_name *dst)
{
	if (!id->where.dev) {
		if (!av_cm_where_any(dst->v6, &id->where))
			return av_cm_refuse_name(ENODEV, AV_CHECK_CM_NOT_OURS, dst);
		av_cm_since(&id->where);
		put_loopback(&id->src);
	}
	id->dst = *dst;
	memcpy(id->gid, id->where.gid, sizeof(id->gid));
	return 0;
}

/*
 * An id that is not bound takes the source that the program names, or any. Its family must be that
 * of the destination.
 */
static int bind_first(struct av_cm_id *id, const struct av_cm_name *src,
		      const struct av_cm_name *dst)
{
	struct av_cm_name any = {.v6 = dst->v6,
				 .ib = dst->ib,
				 .service_id = dst->service_id & ~(uint64_t)UINT16_MAX};
	int ret = 0;

	if (!any.v6)
		any.address[10] = any.address[11] = 0xff;
	if (id->state == AV_CM_ID_IDLE)
		ret = av_cm_id_bind(id, src ? src : &any);
	if (ret)
		return ret;
	if (id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | AV_CM_IN(ADDR_BOUND));
	return id->src.ib == dst->ib && (dst->ib || id->src.v6 == dst->v6)
		       ? 0
		       : -av_refuse(EINVAL, AV_CHECK_CM_FAMILY, 0, 0);
}

/* @status: out, what the event says. Return: 0 or -errno: none comes */
static int find_way(struct av_cm_id *id, const struct av_cm_name *dst, int *status)
{
	struct av_cm_name src;
	int ret;

	*status = 0;
	if (av_cm_is_any(dst->address))
		return resolve_here(id, dst);
	ret = select_cm_source(id, dst, &src);
	if (is_unasked(ret))
		return ret;
	if (ret)
		return av_cm_refuse_name(-ret, AV_CHECK_CM_NO_ROUTE, dst);
	*status = resolve_id_addr(id, src, dst);
	return 0;
}

/* Return: 0, and an event comes; or -errno */
static int resolve_bound(struct av_cm_id *id, const struct av_cm_name *dst)
{
	int status, ret = find_way(id, dst, &status);

	if (ret)
		return ret;
	ret = av_cm_id_heard(id, status ? AV_CM_EVENT_ADDR_ERROR : AV_CM_EVENT_ADDR_RESOLVED,
			     status, NULL);
	if (ret)
		return ret;
	if (status)
		av_cm_report_unresolved(dst);
	else
		id->state = AV_CM_ID_RESOLVED;
	return 0;
}

static int resolve_to(struct av_cm_id *id, const void *src, const void *dst)
{
	bool has_source = ((const struct sockaddr *)src)->sa_family != AF_UNSPEC;
	struct av_cm_name from, to;
	int ret;

	if (!av_cm_name(dst, &to) || (has_source && !av_cm_name(src, &from)))
		return -EAFNOSUPPORT;
	ret = bind_first(id, has_source ? &from : NULL, &to);
	return ret ? ret : resolve_bound(id, &to);
}

static int resolve_ip(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_ip *command = AV_CM_BODY(call, struct rdma_ucm_resolve_ip);

	return resolve_to(call->id, &command->src_addr, &command->dst_addr);
}

static int resolve_addr(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_addr *command =
		AV_CM_BODY(call, struct rdma_ucm_resolve_addr);
	int ret;

	if (command->reserved || command->src_size > sizeof(command->src_addr) ||
	    !command->dst_size || command->dst_size > sizeof(command->dst_addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, command->dst_size,
				  command->src_size);
	ret = av_cm_id_find(call->channel, command->id, &call->id);
	return ret ? ret : resolve_to(call->id, &command->src_addr, &command->dst_addr);
}

/* A route of RoCE is the kernel's; there is nothing to ask for. */
int av_cm_id_route(struct av_cm_id *id)
{
	int ret;

	if (id->state != AV_CM_ID_RESOLVED)
		return av_cm_id_refuse(id, AV_CM_IN(ADDR_RESOLVED));
	ret = av_cm_id_heard(id, AV_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	if (ret == 0)
		id->state = AV_CM_ID_ROUTED;
	return ret;
}

static int resolve_route(struct av_cm_call *call)
{
	return av_cm_id_route(call->id);
}

/* Services are the subnet administrator's records: there is none. */
static int resolve_ib_service(struct av_cm_call *call)
{
	if (call->id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(call->id, AV_CM_IN(ADDR_BOUND));
	return -av_refuse(call->id->where.dev ? EOPNOTSUPP : EINVAL, AV_CHECK_CM_SERVICE, 0, 0);
}

enum ibv_mtu av_cm_id_mtu(const struct av_cm_id *id)
{
	struct ibv_port_attr port;

	av_port_attr(id->where.dev, &port);
	return port.active_mtu;
}

/* clang-format off */
const struct av_cm_row av_cm_connection_rows[] = {
	AV_CM_ROW_ECE(CONNECT, CONNECT, connect, connect_id),
	AV_CM_ROW(LISTEN, LISTEN, listen, 0, listen_id),
	AV_CM_ROW_ECE(ACCEPT, ACCEPT, accept, accept_id),
	AV_CM_ROW_NO_ID(REJECT, REJECT, reject, 0, reject_id),
	AV_CM_ROW(DISCONNECT, DISCONNECT, disconnect, 0, disconnect_id),
	AV_CM_ROW(BIND_IP, BIND_ADDR, bind_ip, 0, bind_ip),
	AV_CM_ROW_NO_ID(BIND, BIND_ADDR, bind, 0, bind_id),
	AV_CM_ROW(RESOLVE_IP, RESOLVE_ADDR, resolve_ip, 0, resolve_ip),
	AV_CM_ROW_NO_ID(RESOLVE_ADDR, RESOLVE_ADDR, resolve_addr, 0, resolve_addr),
	AV_CM_ROW(RESOLVE_ROUTE, RESOLVE_ROUTE, resolve_route, 0, resolve_route),
	{AV_CM_CMD_RESOLVE_IB_SERVICE, AV_VERB_CM_RESOLVE_ADDRINFO,
	 sizeof(struct av_cm_resolve_ib_service), 0, offsetof(struct av_cm_resolve_ib_service, id),
	 resolve_ib_service},
	{0},
};
/* clang-format on */
