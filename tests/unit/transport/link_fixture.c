/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "unit/transport/link_fixture.h"

#include "base/limits.h"
#include "base/newer_verbs.h"
#include "copy/copy.h"
#include "lib/check.h"
#include "lib/own_directory.h"
#include "lib/turned_clock.h"
#include "memory/key.h"
#include "memory/window.h"
#include "queue/rq.h"
#include "transport/drive.h"
#include "transport/poll.h"
#include "transport/receive.h"
#include "transport/rnr.h"
#include "transport/state.h"
#include "transport/to_packets.h"
#include "transport/wire.h"
#include "transport/wire_window.h"
#include "wire/message.h"

#define ARENA	  (512ul << 10)
#define AROUND	  24u /* bytes around each buffer that nobody may touch */
#define UNTOUCHED 0xee
#define OVER	  0x5c /* what complete buffers are written over with */
#define WORD	  ((uint32_t)sizeof(uint64_t))
#define PD	  7u
#define DOMAIN	  9u /* of XRC */
#define ID	  1u
#define DEPTH	  32u
#define ELEMENTS  3u
#define INLINE	  600u
#define SPARE	  6u /* receive requests more than messages, where those may come twice */
#define GRH	  40u
#define QKEY	  0x11111111u
#define PSNS	  256u
#define STEPS	  100000u
#define FIRST_PSN 0xfffffcu /* of host 0: some are on the other side of 0 */
#define NO_CODE	  0x1fu

#define RIGHTS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | AV_ACCESS_FLUSH_GLOBAL)

struct link_side link_side[LINK_HOSTS];
void (*link_on_sent)(const struct link_packet *p);
void (*link_on_arrival)(const struct link_arrival *a);
void (*link_judge)(const struct link_exchange *e);

/* A buffer in an arena. */
struct room {
	uint32_t at, bytes;
};

/* What is known of a request. */
static struct known {
	struct room own;   /* source of what it sends, or result */
	struct room there; /* what it writes or reads */
	uint32_t packets;
	bool complete;		   /* its sender's completion has come, */
	enum ibv_wc_status status; /* and says this */
	bool begun;		   /* its first packet has been sent */
	bool answered;		   /* the last packet of its own answer has arrived */
	bool taken;		   /* its message is in the peer's memory */
} known[LINK_REQUESTS];

/* What one host sends, by PSN. */
static struct flow {
	uint32_t first, psns, sent;
	struct {
		unsigned int request;
		uint32_t index; /* of the packet */
		bool ends;	/* a message: a READ may be asked for in several */
	} at[PSNS];
	struct room receive[LINK_REQUESTS + SPARE]; /* at the other host */
	unsigned int receives;
	/* Messages that will be received, in this order. */
	unsigned int order[LINK_REQUESTS + SPARE + 1], due;
	/* The receiver of an unreliable connection. */
	uint32_t expected;
	bool coming;
} flow[LINK_HOSTS];

static const struct link_exchange *ex;
static struct link_setting setting;
static unsigned int count; /* requests of @ex */
static unsigned int next_post;
static uint8_t *want[LINK_HOSTS]; /* what the arenas hold in the end */
static uint32_t used[LINK_HOSTS];
static unsigned int pattern_of_run; /* so that nothing of the run before passes for right */
static bool traces;
static bool failed; /* and left everything as it was: no more runs */
static const int fault[] = {SIGSEGV, SIGBUS};
static struct sigaction on_fault[2]; /* the library's: cmocka sets its own before each test */

/* --- words ------------------------------------------------------------------------ */

static const char *const what_names[] = {
	[LINK_LOSE] = "lost",	   [LINK_DOUBLE] = "doubled", [LINK_ECHO] = "come again",
	[LINK_SWAP] = "overtaken", [LINK_DELAY] = "delayed",  [LINK_DAMAGE] = "damaged",
};

static void print_faults(void)
{
	printf("%s%s:", ex->name, ex->each ? " (settled one by one)" : "");
	for (unsigned int i = 0; i < setting.fault_count; i++)
		printf(" packet %u %s (%llu ns, byte %d)", setting.faults[i].packet,
		       what_names[setting.faults[i].what],
		       (unsigned long long)setting.faults[i].delay_ns, setting.faults[i].byte);
	printf("\n");
}

void link_fail(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_faults();
	fflush(stdout);
	failed = true;
	fail_msg("%s", text);
	abort();
}

#define MUST(cond)                                                           \
	do {                                                                 \
		if (!(cond))                                                 \
			link_fail("line %d: not true: %s", __LINE__, #cond); \
	} while (0)
#define MUST_BE(is, wants)                                                                        \
	do {                                                                                      \
		unsigned long long is_ = (unsigned long long)(is), wants_ = (wants);              \
		if (is_ != wants_)                                                                \
			link_fail("line %d: %s is %#llx, not %#llx", __LINE__, #is, is_, wants_); \
	} while (0)

static void trace(const struct link_packet *p)
{
	const struct av_packet *b = &p->net->packet;
	struct av_opcode info;

	if (!traces || !av_opcode_info(b->opcode, &info))
		return;
	printf("%10.3f us %3u %c %-28s psn %06x len %5u%s", (double)turned_clock_ns() / 1e3,
	       p->number, "><"[p->from], info.name, b->psn, b->payload_bytes,
	       b->ack_request ? " A" : "");
	if (info.headers & 1 << AV_HEADER_AETH)
		printf(" syndrome %02x msn %u", b->syndrome, b->msn);
	printf("%s%s\n", p->fault ? " " : "", p->fault ? what_names[p->fault->what] : "");
}

/* --- the exchange ----------------------------------------------------------------- */

static bool receives(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_write(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool wants_read_response(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == AV_WR_FLUSH || opcode == AV_WR_ATOMIC_WRITE;
}

/* Does its payload travel to the peer? */
static bool sends(uint32_t opcode)
{
	return receives(opcode) || is_write(opcode) || opcode == AV_WR_ATOMIC_WRITE;
}

static uint32_t mtu_code(void)
{
	return ex->mtu ? ex->mtu : IBV_MTU_256;
}

static uint32_t mtu(void)
{
	return 128u << mtu_code();
}

static bool is_reliable(void)
{
	return ex->type != IBV_QPT_UC && ex->type != IBV_QPT_UD;
}

/* Bytes of the operation at its responder. */
static uint32_t bytes_of(unsigned int r)
{
	uint32_t opcode = ex->request[r].opcode;

	return is_atomic(opcode) || opcode == AV_WR_ATOMIC_WRITE ? WORD : ex->request[r].bytes;
}

static uint8_t pattern(unsigned int r, uint32_t at)
{
	return (uint8_t)(r * 37 + at * 7 + at / 251 + pattern_of_run + 1);
}

static uint64_t word_before(unsigned int r)
{
	return 0x0101010101010101u * (r + 1);
}

static uint64_t operand(unsigned int r)
{
	return 0x00a0b0c0d0e0f001u + r;
}

/* Every other comparison does not fit. */
static uint64_t comparison(unsigned int r)
{
	return word_before(r) + r % 2;
}

static uint64_t word_after(unsigned int r)
{
	if (ex->request[r].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return word_before(r) + operand(r);
	return r % 2 ? word_before(r) : operand(r);
}

static uint32_t immediate(unsigned int r)
{
	return 0x11220000u + r;
}

static struct room allot(unsigned int host, uint32_t bytes)
{
	struct room room = {used[host] + AROUND, bytes};

	used[host] = (room.at + bytes + AROUND + 7) / 8 * 8;
	CHECK(used[host] <= ARENA);
	return room;
}

static void fill(unsigned int host, struct room room, unsigned int r)
{
	for (uint32_t i = 0; i < room.bytes; i++)
		want[host][room.at + i] = pattern(r, i);
}

/* Where everything is, and what it holds before. */
static void lay_out(void)
{
	used[0] = used[1] = 0;
	for (count = 0; count < LINK_REQUESTS && ex->request[count].there; count++) {
		unsigned int from = ex->request[count].from;

		known[count] = (struct known){.own = allot(from, bytes_of(count)),
					      .there = allot(!from, bytes_of(count))};
	}
	for (unsigned int r = 1; ex->onto && r < count; r++)
		known[r].there = known[0].there;
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		flow[h] = (struct flow){.first = h ? 0x77 : FIRST_PSN};
		flow[h].expected = flow[h].first;
	}
	for (unsigned int r = 0; r < count + (is_reliable() ? 0 : SPARE); r++) {
		unsigned int host = r < count ? ex->request[r].from : 0, one = r < count ? r : 0;
		struct flow *f = &flow[host];

		if (receives(ex->request[one].opcode))
			f->receive[f->receives++] =
				allot(!host, (ex->type == IBV_QPT_UD ? GRH : 0) +
						     (is_reliable() ? bytes_of(one) : 4 * mtu()) +
						     (one % 3) * 5);
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		memset(want[h], UNTOUCHED, used[h]);
	for (unsigned int r = 0; r < count; r++) {
		unsigned int from = ex->request[r].from;
		uint64_t word = word_before(r);

		if (sends(ex->request[r].opcode))
			fill(from, known[r].own, r);
		if (ex->request[r].opcode == IBV_WR_RDMA_READ)
			fill(!from, known[r].there, r);
		if (is_atomic(ex->request[r].opcode))
			memcpy(want[!from] + known[r].there.at, &word, WORD);
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		memcpy(link_side[h].arena, want[h], used[h]);
}

/* --- packets ---------------------------------------------------------------------- */

static void plan_packets(unsigned int r)
{
	struct flow *f = &flow[ex->request[r].from];
	uint32_t opcode = ex->request[r].opcode, n = 1;

	if (opcode != AV_WR_FLUSH && bytes_of(r) > mtu())
		n = (bytes_of(r) + mtu() - 1) / mtu();
	known[r].packets = n;
	for (uint32_t i = 0; i < n; i++, f->psns++) {
		CHECK(f->psns < PSNS);
		f->at[f->psns].request = r;
		f->at[f->psns].index = i;
		f->at[f->psns].ends = opcode != IBV_WR_RDMA_READ && i + 1 == n;
	}
}

static enum av_operation operation_of(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return AV_OP_WRITE;
	case IBV_WR_RDMA_READ:
		return AV_OP_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return AV_OP_CMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return AV_OP_FETCH_ADD;
	case AV_WR_FLUSH:
		return AV_OP_FLUSH;
	case AV_WR_ATOMIC_WRITE:
		return AV_OP_ATOMIC_WRITE;
	default:
		return AV_OP_SEND;
	}
}

static enum av_tail tail_of(uint32_t opcode)
{
	if (opcode == IBV_WR_SEND_WITH_INV)
		return AV_TAIL_INVALIDATE;
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM
		       ? AV_TAIL_IMM
		       : AV_TAIL_NONE;
}

static enum av_place place_of(uint32_t index, uint32_t packets)
{
	if (packets == 1)
		return AV_PLACE_ONLY;
	if (index == 0)
		return AV_PLACE_FIRST;
	return index + 1 == packets ? AV_PLACE_LAST : AV_PLACE_MIDDLE;
}

static uint64_t address_of(unsigned int host, uint32_t at)
{
	return (uintptr_t)link_side[host].arena + at;
}

/* Payload of request @r, from its packet @index on. */
static void check_payload(const struct av_packet *p, unsigned int r, uint32_t index)
{
	uint32_t before = index * mtu(), left = bytes_of(r) - before;

	MUST_BE(p->payload_bytes, left < mtu() ? left : mtu());
	for (uint32_t i = 0; i < p->payload_bytes; i++)
		MUST_BE(p->payload[i], pattern(r, before + i));
}

/* The key that it names at its responder. */
static uint32_t key_of(unsigned int r)
{
	return link_side[!ex->request[r].from].key + (ex->wrong_key == r + 1 ? 0x10000 : 0);
}

/* The extended headers of a request. */
static void check_target(const struct av_packet *p, unsigned int r, uint32_t index,
			 uint16_t headers)
{
	const struct link_request *q = &ex->request[r];
	uint32_t before = q->opcode == IBV_WR_RDMA_READ ? index * mtu() : 0;

	if (headers & (1 << AV_HEADER_RETH | 1 << AV_HEADER_ATOMIC_ETH)) {
		MUST_BE(p->addr, address_of(!q->from, known[r].there.at + before));
		MUST_BE(p->rkey, key_of(r));
	}
	if (q->opcode == IBV_WR_RDMA_READ)
		MUST(p->length <= bytes_of(r) - before && (p->length || !bytes_of(r)));
	else if (headers & 1 << AV_HEADER_RETH)
		MUST_BE(p->length, bytes_of(r));
	if (q->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		MUST(p->compare == comparison(r) && p->swap_add == operand(r));
	if (q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		MUST_BE(p->swap_add, operand(r));
	if (q->opcode == AV_WR_FLUSH)
		MUST(p->placement == AV_FLUSH_GLOBAL && p->selectivity == AV_FLUSH_RANGE);
	if (headers & 1 << AV_HEADER_IMMDT)
		MUST_BE(p->imm, immediate(r));
	if (headers & 1 << AV_HEADER_IETH)
		MUST_BE(p->invalidate, link_side[!q->from].window);
	if (headers & 1 << AV_HEADER_XRCETH)
		MUST_BE(p->srqn, link_side[!q->from].srqn);
	if (headers & 1 << AV_HEADER_DETH)
		MUST(p->qkey == QKEY && p->src_qpn == atomic_load(&link_side[q->from].end.qp->qpn));
}

/* PSNs that a request packet takes: those of a READ are its answer's. */
static uint32_t psns_of(const struct av_packet *p, uint32_t opcode)
{
	if (opcode != IBV_WR_RDMA_READ || p->length <= mtu())
		return 1;
	return (p->length + mtu() - 1) / mtu();
}

static bool wants_answer(unsigned int r)
{
	uint32_t opcode = ex->request[r].opcode;

	return is_atomic(opcode) || wants_read_response(opcode);
}

/* A request is sent for the first time: are there no more answers under way than there may be? */
static void check_turn(unsigned int r)
{
	unsigned int under_way = 0;

	for (unsigned int i = 0; i < r; i++)
		under_way += ex->request[i].from == ex->request[r].from && wants_answer(i) &&
			     known[i].begun && !known[i].answered;
	if (ex->request[r].flags & IBV_SEND_FENCE)
		MUST_BE(under_way, 0);
	if (wants_answer(r))
		MUST(under_way < (ex->rd_atomic ? ex->rd_atomic : 4));
	known[r].begun = true;
}

static void check_request(unsigned int from, const struct av_packet *p, const struct av_opcode *o)
{
	struct flow *f = &flow[from];
	int32_t place = av_psn_distance(f->first, p->psn);
	const struct link_request *q;
	uint32_t index, n;
	unsigned int r;
	bool last;

	if (place < 0 || (uint32_t)place > f->sent || (uint32_t)place >= f->psns)
		link_fail("PSN %06x: behind the next one", p->psn);
	r = f->at[place].request;
	q = &ex->request[r];
	index = f->at[place].index;
	n = psns_of(p, q->opcode);
	if ((uint32_t)place < f->sent && (!is_reliable() || (uint32_t)place + n > f->sent))
		link_fail("PSN %06x: once more", p->psn);
	if ((uint32_t)place == f->sent) {
		f->sent += n;
		f->at[f->sent - 1].ends |= q->opcode == IBV_WR_RDMA_READ;
	}
	if (!known[r].begun)
		check_turn(r);
	last = q->opcode == IBV_WR_RDMA_READ || index + 1 == known[r].packets;
	MUST_BE(p->opcode,
		(unsigned int)av_opcode_find(av_service_of(ex->type), operation_of(q->opcode),
					     q->opcode == IBV_WR_RDMA_READ
						     ? AV_PLACE_ONLY
						     : place_of(index, known[r].packets),
					     last ? tail_of(q->opcode) : AV_TAIL_NONE));
	MUST_BE(p->solicited, (q->flags & IBV_SEND_SOLICITED) && last);
	MUST(!is_reliable() || !last || p->ack_request);
	check_target(p, r, index, o->headers);
	if (sends(q->opcode))
		check_payload(p, r, index);
	else
		MUST_BE(p->payload_bytes, 0);
	MUST(!known[r].complete || !is_reliable());
}

/* Messages of @f whose last packet is before PSN @psn. */
static uint32_t messages_before(const struct flow *f, uint32_t psn)
{
	int32_t end = av_psn_distance(f->first, psn);
	uint32_t n = 0;

	for (int32_t i = 0; i < end && (uint32_t)i < f->psns; i++)
		n += f->at[i].ends;
	return n;
}

static void check_result(const struct flow *f, const struct av_packet *p, const struct av_opcode *o)
{
	int32_t place = av_psn_distance(f->first, p->psn);
	unsigned int r;

	MUST(place >= 0 && (uint32_t)place < f->sent);
	r = f->at[place].request;
	if (o->operation == AV_OP_ATOMIC_ACK) {
		MUST(is_atomic(ex->request[r].opcode));
		MUST_BE(p->original, word_before(r));
		return;
	}
	MUST(wants_read_response(ex->request[r].opcode));
	if (ex->request[r].opcode != IBV_WR_RDMA_READ)
		MUST_BE(p->payload_bytes, 0);
	else if (!known[r].complete) /* else its bytes are those that are there by now */
		check_payload(p, r, f->at[place].index);
}

/* @from: the responder's host */
static void check_answer(unsigned int from, const struct av_packet *p, const struct av_opcode *o)
{
	const struct flow *f = &flow[!from];
	uint32_t expected = link_side[from].end.qp->expected_psn;

	MUST(is_reliable());
	MUST(!p->ack_request && !p->solicited);
	if (o->operation != AV_OP_ACK) {
		check_result(f, p, o);
		return;
	}
	MUST(av_psn_distance(f->first, p->psn) >= -1);
	MUST(av_psn_distance(f->first, p->psn) <= (int32_t)f->sent);
	if (p->syndrome <= NO_CODE)
		MUST_BE(p->psn, av_psn_after(expected, AV_PSN_MASK));
	else if (!ex->fails)
		MUST_BE(p->psn, expected);
	if (!ex->fails)
		MUST_BE(p->msn, messages_before(f, expected));
	MUST(p->syndrome <= NO_CODE || p->syndrome == 0x60 || ex->fails ||
	     p->syndrome == (0x20 | LINK_RNR_TIMER));
}

static void on_sent(const struct link_packet *p)
{
	const struct av_packet *b = &p->net->packet;
	struct av_opcode info;

	trace(p);
	MUST(av_opcode_info(b->opcode, &info));
	MUST_BE(b->dest_qpn, atomic_load(&link_side[!p->from].end.qp->qpn));
	MUST_BE(b->pkey, 0xffff);
	if (info.operation == AV_OP_CNP)
		MUST(ex->congested && b->becn);
	else if (info.response)
		check_answer(p->from, b, &info);
	else
		check_request(p->from, b, &info);
	if (link_on_sent)
		link_on_sent(p);
}

/* --- unreliable services ---------------------------------------------------------- */

/* A message has come, and finds a receive request if it needs one. */
static void delivered(struct flow *f, unsigned int r)
{
	known[r].taken = true;
	if (receives(ex->request[r].opcode) && f->due < f->receives)
		f->order[f->due++] = r;
}

/* What its receiver does with a packet: IBTA volume 1, 9.8.2 and 9.8.3. */
static void receive_unreliable(struct flow *f, const struct av_packet *p, const struct av_opcode *o)
{
	bool begins = o->place == AV_PLACE_FIRST || o->place == AV_PLACE_ONLY;
	bool ends = o->place == AV_PLACE_LAST || o->place == AV_PLACE_ONLY;
	unsigned int r = f->at[av_psn_distance(f->first, p->psn)].request;

	if (ex->type == IBV_QPT_UC && (p->psn != f->expected || begins))
		f->coming = begins;
	else if (ex->type == IBV_QPT_UD)
		f->coming = true;
	if (!f->coming)
		return;
	f->expected = av_psn_after(p->psn, 1);
	f->coming = !ends;
	if (ends)
		delivered(f, r);
}

static void note_answer(const struct flow *f, const struct av_packet *p)
{
	int32_t place = av_psn_distance(f->first, p->psn);
	unsigned int r = f->at[place].request;

	known[r].answered |= f->at[place].index + 1 == known[r].packets;
}

static void on_arrival(const struct link_arrival *a)
{
	struct av_opcode info;

	if (link_on_arrival)
		link_on_arrival(a);
	if (!av_opcode_info(a->net->packet.opcode, &info))
		return;
	if (!is_reliable())
		receive_unreliable(&flow[a->from], &a->net->packet, &info);
	else if (info.operation == AV_OP_READ_RESPONSE || info.operation == AV_OP_ATOMIC_ACK)
		note_answer(&flow[!a->from], &a->net->packet);
}

/* --- memory ----------------------------------------------------------------------- */

static void write_over(unsigned int host, struct room room)
{
	memset(link_side[host].arena + room.at, OVER, room.bytes);
	memset(want[host] + room.at, OVER, room.bytes);
}

static void check_bytes(unsigned int host, struct room room, unsigned int r)
{
	const uint8_t *at = link_side[host].arena + room.at;

	for (uint32_t i = 0; i < room.bytes; i++)
		if (at[i] != pattern(r, i))
			link_fail("request %u: byte %u of %u at host %u is %#x, not %#x", r, i,
				  room.bytes, host, at[i], pattern(r, i));
}

static uint64_t word_at(unsigned int host, struct room room)
{
	uint64_t word;

	memcpy(&word, link_side[host].arena + room.at, WORD);
	return word;
}

bool link_is_untouched(unsigned int r)
{
	unsigned int to = !ex->request[r].from;

	return memcmp(link_side[to].arena + known[r].there.at, want[to] + known[r].there.at,
		      known[r].there.bytes) == 0;
}

/* What an RDMA WRITE has brought, as soon as it is known to be there. */
static void check_written(unsigned int r)
{
	unsigned int to = !ex->request[r].from;

	if (known[r].taken && is_reliable())
		return;
	known[r].taken = true;
	check_bytes(to, known[r].there, r);
	if (is_reliable())
		write_over(to, known[r].there);
	else /* it may come twice */
		fill(to, known[r].there, r);
}

static void check_done(unsigned int r)
{
	const struct link_request *q = &ex->request[r];
	struct room own = known[r].own, there = known[r].there;

	if (q->opcode == AV_WR_ATOMIC_WRITE || q->opcode == IBV_WR_RDMA_WRITE)
		check_written(r);
	if (q->opcode == IBV_WR_RDMA_READ)
		check_bytes(q->from, own, r);
	if (is_atomic(q->opcode)) {
		MUST_BE(word_at(q->from, own), word_before(r));
		MUST_BE(word_at(!q->from, there), word_after(r));
	}
	if (!ex->onto && (q->opcode == IBV_WR_RDMA_READ || is_atomic(q->opcode)))
		write_over(!q->from, there);
	write_over(q->from, own);
}

/* --- completions ------------------------------------------------------------------ */

static uint32_t completion_of(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case AV_WR_FLUSH:
		return AV_WC_FLUSH;
	case AV_WR_ATOMIC_WRITE:
		return AV_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

static unsigned int next_of(unsigned int host, unsigned int from)
{
	while (from < count && ex->request[from].from != host)
		from++;
	return from;
}

/* Its sender does not hear of it, unless it fails. */
static bool is_quiet(unsigned int r)
{
	return ex->unsignaled && r % 2 == 0 && r + 1 < count;
}

static void sent_completely(unsigned int host, const struct ibv_wc *wc)
{
	struct link_side *s = &link_side[host];
	unsigned int r = next_of(host, s->completed);

	while (is_quiet(r)) { /* whatever is behind it says that it is complete */
		known[r].complete = true;
		known[r].status = IBV_WC_SUCCESS;
		check_done(r);
		r = next_of(host, r + 1);
	}
	MUST(r < s->posted);
	s->completed = r + 1;
	s->last_ns = turned_clock_ns();
	known[r].complete = true;
	known[r].status = wc->status;
	MUST_BE(wc->wr_id, r);
	MUST_BE(wc->qp_num, atomic_load(&s->end.qp->qpn));
	if (ex->fails && wc->status != IBV_WC_SUCCESS)
		return;
	MUST_BE(wc->status, IBV_WC_SUCCESS);
	MUST_BE(wc->opcode, completion_of(ex->request[r].opcode));
	if (ex->request[r].opcode == IBV_WR_RDMA_READ || is_atomic(ex->request[r].opcode))
		MUST_BE(wc->byte_len, bytes_of(r));
	if (is_reliable())
		check_done(r);
}

int link_status(unsigned int r)
{
	return known[r].complete ? (int)known[r].status : -1;
}

static void check_received(unsigned int host, const struct ibv_wc *wc, unsigned int r)
{
	const struct link_request *q = &ex->request[r];
	bool imm = tail_of(q->opcode) == AV_TAIL_IMM, inv = q->opcode == IBV_WR_SEND_WITH_INV;
	bool datagram = ex->type == IBV_QPT_UD;

	MUST_BE(wc->status, IBV_WC_SUCCESS);
	MUST_BE(wc->opcode, is_write(q->opcode) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	MUST_BE(wc->byte_len, bytes_of(r) + (datagram ? GRH : 0));
	MUST_BE(wc->wc_flags, (imm ? IBV_WC_WITH_IMM : 0u) | (inv ? IBV_WC_WITH_INV : 0u) |
				      (datagram ? IBV_WC_GRH : 0u));
	MUST_BE(wc->qp_num, atomic_load(&link_side[host].end.qp->qpn));
	if (imm)
		MUST_BE(ntohl(wc->imm_data), immediate(r));
	if (inv)
		MUST_BE(wc->invalidated_rkey, link_side[host].window);
	if (datagram)
		MUST_BE(wc->src_qp, atomic_load(&link_side[!host].end.qp->qpn));
}

static void received(unsigned int host, const struct ibv_wc *wc)
{
	struct link_side *s = &link_side[host];
	struct flow *f = &flow[!host];
	struct room all, message;
	unsigned int r;

	if (ex->fails && wc->status != IBV_WC_SUCCESS) {
		MUST_BE(wc->wr_id, s->received);
		s->received++;
		return;
	}
	MUST(s->received < f->due);
	r = f->order[s->received];
	all = message = f->receive[s->received];
	MUST_BE(wc->wr_id, s->received);
	s->received++;
	check_received(host, wc, r);
	if (is_write(ex->request[r].opcode)) {
		check_written(r);
		if (!is_reliable()) /* a SEND that was lost may have begun there */
			write_over(host, all);
		return;
	}
	message.at += ex->type == IBV_QPT_UD ? GRH : 0;
	message.bytes = bytes_of(r);
	check_bytes(host, message, r);
	if (is_reliable()) {
		all.at += message.bytes;
		all.bytes -= message.bytes;
		MUST(!memcmp(s->arena + all.at, want[host] + all.at, all.bytes));
		all = f->receive[s->received - 1];
	}
	write_over(host, all);
}

static void poll_cq(unsigned int host, uint32_t cq,
		    void (*got)(unsigned int, const struct ibv_wc *))
{
	struct link_side *s = &link_side[host];
	struct ibv_wc wc[DEPTH];
	int n = av_poll(s->seg, av_cq_at(s->seg, cq), DEPTH, wc, NULL);

	MUST(n >= 0);
	for (int i = 0; i < n; i++)
		got(host, &wc[i]);
}

/* Receivers first: a sender's completion says that its message is there. */
void link_poll(void)
{
	turned_clock_to(turned_clock_ns()); /* its readings are no waiting */
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		poll_cq(h, link_side[h].recv_cq, received);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		poll_cq(h, link_side[h].send_cq, sent_completely);
}

/* --- posting ---------------------------------------------------------------------- */

/* Return: how many */
static uint32_t elements_of(unsigned int host, struct room room, struct ibv_sge sge[ELEMENTS])
{
	uint32_t n = ex->split ? ELEMENTS : 1, each = room.bytes / n;

	for (uint32_t i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){address_of(host, room.at + i * each),
					  i + 1 < n ? each : room.bytes - i * each,
					  link_side[host].key};
	return n;
}

static void fill_wqe(struct av_sq_wqe *wqe, unsigned int r)
{
	const struct link_request *q = &ex->request[r];
	const struct link_side *s = &link_side[q->from], *to = &link_side[!q->from];
	union ibv_gid gid = link_gid(!q->from);

	*wqe = (struct av_sq_wqe){
		.wr_id = r,
		.opcode = q->opcode,
		.flags = q->flags | (is_quiet(r) ? 0 : IBV_SEND_SIGNALED),
		.imm = q->opcode == IBV_WR_SEND_WITH_INV ? to->window : htonl(immediate(r)),
		.bytes = q->opcode == AV_WR_FLUSH ? 0 : bytes_of(r),
		.remote_addr = address_of(!q->from, known[r].there.at),
		.rkey = key_of(r),
	};
	if (ex->type == IBV_QPT_UD)
		av_sq_fill_ud(wqe,
			      &(struct ibv_ah_attr){.is_global = 1,
						    .grh = {.dgid = gid, .hop_limit = 64}},
			      atomic_load(&to->end.qp->qpn), QKEY);
	else
		wqe->srqn = to->srqn;
	if (q->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wqe->compare_add = comparison(r);
		wqe->swap = operand(r);
	} else if (q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->compare_add = operand(r);
	} else if (q->opcode == AV_WR_FLUSH) {
		wqe->compare_add = q->bytes;
		wqe->placement = AV_FLUSH_GLOBAL;
		wqe->selectivity = AV_FLUSH_RANGE;
	} else if (q->opcode == AV_WR_ATOMIC_WRITE) {
		wqe->flags |= IBV_SEND_INLINE;
	}
	if (wqe->flags & IBV_SEND_INLINE)
		memcpy(wqe->data, s->arena + known[r].own.at, wqe->bytes);
	else if (wqe->bytes)
		wqe->count = elements_of(q->from, known[r].own, wqe->sge);
}

static void post(unsigned int r)
{
	struct link_side *s = &link_side[ex->request[r].from];
	uint32_t number = atomic_load(&s->end.qp->sq_tail);
	struct flow *f = &flow[ex->request[r].from];

	if (ex->type != IBV_QPT_UD && ex->type != IBV_QPT_UC && receives(ex->request[r].opcode))
		f->order[f->due++] = r;
	plan_packets(r);
	s->posted = r + 1;
	fill_wqe(av_sq_slot(&s->end, number), r);
	atomic_store(&s->end.qp->sq_tail, number + 1);
	av_drive(&s->end, NULL);
}

static void post_receive(unsigned int host, unsigned int i)
{
	struct link_side *s = &link_side[host];
	struct room room = flow[!host].receive[i];
	struct ibv_sge sge[ELEMENTS];
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge}, *bad;
	struct av_rq_shared *rq = av_rq_at(s->seg, s->rq);
	bool own = !s->srqn && !ex->srq;

	wr.num_sge = (int)elements_of(host, room, sge);
	MUST_BE(av_rq_post(s->seg, rq, own ? &s->end.qp->state : NULL, &wr, &bad), 0);
	if (own && atomic_load(&rq->waiting))
		av_rnr_posted(&s->end, rq);
}

static void post_receives(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (unsigned int i = 0; i < flow[!h].receives; i++)
			post_receive(h, i);
}

static bool all_before_are_complete(unsigned int r)
{
	for (unsigned int i = 0; i < r; i++)
		if (!known[i].complete)
			return false;
	return true;
}

void link_post(void)
{
	while (next_post < count && (!ex->apart || all_before_are_complete(next_post))) {
		post(next_post++);
		if (ex->apart)
			link_poll();
	}
}

/* --- queue pairs ------------------------------------------------------------------ */

static enum ibv_qp_type type_at(unsigned int host)
{
	return ex->type == IBV_QPT_XRC_SEND && host ? IBV_QPT_XRC_RECV : ex->type;
}

static uint32_t make_shared_queue(struct link_side *s)
{
	struct av_rq_request req = {.capacity = DEPTH, .max_sge = ELEMENTS, .pd = PD, .id = ID};
	uint32_t index;

	if (ex->type == IBV_QPT_XRC_SEND) {
		req.xrcd = DOMAIN;
		req.cq = s->recv_cq;
	}
	index = av_rq_init(s->seg, &req);
	CHECK(index);
	if (ex->type == IBV_QPT_XRC_SEND) {
		int number = av_dir_qpn_add(s->seg->ref, index, AV_MAX_QP);

		CHECK(number > 0);
		s->srqn = (uint32_t)number;
		av_rq_at(s->seg, index)->srqn = s->srqn;
	}
	return index;
}

static void make(unsigned int host)
{
	struct link_side *s = &link_side[host];
	struct av_qp_request req = {
		.type = type_at(host),
		.pd = PD,
		.send_cq = s->send_cq,
		.recv_cq = s->recv_cq,
		.xrcd = type_at(host) == IBV_QPT_XRC_RECV ? DOMAIN : 0,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, ELEMENTS, ELEMENTS, INLINE},
		.limit = AV_MAX_QP,
	};
	uint32_t index;

	s->posted = s->completed = s->received = 0;
	s->srqn = 0;
	s->rq = ex->srq || type_at(host) == IBV_QPT_XRC_RECV ? make_shared_queue(s) : 0;
	if (ex->srq)
		req.srq = s->rq;
	if (ex->type == IBV_QPT_XRC_SEND)
		req.cap.max_recv_wr = 0;
	index = av_qp_init(s->seg, &req);
	CHECK(index);
	s->end = (struct av_qp_end){s->seg, av_qp_at(s->seg, index)};
	if (!s->rq)
		s->rq = s->end.qp->rq;
	s->seg->head->mtu = (uint8_t)mtu_code();
}

static void enter(const struct av_qp_end *end, enum ibv_qp_state from, enum ibv_qp_state to)
{
	CHECK(av_qp_quiesce(end) == 0);
	av_qp_apply_state(end, from, to);
	if (to != IBV_QPS_RESET)
		av_wire_begin(end, to);
	av_qp_resume(end);
}

static struct ibv_qp_attr attributes(unsigned int host)
{
	uint8_t rd_atomic = ex->rd_atomic ? ex->rd_atomic : 4;

	return (struct ibv_qp_attr){
		.cap = link_side[host].end.qp->attr.cap,
		.path_mtu = mtu_code(),
		.qkey = QKEY,
		.rq_psn = flow[!host].first,
		.sq_psn = flow[host].first,
		.dest_qp_num = atomic_load(&link_side[!host].end.qp->qpn),
		.qp_access_flags = RIGHTS,
		.ah_attr = {.is_global = 1, .grh = {.dgid = link_gid(!host), .hop_limit = 64}},
		.max_rd_atomic = rd_atomic,
		.max_dest_rd_atomic = rd_atomic,
		.min_rnr_timer = LINK_RNR_TIMER,
		.timeout = ex->endless ? 0 : LINK_TIMEOUT,
		.retry_cnt = ex->retry_cnt ? ex->retry_cnt - 1 : LINK_RETRIES,
		.rnr_retry = ex->rnr_retry ? ex->rnr_retry - 1 : 7,
	};
}

static void connect_side(unsigned int host)
{
	struct link_side *s = &link_side[host];

	s->end.qp->attr = attributes(host);
	if (ex->type == IBV_QPT_UD)
		av_wire_open_datagrams(&s->end);
	else
		CHECK(av_wire_open(&s->end, &s->end.qp->attr) == 0);
	CHECK(av_wire_at(s->seg, s->end.qp->index) != NULL);
	enter(&s->end, IBV_QPS_INIT, IBV_QPS_RTR);
	enter(&s->end, IBV_QPS_RTR, IBV_QPS_RTS);
}

/* Down to the least. */
static void narrow(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		union ibv_gid gid = link_gid(h);
		struct av_window *w = av_window_join(gid.raw);

		for (int i = 0; i < 5; i++) {
			av_window_lost(w);
			turned_clock_to(turned_clock_ns() + 2000000);
		}
		av_window_leave(w);
	}
}

/* A window of type 2 at each host, for SEND with invalidation. */
static void bind_windows(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		struct link_side *s = &link_side[h];
		struct av_window_bind bind = {
			.window = s->window,
			.rkey = (s->window & ~0xffu) | ((s->window + 1) & 0xff),
			.region = s->key,
			.access = IBV_ACCESS_REMOTE_READ,
			.pd = PD,
			.qpn = atomic_load(&s->end.qp->qpn),
			.addr = address_of(h, 0),
			.length = 64,
		};

		MUST_BE(av_window_bind(s->seg, &bind), 0);
		s->window = bind.rkey;
	}
}

static bool invalidates(unsigned int to)
{
	for (unsigned int r = 0; r < count; r++)
		if (ex->request[r].opcode == IBV_WR_SEND_WITH_INV && ex->request[r].from != to)
			return true;
	return false;
}

static void unbind_windows(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		struct link_side *s = &link_side[h];
		uint32_t qpn = atomic_load(&s->end.qp->qpn);
		enum av_invalidate was = av_window_invalidate(s->seg, s->window, qpn);

		if (!ex->fails)
			MUST_BE(was, invalidates(h) ? AV_INVALIDATE_NOT_BOUND : AV_INVALIDATED);
	}
}

static void destroy(unsigned int host)
{
	struct link_side *s = &link_side[host];

	link_forget(s->seg);
	enter(&s->end, (enum ibv_qp_state)atomic_load(&s->end.qp->state), IBV_QPS_RESET);
	CHECK(av_wire_close(&s->end) == 0);
	if (s->srqn)
		av_xrc_retire(s->seg, av_rq_at(s->seg, s->rq));
	av_qp_fini(s->seg, s->end.qp->index);
	if (s->srqn || ex->srq) {
		av_srq_purge(s->seg, s->rq);
		av_rq_fini(s->seg, s->rq);
	}
}

/* --- the end ---------------------------------------------------------------------- */

static void check_pins(const struct av_seg *seg)
{
	for (unsigned int i = 0; i < AV_PINS; i++)
		MUST_BE(atomic_load(&seg->head->pin[i].word), 0);
}

static void check_connection(unsigned int host)
{
	const struct link_side *s = &link_side[host];
	const struct av_wire *w = av_wire_at(s->seg, s->end.qp->index);
	const struct flow *out = &flow[host], *in = &flow[!host];
	uint32_t next = av_psn_after(out->first, out->psns);

	MUST_BE(w->acked, next);
	MUST_BE(w->sent, next);
	MUST_BE(s->end.qp->next_psn, next);
	MUST(w->next == s->end.qp->sq_next && w->top == s->end.qp->sq_next && w->begun == 0);
	MUST(!w->active && !w->waits && !atomic_load(&w->owes) && w->coming == in->coming);
	MUST_BE(w->read.next, w->read.packets);
	MUST(!w->read.dropped && !atomic_load(&s->end.qp->reading));
	if (!is_reliable())
		return;
	MUST_BE(w->taken, out->due);
	MUST_BE(w->takers, w->taken);
	MUST(w->spent == 0 && !w->told);
	MUST_BE(s->end.qp->expected_psn, av_psn_after(in->first, in->psns));
	MUST_BE(s->end.qp->msn, messages_before(in, av_psn_after(in->first, in->psns)));
}

static void check_side(unsigned int host)
{
	const struct link_side *s = &link_side[host];

	MUST_BE(next_of(host, s->completed), count);
	MUST_BE(s->received, flow[!host].due);
	MUST_BE(atomic_load(&s->end.qp->state), IBV_QPS_RTS);
	MUST_BE(s->end.qp->sq_next, atomic_load(&s->end.qp->sq_tail));
	MUST_BE(atomic_load(&s->end.qp->park), AV_PARK_NOT);
	MUST(!s->end.qp->receiving || flow[!host].coming);
	MUST_BE(atomic_load(&s->end.qp->exec.owner) | atomic_load(&s->end.qp->resp.owner), 0);
	check_pins(s->seg);
	if (ex->type != IBV_QPT_UD)
		check_connection(host);
}

/* Of what was lost, some bytes may be there. */
static void forgive(unsigned int host, struct room room, uint8_t before, unsigned int r)
{
	for (uint32_t i = room.at; i < room.at + room.bytes; i++) {
		uint8_t is = link_side[host].arena[i];

		MUST(receives(ex->request[r].opcode) || is == before ||
		     is == pattern(r, i - room.at));
		want[host][i] = is;
	}
}

static void check_lossy_memory(void)
{
	for (unsigned int r = 0; r < count; r++) {
		unsigned int to = !ex->request[r].from;

		if (!is_write(ex->request[r].opcode))
			continue;
		if (ex->request[r].opcode == IBV_WR_RDMA_WRITE && known[r].taken)
			check_written(r);
		else if (!known[r].taken)
			forgive(to, known[r].there, UNTOUCHED, r);
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (unsigned int i = link_side[!h].received; i < flow[h].receives; i++)
			forgive(!h, flow[h].receive[i], UNTOUCHED, flow[h].at[0].request);
}

static void check_memory(void)
{
	if (!is_reliable())
		check_lossy_memory();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (uint32_t i = 0; i < used[h]; i++)
			if (link_side[h].arena[i] != want[h][i])
				link_fail("byte %u at host %u is %#x, not %#x", i, h,
					  link_side[h].arena[i], want[h][i]);
}

/* --- runs ------------------------------------------------------------------------- */

struct link_setting *link_open(const struct link_exchange *e, const struct link_fault *faults,
			       unsigned int fault_count)
{
	ex = e;
	setting = (struct link_setting){.faults = faults,
					.fault_count = fault_count,
					.each = e->each,
					.room = e->room,
					.congested = e->congested,
					.sent = on_sent,
					.arrives = on_arrival};
	pattern_of_run++;
	if (failed)
		skip();
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], &on_fault[i], NULL) == 0);
	lay_out();
	next_post = 0;
	link_begin(&setting);
	if (traces)
		print_faults();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		make(h);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		connect_side(h);
	if (ex->narrow)
		narrow();
	bind_windows();
	if (ex->late_ns)
		link_call_at(turned_clock_ns() + ex->late_ns, post_receives);
	else
		post_receives();
	return &setting;
}

void link_close(void)
{
	unbind_windows();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		destroy(h);
}

unsigned int link_run(const struct link_exchange *e, const struct link_fault *faults,
		      unsigned int fault_count)
{
	unsigned int steps = 0;

	(void)link_open(e, faults, fault_count);
	link_post();
	link_poll();
	link_post();
	while (link_step()) {
		if (++steps == STEPS)
			link_fail("it does not end");
		link_poll();
		link_post();
	}
	if (!ex->fails) {
		for (unsigned int h = 0; h < LINK_HOSTS; h++)
			check_side(h);
		check_memory();
	} else if (link_judge) {
		link_judge(ex);
	}
	link_close();
	return link_sent();
}

/* What happens to a packet; times are beyond each timer. */
static const struct link_fault each_fault[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_ECHO, .delay_ns = 2 * LINK_RNR_NS},
	{.what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS * 40},
	{.what = LINK_DELAY, .delay_ns = 2 * LINK_RNR_NS},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 5},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 40},
	{.what = LINK_DAMAGE, .byte = 0},  /* opcode */
	{.what = LINK_DAMAGE, .byte = 7},  /* queue pair number */
	{.what = LINK_DAMAGE, .byte = 11}, /* PSN */
	{.what = LINK_DAMAGE, .byte = 12}, /* the next header, or payload, or ICRC */
	{.what = LINK_DAMAGE, .byte = -8}, /* the end of the payload, or of the headers */
	{.what = LINK_DAMAGE, .byte = -1}, /* ICRC */
};

static const struct link_fault one_of_two[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_DAMAGE, .byte = 11},
};

static void try_each(const struct link_exchange *e)
{
	unsigned int packets = link_run(e, NULL, 0);

	for (unsigned int i = 0; i < packets; i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(each_fault); k++) {
			struct link_fault f = each_fault[k];

			f.packet = i;
			(void)link_run(e, &f, 1);
		}
}

void link_each(const struct link_exchange *e)
{
	struct link_exchange settled = *e;

	try_each(e);
	settled.each = !e->each;
	try_each(&settled);
}

/* The second packet is one of those that are sent after what happened to the first. */
static void try_second(const struct link_exchange *e, const struct link_fault *first)
{
	unsigned int packets = link_run(e, first, 1);
	struct link_fault f[2] = {*first};

	for (unsigned int i = first->packet + 1; i < packets; i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(one_of_two); k++) {
			f[1] = one_of_two[k];
			f[1].packet = i;
			(void)link_run(e, f, 2);
		}
}

void link_each_two(const struct link_exchange *e)
{
	unsigned int packets = link_run(e, NULL, 0);

	for (unsigned int i = 0; i < packets; i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(one_of_two); k++) {
			struct link_fault f = one_of_two[k];

			f.packet = i;
			try_second(e, &f);
		}
}

const uint32_t link_sizes[] = {0, 1, 255, 256, 257, 512, 769};
const unsigned int link_size_count = AV_ARRAY_SIZE(link_sizes);

void link_each_size(enum ibv_qp_type type, uint32_t opcode)
{
	for (unsigned int i = 0; i < link_size_count; i++) {
		char name[64];
		struct link_exchange e = {
			.name = name,
			.type = type,
			.request = {POST(opcode, link_sizes[i]), POST(opcode, link_sizes[i])}};

		snprintf(name, sizeof(name), "opcode %u, %u bytes, twice", opcode, link_sizes[i]);
		link_each(&e);
		link_each_two(&e);
	}
}

void link_all(const struct link_exchange *rows, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		link_each(&rows[i]);
		link_each_two(&rows[i]);
	}
}

/* --- set-up ----------------------------------------------------------------------- */

static void set_up_side(unsigned int host)
{
	const struct av_seg_device device = {.name = "any0", .link_layer = IBV_LINK_LAYER_ETHERNET};
	struct link_side *s = &link_side[host];
	struct av_key key = {.kind = AV_KEY_REGION, .pd = PD, .access = RIGHTS, .length = ARENA};

	s->seg = av_seg_create(&device, 0);
	CHECK(s->seg != NULL);
	s->seg->head->port = host + 1;
	s->send_cq = av_cq_init(s->seg, 4 * DEPTH, 0, ID, AV_MAX_CQ, NULL);
	s->recv_cq = av_cq_init(s->seg, 4 * DEPTH, 0, ID + 1, AV_MAX_CQ, NULL);
	s->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	want[host] = malloc(ARENA);
	CHECK(s->send_cq && s->recv_cq && s->arena != MAP_FAILED && want[host]);
	key.base = key.addr = (uintptr_t)s->arena;
	s->key = av_key_create(s->seg, &key, AV_MAX_MR);
	s->window = av_window_create(s->seg, IBV_MW_TYPE_2, PD, AV_MAX_MR);
	CHECK(s->key && s->window);
}

int link_set_up(void **state)
{
	traces = getenv("LINK_TRACE") != NULL;
	if (setenv("ANYVERBS_TRANSPORT", "wire", 1) || own_directory_join(state) || av_copy_init())
		return -1;
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], NULL, &on_fault[i]) == 0);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		set_up_side(h);
	return 0;
}

int link_tear_down(void **state)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		munmap(link_side[h].arena, ARENA);
		free(want[h]);
		av_seg_end_calls(link_side[h].seg);
		av_seg_close(link_side[h].seg);
	}
	return own_directory_leave(state);
}
