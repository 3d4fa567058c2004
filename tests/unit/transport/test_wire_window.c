/* SPDX-License-Identifier: MIT */
/* The window to another host: who shares it, what narrows it, what widens it. */
#include <time.h>

#include "lib/unit.h"
#include "transport/wire_qp.h"

#define WHOLE 131072u  /* to begin with */
#define EACH  393216u  /* the most that one queue pair has */
#define MOST  4194304u /* of all */
#define LEAST 8192u
#define MTU   4096u
#define REST  100000000u

static const uint8_t here[16] = {1}, there[16] = {2};

static void pass_ms(unsigned int ms)
{
	const struct timespec t = {.tv_nsec = ms * 1000000L};

	nanosleep(&t, NULL);
}

TEST(a_share_each)
{
	static const struct {
		unsigned int active;
		uint32_t share;
	} rows[] = {{0, WHOLE}, {1, WHOLE}, {2, WHOLE / 2}, {3, WHOLE / 3}, {100, WHOLE / 100}};
	struct av_window *w = av_window_join(here);

	(void)state;
	assert_non_null(w);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned int n = 0; n < rows[i].active; n++)
			av_window_active(w, true);
		assert_int_equal(av_window_share(w), rows[i].share);
		for (unsigned int n = 0; n < rows[i].active; n++)
			av_window_active(w, false);
	}
	av_window_leave(w);
}

TEST(one_for_each_host)
{
	struct av_window *w = av_window_join(here), *same = av_window_join(here);
	struct av_window *other = av_window_join(there);

	(void)state;
	assert_ptr_equal(w, same);
	assert_ptr_not_equal(w, other);
	av_window_active(w, true);
	av_window_active(same, true);
	assert_int_equal(av_window_share(w), WHOLE / 2);
	assert_int_equal(av_window_share(other), WHOLE);
	av_window_leave(other);
	av_window_leave(same);
	av_window_leave(w);
	av_window_leave(NULL);
	w = av_window_join(here); /* a new one */
	assert_int_equal(av_window_share(w), WHOLE);
	av_window_leave(w);
}

TEST(a_loss_halves_it)
{
	struct av_window *w = av_window_join(here);

	(void)state;
	av_window_lost(w);
	assert_int_equal(av_window_share(w), WHOLE / 2);
	for (uint32_t want = WHOLE / 4; want >= LEAST / 4; want /= 2) {
		pass_ms(2); /* less is one loss */
		av_window_lost(w);
		assert_int_equal(av_window_share(w), want > LEAST ? want : LEAST);
	}
	av_window_leave(w);
}

TEST(acknowledgements_widen_it)
{
	struct av_window *w = av_window_join(here);

	(void)state;
	av_window_lost(w);
	av_window_acknowledged(w, MTU, 1);
	assert_int_equal(av_window_share(w), WHOLE / 2 + MTU / 2);
	for (unsigned int i = 0; i < 2 * MOST / MTU; i++)
		av_window_acknowledged(w, MTU, 1);
	assert_int_equal(av_window_share(w), EACH);
	for (unsigned int i = 0; i < 32; i++)
		av_window_active(w, true);
	assert_int_equal(av_window_share(w), MOST / 32);
	for (unsigned int i = 0; i < 32; i++)
		av_window_active(w, false);
	av_window_leave(w);
}

/* Two answers in a share; as long as they can be in a window that losses have not narrowed. */
TEST(answers_fit_twice)
{
	struct av_window *w = av_window_join(here);

	(void)state;
	assert_int_equal(av_window_answer(w), WHOLE / 2);
	av_window_active(w, true);
	av_window_active(w, true);
	assert_int_equal(av_window_answer(w), WHOLE / 4);
	while (av_window_share(w) < EACH / 2) {
		assert_int_equal(av_window_answer(w), av_window_share(w) / 2);
		av_window_acknowledged(w, MTU, 1);
	}
	assert_int_equal(av_window_answer(w), UINT32_MAX);
	av_window_lost(w);
	assert_int_equal(av_window_answer(w), EACH / 8);
	av_window_active(w, false);
	av_window_active(w, false);
	av_window_leave(w);
}

/* A packet in the time of as many answers as its parts of a share; none in a wide window. */
TEST(less_than_a_packet)
{
	static const struct {
		unsigned int active;
		uint32_t mtu;
		uint64_t rest_ns; /* if an answer takes 1000 */
	} rows[] = {{1, MTU, 0}, {32, MTU, 0}, {64, MTU, 1000}, {128, MTU, 3000}, {128, 1024, 0}};
	struct av_window *w = av_window_join(here);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned int n = 0; n < rows[i].active; n++)
			av_window_active(w, true);
		assert_int_equal(av_window_rest(w, rows[i].mtu, 1000), rows[i].rest_ns);
		for (unsigned int n = 0; n < rows[i].active; n++)
			av_window_active(w, false);
	}
	for (unsigned int n = 0; n < 2 * WHOLE; n++)
		av_window_active(w, true);
	assert_int_equal(av_window_rest(w, MTU, 1), MTU);
	assert_int_equal(av_window_rest(w, MTU, 1000000000), REST);
	while (av_window_answer(w) != UINT32_MAX)
		av_window_acknowledged(w, MTU, 1);
	assert_int_equal(av_window_rest(w, MTU, 1), 0);
	for (unsigned int n = 0; n < 2 * WHOLE; n++)
		av_window_active(w, false);
	av_window_leave(w);
}

TEST(is_heard)
{
	struct av_window *w = av_window_join(here);

	(void)state;
	assert_false(av_window_heard(w, 0));
	av_window_acknowledged(w, MTU, 1000);
	assert_true(av_window_heard(w, 999));
	assert_false(av_window_heard(w, 1000));
	av_window_leave(w);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
