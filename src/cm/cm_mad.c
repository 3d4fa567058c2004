/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include "segment/observers.h"
#include "transport/transport.h"
#include "wire/address.h"

/* --- whose ----------------------------------------------------------------------------- */

static uint32_t find_comm_process(uint32_t comm)
{
	return av_dir_proc_at(comm >> AV_CM_COMM_BITS);
}

static bool listens(const uint8_t address[16], uint64_t service_id, struct av_cm_port *found)
{
	return av_cm_port_find(av_netns_of_thread(), av_cm_service_ps(service_id),
			       av_cm_service_port(service_id), address, !av_net_is_v4(address),
			       found);
}

/* Who means its own host may say so by an address that stands for any. */
bool av_cm_listener(const uint8_t own[16], const struct av_cm_message *request,
		    struct av_cm_port *found)
{
	struct av_cm_ip ip;
	bool any = av_cm_ip_get(&ip, request->private_data) && av_cm_is_any(ip.dst);

	return listens(any ? ip.dst : own, request->service_id, found);
}

uint32_t av_cm_listener_of(const struct av_cm_route *route, uint64_t service_id)
{
	struct av_cm_port found;

	if (av_wire_is_forced() || !av_cm_is_own(route->path.dst))
		return 0;
	return listens(route->named, service_id, &found) ? found.proc : av_lock_self;
}

/* Requests go to the listener, all else to the connection's process; what is nobody's, to this. */
static uint32_t owner(const struct av_net_packet *p)
{
	struct av_cm_port found;
	struct av_cm_message m;
	uint32_t proc;

	if (!av_cm_get(&m, p->packet.payload, p->packet.payload_bytes))
		return 0;
	if (m.attribute == AV_CM_REQ || m.attribute == AV_CM_SIDR_REQ)
		return av_cm_listener(p->path.dst, &m, &found) ? found.proc : av_lock_self;
	if (m.attribute == AV_CM_SIDR_REP)
		proc = find_comm_process(m.local_comm_id);
	else /* 0: the requester has never heard of this end */
		proc = m.remote_comm_id ? find_comm_process(m.remote_comm_id) : 0;
	return proc ? proc : av_lock_self;
}

struct av_cm_route av_cm_route_back(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_cm_route route = {.path = *path, .device = ""};

	if (!av_wire_is_forced() && m->local_comm_id && av_cm_is_own(path->dst))
		route.proc = find_comm_process(m->local_comm_id);
	return route;
}

/* --- sending --------------------------------------------------------------------------- */

static struct av_packet datagram(void)
{
	return (struct av_packet){.opcode = AV_SERVICE_UD | 4, /* SEND Only */
				  .pkey = AV_PKEY_DEFAULT,
				  .dest_qpn = AV_NET_MANAGEMENT_QPN,
				  .qkey = AV_CM_QKEY,
				  .src_qpn = AV_NET_MANAGEMENT_QPN,
				  .payload_bytes = AV_MAD_BYTES};
}

static int forward_cm_mad(const struct av_cm_route *route, const struct av_cm_message *m)
{
	uint8_t bytes[AV_PACKET_HEADERS_MAX + AV_MAD_BYTES + AV_ICRC_BYTES];
	struct av_packet p = datagram();
	size_t n = av_packet_put_headers(&p, bytes);

	if (!av_cm_put(m, bytes + n))
		return -EINVAL;
	return av_net_pass(route->proc, &route->path, bytes, n + AV_MAD_BYTES + AV_ICRC_BYTES);
}

static int send_packet(const struct av_cm_route *route, const struct av_cm_message *m)
{
	struct av_net_burst *burst = av_net_burst(&route->path, route->device);
	struct av_packet p = datagram();
	uint8_t *to;

	if (!burst)
		return -ENOMEM;
	to = av_net_put(burst, &p);
	if (!av_cm_put(m, to))
		av_net_take_back(burst, 1);
	return av_net_send(burst);
}

int av_cm_send(const struct av_cm_route *route, const struct av_cm_message *m)
{
	return route->proc ? forward_cm_mad(route, m) : send_packet(route, m);
}

/* --- stale requests -------------------------------------------------------------------- */

#define REMEMBERED 256u

static struct stale {
	uint8_t from[16];
	uint32_t comm; /* 0: none */
	uint64_t transaction;
} remembered[REMEMBERED];
static unsigned int next_remembered;

void av_cm_stale_add(const uint8_t from[16], uint32_t comm, uint64_t transaction)
{
	struct stale *s = &remembered[next_remembered++ % REMEMBERED];

	memcpy(s->from, from, sizeof(s->from));
	s->comm = comm;
	s->transaction = transaction;
}

bool av_cm_stale_is(const uint8_t from[16], uint32_t comm, uint64_t transaction)
{
	for (const struct stale *s = remembered; comm && s < remembered + REMEMBERED; s++)
		if (s->comm == comm && s->transaction == transaction &&
		    memcmp(s->from, from, sizeof(s->from)) == 0)
			return true;
	return false;
}

/* --- faults on demand ----------------------------------------------------------------------- */

struct deferred {
	struct av_late late;
	struct av_net_path path;
	struct av_cm_message m;
};

static struct av_overtaken kept; /* messages; guarded by the lock */

static struct av_faults_verdict judge_cm_arrival(const struct av_net_path *path,
						 const struct av_cm_message *m)
{
	struct av_faults_occasion o = {
		.kind = AV_FAULTS_MESSAGE, .now_ns = av_now_ns(), .attribute = m->attribute};
	struct av_faults_verdict v;
	struct av_cm_where where;
	struct av_faults *f = NULL;

	if (av_cm_where_gid(path->src, &where))
		f = av_device_faults(where.dev);
	v = av_faults_arrival(f, &o);
	if (v.damaged)
		av_net_count(AV_NET_BAD_CRC, 1);
	return v;
}

static void come(const struct av_net_path *path, const struct av_cm_message *m, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		av_cm_arrived(path, m);
}

void av_cm_mads_look(uint64_t now_ns)
{
	struct deferred *k;

	do {
		av_cm_lock();
		k = av_overtaken_take(&kept, now_ns);
		av_cm_wake(av_overtaken_next(&kept));
		av_cm_unlock();
		if (k)
			come(&k->path, &k->m, k->late.times);
		free(k);
	} while (k);
}

/*
 * Apply the fault rules of the device that has the own address to a message that has arrived: drop
 * it, or pass it on at once, several times, or later.
 */
static void faults_arrived(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_faults_verdict v = judge_cm_arrival(path, m);
	bool late = v.delay_ns || v.after;
	struct deferred *k = NULL;

	if (v.lost)
		return;
	av_cm_lock();
	if (late)
		k = av_overtaken_add(&kept, sizeof(*k), &v, av_now_ns());
	else
		av_overtaken_pass(&kept);
	if (k) {
		k->path = *path;
		k->m = *m;
	}
	av_cm_unlock();
	if (!k)
		come(path, m, v.times);
	av_cm_mads_look(av_now_ns());
}

/* What still waits is lost: nobody is left to hear it. */
void av_cm_mads_end(void)
{
	void *k;

	av_cm_lock();
	while ((k = av_overtaken_take(&kept, UINT64_MAX)))
		free(k);
	av_cm_unlock();
}

void av_cm_mads_forked(void)
{
	kept = (struct av_overtaken){0};
}

/* --- receiving ------------------------------------------------------------------------- */

static void receive_cm_mad(const struct av_net_packet *p)
{
	struct av_net_path back = p->path;
	struct av_cm_message m;

	if (p->packet.qkey != AV_CM_QKEY ||
	    !av_cm_get(&m, p->packet.payload, p->packet.payload_bytes))
		return;
	memcpy(back.src, p->path.dst, sizeof(back.src));
	memcpy(back.dst, p->path.src, sizeof(back.dst));
	back.traffic_class = back.hop_limit = 0;
	faults_arrived(&back, &m);
}

const struct av_net_manager av_cm_manager = {.owner = owner, .packet = receive_cm_mad};
