/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "device/port.h"
#include "net/address.h"
#include "net/net.h"
#include "observe/check.h"
#include "registry/directory.h"
#include "registry/tables.h"

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

/* Note why a verb is about to fail with @err. Return: @err */
static int record_gid_refusal(int err, enum av_check check, uint64_t wanted, uint64_t limit,
			      const uint8_t gid[16])
{
	struct av_flight_record *r;

	(void)av_refuse(err, check, wanted, limit);
	r = av_diag_pending();
	memcpy(r->gid, gid, sizeof(r->gid));
	r->has |= AV_HAS_GID;
	return err;
}

/* The same of the destination that the program has named, and what that was taken for. */
static int note_route(int err, enum av_check check, uint64_t wanted, uint64_t limit,
		      const struct av_cm_route *route)
{
	struct av_flight_record *r;

	(void)record_gid_refusal(err, check, wanted, limit, route->named);
	r = av_diag_pending();
	if (memcmp(route->named, route->path.dst, sizeof(route->named)) == 0)
		return err;
	memcpy(r->taken_for, route->path.dst, sizeof(r->taken_for));
	r->has |= AV_HAS_TAKEN_FOR;
	return err;
}

/* Listeners of this network namespace in that port space. */
static unsigned int listeners(uint16_t ps)
{
	uint64_t netns = av_netns_of_thread();
	unsigned int count = 0;
	struct av_cm_port p;

	for (uint32_t at = 0; av_cm_port_next(&at, &p);)
		count += p.listens && p.netns == netns && p.ps == ps;
	return count;
}

static int note_no_listener(const struct av_cm_route *route, uint64_t service_id)
{
	bool own = av_cm_is_own(route->path.dst);
	unsigned int others = own ? listeners(av_cm_service_ps(service_id)) : 0;

	return note_route(ECONNREFUSED, others ? AV_CHECK_CM_OTHER_PORTS : AV_CHECK_CM_NO_LISTENER,
			  av_cm_service_port(service_id), others, route);
}

void av_cm_report_refused(const struct av_cm_route *route, uint64_t service_id, uint32_t reason,
			  bool unknown)
{
	int err = unknown ? note_no_listener(route, service_id)
			  : note_route(ECONNREFUSED, AV_CHECK_CM_REFUSED,
				       av_cm_service_port(service_id), reason, route);

	(void)av_refused(AV_VERB_CM_CONNECT, err);
}

void av_cm_report_silence(const struct av_cm_route *route, uint64_t service_id,
			  unsigned int requests)
{
	enum av_check check = route->proc ? AV_CHECK_PEER_SILENT
					  : av_check_of_silence(-av_net_icmp_error(&route->path));

	if (check == AV_CHECK_PEER_SILENT)
		(void)note_route(ETIMEDOUT, AV_CHECK_CM_NO_ANSWER, av_cm_service_port(service_id),
				 requests, route);
	else
		(void)note_route(ETIMEDOUT, check, AV_MAD_BYTES, 0, route);
	(void)av_refused(AV_VERB_CM_CONNECT, ETIMEDOUT);
}

int av_cm_refuse_name(int err, enum av_check check, const struct av_cm_name *name)
{
	return -record_gid_refusal(err, check, name->port, 0, name->address);
}

void av_cm_report_unresolved(const struct av_cm_name *dst)
{
	(void)av_cm_refuse_name(ENODEV, AV_CHECK_CM_NOT_OURS, dst);
	(void)av_refused(AV_VERB_CM_RESOLVE_ADDR, ENODEV);
}

#define NUMBERS 65535u /* of each kind at once */

/* What the kernel's two tables are: ids, and groups that ids have joined. */
static struct av_handles ids = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct av_handles groups = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void av_cm_ids_forked(void)
{
	ids = (struct av_handles){.mutex = PTHREAD_MUTEX_INITIALIZER};
	groups = (struct av_handles){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

/* --- life ------------------------------------------------------------------------------ */

struct av_cm_id *av_cm_id_new(struct av_cm_channel *c, uint64_t uid, uint16_t ps, uint8_t qp_type)
{
	struct av_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->number = av_handles_add(&ids, id, NUMBERS);
	if (!id->number) {
		free(id);
		return NULL;
	}
	id->uid = uid;
	id->channel = c;
	id->ps = ps;
	id->qp_type = qp_type;
	id->port = -1;
	LIST_INIT(&id->groups);
	TAILQ_INSERT_TAIL(&c->ids, id, entry);
	return id;
}

static void go(struct av_cm_id *id, struct av_cm_channel *to)
{
	TAILQ_REMOVE(&id->channel->ids, id, entry);
	TAILQ_INSERT_TAIL(&to->ids, id, entry);
	id->channel = to;
}

void av_cm_id_migrate(struct av_cm_id *id, struct av_cm_channel *to)
{
	struct av_cm_channel *from = id->channel;
	struct av_cm_event *e;

	go(id, to);
	while ((e = av_cm_channel_find(from, id, NULL))) {
		av_cm_channel_remove(from, e);
		if (e->fresh)
			go(e->fresh, to);
		av_cm_channel_append(to, e);
	}
}

/* Connections that nobody has heard of end with their events. */
static void drop_events(struct av_cm_channel *c, const struct av_cm_id *id,
			const struct av_cm_group *group)
{
	struct av_cm_event *e;

	while ((e = av_cm_channel_find(c, id, group))) {
		av_cm_channel_remove(c, e);
		if (e->fresh)
			av_cm_id_destroy(e->fresh);
		free(e);
	}
}

/* Its connection and its port number end. */
static void release_id_conn(struct av_cm_id *id)
{
	if (id->conn)
		av_cm_conn_abandon(id->conn);
	if (id->port >= 0)
		av_cm_port_release(id->port);
	id->conn = NULL;
	id->port = -1;
}

void av_cm_id_remove(struct av_cm_id *id)
{
	release_id_conn(id);
	id->where.dev = NULL;
	id->state = AV_CM_ID_REMOVED;
	av_cm_id_heard(id, AV_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
}

void av_cm_id_destroy(struct av_cm_id *id)
{
	struct av_cm_group *g, *next;

	for (g = LIST_FIRST(&id->groups); g; g = next) {
		next = LIST_NEXT(g, entry);
		av_cm_group_destroy(g);
	}
	drop_events(id->channel, id, NULL);
	release_id_conn(id);
	TAILQ_REMOVE(&id->channel->ids, id, entry);
	av_handles_remove(&ids, id->number);
	free(id);
}

static int refuse_channel(void)
{
	return -av_refuse(EINVAL, AV_CHECK_CM_CHANNEL, 0, 0);
}

int av_cm_id_find_any(const struct av_cm_channel *c, uint32_t number, struct av_cm_id **id)
{
	*id = av_table_get(&ids.table, number);
	if (!*id || (*id)->hidden)
		return -ENOENT;
	return (*id)->channel == c ? 0 : refuse_channel();
}

/* Return: 0, or -ENXIO and why */
static int refuse_removed(const struct av_cm_id *id)
{
	return id->state == AV_CM_ID_REMOVED ? -av_refuse(ENXIO, AV_CHECK_CM_REMOVED, 0, 0) : 0;
}

int av_cm_id_find(const struct av_cm_channel *c, uint32_t number, struct av_cm_id **id)
{
	int ret = av_cm_id_find_any(c, number, id);

	return ret ? ret : refuse_removed(*id);
}

static enum av_cm_phase phase_of(const struct av_cm_id *id)
{
	static const enum av_cm_phase ids_own[] = {
		[AV_CM_ID_IDLE] = AV_CM_PHASE_IDLE,
		[AV_CM_ID_BOUND] = AV_CM_PHASE_ADDR_BOUND,
		[AV_CM_ID_RESOLVED] = AV_CM_PHASE_ADDR_RESOLVED,
		[AV_CM_ID_ROUTED] = AV_CM_PHASE_ROUTE_RESOLVED,
		[AV_CM_ID_LISTENS] = AV_CM_PHASE_LISTEN,
		[AV_CM_ID_CONNECT] = AV_CM_PHASE_ESTABLISHED, /* of datagrams */
		[AV_CM_ID_DISCONNECTED] = AV_CM_PHASE_DISCONNECTED,
		[AV_CM_ID_REMOVED] = AV_CM_PHASE_DISCONNECTED,
	};
	static const enum av_cm_phase connections[] = {
		[AV_CM_REQ_SENT] = AV_CM_PHASE_REQ_SENT,
		[AV_CM_REQ_RECEIVED] = AV_CM_PHASE_REQ_RECEIVED,
		[AV_CM_REP_SENT] = AV_CM_PHASE_REP_SENT,
		[AV_CM_REP_RECEIVED] = AV_CM_PHASE_REP_RECEIVED,
		[AV_CM_ESTABLISHED] = AV_CM_PHASE_ESTABLISHED,
		[AV_CM_DREQ_SENT] = AV_CM_PHASE_DREQ_SENT,
		[AV_CM_DREQ_RECEIVED] = AV_CM_PHASE_DREQ_RECEIVED,
		[AV_CM_TIMEWAIT] = AV_CM_PHASE_DISCONNECTED,
		[AV_CM_SIDR_SENT] = AV_CM_PHASE_REQ_SENT,
		[AV_CM_SIDR_RECEIVED] = AV_CM_PHASE_REQ_RECEIVED,
		[AV_CM_SIDR_ANSWERED] = AV_CM_PHASE_REP_SENT,
	};

	return id->conn && id->conn->state != AV_CM_ENDED ? connections[id->conn->state]
							  : ids_own[id->state];
}

int av_cm_id_refuse(const struct av_cm_id *id, uint32_t needed)
{
	return -av_refuse(EINVAL, AV_CHECK_CM_STATE, phase_of(id), needed);
}

void av_cm_ids_each(void (*visit)(uint32_t number, void *id, void *arg), void *arg)
{
	av_table_each(&ids.table, visit, arg);
}

struct av_cm_group *av_cm_group_new(struct av_cm_id *id, uint64_t uid)
{
	struct av_cm_group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->number = av_handles_add(&groups, g, NUMBERS);
	if (!g->number) {
		free(g);
		return NULL;
	}
	g->uid = uid;
	g->id = id;
	LIST_INSERT_HEAD(&id->groups, g, entry);
	return g;
}

int av_cm_group_find(const struct av_cm_channel *c, uint32_t number, struct av_cm_group **group)
{
	*group = av_table_get(&groups.table, number);
	if (!*group)
		return -ENOENT;
	return (*group)->id->channel == c ? refuse_removed((*group)->id) : refuse_channel();
}

void av_cm_group_destroy(struct av_cm_group *g)
{
	drop_events(g->id->channel, NULL, g);
	LIST_REMOVE(g, entry);
	av_handles_remove(&groups, g->number);
	free(g);
}

bool av_cm_id_is_ud(const struct av_cm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

/* --- events ---------------------------------------------------------------------------- */

static struct av_cm_event *new_event(struct av_cm_id *id, enum av_cm_event_type event, int status)
{
	struct av_cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->id = id;
	e->body.uid = id->uid;
	e->body.id = id->number;
	e->body.event = event;
	e->body.status = (uint32_t)status;
	return e;
}

void av_cm_id_ah(const struct av_cm_id *id, struct ib_uverbs_ah_attr *ah)
{
	*ah = (struct ib_uverbs_ah_attr){.is_global = 1, .port_num = 1};
	memcpy(ah->grh.dgid, id->conn->route.path.dst, sizeof(ah->grh.dgid));
	ah->grh.sgid_index = (uint8_t)id->where.gid_index;
	ah->grh.hop_limit = id->conn->route.path.hop_limit;
	ah->grh.traffic_class = id->conn->route.path.traffic_class;
}

/* Bytes of private data that the program gets; the beginning is not its own. */
static size_t own_part(const struct av_cm_id *id, const struct av_cm_message *m,
		       const uint8_t **from)
{
	size_t all = av_cm_private_bytes(m->attribute);
	size_t header = m->attribute == AV_CM_REQ || m->attribute == AV_CM_SIDR_REQ
				? av_cm_id_header(id)
				: 0;

	*from = m->private_data + header;
	return all - header;
}

static void fill_conn(struct rdma_ucm_conn_param *p, const struct av_cm_id *id,
		      const struct av_cm_message *m)
{
	const uint8_t *from;
	size_t bytes = own_part(id, m, &from);

	memcpy(p->private_data, from, bytes);
	p->private_data_len = (uint8_t)bytes;
	if (m->attribute != AV_CM_REQ && m->attribute != AV_CM_REP)
		return;
	p->qp_num = av_cm_kind_qpn(m, id->qp_type);
	p->qkey = m->qkey;
	p->srq = m->srq;
	p->responder_resources = m->initiator_depth; /* what one side begins, the other answers */
	p->initiator_depth = m->responder_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
}

static void fill_ud(struct rdma_ucm_ud_param *p, const struct av_cm_id *id,
		    const struct av_cm_message *m)
{
	const uint8_t *from;
	size_t bytes = own_part(id, m, &from);

	memcpy(p->private_data, from, bytes);
	p->private_data_len = (uint8_t)bytes;
	p->qp_num = m->qpn;
	p->qkey = m->qkey;
	if (id->conn)
		av_cm_id_ah(id, &p->ah_attr);
}

static void fill_cm_event(struct av_cm_event *e, const struct av_cm_id *id,
			  const struct av_cm_message *m)
{
	if (!m)
		return;
	if (av_cm_id_is_ud(id))
		fill_ud(&e->body.param.ud, id, m);
	else
		fill_conn(&e->body.param.conn, id, m);
	e->body.ece.vendor_id = m->vendor_id;
	e->body.ece.attr_mod = m->attribute == AV_CM_REQ || m->attribute == AV_CM_REP ||
					       m->attribute == AV_CM_SIDR_REP
				       ? m->attr_mod
				       : 0;
}

static bool is_end(enum av_cm_event_type event)
{
	return event == AV_CM_EVENT_REJECTED || event == AV_CM_EVENT_UNREACHABLE ||
	       event == AV_CM_EVENT_DISCONNECTED || event == AV_CM_EVENT_CONNECT_ERROR;
}

int av_cm_id_heard(struct av_cm_id *id, enum av_cm_event_type event, int status,
		   const struct av_cm_message *m)
{
	struct av_cm_event *e;

	if (is_end(event) && id->state == AV_CM_ID_DISCONNECTED)
		return 0;
	if (is_end(event))
		id->state = AV_CM_ID_DISCONNECTED;
	if (!id->uid)
		return 0;
	e = new_event(id, event, status);
	if (!e)
		return -ENOMEM;
	fill_cm_event(e, id, m);
	av_cm_channel_append(id->channel, e);
	return 0;
}

int av_cm_group_heard(struct av_cm_group *g, enum av_cm_event_type event, int status,
		      const struct rdma_ucm_ud_param *ud)
{
	struct av_cm_event *e = new_event(g->id, event, status);

	if (!e)
		return -ENOMEM;
	e->group = g;
	e->body.uid = g->uid;
	e->body.id = g->number;
	if (ud)
		e->body.param.ud = *ud;
	av_cm_channel_append(g->id->channel, e);
	return 0;
}

int av_cm_id_told(struct av_cm_id *id, enum av_cm_event_type event, uint32_t status, uint64_t arg)
{
	struct av_cm_event *e = new_event(id, event, (int)status);

	if (!e)
		return -ENOMEM;
	memcpy(&e->body.param, &arg, sizeof(arg));
	av_cm_channel_append(id->channel, e);
	return 0;
}

/* --- requests -------------------------------------------------------------------------- */

static struct av_cm_id *listener_of(const struct av_cm_route *route, const struct av_cm_message *m)
{
	struct av_cm_port found;
	struct av_cm_id *id;

	if (!av_cm_listener(route->path.src, m, &found) || found.proc != av_lock_self)
		return NULL;
	id = av_table_get(&ids.table, found.id);
	return id && id->state == AV_CM_ID_LISTENS ? id : NULL;
}

/* Of AF_IB, the GIDs are the addresses. */
static void name_ib_ends(struct av_cm_id *id, const struct av_cm_route *route, uint64_t service_id)
{
	id->src = (struct av_cm_name){.ib = true,
				      .v6 = !av_net_is_v4(route->path.src),
				      .port = av_cm_service_port(service_id),
				      .service_id = service_id};
	id->dst = (struct av_cm_name){.ib = true, .v6 = !av_net_is_v4(route->path.dst)};
	memcpy(id->src.address, route->path.src, sizeof(route->path.src));
	memcpy(id->dst.address, route->path.dst, sizeof(route->path.dst));
}

/*
 * Is that where its packets come from? Programs let peers in by their addresses. This host may name
 * itself by addresses that stand for any.
 */
static bool is_true(const struct av_cm_ip *ip, const struct av_cm_route *route)
{
	bool src = av_cm_is_any(ip->src), dst = av_cm_is_any(ip->dst);

	if ((src || dst) && av_cm_is_own(route->path.dst))
		return src || memcmp(ip->src, route->path.dst, sizeof(ip->src)) == 0;
	return !dst && memcmp(ip->src, route->path.dst, sizeof(ip->src)) == 0;
}

/* Addresses of both ends as the requester says. Return: false: it does not, or not truly */
static bool name_ends(struct av_cm_id *id, const struct av_cm_route *route,
		      const struct av_cm_message *m)
{
	struct av_cm_ip ip;

	if (!av_cm_ip_get(&ip, m->private_data) || !is_true(&ip, route))
		return false;
	id->src = (struct av_cm_name){.port = av_cm_service_port(m->service_id), .v6 = ip.v6};
	id->dst = (struct av_cm_name){.port = ip.src_port, .v6 = ip.v6};
	memcpy(id->src.address, ip.dst, sizeof(ip.dst));
	memcpy(id->dst.address, ip.src, sizeof(ip.src));
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
	if (listener->src.ib)
		name_ib_ends(id, route, m->service_id);
	if ((listener->src.ib || name_ends(id, route, m)) &&
	    av_cm_where_gid(route->path.src, &id->where))
		id->conn =
			av_cm_conn_new(id, sidr ? AV_CM_SIDR_RECEIVED : AV_CM_REQ_RECEIVED, route);
	if (!id->conn) {
		av_cm_id_destroy(id);
		return NULL;
	}
	av_cm_since(&id->where);
	id->conn->route.device = id->where.dev->ibv.name;
	av_cm_conn_peer(id->conn, m);
	return id;
}

/* Append the request's event. Return: false: no memory */
static bool append_request_event(struct av_cm_id *listener, struct av_cm_id *child,
				 const struct av_cm_message *m)
{
	struct av_cm_event *e = new_event(listener, AV_CM_EVENT_CONNECT_REQUEST, 0);

	if (!e)
		return false;
	e->fresh = child;
	child->hidden = true;
	e->body.id = child->number;
	fill_cm_event(e, child, m);
	listener->backlog--;
	av_cm_channel_append(listener->channel, e);
	return true;
}

static bool is_of_kind(const struct av_cm_id *listener, const struct av_cm_message *m)
{
	return listener->qp_type == AV_CM_ANY_KIND || listener->qp_type == av_cm_kind_wanted(m);
}

uint16_t av_cm_id_requested(const struct av_cm_route *route, const struct av_cm_message *m)
{
	struct av_cm_id *listener = listener_of(route, m), *child;

	if (!listener)
		return AV_CM_INVALID_SERVICE_ID;
	if (!is_of_kind(listener, m))
		return AV_CM_INVALID_TRANSPORT;
	if (listener->backlog == 0)
		return AV_CM_CONSUMER;
	child = create_child_id(listener, route, m);
	if (!child)
		return AV_CM_NO_RESOURCES;
	if (append_request_event(listener, child, m))
		return 0;
	av_cm_id_destroy(child);
	return AV_CM_NO_RESOURCES;
}
