/* SPDX-License-Identifier: MIT */
/*
 * The events of a CQ against a model, in all interleavings. Two appenders, whose events are sent
 * some time after their entries, the consumer, the timer, and once something that the owner does
 * meanwhile. The model knows of no time between an event's claim and its end:
 *
 * - an armed CQ with an entry that wants an event, and has made none, has an event to come;
 * - each arming makes one event at most, and each entry one, but for what docs/DEVIATIONS.md says
 *   of events that are put off, and queue/cq.h of those that are taken back;
 * - so whoever takes an event, arms, and polls once, gets all.
 *
 * Once, so much time may pass that an appender which has not sent its event seems to be dead. Then
 * the event may be made again, and the first one may still come.
 *
 * Each state is visited once. The clock is the test's own.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "segment/pages.h"
#include "unit/memory/heap_fixture.h"
#include "unit/queue/event_fixture.h"

#define INDEX	 1u
#define DOORBELL 1u
#define CQES	 8u
#define CHUNK_AT (1ul << 26)
#define RING_AT	 (1ul << 27)
#define PEER	 2u  /* identity of another process */
#define PERIOD	 10u /* us: never so long that an appender seems to be stopped */
#define COUNT	 2u
#define CHOICES	 3 /* of the consumer that does anything */
#define SEEN	 (1u << 18)

/* --- the clock ------------------------------------------------------------------------ */

static uint64_t clock_ns;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){.tv_sec = (time_t)(clock_ns / 1000000000u),
				.tv_nsec = (long)(clock_ns % 1000000000u)};
	return 0;
}

/* --- what is varied ------------------------------------------------------------------- */

enum kind { PLAIN, SOLICITED, FAILED, KINDS };

enum meanwhile { NOTHING, CHANGES_PRODUCER, PURGES, RESIZES, MODERATES, WAITS_DIRECTLY };

enum consumer {
	POLLS_ONCE, /* takes an event, arms for any entry, polls once */
	DRAINS,	    /* the same for solicited ones, and polls all */
	DOES_ANYTHING,
};

static struct config {
	enum av_cq_notify notify;
	unsigned int count, period;
	enum meanwhile meanwhile;
	enum consumer consumer;
} config;

/* --- the model ------------------------------------------------------------------------ */

#define APPENDERS 2

struct appender {
	uint8_t pushes, has_bell; /* left */
	struct av_cq_bell bell;
};

static struct world {
	struct entry {
		uint8_t kind, from, told;
	} entry[CQES]; /* that nobody has polled */
	uint8_t entries;
	uint8_t armed, notify, ready;
	uint8_t count, period, counted;
	uint8_t owner_done, consumer_at, choices;
	uint8_t raiser; /* + 1: who claimed the last event, until it is sent or the CQ is armed */
	uint8_t raises; /* and what for */
	uint8_t time_passed;
	uint8_t events;	 /* for the channel: made and not taken */
	uint8_t arrived; /* as many are there */
	uint32_t rung;	 /* of the timer's doorbell, seen by it */
	uint64_t due, timer_next;
	struct appender appender[APPENDERS];
} w;

static bool model_wants(const struct entry *e)
{
	return w.armed == AV_CQ_ARMED_ANY || (w.armed == AV_CQ_ARMED_SOLICITED && e->kind != PLAIN);
}

/* It stands for the first @upto entries. */
static void model_event(unsigned int upto)
{
	for (unsigned int i = 0; i < upto; i++)
		w.entry[i].told = w.notify == AV_CQ_NOTIFY_NOT;
	w.raiser = 0;
	w.raises = w.armed;
	w.events += w.notify != AV_CQ_NOTIFY_USED;
	w.ready = w.notify != AV_CQ_NOTIFY_NOT;
	w.armed = AV_CQ_NOT_ARMED;
	w.due = w.counted = 0;
}

static void model_period(void)
{
	if (w.period && !w.due)
		w.due = clock_ns + w.period * 1000ull;
}

static void model_count(const struct entry *e, unsigned int upto)
{
	w.counted++;
	if ((!w.count && !w.period) || (w.count && w.counted >= w.count) || e->kind == FAILED ||
	    (w.due && clock_ns > w.due + AV_STUCK_NS))
		model_event(upto);
	else
		model_period();
}

static void model_present(void)
{
	w.counted = 0;
	for (unsigned int i = 0; i < w.entries; i++) {
		if (!model_wants(&w.entry[i]))
			continue;
		if (w.entry[i].told)
			model_period();
		else
			model_count(&w.entry[i], i + 1);
	}
}

static void untell(void)
{
	for (unsigned int i = 0; i < w.entries; i++)
		w.entry[i].told = false;
}

/* Whoever appends or arms does not rely on an event whose raiser seems to be dead. */
static bool raiser_seems_dead(void)
{
	return w.raiser && w.armed;
}

static void model_push(unsigned int from, enum kind kind)
{
	struct entry *e = &w.entry[w.entries++];

	*e = (struct entry){.kind = (uint8_t)kind, .from = (uint8_t)from};
	if (raiser_seems_dead()) {
		untell();
		model_present();
	} else if (model_wants(e)) {
		model_count(e, w.entries);
	}
}

static void model_drop(unsigned int at)
{
	w.entries--;
	memmove(&w.entry[at], &w.entry[at + 1], (w.entries - at) * sizeof(w.entry[0]));
}

/* --- the CQ --------------------------------------------------------------------------- */

static struct av_cq_shared *cq;
static int channel;
static bool (*usual)(uint32_t);

static bool lives(uint32_t owner)
{
	return true;
}

static int make(void **state)
{
	clock_ns = 1000000000;
	set_up(state);
	channel = doorbell_open(&heap.fake, DOORBELL);
	atomic_store(&seg->head->chunk[AV_SLAB_CQ][0], CHUNK_AT);
	cq = av_cq_at(seg, INDEX);
	usual = av_lock_owner_alive;
	av_lock_owner_alive = lives;
	return 0;
}

static int end(void **state)
{
	av_lock_owner_alive = usual;
	doorbell_close(&heap.fake, DOORBELL, channel);
	return tear_down(state);
}

static void begin(void)
{
	memset(cq, 0, sizeof(*cq));
	memset(&w, 0, sizeof(w));
	cq->capacity = CQES;
	cq->mask[0] = CQES - 1;
	cq->ring[0] = RING_AT;
	cq->doorbell = DOORBELL;
	atomic_store(&cq->id, 1);
	atomic_store(&cq->notify, config.notify);
	w.notify = (uint8_t)config.notify;
	if (config.count || config.period)
		av_cq_moderate(seg, INDEX, config.count, config.period);
	w.count = (uint8_t)config.count;
	w.period = (uint8_t)config.period;
	w.choices = config.consumer != DOES_ANYTHING ? 0 : config.period ? CHOICES - 1 : CHOICES;
	w.appender[0].pushes = config.consumer == POLLS_ONCE && !config.period ? 2 : 1;
	w.appender[1].pushes = 1;
	w.rung = atomic_load(&seg->head->timer_doorbell);
	w.timer_next = UINT64_MAX;
}

/* --- steps: @variant counts from 0. Return: false: not possible here ------------------- */

static bool append(struct appender *a, enum kind kind)
{
	unsigned int from = (unsigned int)(a - w.appender);
	struct av_cqe e = {.qpn = from,
			   .flags = kind == SOLICITED ? AV_CQE_SOLICITED : 0,
			   .status = kind == FAILED ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS};

	memset(&a->bell, 0, sizeof(a->bell));
	CHECK(av_cq_push(seg, INDEX, &e, &a->bell) == 0);
	model_push(from, kind);
	a->pushes--;
	a->has_bell = a->bell.event != 0;
	if (a->bell.claim)
		w.raiser = (uint8_t)(from + 1);
	return true;
}

/* Append, then send the event. */
static bool appender_step(unsigned int who, unsigned int variant)
{
	struct appender *a = &w.appender[who];

	if (!a->has_bell)
		return a->pushes > 0 && variant < KINDS && append(a, variant);
	if (variant > 0)
		return false;
	av_cq_ring(seg, &a->bell);
	a->has_bell = false;
	/* Claims of one millisecond are one. */
	if (w.raiser && w.appender[w.raiser - 1].bell.claim == a->bell.claim)
		w.armed = w.raiser = 0;
	return true;
}

static bool arm(enum av_cq_armed how)
{
	av_cq_arm(seg, INDEX, how);
	if (raiser_seems_dead())
		untell();
	w.raiser = 0;
	w.armed = w.armed < how ? (uint8_t)how : w.armed;
	w.ready = 0;
	model_present();
	return true;
}

static bool take_event(void)
{
	if (w.notify == AV_CQ_NOTIFY_USED) {
		int ret = av_cq_wait(seg, INDEX, 0);

		CHECK(ret == (w.ready ? 0 : ETIMEDOUT));
		w.ready = 0;
		return ret == 0;
	}
	if (w.arrived == 0)
		return false;
	w.arrived--;
	w.events--;
	return true;
}

static bool poll_one(void)
{
	if (w.entries == 0)
		return false;
	CHECK(av_cq_peek(seg, cq) != NULL);
	av_cq_take(cq);
	model_drop(0);
	return true;
}

static bool do_anything(unsigned int variant)
{
	bool done = false;

	if (w.choices == 0 || variant > 3)
		return false;
	switch (variant) {
	case 0:
		done = arm(AV_CQ_ARMED_ANY);
		break;
	case 1:
		done = arm(AV_CQ_ARMED_SOLICITED);
		break;
	case 2:
		done = poll_one();
		break;
	default:
		done = take_event();
	}
	w.choices--;
	return done;
}

/* Arm, { take an event, arm, poll } */
static bool consumer_step(unsigned int variant)
{
	if (config.consumer == DOES_ANYTHING)
		return do_anything(variant);
	if (variant > 0)
		return false;
	switch (w.consumer_at++) {
	case 0:
		w.consumer_at = 1;
		return arm(config.consumer == DRAINS ? AV_CQ_ARMED_SOLICITED : AV_CQ_ARMED_ANY);
	case 1:
		return take_event();
	case 2:
		return arm(config.consumer == DRAINS ? AV_CQ_ARMED_SOLICITED : AV_CQ_ARMED_ANY);
	default:
		while (poll_one() && config.consumer == DRAINS)
			;
		w.consumer_at = 1;
		return true;
	}
}

static unsigned int on_their_way(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < APPENDERS; i++)
		n += w.appender[i].has_bell && w.appender[i].bell.claim;
	return n;
}

/* When it is woken, and when it is time. */
static bool timer_step(unsigned int variant)
{
	uint32_t rung = atomic_load(&seg->head->timer_doorbell);

	if (variant > 0 || (rung == w.rung && w.timer_next == UINT64_MAX))
		return false;
	if (rung == w.rung)
		clock_ns = w.timer_next > clock_ns ? w.timer_next : clock_ns;
	w.rung = rung;
	w.timer_next = av_cq_put_off(seg, INDEX, clock_ns);
	if (w.due && w.due <= clock_ns) {
		w.due = 0;
		if (w.armed)
			model_event(w.entries);
	}
	CHECK_EQUAL(w.timer_next, w.due ? w.due : UINT64_MAX);
	return true;
}

static bool time_step(unsigned int variant)
{
	if (variant > 0 || w.time_passed || config.meanwhile != NOTHING || !on_their_way())
		return false;
	w.time_passed = true;
	clock_ns += AV_STUCK_NS + 2000000;
	if (w.raiser)
		w.armed = w.raises;
	return true;
}

static void change_producer(void)
{
	uint32_t i = av_cq_used(cq);

	atomic_store(&cq->producer[i].lock.owner, PEER);
	cq->stuck_since = 1;
	cq->stuck_tail = atomic_load(&cq->producer[i].tail);
	av_cq_producer_look(seg, cq);
	CHECK(av_cq_used(cq) == 1 - i);
	atomic_store(&cq->producer[i].lock.owner, 0);
	av_cq_producer_look(seg, cq);
	CHECK(cq->left == 0);
}

static bool is_of(const struct av_cqe *e, uint32_t number)
{
	return e->qpn == number;
}

static bool drop(struct av_seg *of, struct av_cqe *e)
{
	return true;
}

static void purge(void)
{
	av_cq_purge(seg, INDEX, is_of, 0, drop);
	for (unsigned int i = w.entries; i-- > 0;)
		if (w.entry[i].from == 0)
			model_drop(i);
}

static bool owner_step(unsigned int variant)
{
	if (variant > 0 || config.meanwhile == NOTHING || w.owner_done)
		return false;
	w.owner_done = true;
	switch (config.meanwhile) {
	case CHANGES_PRODUCER:
		change_producer();
		break;
	case PURGES:
		purge();
		break;
	case RESIZES:
		CHECK(av_cq_resize(seg, INDEX, 2 * CQES, NULL) == 0);
		break;
	case MODERATES: /* or ends that */
		w.count = w.count || w.period ? 0 : COUNT;
		w.period = w.due = 0;
		av_cq_moderate(seg, INDEX, w.count, 0);
		untell();
		model_present();
		break;
	default:
		CHECK(av_cq_notify_waits(seg, INDEX));
		w.notify = AV_CQ_NOTIFY_USED;
	}
	return true;
}

/* --- what must hold ------------------------------------------------------------------- */

static unsigned int drain_channel(void)
{
	struct av_doorbell_record record;
	unsigned int n = 0;

	while (read(channel, &record, sizeof(record)) == sizeof(record))
		n++;
	return n;
}

/* Who waits directly is told by a word, not by a bell. */
static void check_events(void)
{
	w.arrived += drain_channel();
	if (w.notify == AV_CQ_NOTIFY_USED)
		CHECK_EQUAL(atomic_load(&cq->ready), w.ready);
	else
		CHECK_EQUAL(w.arrived + on_their_way(), w.events);
}

static void check(void)
{
	struct av_cq_producer *in = &cq->producer[av_cq_used(cq)];

	check_events();
	CHECK_EQUAL(av_oneshot_due(&in->armed), w.armed);
	CHECK_EQUAL(atomic_load(&in->event_due_ns), w.due);
	CHECK_EQUAL(atomic_load(&in->tail) - atomic_load(&cq->head), w.entries);
	for (unsigned int i = 0, waiting = 0; i < w.entries; i++) {
		if (!model_wants(&w.entry[i]) || w.entry[i].told || w.due ||
		    w.raiser) /* who may still send it */
			continue;
		CHECK(++waiting < w.count); /* armed, so what wants an event waits for more */
	}
}

/* Nobody can do anything any more. */
static void check_end(void)
{
	unsigned int wanted = 0;

	CHECK(w.due == 0 && on_their_way() == 0);
	for (unsigned int i = 0; i < w.entries; i++)
		wanted += model_wants(&w.entry[i]);
	if (config.consumer != DOES_ANYTHING)
		CHECK(w.armed);
	if (config.consumer == POLLS_ONCE && (w.period || !w.count))
		CHECK_EQUAL(w.entries, 0);
	if (config.consumer == DRAINS)
		CHECK(w.count ? wanted < w.count : wanted == 0);
}

/* --- all interleavings ------------------------------------------------------------------ */

struct snapshot {
	struct av_cq_shared cq;
	struct av_cqe ring[2][2 * CQES];
	struct world world;
	uint64_t clock;
	uint32_t rung;
};

static size_t ring_bytes(const struct av_cq_shared *of, unsigned int i)
{
	return (of->mask[i] + 1) * sizeof(struct av_cqe);
}

static void save(struct snapshot *s)
{
	s->cq = *cq;
	for (unsigned int i = 0; i < 2; i++)
		if (cq->ring[i])
			memcpy(s->ring[i], av_seg_at(seg, cq->ring[i], ring_bytes(cq, i)),
			       ring_bytes(cq, i));
	s->world = w;
	s->clock = clock_ns;
	s->rung = atomic_load(&seg->head->timer_doorbell);
}

static void free_new_ring(const struct snapshot *s)
{
	for (unsigned int i = 0; i < 2; i++)
		if (cq->ring[i] != s->cq.ring[i])
			av_seg_free(seg, cq->ring[i], ring_bytes(cq, i));
}

static void restore(const struct snapshot *s)
{
	*cq = s->cq;
	for (unsigned int i = 0; i < 2; i++)
		if (cq->ring[i])
			memcpy(av_seg_at(seg, cq->ring[i], ring_bytes(cq, i)), s->ring[i],
			       ring_bytes(cq, i));
	w = s->world;
	clock_ns = s->clock;
	atomic_store(&seg->head->timer_doorbell, s->rung);
}

static uint64_t seen[SEEN];
static unsigned int states;

static uint64_t mix(uint64_t hash, uint64_t with)
{
	hash = (hash ^ with) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static uint64_t hash_of_state(void)
{
	const struct av_cq_producer *in = &cq->producer[av_cq_used(cq)];
	uint64_t h = mix(1, w.due ? w.due - clock_ns : 0);

	h = mix(h, w.timer_next == UINT64_MAX ? w.timer_next : w.timer_next - clock_ns);
	h = mix(h,
		(uint64_t)w.armed << 32 | w.notify << 24 | w.ready << 16 | w.count << 8 | w.period);
	h = mix(h, w.raiser << 16 | w.raises << 8 | w.time_passed);
	h = mix(h, (uint64_t)w.owner_done << 56 | (uint64_t)w.consumer_at << 48 |
			   (uint64_t)w.choices << 40 | (uint64_t)w.events << 32 | w.arrived << 24 |
			   w.counted << 16 | w.entries);
	h = mix(h, atomic_load(&seg->head->timer_doorbell) - w.rung);
	for (unsigned int i = 0; i < w.entries; i++)
		h = mix(h, w.entry[i].kind << 16 | w.entry[i].from << 8 | w.entry[i].told);
	for (unsigned int i = 0; i < APPENDERS; i++) {
		const struct appender *a = &w.appender[i];

		h = mix(h, (uint64_t)a->pushes << 32 | a->has_bell << 16 | a->bell.event);
		h = mix(h, a->has_bell ? a->bell.claim : 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		h = mix(h, atomic_load(&cq->producer[i].armed.word));
	h = mix(h, (uint64_t)in->told << 32 | in->counted);
	return mix(mix(h, atomic_load(&cq->head)), av_cq_used(cq)) | 1;
}

/* Return: is it new? */
static bool is_new_state(void)
{
	uint64_t hash = hash_of_state();
	uint32_t at = (uint32_t)(hash >> 20) % SEEN;

	while (seen[at] && seen[at] != hash)
		at = (at + 1) % SEEN;
	if (seen[at])
		return false;
	seen[at] = hash;
	CHECK(++states < SEEN / 2);
	return true;
}

static bool step_of(unsigned int actor, unsigned int variant)
{
	switch (actor) {
	case 0:
	case 1:
		return appender_step(actor, variant);
	case 2:
		return consumer_step(variant);
	case 3:
		return timer_step(variant);
	case 4:
		return time_step(variant);
	default:
		return owner_step(variant);
	}
}

static void explore(void)
{
	struct snapshot before;
	bool any = false;

	save(&before);
	for (unsigned int actor = 0; actor < 6; actor++)
		for (unsigned int variant = 0; variant < 4; variant++) {
			bool done = step_of(actor, variant);

			any |= done;
			if (!done) {
				w = before.world;
				continue;
			}
			check();
			if (is_new_state())
				explore();
			free_new_ring(&before);
			restore(&before);
		}
	if (!any)
		check_end();
}

static void every_state(void)
{
	memset(seen, 0, sizeof(seen));
	states = 0;
	begin();
	explore();
}

static const struct {
	unsigned int count, period;
} moderations[] = {{0, 0}, {COUNT, 0}, {0, PERIOD}, {COUNT, PERIOD}};

static void with_all_moderations(enum av_cq_notify notify, enum meanwhile meanwhile)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(moderations); i++)
		for (enum consumer c = POLLS_ONCE; c <= DOES_ANYTHING; c++) {
			config = (struct config){notify, moderations[i].count,
						 moderations[i].period, meanwhile, c};
			every_state();
		}
}

TEST_WITH(with_a_channel, make, end)
{
	with_all_moderations(AV_CQ_NOTIFY_NOT, NOTHING);
}

TEST_WITH(with_another_producer, make, end)
{
	with_all_moderations(AV_CQ_NOTIFY_NOT, CHANGES_PRODUCER);
}

TEST_WITH(with_a_purge, make, end)
{
	with_all_moderations(AV_CQ_NOTIFY_NOT, PURGES);
}

TEST_WITH(with_a_resize, make, end)
{
	with_all_moderations(AV_CQ_NOTIFY_NOT, RESIZES);
}

TEST_WITH(with_another_moderation, make, end)
{
	with_all_moderations(AV_CQ_NOTIFY_NOT, MODERATES);
}

TEST_WITH(for_as_notify, make, end)
{
	with_all_moderations(AV_CQ_NOTIFY_USED, NOTHING);
	with_all_moderations(AV_CQ_NOTIFY_USED, CHANGES_PRODUCER);
	with_all_moderations(AV_CQ_NOTIFY_MADE, NOTHING);
	with_all_moderations(AV_CQ_NOTIFY_MADE, WAITS_DIRECTLY);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
