/* SPDX-License-Identifier: MIT */
/* The language of faults: each production, and each way to get it wrong. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/faults.h"
#include "observe/wr_opcode.h"
#include "wire/cm_message.h"

#define US     1000ull
#define MS     1000000ull
#define S      1000000000ull
#define ALWAYS .parts = AV_FAULTS_CERTAIN

#define MESSAGE(name) (1u << (AV_CM_##name & 31))
#define ALL_MESSAGES  0x07ff0000u

/* One rule, and what it is. */
struct good_row {
	const char *text;
	struct av_faults_rule rule; /* but for its place in the text */
};

static const struct good_row good_rows[] = {
	/* what */
	{"delay 5ms", {.what = AV_INJECT_DELAY, .time_ns = 5 * MS, ALWAYS}},
	{"stall", {.what = AV_INJECT_STALL, ALWAYS}},
	{"rnr", {.what = AV_INJECT_RNR, .count = 1, ALWAYS}},
	{"rnr 3", {.what = AV_INJECT_RNR, .count = 3, ALWAYS}},
	{"rnr all", {.what = AV_INJECT_RNR, .count = AV_FAULTS_ALL, ALWAYS}},
	{"rnr 50ms", {.what = AV_INJECT_RNR, .count = AV_FAULTS_ALL, .time_ns = 50 * MS, ALWAYS}},
	{"rnr-exhausted", {.what = AV_INJECT_RNR_EXHAUSTED, ALWAYS}},
	{"lose", {.what = AV_INJECT_LOSE, .count = 1, ALWAYS}},
	{"lose 2", {.what = AV_INJECT_LOSE, .count = 2, ALWAYS}},
	{"lose all", {.what = AV_INJECT_LOSE, .count = AV_FAULTS_ALL, ALWAYS}},
	{"retry-exhausted", {.what = AV_INJECT_RETRY_EXHAUSTED, ALWAYS}},
	{"status rem-access-err",
	 {.what = AV_INJECT_STATUS, .status = IBV_WC_REM_ACCESS_ERR, ALWAYS}},
	{"status IBV_WC_GENERAL_ERR",
	 {.what = AV_INJECT_STATUS, .status = IBV_WC_GENERAL_ERR, ALWAYS}},
	{"peer-death", {.what = AV_INJECT_PEER_DEATH, ALWAYS}},
	{"cq-overrun", {.what = AV_INJECT_CQ_OVERRUN, ALWAYS}},
	{"evict", {.what = AV_INJECT_EVICT, .count = 1, ALWAYS}},
	{"evict 16", {.what = AV_INJECT_EVICT, .count = 16, ALWAYS}},
	{"evict all key 0x2a01",
	 {.what = AV_INJECT_EVICT, .count = AV_FAULTS_ALL, .has_key = true, .key = 0x2a01, ALWAYS}},
	{"fatal", {.what = AV_INJECT_FATAL, ALWAYS}},
	{"port-down", {.what = AV_INJECT_PORT_DOWN, ALWAYS}},
	{"port-down 2s", {.what = AV_INJECT_PORT_DOWN, .time_ns = 2 * S, ALWAYS}},
	{"port-up", {.what = AV_INJECT_PORT_UP, ALWAYS}},
	{"kill", {.what = AV_INJECT_KILL, ALWAYS}},
	{"fail reg_mr", {.what = AV_INJECT_FAIL, .verb = AV_VERB_REG_MR, ALWAYS}},
	{"fail ibv_create_qp EINVAL",
	 {.what = AV_INJECT_FAIL, .verb = AV_VERB_CREATE_QP, .err = EINVAL, ALWAYS}},
	{"fail any eagain", {.what = AV_INJECT_FAIL, .verb = AV_VERB_NONE, .err = EAGAIN, ALWAYS}},
	{"fail memory nth 3", {.what = AV_INJECT_FAIL, .verb = AV_VERB_MEMORY, .nth = 3, ALWAYS}},
	{"fail rdma_connect einval p 0.5",
	 {.what = AV_INJECT_FAIL, .verb = AV_VERB_CM_CONNECT, .err = EINVAL, .parts = 500000000}},
	{"fail POST_SEND qp 0x11",
	 {.what = AV_INJECT_FAIL, .verb = AV_VERB_POST_SEND, .qpn = 0x11, ALWAYS}},
	{"fail dereg_mr EBUSY key 0x2a01",
	 {.what = AV_INJECT_FAIL,
	  .verb = AV_VERB_DEREG_MR,
	  .err = EBUSY,
	  .has_key = true,
	  .key = 0x2a01,
	  ALWAYS}},
	{"drop", {.what = AV_INJECT_DROP, ALWAYS}},
	{"corrupt 5%", {.what = AV_INJECT_CORRUPT, .parts = 50000000}},
	{"duplicate", {.what = AV_INJECT_DUPLICATE, .count = 1, ALWAYS}},
	{"duplicate 3 1%", {.what = AV_INJECT_DUPLICATE, .count = 3, .parts = 10000000}},
	{"duplicate 1%", {.what = AV_INJECT_DUPLICATE, .count = 1, .parts = 10000000}},
	{"reorder", {.what = AV_INJECT_REORDER, .count = 1, ALWAYS}},
	{"mark every 2", {.what = AV_INJECT_MARK, .every = 2, ALWAYS}},
	{"reorder 0x3e8", {.what = AV_INJECT_REORDER, .count = 1000, ALWAYS}},
	/* where */
	{"stall device any0", {.what = AV_INJECT_STALL, .device = "any0", ALWAYS}},
	{"stall process a.out", {.what = AV_INJECT_STALL, .process = "a.out", ALWAYS}},
	{"stall pid 811", {.what = AV_INJECT_STALL, .pid = 811, ALWAYS}},
	{"stall qp 0x11", {.what = AV_INJECT_STALL, .qpn = 17, ALWAYS}},
	{"stall qp all", {.what = AV_INJECT_STALL, ALWAYS}},
	{"stall opcode IBV_WR_RDMA_WRITE", {.what = AV_INJECT_STALL, .opcodes = 1, ALWAYS}},
	{"stall opcode send opcode send-with-imm",
	 {.what = AV_INJECT_STALL, .opcodes = 4 | 8, ALWAYS}},
	{"drop qp 17 opcode read", {.what = AV_INJECT_DROP, .qpn = 17, .opcodes = 1 << 4, ALWAYS}},
	{"drop device any0 process a.out pid 811",
	 {.what = AV_INJECT_DROP, .device = "any0", .process = "a.out", .pid = 811, ALWAYS}},
	{"stall key 10753", {.what = AV_INJECT_STALL, .has_key = true, .key = 0x2a01, ALWAYS}},
	{"stall key 0", {.what = AV_INJECT_STALL, .has_key = true, ALWAYS}},
	{"drop message req", {.what = AV_INJECT_DROP, .messages = MESSAGE(REQ), ALWAYS}},
	{"corrupt message SIDR-REP message apr first 1",
	 {.what = AV_INJECT_CORRUPT,
	  .messages = MESSAGE(SIDR_REP) | MESSAGE(APR),
	  .first = 1,
	  ALWAYS}},
	{"duplicate 3 message any",
	 {.what = AV_INJECT_DUPLICATE, .count = 3, .messages = ALL_MESSAGES, ALWAYS}},
	{"reorder message dreq 5%",
	 {.what = AV_INJECT_REORDER, .count = 1, .messages = MESSAGE(DREQ), .parts = 50000000}},
	{"delay 5ms message rtu device any0",
	 {.what = AV_INJECT_DELAY,
	  .time_ns = 5 * MS,
	  .messages = MESSAGE(RTU),
	  .device = "any0",
	  ALWAYS}},
	/* when */
	{"stall p 0.25", {.what = AV_INJECT_STALL, .parts = 250000000}},
	{"stall p .000000001", {.what = AV_INJECT_STALL, .parts = 1}},
	{"stall p 1", {.what = AV_INJECT_STALL, ALWAYS}},
	{"stall 12.5%", {.what = AV_INJECT_STALL, .parts = 125000000}},
	{"stall 100%", {.what = AV_INJECT_STALL, ALWAYS}},
	{"stall seed 0xffffffffffffffff",
	 {.what = AV_INJECT_STALL, .seed = UINT64_MAX, .own_seed = true, ALWAYS}},
	{"stall nth 7", {.what = AV_INJECT_STALL, .nth = 7, ALWAYS}},
	{"stall every 10 first 2", {.what = AV_INJECT_STALL, .every = 10, .first = 2, ALWAYS}},
	{"evict every 20ms", {.what = AV_INJECT_EVICT, .count = 1, .every_ns = 20 * MS, ALWAYS}},
	{"stall after 2min for 500us",
	 {.what = AV_INJECT_STALL, .after_ns = 120 * S, .for_ns = 500 * US, ALWAYS}},
	{"drop nth 7 seed 3",
	 {.what = AV_INJECT_DROP, .nth = 7, .seed = 3, .own_seed = true, ALWAYS}},
	{"drop every 3 first 2 after 1s for 2s",
	 {.what = AV_INJECT_DROP, .every = 3, .first = 2, .after_ns = S, .for_ns = 2 * S, ALWAYS}},
	{"delay 1ns", {.what = AV_INJECT_DELAY, .time_ns = 1, ALWAYS}},
	{"delay 1000000s", {.what = AV_INJECT_DELAY, .time_ns = 1000000 * S, ALWAYS}},
	/* and blanks, comments, and separators around it */
	{" \t stall\t qp   3 \r", {.what = AV_INJECT_STALL, .qpn = 3, ALWAYS}},
	{"stall # for good", {.what = AV_INJECT_STALL, ALWAYS}},
	{"# first a word\n\n;;stall;\n# nothing", {.what = AV_INJECT_STALL, ALWAYS}},
};

static void is_understood(void **state)
{
	const struct good_row *row = *state;
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	struct av_faults_rule wanted = row->rule;
	struct av_faults_error error = {.text = ""};

	assert_int_equal(av_faults_parse(row->text, rules, &error), 1);
	wanted.number = 1;
	wanted.at = rules[0].at;
	wanted.len = rules[0].len;
	assert_memory_equal(&rules[0], &wanted, sizeof(wanted));
}

/* A text that is wrong, where, and a part of what is said about it. */
struct bad_row {
	const char *text;
	unsigned int line, column;
	const char *says;
};

#define FIVE(x)	      x x x x x
#define SIXTY_FIVE(x) FIVE(x x x x x x x x x x x x x)

static const struct bad_row bad_rows[] = {
	{"jam", 1, 1, "'jam' is not a fault; expected delay"},
	{"dorp 1%", 1, 1, "'dorp' is not a fault; did you mean 'drop'?"},
	{"RNR-exausted", 1, 1, "'RNR-exausted' is not a fault; did you mean 'rnr-exhausted'?"},
	{"drop 1% porcess x", 1, 9, "'porcess' cannot follow 'drop'; did you mean 'process'?"},
	{"drop 2", 1, 6, "'2' cannot follow 'drop'"},
	{"corrupt all", 1, 9, "'all' cannot follow 'corrupt'"},
	{"drop message", 1, 13, "'message' needs a message of the connection manager such as req"},
	{"drop message send", 1, 14, "'message' needs a message of the connection manager"},
	{"mark message req", 1, 6, "'message' does not go with 'mark'"},
	{"stall message req", 1, 7, "'message' does not go with 'stall'"},
	{"drop message req qp 5", 1, 1,
	 "'message' cannot be combined with 'qp', 'opcode' or 'key'"},
	{"delay 1s message req opcode send", 1, 1, "'message' cannot be combined with"},
	{"delay 1s message req key 5", 1, 1, "'message' cannot be combined with"},
	{"duplicate 0", 1, 11, "'duplicate' needs a count of 1 to 1000, not '0'"},
	{"duplicate 1001", 1, 11, "'duplicate' needs a count of 1 to 1000"},
	{"duplicate all", 1, 11, "'all' cannot follow 'duplicate'"},
	{"reorder 1001", 1, 9, "'reorder' needs a count of 1 to 1000"},
	{"reorder 1ms", 1, 9, "'1ms' cannot follow 'reorder'"},
	{"stall; jam", 1, 8, "'jam' is not a fault"},
	{"stall\n  jam", 2, 3, "'jam' is not a fault"},
	{"delay", 1, 6, "'delay' needs a time"},
	{"delay 5", 1, 7, "'delay' needs a time such as 500us, 20ms or 3s, not '5'"},
	{"delay 0ms", 1, 7, "needs a time"},
	{"delay -1ms", 1, 7, "needs a time"},
	{"delay 1h", 1, 7, "needs a time"},
	{"delay ms", 1, 7, "needs a time"},
	{"delay 0x1ms", 1, 7, "needs a time"},
	{"delay 1000001s", 1, 7, "needs a time"},
	{"delay 99999999999999999999s", 1, 7, "needs a time"},
	{"rnr 0", 1, 5, "'0' cannot follow 'rnr'"},
	{"rnr some", 1, 5, "'some' cannot follow 'rnr'"},
	{"status", 1, 7, "'status' needs a completion status"},
	{"status success", 1, 8, "not 'success'"},
	{"status 12", 1, 8, "not '12'"},
	{"fail", 1, 5, "'fail' needs a verb"},
	{"fail create_flow", 1, 6, "'fail' needs a verb such as reg_mr, post_send or rdma_connect"},
	{"fail create_qp_ex", 1, 6, "not 'create_qp_ex'"},
	{"fail reg_mr EWHAT", 1, 13, "'EWHAT' cannot follow"},
	{"fail poll_cq EBUSY", 1, 14, "'poll_cq' needs EIO, EFAULT, EINVAL or ENOMEM, not 'EBUSY'"},
	{"fail memory EIO", 1, 13, "'memory' needs ENOMEM, not 'EIO'"},
	{"fail any EXDEV", 1, 10, "'any' needs the errno value of a verb, not 'EXDEV'"},
	{"stall device", 1, 13, "'device' needs a device name"},
	{"stall process", 1, 14, "'process' needs a process name"},
	{"stall pid x", 1, 11, "'pid' needs a process number, not 'x'"},
	{"stall pid 0", 1, 11, "'pid' needs"},
	{"stall qp 0", 1, 10, "'qp' needs a queue pair number, or 'all'"},
	{"stall qp 0x1000000", 1, 10, "'qp' needs"},
	{"stall opcode jump", 1, 14, "'opcode' needs a send opcode"},
	{"stall key", 1, 10, "'key' needs a key"},
	{"stall key 0x100000000", 1, 11, "'key' needs a key"},
	{"stall p 0", 1, 9, "'p' needs a probability"},
	{"stall p 1.1", 1, 9, "'p' needs"},
	{"stall p .", 1, 9, "'p' needs"},
	{"stall p 0.1.1", 1, 9, "'p' needs"},
	{"stall p 10%", 1, 9, "'p' needs"},
	{"stall 101%", 1, 7, "'101%' cannot follow"},
	{"stall 0%", 1, 7, "cannot follow"},
	{"stall %", 1, 7, "cannot follow"},
	{"stall 5% 6%", 1, 10, "the probability is given twice"},
	{"stall p 1 6%", 1, 11, "the probability is given twice"},
	{"stall 6% p 1", 1, 10, "'p' is given twice"},
	{"stall seed x", 1, 12, "'seed' needs a number"},
	{"stall nth 0", 1, 11, "'nth' needs a count"},
	{"stall nth 4294967295", 1, 11, "'nth' needs a count"},
	{"stall every x", 1, 13, "'every' needs a count of 1 or more, or a time"},
	{"stall first 0", 1, 13, "'first' needs a count"},
	{"stall after 3", 1, 13, "'after' needs a time"},
	{"stall for x", 1, 11, "'for' needs a time"},
	{"stall qp 1 qp 2", 1, 12, "'qp' is given twice"},
	{"fail any opcode send", 1, 10, "'opcode' does not go with 'fail'"},
	{"drop key 1", 1, 6, "'key' does not go with 'drop'"},
	{"drop qp 1 qp 2", 1, 11, "'qp' is given twice"},
	{"drop nth 1 first 2", 1, 1, "'nth' cannot be combined"},
	{"drop every 1ms", 1, 1, "'every' with a time works with"},
	{"stall nth 1 every 2", 1, 1, "'nth' cannot be combined"},
	{"stall first 1 nth 2", 1, 1, "'nth' cannot be combined"},
	{"stall every 1ms", 1, 1, "'every' with a time works with"},
	{"evict every 1ms qp 3", 1, 1, "'every' with a time works with"},
	{"seed", 1, 5, "'seed' needs a number"},
	{"seed x", 1, 6, "'seed' needs a number, not 'x'"},
	{"seed 1 stall", 1, 8, "expected ';' after 'seed'"},
	{SIXTY_FIVE("stall;"), 1, 64 * 6 + 1, "more than 64 rules"},
};

static void is_refused(void **state)
{
	const struct bad_row *row = *state;
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	struct av_faults_error error = {.text = ""};

	assert_int_equal(av_faults_parse(row->text, rules, &error), -1);
	if (!strstr(error.text, row->says) || error.line != row->line ||
	    error.column != row->column)
		fail_msg("%s: %u:%u: %s", row->text, error.line, error.column, error.text);
}

static void rules_are_counted(void **state)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	static const char text[] = "delay 1ms;seed 7\nrnr 2 qp 3 ;  lose seed 8; stall";
	static const uint64_t seeds[] = {0, 7, 8, 7};
	static const char *const texts[] = {"delay 1ms", "rnr 2 qp 3", "lose seed 8", "stall"};
	struct av_faults_error error;

	assert_int_equal(av_faults_parse(text, rules, &error), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(rules[i].number, i + 1);
		assert_int_equal(rules[i].seed, seeds[i]);
		assert_int_equal(rules[i].own_seed, seeds[i] == 8);
		assert_int_equal(rules[i].len, strlen(texts[i]));
		assert_memory_equal(text + rules[i].at, texts[i], rules[i].len);
	}
}

static void nothing_is_no_rule(void **state)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	static const char *const texts[] = {"", " ", ";;\n", "# all of it", "seed 3"};
	struct av_faults_error error;

	for (size_t i = 0; i < AV_ARRAY_SIZE(texts); i++)
		assert_int_equal(av_faults_parse(texts[i], rules, &error), 0);
}

static void length_is_limited(void **state)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	static char text[AV_FAULTS_BYTES + 1];
	struct av_faults_error error;

	memset(text, ' ', AV_FAULTS_BYTES - 1);
	assert_int_equal(av_faults_parse(text, rules, &error), 0);
	text[AV_FAULTS_BYTES - 1] = ' ';
	assert_int_equal(av_faults_parse(text, rules, &error), -1);
}

/* Every word of every table, as it is printed, is understood again. */
static void words_come_back(void **state)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	struct av_faults_error error;
	char text[100];

	for (int i = 0; i < AV_VERB_N; i++) {
		const char *word = av_faults_verb_name((enum av_verb)i);

		for (const uint8_t *err = av_verb_errs((unsigned int)i); word && *err; err++) {
			snprintf(text, sizeof(text), "fail %s %s", word, strerrorname_np(*err));
			assert_int_equal(av_faults_parse(text, rules, &error), 1);
			assert_int_equal(rules[0].verb, i);
			assert_int_equal(rules[0].err, *err);
		}
	}
	for (uint32_t i = 0; i < 2 * AV_WR_OPCODES; i++) {
		const char *word = av_wr_opcodes[i / 2].rule_words[i % 2];

		if (!word)
			continue;
		snprintf(text, sizeof(text), "stall opcode %s", word);
		assert_int_equal(av_faults_parse(text, rules, &error), 1);
		assert_true(rules[0].opcodes & av_faults_opcode(i / 2));
	}
}

static void opcodes_have_different_bits(void **state)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < AV_WR_OPCODES; i++) {
		if (!av_wr_opcodes[i].name)
			continue;
		assert_int_equal(all & av_faults_opcode(i), 0);
		all |= av_faults_opcode(i);
	}
}

int main(void)
{
	static struct CMUnitTest tests[AV_ARRAY_SIZE(good_rows) + AV_ARRAY_SIZE(bad_rows) + 5];
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(rules_are_counted), cmocka_unit_test(nothing_is_no_rule),
		cmocka_unit_test(length_is_limited), cmocka_unit_test(words_come_back),
		cmocka_unit_test(opcodes_have_different_bits)};
	size_t n = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(good_rows); i++)
		tests[n++] = (struct CMUnitTest){good_rows[i].text, is_understood, NULL, NULL,
						 (void *)(uintptr_t)&good_rows[i]};
	for (size_t i = 0; i < AV_ARRAY_SIZE(bad_rows); i++)
		tests[n++] = (struct CMUnitTest){bad_rows[i].text, is_refused, NULL, NULL,
						 (void *)(uintptr_t)&bad_rows[i]};
	for (size_t i = 0; i < AV_ARRAY_SIZE(others); i++)
		tests[n++] = others[i];
	return _cmocka_run_group_tests("the language of faults", tests, n, NULL, NULL);
}
