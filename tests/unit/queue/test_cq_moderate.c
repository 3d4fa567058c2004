/* SPDX-License-Identifier: MIT */
/* When the event of a CQ comes whose events are put off: by a count, by a time, by the timer. */
#include "base/clock.h"
#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "unit/memory/heap_fixture.h"

#define CAPACITY  8u
#define COUNT	  2u
#define PERIOD_US 60000u

static uint32_t at;
static struct av_cq_shared *cq;
static struct av_cq_producer *in;

static int make(void **state)
{
	set_up(state);
	at = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	cq = av_cq_at(seg, at);
	in = cq ? &cq->producer[0] : NULL;
	return at && cq ? 0 : -1;
}

static int end(void **state)
{
	av_cq_fini(seg, at);
	return tear_down(state);
}

static void append(void)
{
	struct av_cqe e = {.wr_id = 1};

	assert_int_equal(av_cq_push(seg, at, &e, NULL), 0);
}

static bool is_armed(void)
{
	return av_oneshot_armed(&in->armed) != AV_CQ_NOT_ARMED;
}

static void arm(void)
{
	av_cq_arm(seg, at, AV_CQ_ARMED_ANY);
}

static void poll_all(void)
{
	while (av_cq_peek(seg, cq))
		av_cq_take(cq);
}

/* An entry that has made an event, or was there before, counts for none that comes later. */
TEST_WITH(each_event_has_its_own_entries, make, end)
{
	av_cq_moderate(seg, at, COUNT, 0);
	for (unsigned int round = 0; round < 3; round++) {
		append(); /* not armed: it counts for nothing */
		poll_all();
		arm();
		append();
		assert_true(is_armed());
		assert_int_equal(in->counted, 1);
		append();
		assert_false(is_armed());
		assert_int_equal(in->counted, 0);
		poll_all();
	}
}

TEST_WITH(the_period_begins_with_the_first_entry, make, end)
{
	uint64_t before, after;

	av_cq_moderate(seg, at, 0, PERIOD_US);
	arm();
	assert_true(atomic_load(&in->event_due_ns) == 0);
	before = av_now_ns();
	append();
	after = av_now_ns();
	assert_true(is_armed());
	assert_int_equal(atomic_load(&seg->head->timer_doorbell), 1);
	assert_true(atomic_load(&in->event_due_ns) >= before + PERIOD_US * 1000ull);
	assert_true(atomic_load(&in->event_due_ns) <= after + PERIOD_US * 1000ull);
}

/* @entries were put off by COUNT entries more, and then there is another rule. */
static const struct {
	unsigned int entries;
	uint32_t count, period_us;
	bool armed, event, due; /* armed before; the event comes at once, or is due later */
} rules[] = {
	{0, 0, 0, true, false, false},	      {1, 0, 0, true, true, false},
	{1, 1, 0, true, true, false},	      {1, COUNT, 0, true, false, false},
	{1, 0, PERIOD_US, true, false, true}, {0, 0, PERIOD_US, true, false, false},
	{1, 0, 0, false, false, false},
};

TEST_WITH(another_rule_is_for_those_that_wait, make, end)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rules); i++) {
		end(state);
		make(state);
		av_cq_moderate(seg, at, COUNT, 0);
		if (rules[i].armed)
			arm();
		for (unsigned int n = 0; n < rules[i].entries; n++)
			append();
		atomic_store(&in->event_due_ns, 1); /* of the rule that is over */
		av_cq_moderate(seg, at, rules[i].count, rules[i].period_us);
		if (is_armed() != (rules[i].armed && !rules[i].event) ||
		    (atomic_load(&in->event_due_ns) != 0) != rules[i].due)
			fail_msg("row %zu", i);
	}
}

/* What the timer sees at that time. */
static const struct {
	uint64_t due_ns, now_ns;
	bool event;
	uint64_t again_ns;
} looks[] = {
	{0, 5, false, UINT64_MAX},
	{5, 4, false, 5},
	{5, 5, true, UINT64_MAX},
	{5, 6, true, UINT64_MAX},
};

TEST_WITH(the_timer_sends_what_is_due, make, end)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(looks); i++) {
		end(state);
		make(state);
		arm();
		atomic_store(&in->event_due_ns, looks[i].due_ns);
		if (av_cq_put_off(seg, at, looks[i].now_ns) != looks[i].again_ns ||
		    is_armed() == looks[i].event)
			fail_msg("row %zu", i);
		assert_int_equal(atomic_load(&in->event_due_ns),
				 looks[i].event ? 0 : looks[i].due_ns);
		assert_int_equal(atomic_load(&in->lock.owner), 0);
	}
	assert_true(av_cq_put_off(seg, AV_OBJ_CHUNK + 1, 5) ==
		    UINT64_MAX); /* there is no such CQ */
}

/* As long as events are put off, entries without one are nothing unusual. */
TEST_WITH(a_look_sends_nothing_that_is_put_off, make, end)
{
	av_cq_moderate(seg, at, COUNT, 0);
	arm();
	append();
	av_oneshot_arm(&in->armed, AV_CQ_NOT_ARMED);
	append(); /* as of an appender that dies before it counts */
	av_oneshot_arm(&in->armed, AV_CQ_ARMED_ANY);
	av_cq_look_again(seg, at);
	assert_true(is_armed());
	assert_int_equal(in->counted, 1);
	append();
	assert_false(is_armed());
	av_cq_look_again(seg, at);
	assert_false(is_armed());
}

int main(void)
{
	return run_cases(NULL, NULL);
}
