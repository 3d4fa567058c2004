/* SPDX-License-Identifier: MIT */
#include "transport/wire_qp.h"

#include "base/thread.h"
#include "device/port.h"
#include "transport/transport.h"

uint8_t av_wire_credits(const struct av_qp_ref *end)
{
	const struct av_rq_shared *rq = av_rq_at(end->seg, end->qp->rq);

	AV_ASSERT_HELD(&end->qp->resp_lock);
	if (!rq || end->qp->srq || end->qp->type != IBV_QPT_RC)
		return AV_CREDITS_NONE_CODE;
	/* A message that is not complete is not acknowledged: its request counts. */
	return av_credits_code(av_rq_ready(rq) + (end->qp->receiving != 0));
}

static void fill_connection_path(const struct av_qp_ref *end, const struct ibv_ah_attr *ah,
				 struct av_net_path *path)
{
	union ibv_gid gid;

	(void)av_port_gid(end->seg->head->port, ah->grh.sgid_index, &gid);
	memcpy(path->src, gid.raw, sizeof(path->src));
	memcpy(path->dst, ah->grh.dgid.raw, sizeof(path->dst));
	path->traffic_class = ah->grh.traffic_class;
	if (av_service_is_reliable(end->qp->type)) /* it can send less: switches may mark */
		path->traffic_class |= AV_NET_ECN_CAPABLE;
	path->hop_limit = ah->grh.hop_limit;
	path->flow_label = ah->grh.flow_label;
}

int av_wire_route_open(const struct av_qp_ref *end, const struct ibv_ah_attr *ah,
		       struct av_wire_route *route)
{
	int err;

	fill_connection_path(end, ah, &route->path);
	route->window = av_window_join(route->path.dst);
	if (!route->window)
		return ENOMEM;
	err = -av_net_open(route->path.src, true);
	if (err == 0)
		return 0;
	av_net_warn(route->path.src, -err);
	av_window_leave(route->window);
	route->window = NULL;
	return err;
}

void av_wire_route_close(struct av_wire_route *route)
{
	if (!route->window)
		return;
	av_net_close(route->path.src, true, NULL);
	av_window_leave(route->window);
	route->window = NULL;
}

#define FIRST	131072u	 /* what a receive buffer of Linux's default size takes */
#define MOST	4194304u /* of all queue pairs, */
#define EACH	393216u	 /* and of one: six sends, what one of twice that size takes */
#define LEAST	8192u
#define LOSS_NS 1000000u   /* losses so close to each other are one */
#define REST_NS 100000000u /* at most: what 100 Mb/s take to send a megabyte */

#define GATHERING    64u    /* queue pairs that may gather: while no more have anything waiting; */
#define GATHER_MOST  60u    /* messages of each, */
#define GATHER_BYTES 2048u  /* bytes of a message, */
#define GATHER_NS    30000u /* and for how long */

struct av_window {
	LIST_ENTRY(av_window) entry;
	uint8_t dst[16];
	uint32_t users;		 /* these two, and the list, are guarded by the mutex */
	_Atomic uint32_t active; /* queue pairs with packets under way */
	_Atomic uint32_t bytes;
	_Atomic uint64_t lost_ns;  /* when it was halved last */
	_Atomic uint64_t heard_ns; /* when something was acknowledged last */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, av_window) windows;

/* Queue pairs of which something waits to leave, with uses of their segments; by the mutex. */
static struct av_qp_ref waiting[AV_WIRE_OWING + GATHERING];
static _Atomic unsigned int waiting_count;

/* Those of the parent stay with its queue pairs, which send nothing here. */
static void reset_windows_in_child(void)
{
	LIST_INIT(&windows);
	waiting_count = 0;
}

static const struct av_fork_handlers fork_handlers = {.mutex = &mutex,
						      .child = reset_windows_in_child};

struct av_window *av_window_join(const uint8_t dst[16])
{
	struct av_window *w;

	if (av_fork_register(AV_FORK_WINDOWS, &fork_handlers))
		return NULL;
	pthread_mutex_lock(&mutex);
	LIST_FOREACH(w, &windows, entry)
		if (memcmp(w->dst, dst, sizeof(w->dst)) == 0)
			break;
	if (!w && (w = calloc(1, sizeof(*w)))) {
		memcpy(w->dst, dst, sizeof(w->dst));
		atomic_store(&w->bytes, FIRST);
		LIST_INSERT_HEAD(&windows, w, entry);
	}
	if (w)
		w->users++;
	pthread_mutex_unlock(&mutex);
	return w;
}

void av_window_leave(struct av_window *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&mutex);
	if (--w->users == 0) {
		LIST_REMOVE(w, entry);
		free(w);
	}
	pthread_mutex_unlock(&mutex);
}

void av_window_active(struct av_window *w, bool active)
{
	atomic_fetch_add_explicit(&w->active, active ? 1 : -1u, memory_order_relaxed);
}

bool av_window_is_alone(const struct av_window *w)
{
	return atomic_load_explicit(&w->active, memory_order_relaxed) <= 1;
}

uint32_t av_window_share(const struct av_window *w)
{
	uint32_t active = atomic_load_explicit(&w->active, memory_order_relaxed);
	uint32_t share =
		atomic_load_explicit(&w->bytes, memory_order_relaxed) / (active ? active : 1);

	return share < EACH ? share : EACH;
}

/* In such a window, a connection alone has two of the longest answers under way. */
static bool is_wide(const struct av_window *w)
{
	return atomic_load_explicit(&w->bytes, memory_order_relaxed) >= EACH;
}

uint32_t av_window_answer(const struct av_window *w)
{
	return is_wide(w) ? UINT32_MAX : av_window_share(w) / 2;
}

uint64_t av_window_rest(const struct av_window *w, uint32_t mtu, uint64_t answer_ns)
{
	uint32_t share = av_window_share(w);
	uint64_t rest_ns;

	if (is_wide(w) || share >= mtu)
		return 0;
	rest_ns = answer_ns * (mtu - share) / (share ? share : 1);
	return rest_ns < REST_NS ? rest_ns : REST_NS;
}

bool av_window_heard(const struct av_window *w, uint64_t since_ns)
{
	return atomic_load_explicit(&w->heard_ns, memory_order_relaxed) > since_ns;
}

/* Two packets more each time that a window has been acknowledged, which takes four answers. */
void av_window_acknowledged(struct av_window *w, uint32_t mtu, uint64_t now_ns)
{
	uint32_t bytes = atomic_load_explicit(&w->bytes, memory_order_relaxed);

	atomic_store_explicit(&w->heard_ns, now_ns, memory_order_relaxed);
	if (bytes == MOST)
		return;
	bytes += mtu / 2;
	atomic_store_explicit(&w->bytes, bytes < MOST ? bytes : MOST, memory_order_relaxed);
}

/* Two threads at once may halve it once or twice: both are bounds. */
void av_window_lost(struct av_window *w)
{
	uint64_t now = av_now_ns();
	uint32_t bytes = atomic_load_explicit(&w->bytes, memory_order_relaxed) / 2;

	if (now - atomic_load_explicit(&w->lost_ns, memory_order_relaxed) < LOSS_NS)
		return;
	atomic_store_explicit(&w->lost_ns, now, memory_order_relaxed);
	atomic_store_explicit(&w->bytes, bytes > LEAST ? bytes : LEAST, memory_order_relaxed);
}

/* --- what waits to leave ---------------------------------------------------------------- */

/* @end: with a use of its segment, which ends if it is there already, or there are @most. */
static void enlist(const struct av_qp_ref *end, unsigned int most)
{
	struct av_seg *seg = end->seg;

	pthread_mutex_lock(&mutex);
	if (seg && waiting_count < most && !atomic_exchange(&end->qp->listed, 1)) {
		waiting[waiting_count++] = *end;
		seg = NULL;
	}
	pthread_mutex_unlock(&mutex);
	av_seg_put(seg);
}

/* Return: false: too many wait */
static bool awaits_turn(const struct av_qp_ref *end, unsigned int most)
{
	if (!atomic_load(&end->qp->listed)) /* its segment may end before its turn comes */
		enlist(&(struct av_qp_ref){av_seg_get(end->seg->ref), end->qp}, most);
	return atomic_load(&end->qp->listed);
}

void av_wire_owe(const struct av_qp_ref *end, struct av_wire *w, uint64_t due_ns)
{
	AV_ASSERT_HELD(&end->qp->resp_lock);
	w->due_ns = due_ns;
	if (w->service != AV_SERVICE_UC && !atomic_load(&w->ack_pending) &&
	    awaits_turn(end, AV_ARRAY_SIZE(waiting)))
		atomic_store(&w->ack_pending, true);
}

bool av_wire_is_owing(void)
{
	return atomic_load_explicit(&waiting_count, memory_order_relaxed) >= AV_WIRE_OWING;
}

void av_gather_end(const struct av_qp_ref *end)
{
	if (av_gather_is_over(end->qp))
		av_sq_progress_requester(end);
}

uint64_t av_wire_let_leave(uint64_t now_ns)
{
	struct av_qp_ref end[AV_ARRAY_SIZE(waiting)];
	uint64_t next = UINT64_MAX, due;
	unsigned int count;

	if (av_likely(atomic_load_explicit(&waiting_count, memory_order_relaxed) == 0))
		return UINT64_MAX;
	pthread_mutex_lock(&mutex);
	count = waiting_count;
	memcpy(end, waiting, count * sizeof(end[0]));
	waiting_count = 0;
	pthread_mutex_unlock(&mutex);
	for (unsigned int i = 0; i < count; i++) {
		atomic_store(&end[i].qp->listed, 0); /* what begins from now on is listed anew */
		av_gather_end(&end[i]);		     /* it may take the acknowledgement along */
		due = av_wire_acknowledge(&end[i], now_ns);
		if (due == UINT64_MAX)
			av_seg_put(end[i].seg);
		else
			enlist(&end[i], AV_ARRAY_SIZE(waiting));
		next = due < next ? due : next;
	}
	return next;
}

/* Are all new requests small, and of a kind that nobody answers by more than an acknowledgement? */
static bool are_small(const struct av_qp_ref *end, uint32_t first, uint32_t tail)
{
	for (; first != tail; first++) {
		const struct av_sq_wqe *wqe = av_sq_slot(end, first);

		if (!wqe || wqe->bytes > GATHER_BYTES || av_wr_opcode(wqe->opcode)->answered ||
		    av_wr_opcode(wqe->opcode)->local)
			return false;
	}
	return true;
}

/* May what has just been posted, up to @tail, wait for more, beside others that are under way? */
static bool may_gather(const struct av_qp_ref *end, const struct av_wire *w, uint32_t tail)
{
	const struct av_qp_shared *q = end->qp;

	return w->service != AV_SERVICE_UC && w->acked != w->sent && w->sent == q->next_psn &&
	       w->next == w->begun_end && w->begun == 0 && !w->waits &&
	       tail - w->next < GATHER_MOST && tail - atomic_load(&q->sq_freed) < q->sq_capacity &&
	       are_small(end, w->seen, tail);
}

/* Return: does it gather? */
static bool begin_gathering(const struct av_qp_ref *end)
{
	uint64_t until = av_now_ns() + GATHER_NS;

	atomic_store(&end->qp->gather_ns, until);
	if (!awaits_turn(end, GATHERING))
		return false;
	av_net_settle_soon();
	av_timer_arm(end, until);
	return true;
}

bool av_wire_gathers(const struct av_qp_ref *end, struct av_wire *w)
{
	uint32_t tail = atomic_load(&end->qp->sq_tail);
	bool waits = tail != w->seen && may_gather(end, w, tail);

	AV_ASSERT_HELD(&end->qp->req_lock);
	w->seen = tail;
	if (waits && atomic_load(&end->qp->gather_ns) == 0)
		waits = begin_gathering(end);
	if (waits && atomic_load(&end->qp->gather_ns) != AV_GATHER_OVER)
		return true;
	atomic_store(&end->qp->gather_ns, 0);
	return false;
}
