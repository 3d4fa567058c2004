/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/real_calls.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/wait.h"
#include "registry/capture_table.h"
#include "wire/address.h"

#define DATAGRAMS      16    /* taken at once, */
#define CATCH_UP       64    /* times: a flood ends nobody's wait */
#define TURNS	       32    /* of a poller, in one of which it looks at all sockets, */
#define DUE_TURNS      8     /* or at the clock, for what waits */
#define VAIN	       256u  /* polls in a row that found nothing, until most do not look; */
#define SELDOM	       512u  /* of so many polls one looks then */
#define DATAGRAM_BYTES 65536 /* each joined of several */
#define CONTROL_BYTES  256
#define GROUP_QPN      0xffffffu
#define SHOWN	       64 /* to captures at once */
#define TOGETHER       64 /* packets that are handed over at once */

struct buffers {
	struct mmsghdr head[DATAGRAMS];
	struct iovec io[DATAGRAMS];
	union av_net_name from[DATAGRAMS];
	_Alignas(struct cmsghdr) uint8_t control[DATAGRAMS][CONTROL_BYTES];
	struct av_endpoint *endpoint[AV_ENDPOINTS];
	struct pollfd poll[AV_ENDPOINTS]; /* of each endpoint */
	unsigned int endpoints, version;
	unsigned int recent;		/* the endpoint by which packets came last */
	unsigned int turns;		/* of pollers */
	bool came;			/* packets have, when somebody looked last */
	const struct av_own_fd *passed; /* by which packets are passed on; NULL: it cannot be */
	struct av_net_packet packet[TOGETHER];
	uint8_t data[DATAGRAMS][DATAGRAM_BYTES];
};

static const struct av_net_receiver *_Atomic receiver;
static const struct av_net_manager *_Atomic manager;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of who receives; guards @buffers */
static struct buffers *buffers;
static _Atomic unsigned int polled;
static _Atomic unsigned int looks;	     /* of av_net_poll() */
static _Atomic uint64_t due_ns = UINT64_MAX; /* of what the receiver has let wait */
static _Atomic bool sleeps;		     /* the listening thread does, until packets come */

_Atomic uint64_t av_net_counter[AV_NET_COUNTS];
_Atomic unsigned int av_net_in_vain;

void av_net_receive_by(const struct av_net_receiver *r)
{
	receiver = r;
}

void av_net_manage_by(const struct av_net_manager *m)
{
	manager = m;
}

/* The kernel writes to what it is given: have it as before. */
static void arm(unsigned int i)
{
	buffers->io[i] = (struct iovec){buffers->data[i], DATAGRAM_BYTES};
	buffers->head[i].msg_hdr = (struct msghdr){
		.msg_name = &buffers->from[i],
		.msg_namelen = sizeof(buffers->from[i]),
		.msg_iov = &buffers->io[i],
		.msg_iovlen = 1,
		.msg_control = buffers->control[i],
		.msg_controllen = sizeof(buffers->control[i]),
	};
}

/* The pages of buffers that are never filled are never there. Context: @mutex is held. */
static int make_buffers(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p;

	if (buffers)
		return 0;
	p = av_mmap(NULL, sizeof(*buffers), PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	buffers = p;
	for (unsigned int i = 0; i < DATAGRAMS; i++)
		arm(i);
	return 0;
}

/* --- who gets it ------------------------------------------------------------------ */

static bool is_management(const struct av_net_packet *p)
{
	return p->packet.dest_qpn == AV_NET_MANAGEMENT_QPN;
}

/* The process that owns a packet's queue pair, which it finds; 0: there is none. */
static uint32_t owner_of(struct av_net_packet *p)
{
	if (is_management(p))
		return manager ? manager->owner(p) : 0;
	p->qp = av_dir_qpn_find(p->packet.dest_qpn);
	return p->qp.ref ? av_dir_context_owner(p->qp.ref) : 0;
}

/* Datagrams that one socket has received together, and how. */
struct arrival {
	struct av_endpoint *by;
	struct av_gro_split all;
	unsigned int count; /* of @packet, for one queue pair of this process: to be handed over */
	uint32_t owner;	    /* of those that are to be passed on; 0: there are none */
	bool waits;	    /* they wait until there is room for them */
	struct av_gro_split misrouted;
};

static void forward_misrouted(struct arrival *a)
{
	if (a->owner && buffers->passed)
		av_misrouted_forward(buffers->passed, a->owner, &a->misrouted, a->waits);
	a->owner = 0;
}

/*
 * Pass on those together that follow one another, of one kind and owner. @begin: of @a. The kernel
 * does not know whose datagrams of management are.
 */
static void is_misrouted(struct arrival *a, uint32_t owner, const struct av_net_packet *p,
			 size_t begin)
{
	av_net_count(AV_NET_MISROUTED, 1);
	if (a->owner != owner || a->waits != is_management(p) ||
	    a->misrouted.bytes + a->misrouted.count != a->all.bytes + begin) {
		forward_misrouted(a);
		a->owner = owner;
		a->waits = is_management(p);
		a->misrouted = a->all;
		a->misrouted.bytes += begin;
	}
	a->misrouted.count = (size_t)(a->all.bytes + a->all.at - a->misrouted.bytes);
	if (!is_management(p))
		av_group_misrouted(a->by, owner, p->packet.dest_qpn, begin == 0);
}

/* Messages of the connection manager pass between processes even where no address can be had. */
static bool is_packet_expected(const struct arrival *a, const struct av_net_packet *p)
{
	return a->by->kind != AV_ENDPOINT_PASSED || is_management(p) ||
	       av_endpoint_find(AV_ENDPOINT_ADDRESS, p->path.dst, 0);
}

static void hand_over_own(struct arrival *a)
{
	if (a->count)
		receiver->packets(buffers->packet, a->count);
	a->count = 0;
}

/* @p: behind the packets that are to be handed over. @begin: where in @a it begins */
static void hand_over(struct arrival *a, struct av_net_packet *p, size_t begin)
{
	bool to_group = av_net_is_group(p->path.dst);
	uint32_t owner;

	if (a->count && a->count < TOGETHER - 1 &&
	    p->packet.dest_qpn == buffers->packet[0].packet.dest_qpn) {
		p->qp = buffers->packet[0].qp;
		a->count++;
		return;
	}
	hand_over_own(a);
	owner = to_group ? 0 : owner_of(p);
	if (!is_packet_expected(a, p)) {
		av_net_count(AV_NET_NOBODY, 1);
	} else if (owner == av_lock_self && is_management(p)) {
		manager->packet(p);
	} else if (to_group ? p->packet.dest_qpn == GROUP_QPN : owner == av_lock_self) {
		buffers->packet[0] = *p;
		a->count = 1;
	} else if (owner && a->by->kind == AV_ENDPOINT_ADDRESS) {
		is_misrouted(a, owner, p, begin);
	} else {
		av_net_count(AV_NET_NOBODY, 1);
	}
}

/* Packets of the next datagram may follow those of this one: the caller hands over the last. */
static void hand_over_all(struct arrival *a)
{
	enum av_datagram_error error;
	struct av_net_packet *p = &buffers->packet[a->count];
	size_t begin = 0;

	for (; av_gro_next(&a->all, &p->path, &p->packet, &error); begin = a->all.at) {
		av_net_count(AV_NET_IN, 1);
		if (error == AV_DATAGRAM_OK)
			hand_over(a, p, begin);
		else
			av_net_count(error == AV_DATAGRAM_SHORT ? AV_NET_SHORT : AV_NET_BAD_CRC, 1);
		if (error == AV_DATAGRAM_BAD_CRC)
			receiver->damaged(p->packet.dest_qpn);
		p = &buffers->packet[a->count];
	}
	forward_misrouted(a);
}

/* --- captures --------------------------------------------------------------------- */

/* Show captures all that has come, before it is handed over: answers come behind. */
static __attribute__((noinline)) void show_all(const struct arrival *a)
{
	struct av_net_datagram datagram[SHOWN];
	struct av_gro_split cut = a->all;
	struct av_net_seen seen = {
		.path = &cut.path, .time_ns = av_now_real_ns(), .datagram = datagram};
	enum av_datagram_error error;
	struct av_net_packet p;
	size_t begin = 0;

	for (; av_gro_next(&cut, &p.path, &p.packet, &error); begin = cut.at) {
		bool is_packet = error == AV_DATAGRAM_OK, to_group = av_net_is_group(p.path.dst);
		uint32_t owner = is_packet ? owner_of(&p) : 0;

		/* Who else owns its queue pair gets it, and shows it to captures. */
		if (owner && owner != av_lock_self && a->by->kind == AV_ENDPOINT_ADDRESS)
			continue;
		datagram[seen.count++] = (struct av_net_datagram){
			.bytes = cut.bytes + begin,
			.count = cut.at - begin,
			.identification = is_packet ? p.path.identification : 0,
			.unknown_queue =
				is_packet && (to_group ? p.packet.dest_qpn != GROUP_QPN : !owner),
			.damaged = error == AV_DATAGRAM_BAD_CRC,
		};
		if (seen.count == SHOWN) {
			av_inbound_seen(&seen);
			seen.count = 0;
		}
	}
	if (seen.count)
		av_inbound_seen(&seen);
}

void av_inbound_seen(const struct av_net_seen *seen)
{
	receiver->seen(seen);
}

/* --- taking ----------------------------------------------------------------------- */

/* Return: how many datagrams have come. For one alone, the system call of one takes less. */
static int receive_from(int fd, unsigned int most)
{
	ssize_t bytes;

	if (most > 1)
		return recvmmsg(fd, buffers->head, most, MSG_DONTWAIT, NULL);
	bytes = av_raw_recvmsg(fd, &buffers->head[0].msg_hdr, MSG_DONTWAIT);
	buffers->head[0].msg_len = (unsigned int)bytes;
	return bytes < 0 ? -1 : 1;
}

/* Return: how many have come; @most: there may be more */
static unsigned int take_from(struct av_endpoint *e, unsigned int most)
{
	struct arrival a = {.by = e};
	int fd, n;

	av_group_look(e);
	fd = av_own_fd_use(&e->socket, &e->looked);
	if (fd < 0) {
		av_group_lost(e);
		return 0;
	}
	n = receive_from(fd, most);
	av_own_fd_done();
	for (int i = 0; i < n; i++) {
		bool is_sound = av_datagram_get(&a.all, e, &buffers->head[i]);

		arm((unsigned int)i);
		if (!is_sound)
			continue;
		if (av_unlikely(av_capture_is_on()))
			show_all(&a);
		hand_over_all(&a);
	}
	hand_over_own(&a);
	if (n < (int)most)
		e->drained = e->told;
	return n > 0 ? (unsigned int)n : 0;
}

static void look_at_endpoints(void)
{
	if (!av_endpoint_refresh(buffers->endpoint, &buffers->endpoints, &buffers->version))
		return;
	buffers->passed = NULL;
	buffers->recent = 0;
	for (unsigned int i = 0; i < buffers->endpoints; i++) {
		const struct av_endpoint *e = buffers->endpoint[i];

		buffers->poll[i] = (struct pollfd){.fd = e->socket.fd, .events = POLLIN};
		if (e->kind == AV_ENDPOINT_PASSED)
			buffers->passed = &e->socket;
		else
			buffers->recent = i;
	}
}

/* One look at all costs less than one at each; above RLIMIT_NOFILE, poll(2) takes none. */
static bool any_ready(void)
{
	int n = av_raw_poll(buffers->poll, buffers->endpoints, 0);

	for (unsigned int i = 0; n < 0 && i < buffers->endpoints; i++)
		buffers->poll[i].revents = POLLIN;
	return n != 0;
}

/* Return: datagrams that came by endpoint @i, @most of them */
static unsigned int take_by(unsigned int i, unsigned int most, bool *drained)
{
	unsigned int n = take_from(buffers->endpoint[i], most);

	*drained &= n < most;
	if (n > 0)
		buffers->recent = i;
	return n;
}

/*
 * Return: datagrams that came. @polls: the caller will be back in a moment, and mostly looks where
 * packets came last: receiving says as soon as poll(2) that there is nothing. After a look in vain,
 * one packet is what comes, and the kernel does not look for another
 */
static unsigned int take_all(bool polls, bool *drained)
{
	unsigned int sum = 0;

	*drained = true;
	look_at_endpoints();
	if (buffers->passed && av_backlog_waits())
		av_backlog_again(buffers->passed);
	if (polls && buffers->recent < buffers->endpoints && ++buffers->turns % TURNS != 0)
		sum = take_by(buffers->recent, buffers->came ? DATAGRAMS : 1, drained);
	else if (any_ready())
		for (unsigned int i = 0; i < buffers->endpoints; i++)
			sum += buffers->poll[i].revents ? take_by(i, DATAGRAMS, drained) : 0;
	buffers->came = sum > 0;
	return sum;
}

void av_net_settle_soon(void)
{
	atomic_store(&due_ns, 0);
	atomic_store_explicit(&av_net_in_vain, 0, memory_order_relaxed);
}

/*
 * @now_ns: as for settled(). What is to be settled soon from now on is settled once more. Return:
 * does anything wait?
 */
static bool let_settle(uint64_t now_ns)
{
	uint64_t none = UINT64_MAX, due;

	atomic_store(&due_ns, UINT64_MAX);
	due = receiver->settled(now_ns);
	(void)atomic_compare_exchange_strong(&due_ns, &none, due);
	return due != UINT64_MAX;
}

/* Let the receiver settle what has come or is due. While the listener sleeps, nothing waits. */
static void settle(bool any, bool polls)
{
	uint64_t due = atomic_load(&due_ns), now = 0;

	if (!any && due != 0) {
		if (due == UINT64_MAX || (polls && buffers->turns % DUE_TURNS != 0))
			return;
		now = av_now_ns();
		if (due > now)
			return;
	}
	if (let_settle(now) && atomic_load(&sleeps))
		(void)let_settle(UINT64_MAX);
}

/*
 * Receive the packets that have arrived, without a wait for more. @wait: for another thread that
 * receives. @polls: as take_all(). @taken: out, number of datagrams, joined ones counted as one.
 * @drained: out, all sockets were empty afterwards, as far as is known. Return: false: another
 * thread receives
 */
static bool take_inbound(bool wait, bool polls, unsigned int *taken, bool *drained)
{
	AV_UNCANCELLED;

	*taken = 0;
	*drained = true;
	if (wait ? pthread_mutex_lock(&mutex) : pthread_mutex_trylock(&mutex))
		return false;
	if (buffers) {
		*taken = take_all(polls, drained);
		if (*taken)
			atomic_store_explicit(&av_net_in_vain, 0, memory_order_relaxed);
		settle(*taken > 0, polls);
	}
	pthread_mutex_unlock(&mutex);
	return true;
}

bool av_net_poll(void)
{
	unsigned int taken, n = atomic_load_explicit(&av_net_in_vain, memory_order_relaxed);
	AV_ERRNO_KEPT;
	bool drained;

	atomic_store_explicit(&av_net_in_vain, n + 1, memory_order_relaxed);
	if ((n >= VAIN && n % SELDOM != 0) || !take_inbound(false, true, &taken, &drained))
		return false;
	atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
	if (taken)
		atomic_fetch_add_explicit(&polled, 1, memory_order_relaxed);
	return taken > 0;
}

bool av_net_catch_up(void)
{
	AV_ERRNO_KEPT;
	bool drained = false, mine = true;
	unsigned int taken;

	for (unsigned int i = 0; i < CATCH_UP && mine && !drained; i++)
		mine = take_inbound(false, false, &taken, &drained);
	mine = mine && av_net_in_turn(NULL, NULL, false);
	return mine;
}

bool av_net_in_turn(void (*f)(void *arg), void *arg, bool wait)
{
	AV_UNCANCELLED;

	if (wait ? pthread_mutex_lock(&mutex) : pthread_mutex_trylock(&mutex))
		return false;
	if (f)
		f(arg);
	if (receiver)
		(void)let_settle(UINT64_MAX);
	pthread_mutex_unlock(&mutex);
	return true;
}

void av_inbound_pause(void)
{
	pthread_mutex_lock(&mutex);
}

void av_inbound_resume(void)
{
	pthread_mutex_unlock(&mutex);
}

/* --- listening -------------------------------------------------------------------- */

#define TRUST_MS 1  /* how long whoever takes packets is trusted to take the next ones */
#define DISTRUST 8u /* wake-ups in a row for what others had taken, until they are trusted */
#define FULL_MS	 1  /* until a process that has no room for a message may have some */
#define BLIND_MS 20 /* while the program has closed the pair, or lowered its limit of numbers */

static struct av_setting sleepy = {.variable = "ANYVERBS_TRANSPORT", .value = "sleepy"};

/* Owned by the thread. */
struct listening {
	unsigned int run, looks; /* of others, when last seen */
	struct av_look look;
	struct av_own_fd woken;
	struct pollfd poll[1 + AV_ENDPOINTS];
};

static struct {
	struct av_thread *thread;
	struct av_waker waker;
	_Atomic unsigned int run; /* the thread ends when this is no longer its own */
} listener = {.waker = AV_WAKER_NONE};

/* While somebody else takes the packets, they wake nobody. */
static void poll_listener(struct listening *l, bool others_take)
{
	int woken = av_own_fd(&l->woken), timeout = others_take ? TRUST_MS : -1;
	nfds_t n = 1;

	l->poll[0] = (struct pollfd){.fd = woken, .events = POLLIN};
	if (!others_take)
		n += av_endpoint_poll(l->poll + 1);
	if (woken < 0 && !others_take)
		timeout = BLIND_MS;
	if (av_backlog_waits())
		timeout = FULL_MS;
	atomic_store(&sleeps, timeout < 0);
	if (timeout < 0 && atomic_load(&due_ns) != UINT64_MAX)
		timeout = TRUST_MS;
	if (av_raw_poll(l->poll, n, timeout) < 0)
		(void)av_raw_poll(NULL, 0, BLIND_MS);
	else if (l->poll[0].revents)
		av_waker_drain(&l->woken);
	atomic_store(&sleeps, false);
}

static bool is_listener_replaced(const struct listening *l)
{
	return atomic_load(&listener.run) != l->run;
}

/* @wait: for who takes them, who could not finish on one core otherwise. False: others take them */
static bool drain_inbound(const struct listening *l, bool wait, bool *any)
{
	unsigned int taken;
	bool drained, mine;

	*any = false;
	do {
		mine = take_inbound(wait, false, &taken, &drained);
		*any |= taken > 0;
	} while (!drained && !is_listener_replaced(l));
	return mine;
}

/* Let others have the core. Return: has one kept it for longer than AV_LOOK_NS? */
static bool yield_core(void)
{
	uint64_t before = av_now_ns();

	sched_yield();
	return av_now_ns() - before > AV_LOOK_NS;
}

/* Has nobody else looked since the last call? */
static bool are_others_silent(struct listening *l)
{
	unsigned int before = l->looks;

	l->looks = atomic_load_explicit(&looks, memory_order_relaxed);
	return l->looks == before;
}

/*
 * Look for packets, and take them, as long as that pays. Who polls takes its own. Who wants this
 * core gets it after each look.
 */
static void look(struct listening *l)
{
	bool drained, wanted = av_setting_is(&sleepy);
	unsigned int taken;
	cpu_set_t cores;

	if (!av_look_goes_on(&l->look, av_now_ns(), wanted))
		return;
	wanted = sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) == 1;
	while (!is_listener_replaced(l) && av_look_goes_on(&l->look, av_now_ns(), wanted)) {
		taken = 0;
		if (are_others_silent(l))
			(void)take_inbound(false, true, &taken, &drained);
		if (taken)
			av_look_came(&l->look, av_now_ns());
		wanted = yield_core();
	}
}

/*
 * A program may poll its CQ once, and then spin on memory that packets write to: what comes while
 * it is trusted waits. That is noticed once; this thread then waits for who is taking packets, and
 * looks itself, until others are faster again: who had only lost its core, say.
 */
static void *listen_main(void *arg)
{
	struct listening *l = arg;
	unsigned int seen = atomic_load(&polled), now, distrust = 0;
	bool others_take = false, any;

	while (!is_listener_replaced(l)) {
		bool silent, mine;

		if (!others_take || distrust > 0)
			look(l);
		poll_listener(l, others_take && distrust == 0);
		silent = are_others_silent(l) && others_take;
		mine = drain_inbound(l, distrust > 0, &any);
		if (any)
			av_look_came(&l->look, av_now_ns());
		if (distrust > 0)
			distrust = any ? DISTRUST : distrust - 1;
		else if (silent && mine && any)
			distrust = DISTRUST;
		now = atomic_load(&polled);
		others_take = !mine || now != seen;
		seen = now;
	}
	av_own_fd_close(&l->woken);
	free(l);
	return NULL;
}

/* Start the listening thread. Context: the mutex of open.c is held. Return: 0 or -errno */
static int listen_begin(void)
{
	struct listening *l = calloc(1, sizeof(*l));
	int ret = -ENOMEM;

	if (!l)
		return -ENOMEM;
	l->woken = AV_OWN_FD_NONE;
	l->run = atomic_load(&listener.run);
	if (av_waker_begin(&listener.waker, &l->woken))
		ret = -av_thread_start(&listener.thread, "anyverbs-net", listen_main, l);
	if (ret == 0)
		return 0;
	av_own_fd_close(&l->woken);
	av_waker_end(&listener.waker);
	free(l);
	return ret;
}

void av_inbound_wake(void)
{
	(void)av_waker_wake(&listener.waker);
}

void av_inbound_end(void)
{
	atomic_fetch_add(&listener.run, 1);
	if (av_waker_wake(&listener.waker))
		av_thread_join(listener.thread);
	else
		av_thread_leave(listener.thread); /* it ends when a packet comes, or in a moment */
	/* Whoever receives may wake it. */
	av_inbound_pause();
	av_waker_end(&listener.waker);
	av_inbound_resume();
}

int av_inbound_begin(void)
{
	int ret;

	pthread_mutex_lock(&mutex);
	ret = make_buffers();
	pthread_mutex_unlock(&mutex);
	return ret ? ret : listen_begin();
}

/* The child has no such thread, and a thread that is not here may have held the mutex. */
void av_inbound_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	due_ns = UINT64_MAX;
	sleeps = false;
	av_waker_forked(&listener.waker);
	atomic_fetch_add(&listener.run, 1);
}
