/* SPDX-License-Identifier: MIT */
/* Which queue pairs are on the wire, and their state there. */
#include "transport/transport.h"

#include <sched.h>

#include "device/port.h"
#include "registry/tables.h"
#include "transport/observed.h"

static struct av_setting wire_only = {.variable = "ANYVERBS_TRANSPORT", .value = "wire"};
static struct av_setting direct_only = {.variable = "ANYVERBS_TRANSPORT", .value = "direct"};
static struct av_setting plain = {.variable = "ANYVERBS_TRANSPORT", .value = "plain"};

bool av_wire_is_forced(void)
{
	return av_setting_is(&wire_only);
}

bool av_wire_is_allowed(void)
{
	return !av_setting_is(&direct_only);
}

static bool wire_is_possible(const struct av_seg *seg)
{
	return seg->head->link_layer == IBV_LINK_LAYER_ETHERNET && av_wire_is_allowed();
}

bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah)
{
	return wire_is_possible(seg) && ah->is_global;
}

/* Then it is reached directly, whatever network is between the two addresses. */
static bool is_in_directory(const struct ibv_ah_attr *ah, uint32_t qpn)
{
	struct av_seg *seg = av_qp_get(qpn).seg;
	bool there = seg && av_at_address(ah, seg);

	av_seg_put(seg);
	return there;
}

bool av_wire_is_wanted(const struct av_seg *seg, const struct ibv_ah_attr *ah, uint32_t qpn)
{
	if (!av_wire_may_connect(seg, ah))
		return false;
	if (av_wire_is_forced())
		return true;
	return !av_at_address(ah, seg) && !is_in_directory(ah, qpn);
}

bool av_wire_is_connected(const struct av_qp_ref *end)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	return w && w->route.window;
}

bool av_wire_catch_up(const struct av_qp_ref *end)
{
	return !av_wire_at(end->seg, end->qp->index) || av_net_catch_up();
}

/* --- groups ------------------------------------------------------------------------- */

/*
 * That datagram queue pairs receive for. The directory says which a queue pair is attached to,
 * whatever its state; here is what has been joined, and must be left.
 */

static bool is_group(const struct av_wire_joined *j, const uint8_t group[16])
{
	return memcmp(j->group, group, sizeof(j->group)) == 0;
}

static bool has_joined(const struct av_wire *w, const uint8_t address[16], const uint8_t group[16])
{
	for (uint32_t i = 0; i < w->joined_count; i++)
		if (is_group(&w->joined[i], group) &&
		    memcmp(w->joined[i].address, address, sizeof(w->joined[i].address)) == 0)
			return true;
	return false;
}

/* Return: false: no memory */
static bool record_membership(struct av_wire *w, const uint8_t address[16], const uint8_t group[16])
{
	struct av_wire_joined *more = realloc(w->joined, (w->joined_count + 1) * sizeof(*more));

	if (!more)
		return false;
	w->joined = more;
	more += w->joined_count++;
	memcpy(more->address, address, sizeof(more->address));
	memcpy(more->group, group, sizeof(more->group));
	return true;
}

/* @group: NULL: any */
static void drop_memberships(struct av_wire *w, const uint8_t *group)
{
	for (uint32_t i = w->joined_count; i-- > 0;) {
		struct av_wire_joined j = w->joined[i];

		if (group && !is_group(&j, group))
			continue;
		w->joined[i] = w->joined[--w->joined_count];
		av_net_leave(j.address, j.group);
	}
}

/* Addresses of the other family join nothing. */
static void add_memberships(struct av_wire *w, const uint8_t group[16])
{
	for (uint32_t i = 0; i < w->addresses; i++)
		if (!has_joined(w, w->address[i], group) &&
		    av_net_join(w->address[i], group) == 0 &&
		    !record_membership(w, w->address[i], group))
			av_net_leave(w->address[i], group);
}

/* --- the state's life ------------------------------------------------------------ */

static void delete_wire(struct av_wire *w)
{
	if (!w)
		return;
	drop_memberships(w, NULL);
	for (uint32_t i = 0; i < w->addresses; i++)
		av_net_close(w->address[i], true, NULL);
	if (w->active)
		av_window_active(w->route.window, false);
	av_wire_route_close(&w->route);
	free(w->joined);
	free(w->address);
	free(w->request);
	free(w);
}

static struct av_wire *new_wire(const struct av_qp_ref *end)
{
	struct av_wire *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->qpn = atomic_load(&end->qp->qpn);
	w->service = av_service_of(end->qp->type);
	av_net_receive_by(&av_wire_receiver);
	return w;
}

void av_wire_change_route(const struct av_qp_ref *end, struct av_wire_route *route)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);
	struct av_wire_route old;

	if (!w || !w->route.window || !route->window)
		return;
	AV_ASSERT_HELD(&end->qp->req_lock);
	old = w->route;
	w->route = *route;
	*route = old;
	if (!w->active)
		return;
	av_window_active(route->window, false);
	av_window_active(w->route.window, true);
}

/* Publish it. Return: 0 or ENOMEM, and it is still the caller's */
static int keep_wire(const struct av_qp_ref *end, struct av_wire *w)
{
	struct av_table *table = AV_MADE_ONCE(&end->seg->wires, 1);

	return table ? av_table_set(table, end->qp->index, w) : ENOMEM;
}

/* Allocate the state of a connection, and open its route. Return: as av_wire_open() */
static int make_connected(const struct av_qp_ref *end, const struct ibv_qp_attr *attr,
			  struct av_wire **made)
{
	struct av_wire *w = new_wire(end);
	int err = ENOMEM;

	if (!w)
		return ENOMEM;
	w->mtu = av_mtu_bytes(attr->path_mtu);
	w->request = calloc((size_t)end->qp->sq_mask + 1, sizeof(*w->request));
	if (w->request)
		err = av_wire_route_open(end, &attr->ah_attr, &w->route);
	if (err) {
		delete_wire(w);
		return err;
	}
	(void)!av_net_own(w->route.path.src, w->qpn); /* else they come a longer way */
	*made = w;
	return 0;
}

int av_wire_open(const struct av_qp_ref *end, const struct ibv_qp_attr *attr)
{
	struct av_wire *w;
	int err = make_connected(end, attr, &w);

	if (!err && (err = keep_wire(end, w)))
		delete_wire(w);
	return err;
}

int av_wire_close(const struct av_qp_ref *end)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);
	uint64_t until = 0;
	int err;

	if (!w)
		return 0;
	/*
	 * What has come is not for the next connection, which may have the same PSNs: nor what
	 * another thread is handing over. That one may wait for a page, which the caller may be
	 * there to bring.
	 */
	while (!av_net_catch_up() && !av_timed_out(&until))
		sched_yield();
	err = av_qp_quiesce(end);
	if (err)
		return err;
	end->qp->wire = 0;
	av_table_clear(atomic_load(&end->seg->wires), end->qp->index);
	av_qp_resume(end);
	delete_wire(w);
	return 0;
}

void av_wire_begin(const struct av_qp_ref *end, enum ibv_qp_state to)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (!w || end->qp->type == IBV_QPT_UD)
		return;
	AV_ASSERT_HELD(&end->qp->req_lock);
	if (to == IBV_QPS_RTR) {
		end->qp->wire = 1;
		w->reads_carried = w->service == AV_SERVICE_RC && !av_setting_is(&plain);
	} else if (to == IBV_QPS_RTS) {
		w->next = w->begun_end = w->seen = end->qp->sq_next;
		atomic_store(&end->qp->gather_ns, 0);
		w->begun = 0;
		w->acked = w->sent = end->qp->next_psn;
		w->credits_acked = w->credits_used = w->credit_limit =
			0; /* the peer has not told anything yet */
		av_wire_progress(end, w, false);
	} else if (to == IBV_QPS_RESET) {
		av_wire_flushed(end);
	}
}

/* --- datagrams: the addresses that a queue pair receives at ------------------------- */

/* @w: NULL: the queue pair has no packets */
static bool is_open(const struct av_wire *w, const uint8_t address[16])
{
	for (uint32_t i = 0; w && i < w->addresses; i++)
		if (memcmp(w->address[i], address, sizeof(w->address[i])) == 0)
			return true;
	return false;
}

/* Have packets for one address come, unless it is open already. */
static void open_wire_address(struct av_wire *w, const union ibv_gid *gid)
{
	int err;

	if (is_open(w, gid->raw))
		return;
	err = av_net_open(gid->raw, true);
	if (err) {
		w->unopened = err;
		if (err == -EBUSY) /* it would not even receive, and its program hears nothing */
			av_net_warn(gid->raw, err);
		return;
	}
	memcpy(w->address[w->addresses++], gid->raw, sizeof(gid->raw));
	(void)!av_net_own(gid->raw, w->qpn);
}

static void open_addresses(const struct av_qp_ref *end, struct av_wire *w)
{
	uint32_t port = end->seg->head->port;

	for (uint32_t row = 0; row < AV_GID_MAX; row++) {
		union ibv_gid gid;

		if (av_port_has_row(port, row) &&
		    av_port_gid(port, row, &gid) == IBV_GID_TYPE_ROCE_V2)
			open_wire_address(w, &gid);
	}
}

void av_wire_open_datagrams(const struct av_qp_ref *end)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);
	struct av_multicast_member member;
	uint32_t at = 0;

	if (!wire_is_possible(end->seg) || (w && w->qpn == atomic_load(&end->qp->qpn)))
		return;
	if (av_wire_close(end)) /* what another queue pair, which had this place before, has left */
		return;
	w = new_wire(end);
	if (w)
		w->address = calloc(AV_GID_MAX, sizeof(*w->address));
	if (!w || !w->address) {
		delete_wire(w);
		return;
	}
	open_addresses(end, w);
	if (keep_wire(end, w)) {
		delete_wire(w);
		return;
	}
	while (av_multicast_next(NULL, w->qpn, &at, &member))
		add_memberships(w, member.gid.raw);
}

bool av_wire_sends(const struct av_qp_ref *end)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	return w && w->addresses;
}

static void tell_unsent(const struct av_wire *w, const uint8_t src[16])
{
	if (w && w->unopened)
		av_net_warn(src, w->unopened);
	else if (w)
		av_warn_once("an address has come since a datagram queue pair entered RTR: to and "
			     "from other hosts, its datagrams there are lost until it is reset");
}

struct av_net_burst *av_wire_burst(const struct av_qp_ref *end, const struct av_net_path *path)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	AV_ASSERT_HELD(&end->qp->req_lock);
	if (is_open(w, path->src))
		return av_net_burst(path, end->seg->head->device);
	tell_unsent(w, path->src);
	return NULL;
}

bool av_wire_has_room(const struct av_qp_ref *end, const struct av_net_path *path)
{
	AV_ASSERT_HELD(&end->qp->req_lock);
	return !is_open(av_wire_at(end->seg, end->qp->index), path->src) || av_net_has_room(path);
}

void av_wire_join(const struct av_qp_ref *end, const union ibv_gid *group)
{
	struct av_wire *w;

	av_wire_open_datagrams(end);
	w = av_wire_at(end->seg, end->qp->index);
	if (w)
		add_memberships(w, group->raw);
}

void av_wire_leave(const struct av_qp_ref *end, const union ibv_gid *group)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (w)
		drop_memberships(w, group->raw);
}

/* --- moving to the wire ----------------------------------------------------------- */

/* Return: has it changed? */
static bool set_to_wire_from(struct av_qp_shared *qp, enum av_to_wire from, enum av_to_wire to)
{
	uint32_t before = from;

	return atomic_compare_exchange_strong(&qp->to_wire, &before, to);
}

/* One that has moved, or knows that it cannot, is not asked again. */
static void notify_peer_to_move(const struct av_qp_ref *peer, enum av_to_wire what)
{
	if (peer->qp && (set_to_wire_from(peer->qp, AV_TO_WIRE_NOT, what) ||
			 set_to_wire_from(peer->qp, AV_TO_WIRE_WANTED, what) ||
			 set_to_wire_from(peer->qp, AV_TO_WIRE_WAITS, what)))
		av_seg_call(peer->seg);
}

/* Both ends, before anything is changed: who holds a lock of the queue pair may keep it. */
static int resolve_move_peer(const struct av_qp_ref *end, struct av_qp_ref *peer,
			     struct ibv_qp_attr *attr)
{
	int err = av_qp_quiesce(end);

	if (err)
		return err;
	av_connect(end, peer);
	*attr = end->qp->attr;
	av_qp_resume(end);
	return 0;
}

/* Context: both queue pair locks are held. Return: has it moved? */
static bool install(const struct av_qp_ref *end, struct av_wire *w)
{
	uint32_t state = atomic_load(&end->qp->state);

	if (atomic_load(&end->qp->qpn) != w->qpn || !AV_RESPONDER_ANSWERS(state) ||
	    !set_to_wire_from(end->qp, AV_TO_WIRE_ASKED, AV_TO_WIRE_MOVED))
		return false;
	if (keep_wire(end, w)) {
		atomic_store(&end->qp->to_wire, AV_TO_WIRE_CANNOT);
		return false;
	}
	av_wire_begin(end, IBV_QPS_RTR);
	if (state != IBV_QPS_RTR)
		av_wire_begin(end, IBV_QPS_RTS);
	atomic_store(&end->qp->wait_reason, AV_WAIT_NONE); /* what waited for the move goes on */
	return true;
}

/* Return: 0, EBUSY: a peer holds a lock, or another errno: it cannot move */
static int move_qp_to_wire(const struct av_qp_ref *end, const struct ibv_qp_attr *attr)
{
	struct av_wire *w = NULL;
	bool moved;
	int err;

	if (!av_wire_may_connect(end->seg, &attr->ah_attr) || make_connected(end, attr, &w))
		return EADDRNOTAVAIL;
	err = av_qp_quiesce(end);
	if (err) {
		delete_wire(w);
		return err;
	}
	moved = install(end, w);
	av_qp_resume(end);
	if (!moved)
		delete_wire(w);
	return moved ? 0 : EADDRNOTAVAIL;
}

/* Return: as av_wire_move() */
static bool moves(const struct av_qp_ref *end, const struct av_qp_ref *peer,
		  const struct ibv_qp_attr *attr)
{
	int err = move_qp_to_wire(end, attr);

	if (err == 0) {
		notify_peer_to_move(peer, AV_TO_WIRE_ASKED);
	} else if (err != EBUSY && set_to_wire_from(end->qp, AV_TO_WIRE_ASKED, AV_TO_WIRE_CANNOT)) {
		atomic_store(&end->qp->kick, 1);
		notify_peer_to_move(peer, AV_TO_WIRE_CANNOT);
	}
	return err != EBUSY;
}

bool av_wire_move(const struct av_qp_ref *end)
{
	uint32_t step = atomic_load(&end->qp->to_wire);
	struct av_qp_ref peer = {0};
	struct ibv_qp_attr attr;
	bool taken = true;

	if (step != AV_TO_WIRE_WANTED && step != AV_TO_WIRE_ASKED)
		return true;
	if (resolve_move_peer(end, &peer, &attr))
		return false;
	if (step == AV_TO_WIRE_ASKED)
		taken = moves(end, &peer, &attr);
	else if (set_to_wire_from(end->qp, AV_TO_WIRE_WANTED, AV_TO_WIRE_WAITS))
		notify_peer_to_move(&peer, AV_TO_WIRE_ASKED);
	av_disconnect(&peer);
	av_sq_progress(end, NULL); /* what came while the rights were held here */
	return taken;
}

void av_wire_move_called(struct av_seg *seg)
{
	struct av_qp_ref end = {.seg = seg};

	/* From the first on, there are no gaps. */
	for (uint32_t i = 1; (end.qp = av_qp_at(seg, i)) != NULL; i++) {
		uint32_t step = atomic_load(&end.qp->to_wire);

		if (step == AV_TO_WIRE_CANNOT)
			atomic_store(&end.qp->kick, 1);
		if (step != AV_TO_WIRE_ASKED && step != AV_TO_WIRE_CANNOT)
			continue;
		AV_CAME_BY_PEER(&end.qp->resp_lock); /* that the queue pair is there */
		AV_CAME_BY_PEER(&end.qp->req_lock);
		av_timer_arm(&end, 0);
	}
}
