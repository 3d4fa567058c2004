/* SPDX-License-Identifier: MIT */
/*
 * The two sides of a message that both copy, one at a time and at once: which chunks are whose, and
 * what is left alone. The receiver's segment is this process' own here, the sender's is another's.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "registry/directory.h"
#include "transport/execution.h"
#include "unit/memory/fake_seg.h"

#define PART_AT	    (7ull << 26) /* the sender's: its part of the heap, */
#define SOURCE_AT   (8ull << 26) /* and its bytes */
#define SOURCE_ADDR 0x7000000000ull
#define INDEX	    1u
#define PD	    3u
#define KEY	    (INDEX << 8 | 7)
#define REQUESTER   77u
#define RESPONDER   78u
#define ROOM	    (2u << 20)
#define GUARD	    64u
#define LIVING	    1000001u /* processes that are none */
#define DEAD	    1000002u
#define LOOK_NS	    12000000 /* until a thread asks again whether a process lives */
#define SECOND_NS   1000000000ull
#define LONG_NS	    (1000 * SECOND_NS) /* nothing here takes that long */
#define ROUNDS	    200

#define MIN   AV_COOP_MIN
#define CHUNK AV_COOP_CHUNK
#define REST  AV_COOP_REST

static struct fake_seg f[2];
static struct av_qp_ref req, rsp;
static struct av_cq_shared *cq;
static uint32_t source_key;
static uint8_t *source, *buffer; /* ROOM bytes each; of the second there is more */

static bool is_alive(uint32_t owner)
{
	return owner != DEAD;
}

/* The sender lives, as far as the directory knows. */
static uint32_t sender_ref;
static int sender_folder;

static int group_setup(void **state)
{
	if (own_directory_join(state) || av_copy_init())
		return -1;
	sender_folder = av_dir_context_add(&sender_ref);
	return sender_folder < 0;
}

static int group_teardown(void **state)
{
	close(sender_folder);
	av_dir_context_remove(sender_ref);
	return own_directory_leave(state);
}

/* --- what is set up -------------------------------------------------------------- */

static void set_up_key(struct av_seg *seg, uint64_t addr, uint32_t heap)
{
	struct av_key *k = av_key_entry(seg, KEY);

	CHECK(k);
	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = IBV_ACCESS_LOCAL_WRITE;
	k->base = k->addr = addr;
	k->length = ROOM;
	k->heap = heap;
	atomic_store(&k->key, KEY);
}

static void set_up_part(struct av_seg *seg)
{
	struct av_heap_part *part = av_seg_at(seg, PART_AT, sizeof(*part));

	atomic_store(&seg->shared_heap, (uint8_t *)seg->head); /* its offsets are the segment's */
	part->addr = SOURCE_ADDR;
	part->bytes = ROOM;
	part->at = AV_HEAP_PART_BASE + SOURCE_AT;
	source = (uint8_t *)seg->head + SOURCE_AT;
	for (size_t i = 0; i < ROOM; i++)
		source[i] = (uint8_t)(i * 7 + i / 4096 + 1);
}

static struct av_qp_ref set_up_qp(struct av_seg *seg, uint32_t number, uint32_t other)
{
	struct av_qp_ref end = {seg, av_qp_at(seg, INDEX)};

	end.qp->index = INDEX;
	end.qp->pd = PD;
	end.qp->rq = end.qp->recv_cq = INDEX;
	end.qp->attr.dest_qp_num = other;
	atomic_store(&end.qp->qpn, number);
	return end;
}

static int set_up(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		fake_open(&f[i], i + 1);
		fake_tables(&f[i]);
	}
	f[0].seg.own = false;
	f[0].seg.ref = sender_ref;
	f[0].seg.proc = av_lock_self;
	source_key = KEY;
	buffer = mmap(NULL, ROOM + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	CHECK(buffer != MAP_FAILED);
	set_up_part(&f[0].seg);
	set_up_key(&f[0].seg, SOURCE_ADDR, PART_AT >> AV_HEAP_PART_SHIFT);
	set_up_key(&f[1].seg, (uintptr_t)buffer, 0);
	req = set_up_qp(&f[0].seg, REQUESTER, RESPONDER);
	rsp = set_up_qp(&f[1].seg, RESPONDER, REQUESTER);
	av_rq_at(&f[1].seg, INDEX)->pd = PD;
	cq = av_cq_at(&f[1].seg, INDEX);
	av_lock_owner_alive = is_alive;
	return 0;
}

static int tear_down(void **state)
{
	munmap(buffer, ROOM + 2 * GUARD);
	for (uint32_t i = 0; i < 2; i++)
		fake_close(&f[i]);
	return 0;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* --- the sender ------------------------------------------------------------------ */

static bool send_message(uint32_t from_by, uint32_t to_by, uint32_t bytes)
{
	const struct av_coop_source source_of = {&req, {SOURCE_ADDR + from_by, bytes, source_key}};
	const struct ibv_sge recv = {(uintptr_t)buffer + to_by, bytes, KEY};
	bool ok;

	av_lock_acquire_plain(&rsp.qp->resp_lock, AV_RANK_RESPONDER);
	ok = av_coop_copy(&source_of, &rsp, &recv, buffer + to_by, source + from_by) ==
	     AV_COOP_COPIED;
	av_lock_release(&rsp.qp->resp_lock);
	return ok;
}

static void check_message(uint32_t from_by, uint32_t to_by, uint32_t bytes)
{
	for (uint32_t i = 0; i < to_by; i++)
		CHECK(buffer[i] == 0);
	CHECK(memcmp(buffer + to_by, source + from_by, bytes) == 0);
	for (uint32_t i = to_by + bytes; i < to_by + bytes + GUARD; i++)
		CHECK(buffer[i] == 0);
}

static const uint32_t lengths[] = {
	MIN,
	MIN + 1,
	MIN + REST - 64,
	MIN + REST - 1,
	MIN + REST,
	MIN + REST + 1,
	MIN + REST + 63,
	MIN + REST + 64,
	5 * CHUNK + REST,
	5 * CHUNK - 1,
	16 * CHUNK,
	17 * CHUNK + 12345,
};
static const uint32_t offsets[] = {0, 1, 8, 60, 63, 64};

TEST_WITH(test_alone, set_up, tear_down)
{
	for (size_t l = 0; l < AV_ARRAY_SIZE(lengths); l++)
		for (size_t o = 0; o < AV_ARRAY_SIZE(offsets) * AV_ARRAY_SIZE(offsets); o++) {
			uint32_t from = offsets[o % AV_ARRAY_SIZE(offsets)],
				 to = offsets[o / AV_ARRAY_SIZE(offsets)];

			memset(buffer, 0, ROOM + 2 * GUARD);
			assert_true(send_message(from, to, lengths[l]));
			check_message(from, to, lengths[l]);
			assert_int_equal(atomic_load(&cq->coop.left), 0);
			assert_int_equal(atomic_load(&cq->coop.sender.owner), 0);
			assert_int_equal(atomic_load(&cq->coop.chunk.owner), 0);
		}
}

/* Does the message come there to be shared, and is it copied? One that is not shared is left as it
 * was. */
enum shared { ALONE, FAILS, COPIED };

struct sender_row {
	const char *name;
	enum shared shared;
	void (*change)(void);
};

/* clang-format off */
static void nothing(void) { }
static void not_on_the_heap(void) { av_key_entry(&f[0].seg, KEY)->heap = 0; }
static void no_key(void) { source_key = (AV_SLAB_CHUNKS * AV_KEY_CHUNK) << 8 | 7; }
static void no_cq(void) { rsp.qp->recv_cq = AV_SLAB_CHUNKS * AV_OBJ_CHUNK; }
static void another_sender(void) { atomic_store(&cq->coop.sender.owner, LIVING); }
static void dead_sender(void)
{
	atomic_store(&cq->coop.sender.owner, DEAD);
	atomic_store(&cq->coop.left, 9u << 16);
}
static void dead_sender_closing(void)
{
	dead_sender();
	atomic_store(&cq->coop.chunk.owner, DEAD);
}
static void dead_poller(void) { atomic_store(&cq->coop.chunk.owner, DEAD); }
static void was_slow(void) { atomic_store(&cq->coop.alone_until_ns, av_now_ns() + LONG_NS); }
static void was_slow_once(void)
{
	atomic_store(&cq->coop.alone_until_ns, av_now_ns() - SECOND_NS);
}
static void had_failed(void) { atomic_store(&cq->coop.failed, 1); }
static void gone_source(void) { CHECK(mprotect(source + 3 * CHUNK, CHUNK, PROT_NONE) == 0); }
/* clang-format on */

static const struct sender_row sender_rows[] = {
	{"nothing in the way", COPIED, nothing},
	{"source that is not on the heap", ALONE, not_on_the_heap},
	{"a key that is none", ALONE, no_key},
	{"no CQ", ALONE, no_cq},
	{"another one's message is there", ALONE, another_sender},
	{"a dead one's is", COPIED, dead_sender},
	{"it died while it closed it", COPIED, dead_sender_closing},
	{"a poller died over a chunk", FAILS, dead_poller},
	{"a poller was slow just now", ALONE, was_slow},
	{"and long ago", COPIED, was_slow_once},
	{"the last message failed", COPIED, had_failed},
	{"a source that is not there", FAILS, gone_source},
};

static void expect_not_begun(void)
{
	assert_int_equal(cq->coop.job.bytes, 0);
	for (size_t i = 0; i < ROOM; i++)
		CHECK(buffer[i] == 0);
}

TEST(test_sender)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(sender_rows); i++) {
		const struct sender_row *r = &sender_rows[i];

		print_message("  %s\n", r->name);
		set_up(NULL);
		r->change();
		nap();
		assert_int_equal(send_message(0, 0, MIN), r->shared == COPIED);
		if (r->shared == ALONE)
			expect_not_begun();
		else
			assert_int_equal(cq->coop.job.bytes, MIN);
		assert_int_equal(atomic_load(&cq->coop.left), 0);
		assert_int_equal(atomic_load(&cq->coop.chunk.owner), 0);
		if (r->shared == COPIED)
			check_message(0, 0, MIN);
		tear_down(NULL);
	}
}

/* A message whose later chunks lie where its earlier ones go. */
TEST_WITH(test_overlap, set_up, tear_down)
{
	const struct av_coop_source source_of = {&req, {SOURCE_ADDR, MIN, KEY}};
	const struct ibv_sge recv = {(uintptr_t)source + CHUNK, MIN, KEY};

	av_lock_acquire_plain(&rsp.qp->resp_lock, AV_RANK_RESPONDER);
	assert_int_equal(av_coop_copy(&source_of, &rsp, &recv, source + CHUNK, source),
			 AV_COOP_NOT);
	av_lock_release(&rsp.qp->resp_lock);
	expect_not_begun();
}

/* --- the poller ------------------------------------------------------------------ */

#define CHUNKS	4u /* of the message */
#define MESSAGE (CHUNKS * CHUNK + REST)

static void open_by_hand(void)
{
	cq->coop.job =
		(struct av_coop_job){INDEX, MESSAGE, KEY, KEY, SOURCE_ADDR, (uintptr_t)buffer};
	atomic_store(&cq->coop.left, CHUNKS << 16);
}

struct poller_row {
	const char *name;
	uint32_t copied; /* chunks, from the back */
	bool failed;
	void (*change)(void);
};

/* clang-format off */
static struct av_coop_job *job(void) { return &cq->coop.job; }
static void closed(void) { atomic_store(&cq->coop.left, 0); }
static void two_are_claimed(void) { atomic_store(&cq->coop.left, CHUNKS << 16 | 2); }
static void all_are_claimed(void) { atomic_store(&cq->coop.left, CHUNKS << 16 | CHUNKS); }
static void more_than_all(void) { atomic_store(&cq->coop.left, (CHUNKS + 1) << 16); }
static void far_more(void) { atomic_store(&cq->coop.left, 0xffff0000u); }
static void locked(void) { atomic_store(&cq->coop.chunk.owner, LIVING); }
static void too_short(void) { job()->bytes = MIN - 1; }
static void too_long(void) { job()->bytes = AV_MAX_MSG_BYTES + 1; }
static void another_qp(void) { job()->qp = INDEX + 1; }
static void another_peer(void) { rsp.qp->attr.dest_qp_num++; }
static void dead_to_key(void) { atomic_store(&av_key_entry(&f[1].seg, KEY)->key, 0); }
static void dead_from_key(void) { atomic_store(&av_key_entry(&f[0].seg, KEY)->key, 0); }
static void read_only_to_key(void) { av_key_entry(&f[1].seg, KEY)->access = 0; }
static void to_key_of_another_pd(void) { av_key_entry(&f[1].seg, KEY)->pd++; }
static void from_key_of_another_pd(void) { av_key_entry(&f[0].seg, KEY)->pd++; }
static void receive_queue_of_another_pd(void) { av_rq_at(&f[1].seg, INDEX)->pd++; }
static void not_reached(void) { av_key_entry(&f[0].seg, KEY)->heap = 0; }
static void to_before(void) { job()->to -= MESSAGE; }
static void to_behind(void) { job()->to += ROOM; }
static void to_wraps(void) { job()->to = UINT64_MAX - 3 * CHUNK; }
static void from_before(void) { job()->from -= MESSAGE; }
static void from_behind(void) { job()->from += ROOM; }
static void from_wraps(void) { job()->from = UINT64_MAX - 3 * CHUNK; }
static void sender_moves(void) { atomic_store(&f[0].seg.head->moving, 1); }
static void sender_died_moving(void)
{
	sender_moves();
	f[0].seg.proc = DEAD;
}
static void receiver_moves(void) { atomic_store(&f[1].seg.head->moving, 1); }
static void may_not_be_written(void) { CHECK(mprotect(buffer + 2 * CHUNK, CHUNK, PROT_READ) == 0); }
/* clang-format on */

static const struct poller_row poller_rows[] = {
	{"nothing in the way", CHUNKS, false, nothing},
	{"a closed message", 0, false, closed},
	{"the sender has two of them", CHUNKS - 2, false, two_are_claimed},
	{"and all", 0, false, all_are_claimed},
	{"more chunks than there are", 0, false, more_than_all},
	{"far more", 0, false, far_more},
	{"the lock is taken", 0, false, locked},
	{"too short", 0, false, too_short},
	{"too long", 0, false, too_long},
	{"another queue pair", 0, false, another_qp},
	{"another peer", 0, false, another_peer},
	{"a dead key at the receiver", 0, false, dead_to_key},
	{"one at the sender", 0, false, dead_from_key},
	{"a key that does not permit it", 0, false, read_only_to_key},
	{"a key of another domain", 0, false, to_key_of_another_pd},
	{"at the sender", 0, false, from_key_of_another_pd},
	{"a receive queue of another domain", 0, false, receive_queue_of_another_pd},
	{"memory that cannot be reached", 0, false, not_reached},
	{"to before the region", 0, false, to_before},
	{"to behind it", 0, false, to_behind},
	{"to where addresses end", 0, false, to_wraps},
	{"from before the region", 0, false, from_before},
	{"from behind it", 0, false, from_behind},
	{"from where addresses end", 0, false, from_wraps},
	{"the sender moves its memory", 0, false, sender_moves},
	{"it died as it did", CHUNKS, false, sender_died_moving},
	{"the receiver moves its own", 0, false, receiver_moves},
	{"a buffer that may not be written to", 1, true, may_not_be_written},
};

static void expect_no_pins(void)
{
	for (size_t i = 0; i < 2 * AV_PINS; i++)
		CHECK(atomic_load(&f[i % 2].seg.head->pin[i / 2].word) == 0);
}

static void check_chunks(uint32_t copied)
{
	size_t from = (size_t)(CHUNKS - copied) * CHUNK;

	for (size_t i = 0; i < from; i++)
		CHECK(buffer[i] == 0);
	CHECK(memcmp(buffer + from, source + from, (size_t)copied * CHUNK) == 0);
	for (size_t i = (size_t)CHUNKS * CHUNK; i < MESSAGE; i++)
		CHECK(buffer[i] == 0);
}

TEST(test_poller)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(poller_rows); i++) {
		const struct poller_row *r = &poller_rows[i];

		print_message("  %s\n", r->name);
		set_up(NULL);
		open_by_hand();
		r->change();
		for (uint32_t turn = 0; turn < CHUNKS + 1; turn++)
			av_coop_help_with(&rsp, &req, cq);
		check_chunks(r->copied);
		expect_no_pins();
		assert_int_equal(atomic_load(&cq->coop.failed), r->failed);
		if (r->failed)
			assert_int_equal(atomic_load(&cq->coop.left), 0);
		tear_down(NULL);
	}
}

/* Each turn is one chunk, the last one first. */
TEST_WITH(test_one_chunk, set_up, tear_down)
{
	open_by_hand();
	for (uint32_t turn = 1; turn <= CHUNKS; turn++) {
		av_coop_help_with(&rsp, &req, cq);
		check_chunks(turn);
	}
}

/* Nobody helps with the message of a dead sender once its queue pair is being repaired. */
TEST_WITH(test_abandon, set_up, tear_down)
{
	open_by_hand();
	rsp.qp->index++;
	av_coop_abandon(&rsp);
	assert_int_equal(atomic_load(&cq->coop.left), CHUNKS << 16); /* another queue pair's */
	rsp.qp->index--;
	av_coop_abandon(&rsp);
	assert_int_equal(atomic_load(&cq->coop.left), 0);
	rsp.qp->recv_cq = UINT32_MAX;
	av_coop_abandon(&rsp); /* nowhere */
}

/* --- both ------------------------------------------------------------------------ */

static _Atomic bool stop;

static void *poll_on(void *arg)
{
	while (!atomic_load(&stop))
		av_coop_help_with(&rsp, &req, cq);
	return NULL;
}

TEST_WITH(test_both, set_up, tear_down)
{
	pthread_t pollers[2];

	atomic_store(&stop, false);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&pollers[i], NULL, poll_on, NULL), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t bytes = lengths[i % AV_ARRAY_SIZE(lengths)], by = i % GUARD;

		memset(buffer, 0, ROOM);
		atomic_store(&cq->coop.alone_until_ns, 0);
		assert_true(send_message(by, by / 2, bytes));
		check_message(by, by / 2, bytes);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < 2; i++)
		pthread_join(pollers[i], NULL);
}

int main(void)
{
	return run_cases(group_setup, group_teardown);
}
