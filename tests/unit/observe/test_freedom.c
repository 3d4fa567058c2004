/* SPDX-License-Identifier: MIT */
/* The table of freedoms, and the numbers that decide their use. */
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/freedom.h"

#define DRAWS	 4096u
#define TEXT_MAX 76 /* help has 80 columns */

static enum av_freedom find(const char *name)
{
	return av_freedom_by_name((struct av_word){name, strlen(name)});
}

TEST(each_name_is_its_own)
{
	for (int i = 0; i < AV_FREEDOM_N; i++)
		assert_int_equal(find(av_freedom_info[i].name), i);
}

TEST(names_fit_into_a_list_of_devices)
{
	for (int i = 0; i < AV_FREEDOM_N; i++) {
		const char *name = av_freedom_info[i].name;

		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
	}
}

TEST(texts_fit_into_help)
{
	for (int i = 0; i < AV_FREEDOM_N; i++) {
		const char *const texts[] = {av_freedom_info[i].does, av_freedom_info[i].clause,
					     av_freedom_info[i].bitten};

		for (size_t t = 0; t < AV_ARRAY_SIZE(texts); t++) {
			size_t length = strlen(texts[t]);

			assert_in_range(length, 1, TEXT_MAX - (t ? strlen("finds: ") : 0));
			assert_int_not_equal(texts[t][length - 1], '.');
		}
	}
}

TEST(other_words_are_no_freedoms)
{
	static const char *const words[] = {"",	   "key",	"keyss",      "Keys", "keys ",
					    "all", "late_read", "late-read,", "-",    "strict"};

	for (size_t i = 0; i < AV_ARRAY_SIZE(words); i++)
		assert_int_equal(find(words[i]), AV_FREEDOM_N);
}

TEST(sets_have_a_bit_for_each)
{
	uint32_t all = 0;

	for (int i = 0; i < AV_FREEDOM_N; i++) {
		assert_int_equal(all & AV_FREEDOM_BIT(i), 0);
		all |= AV_FREEDOM_BIT(i);
	}
	assert_int_equal(all & ~AV_FREEDOM_BIT(AV_FREEDOM_GIDS), AV_FREEDOM_ALL);
}

/* Two uses that differ in one thing. */
struct draw {
	uint64_t seed;
	enum av_freedom which;
	uint32_t object;
	uint64_t nth;
};

static uint64_t draw(const struct draw *d)
{
	return av_freedom_draw(d->seed, d->which, d->object, d->nth);
}

TEST(each_argument_changes_the_number)
{
	static const struct draw of = {7, AV_FREEDOM_KEYS, 3, 9};
	static const struct draw rows[] = {
		{8, AV_FREEDOM_KEYS, 3, 9},
		{7, AV_FREEDOM_LIMITS, 3, 9},
		{7, AV_FREEDOM_KEYS, 4, 9},
		{7, AV_FREEDOM_KEYS, 3, 10},
		{7 ^ 1ull << 40, AV_FREEDOM_KEYS, 3, 9},
		{7, AV_FREEDOM_KEYS, 0xffffff, 9},
		{7, AV_FREEDOM_KEYS, 3, UINT64_MAX},
	};

	assert_true(draw(&of) == draw(&of));
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		assert_true(draw(&of) != draw(&rows[i]));
}

TEST(each_bit_is_set_in_half_of_the_numbers)
{
	unsigned int set[64] = {0};

	for (uint64_t nth = 0; nth < DRAWS; nth++) {
		uint64_t drawn = av_freedom_draw(1, AV_FREEDOM_UNDEFINED, 1, nth);

		for (int bit = 0; bit < 64; bit++)
			set[bit] += drawn >> bit & 1;
	}
	for (int bit = 0; bit < 64; bit++)
		assert_in_range(set[bit], DRAWS * 45 / 100, DRAWS * 55 / 100);
}

/* Seeds are small numbers, and so are the numbers of queue pairs and of uses. */
TEST(neighbours_share_no_numbers)
{
	for (uint64_t nth = 0; nth < 64; nth++)
		for (uint64_t other = 0; other < 64; other++) {
			uint64_t drawn = av_freedom_draw(1, AV_FREEDOM_EVENTS, 1, nth);

			assert_true(drawn != av_freedom_draw(2, AV_FREEDOM_EVENTS, 1, other));
			assert_true(drawn != av_freedom_draw(1, AV_FREEDOM_EVENTS, 2, other));
		}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
