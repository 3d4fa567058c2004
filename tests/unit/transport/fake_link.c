/* SPDX-License-Identifier: MIT */
#include "unit/transport/fake_link.h"

#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "device/port.h"
#include "lib/check.h"
#include "lib/turned_clock.h"
#include "net/socket.h"
#include "registry/directory.h"
#include "transport/transport.h"
#include "wire/address.h"
#include "wire/packet.h"

#define PACKETS	     1024u /* under way */
#define BURST	     64u   /* packets, */
#define BURSTS	     4u	   /* and how many of them are filled at a time */
#define PACKET_BYTES (AV_PACKET_HEADERS_MAX + AV_MTU_MAX + AV_ICRC_BYTES)
#define ARMED	     64u

struct packet {
	struct packet *next;
	uint64_t due_ns;
	struct av_net_path path;
	unsigned int to; /* host */
	size_t bytes;
	uint8_t data[PACKET_BYTES];
};

struct av_net_burst {
	bool there;
	struct av_net_path path;
	unsigned int packets;
	size_t bytes[BURST];
	uint8_t data[BURST][PACKET_BYTES];
};

static const struct av_net_receiver *receiver;
static const struct av_net_manager *manager;
static struct link_setting *setting;
static struct packet pool[PACKETS], *spare, *queue;
static unsigned int pool_used;
static struct packet *held[LINK_HOSTS]; /* for LINK_SWAP */
static struct av_net_burst bursts[BURSTS];
static unsigned int sent, under_way;
static bool receiving;
static bool asked[LINK_HOSTS]; /* the interface was asked for room, and had none */
static void (*call)(void);
static uint64_t call_ns;
static uint64_t settle_ns = UINT64_MAX; /* when what waits is settled, */
static bool settle_soon;		/* or when somebody polls */
static uint64_t heard_ns[LINK_HOSTS];	/* when a process hears a call; UINT64_MAX: never */

unsigned int link_here;
void (*link_on_port)(bool down);

_Atomic bool av_net_is_open = true;
_Atomic uint64_t av_net_counter[AV_NET_COUNTS];

/* --- processes -------------------------------------------------------------------- */

void link_run_as(unsigned int host)
{
	for (unsigned int i = 0; i < LINK_HOSTS; i++)
		if (setting->process[i])
			setting->process[i]->own = host == i || host == LINK_HOSTS;
}

static void run_as_owner(const struct av_seg *seg)
{
	for (unsigned int i = 0; i < LINK_HOSTS; i++)
		if (setting->process[i] == seg)
			link_run_as(i);
}

static void note_calls(void)
{
	for (unsigned int i = 0; i < LINK_HOSTS; i++) {
		uint64_t ns = turned_clock_ns() + setting->call_ns[i];
		struct av_seg *seg = setting->process[i];

		if (seg && atomic_exchange(&seg->head->called, 0) && ns < heard_ns[i])
			heard_ns[i] = ns;
	}
}

static void hear_calls(void)
{
	for (unsigned int i = 0; i < LINK_HOSTS; i++) {
		if (heard_ns[i] > turned_clock_ns())
			continue;
		heard_ns[i] = UINT64_MAX;
		link_run_as(i);
		av_wire_move_called(setting->process[i]);
	}
}

static uint64_t next_call(void)
{
	return heard_ns[0] < heard_ns[1] ? heard_ns[0] : heard_ns[1];
}

/* --- ports ------------------------------------------------------------------------ */

union ibv_gid link_gid(unsigned int host)
{
	union ibv_gid gid = {.raw = {0xfd}};

	gid.raw[15] = (uint8_t)(host + 1);
	return gid;
}

static unsigned int host_of(const uint8_t address[16])
{
	CHECK(address[15] >= 1 && address[15] <= LINK_HOSTS);
	return address[15] - 1u;
}

uint32_t av_port_gid(uint32_t port, uint32_t row, union ibv_gid *gid)
{
	CHECK(row == 0 && port >= 1 && port <= LINK_HOSTS);
	*gid = link_gid(port - 1);
	return IBV_GID_TYPE_ROCE_V2;
}

bool av_port_has_gid(uint32_t port, const union ibv_gid *gid)
{
	union ibv_gid own = link_gid(port - 1);

	return memcmp(&own, gid, sizeof(own)) == 0;
}

bool av_port_has_row(uint32_t port, uint32_t row)
{
	return row == 0;
}

unsigned int av_port_force(const char *device, bool down)
{
	if (link_on_port)
		link_on_port(down);
	return 0;
}

/* --- the link --------------------------------------------------------------------- */

/* Behind those of the same moment. */
static void enqueue(struct packet *p, uint64_t due_ns)
{
	struct packet **at = &queue;

	while (*at && (*at)->due_ns <= due_ns)
		at = &(*at)->next;
	p->due_ns = due_ns;
	p->next = *at;
	*at = p;
	under_way++;
}

static struct packet *take_spare(void)
{
	struct packet *p = spare;

	if (!p) {
		CHECK(pool_used < PACKETS);
		return &pool[pool_used++];
	}
	spare = p->next;
	return p;
}

static void give_back(struct packet *p)
{
	p->next = spare;
	spare = p;
}

static const struct link_fault *fault_of(const struct link_packet *p)
{
	static const struct link_fault lost = {.what = LINK_LOSE};

	for (unsigned int i = 0; i < setting->fault_count; i++)
		if (setting->faults[i].packet == p->number)
			return &setting->faults[i];
	return setting->cut[p->from] || (setting->loses && setting->loses(p)) ? &lost : NULL;
}

static void enqueue_copy(const struct packet *of, uint64_t due_ns)
{
	struct packet *p = take_spare(), *rest = p->next;

	*p = *of;
	p->next = rest;
	enqueue(p, due_ns);
}

static void damage(struct packet *p, int byte)
{
	p->data[byte < 0 ? p->bytes - (size_t)-byte : (size_t)byte % p->bytes] ^= 0x10;
}

static void carry(struct packet *p, const struct link_fault *f, unsigned int from)
{
	uint64_t due = turned_clock_ns() + LINK_NS + setting->slow_ns[from];

	if (f && f->what == LINK_LOSE) {
		give_back(p);
		return;
	}
	if (f && f->what == LINK_SWAP && !held[from]) {
		held[from] = p;
		return;
	}
	if (f && f->what == LINK_DAMAGE)
		damage(p, f->byte);
	enqueue(p, f && f->what == LINK_DELAY ? due + f->delay_ns : due);
	if (f && (f->what == LINK_DOUBLE || f->what == LINK_ECHO))
		enqueue_copy(p, due + f->delay_ns);
	if (held[from])
		enqueue(held[from], due);
	held[from] = NULL;
}

/* The packet in @cut as it says. Return: is it one? */
static bool parse(struct av_gro_split *cut, const struct packet *p, struct av_net_packet *net,
		  enum av_datagram_error *fault)
{
	*cut = (struct av_gro_split){.path = p->path, .bytes = p->data, .count = p->bytes};
	cut->path.source_port = AV_ROCE_PORT;
	cut->path.traffic_class |= setting->congested ? AV_NET_CONGESTED : 0;
	net->qp = (struct av_qp_location){0};
	return av_gro_next(cut, &net->path, &net->packet, fault) && *fault == AV_DATAGRAM_OK;
}

/* @p: complete but for its ICRC */
static void send_packet(struct packet *p, unsigned int from)
{
	struct av_net_path path = p->path;
	size_t covered = p->bytes - AV_ICRC_BYTES;
	struct link_packet seen;
	struct av_net_packet net;
	enum av_datagram_error fault;
	struct av_gro_split cut;

	path.source_port = AV_ROCE_PORT;
	path.identification = 0;
	av_icrc_put(p->data + covered, av_icrc_of(&path, p->data, covered));
	CHECK(parse(&cut, p, &net, &fault));
	seen = (struct link_packet){.number = sent++, .from = from, .net = &net};
	seen.fault = fault_of(&seen);
	if (setting->sent)
		setting->sent(&seen);
	carry(p, seen.fault, from);
}

static void send_one(const struct av_net_burst *b, unsigned int i)
{
	struct packet *p = take_spare();
	size_t bytes = b->bytes[i];

	p->path = b->path;
	p->to = host_of(b->path.dst);
	p->bytes = bytes + AV_ICRC_BYTES;
	memcpy(p->data, b->data[i], bytes);
	send_packet(p, host_of(b->path.src));
}

void link_be(unsigned int host)
{
	link_here = host;
	if (setting->proc[host])
		av_lock_self = setting->proc[host];
}

static void manage(const struct packet *p, const struct av_net_packet *net)
{
	unsigned int before = link_here;

	if (setting->moved[p->to])
		return;
	link_be(p->to);
	CHECK(manager->owner(net) == av_lock_self);
	manager->packet(net);
	link_be(before);
}

/* Packets for one queue pair that have arrived together, which are handed over together. */
static struct {
	unsigned int count;
	struct av_net_packet net[BURST];
	struct packet *packet[BURST];
} together;

static void hand_over(void)
{
	if (together.count == 0)
		return;
	link_run_as(host_of(together.net[0].path.dst));
	receiver->packets(together.net, together.count);
	while (together.count > 0)
		give_back(together.packet[--together.count]);
}

static void add(struct packet *p, const struct av_net_packet *net)
{
	const struct av_net_packet *first = together.net;

	if (together.count == BURST || net->packet.dest_qpn != first->packet.dest_qpn ||
	    memcmp(&net->path, &first->path, sizeof(net->path)) != 0)
		hand_over();
	together.net[together.count] = *net;
	together.packet[together.count++] = p;
}

static void arrive(struct packet *p)
{
	struct av_net_packet net;
	enum av_datagram_error fault;
	struct av_gro_split cut;

	if (parse(&cut, p, &net, &fault)) {
		if (setting->arrives)
			setting->arrives(&(struct link_arrival){host_of(p->path.src), &net});
		if (net.packet.dest_qpn != AV_NET_MANAGEMENT_QPN) {
			net.qp = av_dir_qpn_find(net.packet.dest_qpn);
			add(p, &net);
			return;
		}
		hand_over();
		manage(p, &net);
	} else if (fault == AV_DATAGRAM_BAD_CRC) {
		receiver->damaged(net.packet.dest_qpn);
	}
	give_back(p);
}

static void settle(uint64_t now_ns)
{
	link_run_as(LINK_HOSTS);
	settle_soon = false;
	settle_ns = receiver->settled(now_ns);
}

/* Return: has anything arrived? */
static bool arrive_all(void)
{
	uint64_t now = turned_clock_ns();
	bool any = false;

	receiving = true;
	while (queue && queue->due_ns <= now) {
		struct packet *p = queue;

		queue = p->next;
		under_way--;
		arrive(p);
		any = true;
		if (!setting->each && queue && queue->due_ns <= now)
			continue;
		hand_over();
		if (setting->each)
			settle(turned_clock_ns());
	}
	if (any || settle_ns <= now)
		settle(turned_clock_ns());
	receiving = false;
	return any;
}

/* Nothing comes that it could arrive behind. */
static bool release_held(void)
{
	bool any = false;

	for (unsigned int i = 0; i < LINK_HOSTS; i++) {
		if (held[i])
			enqueue(held[i], turned_clock_ns() + LINK_NS);
		any |= held[i] != NULL;
		held[i] = NULL;
	}
	return any;
}

unsigned int link_sent(void)
{
	return sent;
}

unsigned int link_under_way(void)
{
	return under_way;
}

/* --- net/net.h -------------------------------------------------------------------- */

void av_net_receive_by(const struct av_net_receiver *r)
{
	receiver = r;
}

void av_net_manage_by(const struct av_net_manager *m)
{
	manager = m;
}

int av_net_open(const uint8_t address[16], bool polls)
{
	if (!polls)
		setting->moved[host_of(address)] = false;
	return 0;
}

void av_net_close(const uint8_t address[16], bool polls, void (*quiet)(void))
{
}

bool av_net_has_moved(const uint8_t address[16])
{
	return setting->moved[host_of(address)];
}

int av_net_hold(void)
{
	return 0;
}

void av_net_release(void)
{
}

/* From the other process. */
int av_net_pass(uint32_t proc, const struct av_net_path *path, uint8_t *packet, size_t bytes)
{
	unsigned int to = 0;
	struct packet *p;

	while (to < LINK_HOSTS && setting->proc[to] != proc)
		to++;
	CHECK(proc && to < LINK_HOSTS);
	if (setting->full) {
		setting->full--;
		return -EAGAIN;
	}
	p = take_spare();
	p->path = *path;
	p->to = to;
	p->bytes = bytes;
	memcpy(p->data, packet, bytes);
	send_packet(p, LINK_HOSTS - 1 - to);
	return 0;
}

void av_net_warn(const uint8_t address[16], int err)
{
}

int av_net_own(const uint8_t address[16], uint32_t qpn)
{
	return 0;
}

int av_net_join(const uint8_t address[16], const uint8_t group[16])
{
	return 0;
}

void av_net_leave(const uint8_t address[16], const uint8_t group[16])
{
}

void av_net_settle_soon(void)
{
	settle_soon = true;
}

/* Pollers take nothing: link_step() does. */
bool av_net_poll(void)
{
	if (!receiving && settle_soon)
		settle(turned_clock_ns());
	return false;
}

bool av_net_catch_up(void)
{
	if (receiving)
		return false;
	(void)arrive_all();
	settle(UINT64_MAX);
	return true;
}

bool av_net_in_turn(void (*f)(void *arg), void *arg, bool wait)
{
	CHECK(!receiving);
	f(arg);
	settle(UINT64_MAX);
	return true;
}

struct av_net_burst *av_net_burst(const struct av_net_path *path, const char *device)
{
	struct av_net_burst *b = bursts;

	while (b < bursts + BURSTS && b->there)
		b++;
	CHECK(b < bursts + BURSTS);
	b->there = true;
	b->path = *path;
	b->packets = 0;
	return b;
}

static void send_all(struct av_net_burst *b)
{
	for (unsigned int i = 0; i < b->packets; i++)
		send_one(b, i);
	b->packets = 0;
}

uint8_t *av_net_put(struct av_net_burst *b, const struct av_packet *p)
{
	size_t headers = av_packet_header_bytes(p->opcode);
	unsigned int i;
	uint8_t *end;

	if (b->packets == BURST)
		send_all(b);
	i = b->packets++;
	CHECK(headers + p->payload_bytes <= AV_PACKET_HEADERS_MAX + AV_MTU_MAX);
	(void)av_packet_put_headers(p, b->data[i]);
	end = av_packet_put_behind(p, b->data[i] + headers + p->payload_bytes);
	b->bytes[i] = (size_t)(end - b->data[i]);
	return b->data[i] + headers;
}

bool av_net_begins_send(const struct av_net_burst *b, const struct av_packet *p)
{
	return !b || b->packets % BURST == 0;
}

void av_net_ask(struct av_net_burst *b)
{
	CHECK(b->packets > 0);
	av_packet_ask(b->data[b->packets - 1]);
}

void av_net_take_back(struct av_net_burst *b, uint32_t count)
{
	CHECK(b->packets >= count);
	b->packets -= count;
}

int av_net_send(struct av_net_burst *b)
{
	if (setting->refusal == 0)
		send_all(b);
	b->there = false;
	return setting->refusal;
}

/* Where there is little room, every other question finds none. */
bool av_net_has_room(const struct av_net_path *path)
{
	bool *none = &asked[host_of(path->src)];

	if (setting->room)
		*none = !*none;
	return !*none;
}

uint32_t av_net_full_send(uint32_t bytes)
{
	return BURST;
}

uint32_t av_net_room(uint32_t bytes)
{
	return setting->room ? setting->room : BURST;
}

void av_net_icmp_probe(const struct av_net_path *path)
{
}

int av_net_icmp_error(const struct av_net_path *path)
{
	return 0;
}

/* --- transport/transport.h ------------------------------------------------------------ */

/* The queue pairs that have ever waited, as the timer thread keeps them. */
static struct {
	struct av_qp_ref end;
	uint64_t look_ns; /* when to look at it next */
} armed[ARMED];
static unsigned int armed_count;

/* The thread is woken before it sleeps for longer, and looks at once. */
void av_timer_arm(const struct av_qp_ref *end, uint64_t deadline_ns)
{
	unsigned int i = 0;

	while (i < armed_count && armed[i].end.qp != end->qp)
		i++;
	CHECK(i < ARMED);
	if (i == armed_count) {
		armed[i].end = *end;
		armed[i].look_ns = UINT64_MAX;
		armed_count++;
	}
	if (deadline_ns < armed[i].look_ns)
		armed[i].look_ns = deadline_ns;
}

void av_timer_start(struct av_seg *seg)
{
}

int av_timer_arm_cq(struct av_seg *seg, uint32_t index)
{
	return 0;
}

void av_timer_forget_cq(struct av_seg *seg, uint32_t index)
{
}

void av_timer_stop(struct av_seg *seg)
{
}

void link_forget(const struct av_seg *seg)
{
	for (unsigned int i = 0; i < armed_count; i++)
		if (armed[i].end.seg == seg)
			armed[i--] = armed[--armed_count];
}

static uint64_t next_timer(void)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < armed_count; i++)
		if (armed[i].look_ns < next)
			next = armed[i].look_ns;
	return next;
}

static void look_at_timers(void)
{
	uint64_t now = turned_clock_ns();

	for (unsigned int i = 0; i < armed_count; i++) {
		uint64_t next;

		if (armed[i].look_ns > now)
			continue;
		armed[i].look_ns = UINT64_MAX;
		run_as_owner(armed[i].end.seg);
		next = av_timer_look(&armed[i].end);
		if (next < armed[i].look_ns)
			armed[i].look_ns = next;
	}
}

/* --- time ------------------------------------------------------------------------- */

void link_begin(struct link_setting *s)
{
	setting = s;
	while (queue) {
		struct packet *p = queue;

		queue = p->next;
		give_back(p);
	}
	for (unsigned int i = 0; i < LINK_HOSTS; i++) {
		if (held[i])
			give_back(held[i]);
		held[i] = NULL;
	}
	memset(asked, 0, sizeof(asked));
	for (unsigned int i = 0; i < LINK_HOSTS; i++) {
		heard_ns[i] = UINT64_MAX;
		if (s->process[i])
			atomic_store(&s->process[i]->head->called, 0);
	}
	sent = under_way = armed_count = 0;
	call = NULL;
	settle_ns = UINT64_MAX;
	turned_clock_to(turned_clock_ns() + 1000000000u); /* what was is long ago */
}

void link_call_at(uint64_t ns, void (*f)(void))
{
	CHECK(call == NULL);
	call = f;
	call_ns = ns;
}

static void call_now(void)
{
	void (*f)(void) = call;

	if (!f || call_ns > turned_clock_ns())
		return;
	call = NULL;
	f();
}

static uint64_t next_alarm(void)
{
	return setting->alarm.due ? setting->alarm.due() : UINT64_MAX;
}

bool link_step(void)
{
	uint64_t next = next_timer(), alarm = next_alarm();

	if (alarm < next)
		next = alarm;

	note_calls();
	if (next_call() < next)
		next = next_call();
	if (queue && queue->due_ns < next)
		next = queue->due_ns;
	if (settle_ns < next)
		next = settle_ns;
	if (call && call_ns < next)
		next = call_ns;
	if (next == UINT64_MAX)
		return release_held();
	turned_clock_to(next);
	(void)arrive_all();
	call_now();
	if (next_alarm() <= turned_clock_ns())
		setting->alarm.look();
	look_at_timers();
	hear_calls();
	return true;
}
