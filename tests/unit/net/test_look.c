/* SPDX-License-Identifier: MIT */
/* When the listening thread looks for packets before it sleeps, and how much time that takes. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "net/socket.h"

#define US	1000u
#define MOMENT	US /* between two looks */
#define SECOND	1000000000u
#define PACKETS 12u

/* Packets, by the time since the one before; and whether the thread looks afterwards. */
static const struct {
	const char *name;
	unsigned int gap_us[PACKETS]; /* 0: no more */
	unsigned int then_us;	      /* since the last */
	bool wanted, looks;
} rows[] = {
	{"at first", {1}, 0, false, false},
	{"three in a row", {500, 10, 10, 10}, 0, false, false},
	{"four in a row", {500, 10, 10, 10, 10}, 0, false, true},
	{"as far apart as may be", {500, 100, 100, 100, 100}, 0, false, true},
	{"one of them late", {500, 10, 10, 101, 10, 10}, 0, false, false},
	{"and four more", {500, 10, 10, 101, 10, 10, 10, 10}, 0, false, true},
	{"for so long", {500, 10, 10, 10, 10}, 100, false, true},
	{"and no longer", {500, 10, 10, 10, 10}, 101, false, false},
	{"somebody wants the core", {500, 10, 10, 10, 10}, 0, true, false},
};

TEST(when)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_look l = {0};
		uint64_t now = SECOND;
		bool looks;

		for (unsigned int k = 0; k < PACKETS && rows[i].gap_us[k]; k++)
			av_look_came(&l, now += (uint64_t)rows[i].gap_us[k] * US);
		now += (uint64_t)rows[i].then_us * US;
		looks = av_look_goes_on(&l, now, rows[i].wanted);
		if (looks != rows[i].looks)
			fail_msg("%s: looks %d", rows[i].name, looks);
	}
}

static void packets_in_a_row(struct av_look *l, uint64_t from)
{
	for (unsigned int i = 0; i <= AV_LOOK_PAYS; i++)
		av_look_came(l, from + i);
}

/* After a look in vain, or one that somebody disturbed, whatever comes meanwhile. */
TEST(rests)
{
	(void)state;
	for (unsigned int wanted = 0; wanted < 2; wanted++) {
		uint64_t rest = (wanted ? 1000 : 10) * (uint64_t)AV_LOOK_NS;
		uint64_t now = SECOND + AV_LOOK_NS + 100;
		struct av_look l = {0};

		packets_in_a_row(&l, SECOND);
		assert_false(av_look_goes_on(&l, now, wanted));
		packets_in_a_row(&l, now + rest - 50);
		assert_false(av_look_goes_on(&l, now + rest - 1, false));
		assert_true(av_look_goes_on(&l, now + rest, false));
	}
}

/* A second of @burst packets, @gap apart, and silence between bursts. */
struct traffic {
	const char *name;
	unsigned int burst;
	uint64_t gap_ns, silence_ns, wanted_ns; /* how often others want the core; 0: never */
	unsigned int most; /* of a thousand parts of the time are spent on looks in vain */
};

static const struct traffic traffic[] = {
	{"a stream", 1000000, 10 * US, 0, 0, 0},
	{"as slow as may be", 1000000, 100 * US, 0, 0, 0},
	{"too slow", 1000000, 101 * US, 0, 0, 0},
	{"bursts that just pay", 5, US, 101 * US, 0, 100},
	{"bursts", 5, 90 * US, 150 * US, 0, 100},
	{"long bursts", 50, 10 * US, 2000 * US, 0, 100},
	{"bursts after each rest", 5, US, 1100 * US, 0, 100},
	{"others want the core", 5, US, 101 * US, 5 * US, 1},
};

static uint64_t time_in_vain(const struct traffic *t)
{
	uint64_t now = SECOND, next = now, wanted = now + t->wanted_ns, vain = 0, look = 0;
	struct av_look l = {0};
	unsigned int left = t->burst;

	for (; now < 2ull * SECOND; now += MOMENT) {
		bool wants = t->wanted_ns && now >= wanted;

		if (wants)
			wanted = now + t->wanted_ns;
		if (now >= next) {
			av_look_came(&l, now);
			look = 0;
			next += --left > 0 ? t->gap_ns : t->silence_ns;
			left = left > 0 ? left : t->burst;
		}
		if (av_look_goes_on(&l, now, wants))
			look += MOMENT;
		else if (look > 0) {
			vain += look;
			look = 0;
		}
	}
	return vain;
}

TEST(in_vain)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(traffic); i++) {
		uint64_t vain = time_in_vain(&traffic[i]);

		if (vain > traffic[i].most * (SECOND / 1000))
			fail_msg("%s: %lu us in vain", traffic[i].name, (unsigned long)(vain / US));
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
