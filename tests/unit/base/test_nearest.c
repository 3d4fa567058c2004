/* SPDX-License-Identifier: MIT */
/* Which known word is meant by a mistyped one, and when none is. */
#include "base/text.h"
#include "lib/unit.h"

static const char *known(size_t i)
{
	static const char *const words[] = {"stat",
					    "top",
					    "devices",
					    "doctor",
					    "port-err",
					    "port-active",
					    "IBM_CAPI_EN",
					    "--json",
					    "qp",
					    "mr",
					    "a-word-too-long-for-anybody-to-type-it"};

	return i < sizeof(words) / sizeof(*words) ? words[i] : NULL;
}

TEST(the_nearest_word_is_found)
{
	static const struct {
		const char *typed, *meant;
	} rows[] = {
		{"sta", "stat"},
		{"stta", "stat"},
		{"statt", "stat"},
		{"stad", "stat"},
		{"STAT", "stat"},
		{"tpo", "top"},
		{"device", "devices"},
		{"dev", "devices"},
		{"dcotor", "doctor"},
		{"port-er", "port-err"},
		{"port-activ", "port-active"},
		{"ibm_capi", "IBM_CAPI_EN"},
		{"--jsn", "--json"},
		{"pq", "qp"},
		{"frobnicate", NULL},
		{"", NULL},
		{"x", NULL},
		{"xy", NULL},
		{"statistics", NULL},
		{"nothing-like-any-of-these-words-of-ours-here", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct av_word word = {rows[i].typed, strlen(rows[i].typed)};
		const char *found = av_word_nearest(word, known);

		if (rows[i].meant)
			assert_string_equal(found ? found : rows[i].typed, rows[i].meant);
		else
			assert_null(found);
	}
}

static const char *nothing(size_t i)
{
	(void)i;
	return NULL;
}

TEST(no_words_no_answer)
{
	(void)state;
	assert_null(av_word_nearest((struct av_word){"stat", 4}, nothing));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
