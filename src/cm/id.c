/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include "base/table.h"
#include "cm/cm.h"
#include "wire/address.h"

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

/* An id, which the channel owns. Return: NULL: no memory, or too many */
static struct av_cm_id *new_cm_id(struct av_cm_channel *c, uint64_t uid, uint16_t ps,
				  uint8_t qp_type)
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

/* Remove the first event of @id, or, if that is NULL, of @group. Return: NULL: there is none */
static struct av_cm_event *take_event(struct av_cm_channel *c, const struct av_cm_id *id,
				      const struct av_cm_group *group)
{
	struct av_cm_event *e;

	TAILQ_FOREACH(e, &c->events, entry)
		if (id ? e->id == id : e->group == group) {
			TAILQ_REMOVE(&c->events, e, entry);
			return e;
		}
	return NULL;
}

static void go(struct av_cm_id *id, struct av_cm_channel *to)
{
	TAILQ_REMOVE(&id->channel->ids, id, entry);
	TAILQ_INSERT_TAIL(&to->ids, id, entry);
	id->channel = to;
}

/* With its events, and with the new ids of its connection requests. */
static void move_id(struct av_cm_id *id, struct av_cm_channel *to)
{
	struct av_cm_channel *from = id->channel;
	struct av_cm_event *e;

	go(id, to);
	while ((e = take_event(from, id, NULL))) {
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

	while ((e = take_event(c, id, group))) {
		if (e->fresh)
			av_cm_id_destroy(e->fresh);
		free(e);
	}
}

static void release_id_conn(struct av_cm_id *id)
{
	if (id->conn)
		av_cm_conn_abandon(id->conn);
	if (id->port >= 0)
		av_cm_port_release(id->port);
	id->conn = NULL;
	id->port = -1;
}

static void destroy_group(struct av_cm_group *g)
{
	drop_events(g->id->channel, NULL, g);
	LIST_REMOVE(g, entry);
	av_handles_remove(&groups, g->number);
	free(g);
}

void av_cm_id_destroy(struct av_cm_id *id)
{
	struct av_cm_group *g, *next;

	for (g = LIST_FIRST(&id->groups); g; g = next) {
		next = LIST_NEXT(g, entry);
		destroy_group(g);
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

/* Also a removed one, for the command that destroys it. */
static int find_any_id(const struct av_cm_channel *c, uint32_t number, struct av_cm_id **id)
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
	int ret = find_any_id(c, number, id);

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

/* --- a device that is gone --------------------------------------------------------------- */

/* The id can only be destroyed from then on. */
static void remove_id(struct av_cm_id *id)
{
	release_id_conn(id);
	id->where.dev = NULL;
	id->state = AV_CM_ID_REMOVED;
	av_cm_id_heard(id, AV_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
}

static void remove_before(uint32_t number, void *object, void *arg)
{
	const struct av_seg *seg = arg;
	struct av_cm_id *id = object;

	if (id->where.dev &&
	    (int32_t)(atomic_load(&seg->head->fatal) - id->where.since.failures) > 0 &&
	    strncmp(id->where.dev->ibv.name, seg->head->device, sizeof(seg->head->device)) == 0)
		remove_id(id);
}

void av_cm_device_called(struct av_seg *seg)
{
	if (!atomic_load(&seg->head->fatal))
		return;
	av_cm_lock();
	av_table_each(&ids.table, remove_before, seg);
	av_cm_unlock();
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

/* Copy the private data that the program gets: the beginning is not its own. Return: bytes */
static uint8_t copy_program_data(uint8_t *to, const struct av_cm_id *id,
				 const struct av_cm_message *m)
{
	bool request = m->attribute == AV_CM_REQ || m->attribute == AV_CM_SIDR_REQ;
	size_t header = request ? av_cm_id_header(id) : 0;
	size_t bytes = av_cm_private_bytes(m->attribute) - header;

	memcpy(to, m->private_data + header, bytes);
	return (uint8_t)bytes;
}

/* What one end initiates, the other responds to. Fields that a message lacks are 0. */
static void fill_conn(struct rdma_ucm_conn_param *p, const struct av_cm_id *id,
		      const struct av_cm_message *m)
{
	p->private_data_len = copy_program_data(p->private_data, id, m);
	p->qp_num = av_cm_kind_qpn(m, id->qp_type);
	p->qkey = m->qkey;
	p->srq = m->srq;
	p->responder_resources = m->initiator_depth;
	p->initiator_depth = m->responder_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
}

static void fill_ud(struct rdma_ucm_ud_param *p, const struct av_cm_id *id,
		    const struct av_cm_message *m)
{
	p->private_data_len = copy_program_data(p->private_data, id, m);
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

/* Return: false: no memory */
static bool append_request(struct av_cm_id *listener, struct av_cm_id *child,
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
	struct av_cm_id *id = new_cm_id(listener->channel, 0, listener->ps, av_cm_kind_wanted(m));

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
		listener = av_table_get(&ids.table, found.id);
	if (!listener || listener->state != AV_CM_ID_LISTENS)
		return AV_CM_INVALID_SERVICE_ID;
	if (listener->qp_type != AV_CM_ANY_KIND && listener->qp_type != av_cm_kind_wanted(m))
		return AV_CM_INVALID_TRANSPORT;
	if (listener->backlog == 0)
		return AV_CM_CONSUMER;
	child = create_child_id(listener, route, m);
	if (!child)
		return AV_CM_NO_RESOURCES;
	if (!append_request(listener, child, m)) { /* the connection itself refuses, once */
		(void)!av_cm_conn_reject(child->conn, AV_CM_NO_RESOURCES, NULL, 0);
		av_cm_id_destroy(child);
	}
	return 0;
}

/* Commands about an id itself: its life, its channel, what it is told. */

/* The kind of queue pair of a port space. Return: false: no such space */
static bool qp_type_of(const struct rdma_ucm_create_id *command, uint8_t *type)
{
	bool ud = command->ps == RDMA_PS_UDP || command->ps == RDMA_PS_IPOIB;

	*type = command->ps == RDMA_PS_IB ? command->qp_type : ud ? IBV_QPT_UD : IBV_QPT_RC;
	return ud || command->ps == RDMA_PS_TCP || command->ps == RDMA_PS_IB;
}

static int create_id(struct av_cm_call *call)
{
	const struct rdma_ucm_create_id *command = AV_CM_BODY(call, struct rdma_ucm_create_id);
	struct rdma_ucm_create_id_resp answer;
	struct av_cm_id *id;
	uint8_t type;
	int ret;

	if (!qp_type_of(command, &type))
		return -av_refuse(EINVAL, AV_CHECK_CM_QP_TYPE, command->qp_type, command->ps);
	id = new_cm_id(call->channel, command->uid, command->ps, type);
	if (!id)
		return -ENOMEM;
	answer.id = id->number;
	ret = av_cm_respond(call, command->response, &answer, sizeof(answer));
	if (ret)
		av_cm_id_destroy(id);
	return ret;
}

/* How many events the program has fetched: the answer to a command that ends what they are of. */
static int respond_reported(struct av_cm_call *call, uint64_t to, uint32_t reported)
{
	const struct rdma_ucm_destroy_id_resp answer = {.events_reported = reported};

	return av_cm_respond(call, to, &answer, sizeof(answer));
}

static int destroy_id(struct av_cm_call *call)
{
	const struct rdma_ucm_destroy_id *command = AV_CM_BODY(call, struct rdma_ucm_destroy_id);
	struct av_cm_id *id;
	int ret = find_any_id(call->channel, command->id, &id);
	uint32_t reported;

	if (ret)
		return ret;
	reported = id->reported;
	av_cm_id_destroy(id);
	av_cm_channel_settle(call->channel, call->fd);
	return respond_reported(call, command->response, reported);
}

/* --- another channel ------------------------------------------------------------------- */

static int migrate(struct av_cm_call *call, struct av_cm_channel *from)
{
	const struct rdma_ucm_migrate_id *command = AV_CM_BODY(call, struct rdma_ucm_migrate_id);
	struct av_cm_id *id;
	int ret = av_cm_id_find(from, command->id, &id);

	if (ret)
		return ret;
	if (from != call->channel) {
		move_id(id, call->channel);
		av_cm_channel_settle(from, (int)command->fd);
	}
	return respond_reported(call, command->response, id->reported);
}

static int migrate_id(struct av_cm_call *call)
{
	const struct rdma_ucm_migrate_id *command = AV_CM_BODY(call, struct rdma_ucm_migrate_id);
	struct av_cm_channel *from = NULL;
	uint32_t number;
	int ret;

	if (av_cm_is_channel((int)command->fd, &number))
		from = av_cm_channel_get(number);
	if (!from)
		return -av_refuse(EINVAL, AV_CHECK_CM_NO_CHANNEL, (uint64_t)(int)command->fd, 0);
	ret = migrate(call, from);
	av_cm_channel_put(from);
	return ret;
}

/* --- what it is told ------------------------------------------------------------------- */

/* Before it is accepted it has no name of the program's, by which librdmacm finds it. */
static int write_event(struct av_cm_call *call)
{
	const struct av_cm_write_event *command = AV_CM_BODY(call, struct av_cm_write_event);
	struct av_cm_event *e;
	struct av_cm_id *id;
	int ret;

	if (command->event != AV_CM_EVENT_USER && command->event != AV_CM_EVENT_INTERNAL)
		return -av_refuse(EINVAL, AV_CHECK_CM_EVENT, command->event, 0);
	ret = av_cm_id_find(call->channel, command->id, &id);
	if (ret)
		return ret;
	if (!id->uid)
		return av_cm_id_refuse(id, AV_CM_IN(REP_SENT) | AV_CM_IN(ESTABLISHED));
	e = new_event(id, command->event, (int)command->status);
	if (!e)
		return -ENOMEM;
	memcpy(&e->body.param, &command->arg, sizeof(command->arg));
	av_cm_channel_append(id->channel, e);
	return 0;
}

/* Commands about multicast groups. On RoCE nobody is asked: queue pairs attach themselves. */

#define GROUP_QPN 0xffffffu

static struct av_cm_group *new_group(struct av_cm_id *id, uint64_t uid)
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

/* Return: NULL: no memory */
static struct av_cm_event *new_join_event(struct av_cm_group *g, const struct av_cm_name *name)
{
	struct av_cm_event *e = new_event(g->id, AV_CM_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ucm_ud_param *ud;

	if (!e)
		return NULL;
	ud = &e->body.param.ud;
	e->group = g;
	e->body.uid = g->uid;
	e->body.id = g->number;
	ud->qp_num = GROUP_QPN;
	ud->qkey = AV_CM_UDP_QKEY;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.sgid_index = (uint8_t)g->id->where.gid_index;
	ud->ah_attr.grh.hop_limit = 1;
	ud->ah_attr.grh.traffic_class = g->id->tos;
	memcpy(ud->ah_attr.grh.dgid, name->address, sizeof(ud->ah_attr.grh.dgid));
	return e;
}

/* An id may join that has a device: it is bound to an address, or has resolved one. */
static bool may_join(const struct av_cm_id *id)
{
	return id->where.dev && (id->state == AV_CM_ID_BOUND || id->state == AV_CM_ID_RESOLVED);
}

static int join_cm_group(struct av_cm_call *call, uint32_t number, uint64_t uid, uint64_t response,
			 const struct sockaddr *address)
{
	struct rdma_ucm_create_id_resp answer;
	struct av_cm_event *e;
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
	g = new_group(id, uid);
	if (!g)
		return -ENOMEM;
	e = new_join_event(g, &name);
	answer.id = g->number;
	ret = e ? av_cm_respond(call, response, &answer, sizeof(answer)) : -ENOMEM;
	if (ret) {
		free(e);
		destroy_group(g);
	} else {
		av_cm_channel_append(id->channel, e);
	}
	return ret;
}

static int join_ip_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_join_ip_mcast *command =
		AV_CM_BODY(call, struct rdma_ucm_join_ip_mcast);

	return join_cm_group(call, command->id, command->uid, command->response,
			     (const struct sockaddr *)&command->addr);
}

static int join_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_join_mcast *command = AV_CM_BODY(call, struct rdma_ucm_join_mcast);

	if (!command->addr_size || command->addr_size > sizeof(command->addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, command->addr_size, 0);
	if (command->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -av_refuse(EINVAL, AV_CHECK_FLAGS, command->join_flags,
				  RDMA_MC_JOIN_FLAG_RESERVED - 1);
	return join_cm_group(call, command->id, command->uid, command->response,
			     (const struct sockaddr *)&command->addr);
}

static int leave_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_destroy_id *command = AV_CM_BODY(call, struct rdma_ucm_destroy_id);
	struct av_cm_group *g = av_table_get(&groups.table, command->id);
	uint32_t reported;
	int ret;

	if (!g)
		return -ENOENT;
	ret = g->id->channel == call->channel ? refuse_removed(g->id) : refuse_channel();
	if (ret)
		return ret;
	reported = g->reported;
	destroy_group(g);
	av_cm_channel_settle(call->channel, call->fd);
	return respond_reported(call, command->response, reported);
}

#define ROOM(type) sizeof(struct rdma_ucm_##type)

const struct av_cm_row av_cm_id_rows[] = {
	AV_CM_ROW(CREATE_ID, CREATE_ID, create_id, ROOM(create_id_resp), AV_CM_NO_ID, create_id),
	AV_CM_ROW(DESTROY_ID, DESTROY_ID, destroy_id, ROOM(destroy_id_resp), AV_CM_NO_ID,
		  destroy_id),
	AV_CM_ROW(MIGRATE_ID, MIGRATE_ID, migrate_id, ROOM(migrate_resp), AV_CM_NO_ID, migrate_id),
	{AV_CM_CMD_WRITE_EVENT, AV_VERB_CM_WRITE_EVENT, sizeof(struct av_cm_write_event), 0,
	 AV_CM_NO_ID, write_event},
	AV_CM_ROW(JOIN_IP_MCAST, JOIN_MULTICAST, join_ip_mcast, 0, AV_CM_NO_ID, join_ip_mcast),
	AV_CM_ROW(JOIN_MCAST, JOIN_MULTICAST, join_mcast, 0, AV_CM_NO_ID, join_mcast),
	AV_CM_ROW(LEAVE_MCAST, LEAVE_MULTICAST, destroy_id, ROOM(destroy_id_resp), AV_CM_NO_ID,
		  leave_mcast),
	{0},
};
