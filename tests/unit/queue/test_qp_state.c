/* SPDX-License-Identifier: MIT */
/*
 * The queue-pair state table, cell by cell: every service, every pair of states, every attribute bit.
 *
 * The expectation is the text below, transcribed row by row from the specification's table of Modify Queue
 * Pair and parsed here; it shares nothing with the table under test. A cell without a row is not valid,
 * except for the two rules at the end: anything may be reset, and anything but RESET may be sent to ERR.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "queue/qp_state.h"

#define BITS 31 /* every bit of a positive int */

struct row {
	const char *transition, *services, *required, *optional;
};

static const struct row rows[] = {
	{"RESET>INIT", "UD", "PKEY PORT QKEY", ""},
	{"RESET>INIT", "UC RC XS XR", "PKEY PORT ACCESS", ""},

	{"INIT>INIT", "UD", "", "PKEY PORT QKEY"},
	{"INIT>INIT", "UC RC XS XR", "", "PKEY PORT ACCESS"},

	{"INIT>RTR", "UD", "", "PKEY QKEY"},
	{"INIT>RTR", "UC XS", "AV MTU DQPN RQPSN", "ALT ACCESS PKEY"},
	{"INIT>RTR", "RC XR", "AV MTU DQPN RQPSN MAXDEST MINRNR", "ALT ACCESS PKEY"},

	{"RTR>RTS", "UD", "SQPSN", "CUR QKEY"},
	{"RTR>RTS", "UC", "SQPSN", "CUR ALT ACCESS MIG"},
	{"RTR>RTS", "RC", "TIMEOUT RETRY RNR SQPSN MAXRD", "CUR ALT ACCESS MIG MINRNR"},
	{"RTR>RTS", "XS", "TIMEOUT RETRY RNR SQPSN MAXRD", "CUR ALT ACCESS MIG"},
	{"RTR>RTS", "XR", "TIMEOUT SQPSN", "CUR ALT ACCESS MIG MINRNR"},

	{"RTS>RTS", "UD", "", "CUR QKEY"},
	{"RTS>RTS", "UC XS", "", "CUR ACCESS ALT MIG"},
	{"RTS>RTS", "RC XR", "", "CUR ACCESS ALT MIG MINRNR"},

	{"RTS>SQD", "UD UC RC XS XR", "", "SQDNOTIFY"},

	{"SQD>RTS", "UD", "", "CUR QKEY"},
	{"SQD>RTS", "UC XS", "", "CUR ALT ACCESS MIG"},
	{"SQD>RTS", "RC XR", "", "CUR ALT ACCESS MIG MINRNR"},

	{"SQD>SQD", "UD", "", "PKEY QKEY"},
	{"SQD>SQD", "UC", "", "AV ALT ACCESS PKEY MIG"},
	{"SQD>SQD", "RC", "", "PORT AV TIMEOUT RETRY RNR MAXRD MAXDEST ALT ACCESS PKEY MINRNR MIG"},
	{"SQD>SQD", "XS", "", "PORT AV TIMEOUT RETRY RNR MAXRD ALT ACCESS PKEY MIG"},
	{"SQD>SQD", "XR", "", "PORT AV TIMEOUT MAXDEST ALT ACCESS PKEY MINRNR MIG"},

	{"SQE>RTS", "UD", "", "CUR QKEY"},
	{"SQE>RTS", "UC", "", "CUR ACCESS"},
};

/* Bit positions, as numbers: a wrong name in the header would not be repeated here. */
static const struct {
	const char *name;
	int bit;
} bit_names[] = {
	{"CUR", 1},    {"SQDNOTIFY", 2}, {"ACCESS", 3}, {"PKEY", 4},	{"PORT", 5},
	{"QKEY", 6},   {"AV", 7},	 {"MTU", 8},	{"TIMEOUT", 9}, {"RETRY", 10},
	{"RNR", 11},   {"RQPSN", 12},	 {"MAXRD", 13}, {"ALT", 14},	{"MINRNR", 15},
	{"SQPSN", 16}, {"MAXDEST", 17},	 {"MIG", 18},	{"DQPN", 20},
};

static const struct {
	const char *name;
	enum ibv_qp_type type;
	const char *ignored;
} services[] = {
	{"UD", IBV_QPT_UD, ""},
	{"UC", IBV_QPT_UC, ""},
	{"RC", IBV_QPT_RC, ""},
	{"XS", IBV_QPT_XRC_SEND, "MAXDEST MINRNR"},
	{"XR", IBV_QPT_XRC_RECV, "MAXRD RETRY RNR"},
};

static const char *const state_names[AV_QP_STATE_N] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

struct expect {
	int service, from, to;
	bool valid;
	int required, optional, ignored;
};

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
		if ((p == text || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
			return true;
	return false;
}

static int parse_bits(const char *text)
{
	int mask = 0, words = *text != '\0', found = 0;

	for (const char *p = text; *p; p++)
		words += *p == ' ';
	for (size_t i = 0; i < AV_ARRAY_SIZE(bit_names); i++) {
		if (has_word(text, bit_names[i].name)) {
			mask |= 1 << bit_names[i].bit;
			found++;
		}
	}
	assert_int_equal(found, words); /* a misspelt bit must not weaken the test */
	return mask;
}

static struct expect expected(int service, int from, int to)
{
	struct expect e = {.service = service, .from = from, .to = to};
	char transition[16];

	e.ignored = parse_bits(services[service].ignored);
	e.valid = to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET);
	snprintf(transition, sizeof(transition), "%s>%s", state_names[from], state_names[to]);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].transition, transition) != 0 ||
		    !has_word(rows[i].services, services[service].name))
			continue;
		assert_false(e.valid); /* one row per cell */
		e.valid = true;
		e.required = parse_bits(rows[i].required);
		e.optional = parse_bits(rows[i].optional);
	}
	return e;
}

static void for_each_cell(void (*check)(const struct expect *e))
{
	for (int s = 0; s < (int)AV_ARRAY_SIZE(services); s++)
		for (int from = 0; from < AV_QP_STATE_N; from++)
			for (int to = 0; to < AV_QP_STATE_N; to++) {
				struct expect e = expected(s, from, to);

				check(&e);
			}
}

static int modify(const struct expect *e, int mask, enum ibv_qp_state *out)
{
	return av_qp_check_modify(services[e->service].type, (enum ibv_qp_state)e->from,
				  (enum ibv_qp_state)e->from, (enum ibv_qp_state)e->to, mask, out);
}

static void complain(const struct expect *e, int mask, int want, int got)
{
	fail_msg("%s %s>%s mask 0x%x: %d instead of %d", services[e->service].name, state_names[e->from],
		 state_names[e->to], (unsigned int)mask, got, want);
}

static void accepts(const struct expect *e, int mask)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;
	int got = modify(e, mask | IBV_QP_STATE, &out);

	if (got != 0)
		complain(e, mask, 0, got);
	assert_int_equal(out, e->to);
}

static void refuses(const struct expect *e, int mask)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;
	int got = modify(e, mask | IBV_QP_STATE, &out);

	if (got != EINVAL)
		complain(e, mask, EINVAL, got);
	assert_int_equal(out, IBV_QPS_UNKNOWN); /* written only on success */
}

static void cell_is_the_specification(const struct expect *e)
{
	struct av_qp_transition t = av_qp_transition(services[e->service].type, (enum ibv_qp_state)e->from,
						     (enum ibv_qp_state)e->to);

	assert_int_equal(t.valid, e->valid);
	assert_int_equal(t.required, e->required);
	assert_int_equal(t.optional, e->optional);
}

static void required_mask_decides(const struct expect *e)
{
	if (!e->valid) {
		refuses(e, 0);
		return;
	}
	accepts(e, e->required);
	for (int bit = 1; bit < BITS; bit++)
		if (e->required & (1 << bit))
			refuses(e, e->required & ~(1 << bit));
}

static void optional_bits_decide(const struct expect *e)
{
	if (!e->valid)
		return;
	for (int bit = 1; bit < BITS; bit++) {
		if (e->required & (1 << bit))
			continue;
		if ((e->optional | e->ignored) & (1 << bit))
			accepts(e, e->required | (1 << bit));
		else
			refuses(e, e->required | (1 << bit));
	}
	accepts(e, e->required | e->optional);
	accepts(e, e->required | e->optional | e->ignored);
}

static void invalid_cell_stays_invalid(const struct expect *e)
{
	if (e->valid)
		return;
	for (int bit = 1; bit < BITS; bit++)
		refuses(e, 1 << bit);
	refuses(e, INT32_MAX);
}

static void without_state_bit_stays(const struct expect *e)
{
	const int mask = e->required | e->optional;
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;
	int got;

	if (e->from != e->to)
		return;
	/* The target argument must not matter: give one that is never valid. */
	got = av_qp_check_modify(services[e->service].type, (enum ibv_qp_state)e->from,
				 (enum ibv_qp_state)e->from, (enum ibv_qp_state)99, mask, &out);
	assert_int_equal(got, e->valid ? 0 : EINVAL);
	assert_int_equal(out, e->valid ? e->from : IBV_QPS_UNKNOWN);
}

static void every_cell_is_the_specification(void **state)
{
	for_each_cell(cell_is_the_specification);
}

static void every_required_bit_is_required(void **state)
{
	for_each_cell(required_mask_decides);
}

static void every_other_bit_is_optional_or_refused(void **state)
{
	for_each_cell(optional_bits_decide);
}

static void invalid_transition_is_refused_with_any_bit(void **state)
{
	for_each_cell(invalid_cell_stays_invalid);
}

static void modify_without_state_keeps_the_state(void **state)
{
	for_each_cell(without_state_bit_stays);
}

/* The cell consulted is the claimed state's, whatever the state tracked; only four states may be claimed. */
static void cur_state_replaces_the_tracked_state(const struct expect *claimed)
{
	const bool claimable = claimed->from >= IBV_QPS_RTR && claimed->from <= IBV_QPS_SQE;
	const bool ok = claimable && claimed->valid && claimed->optional & IBV_QP_CUR_STATE;
	const int mask = IBV_QP_STATE | IBV_QP_CUR_STATE | claimed->required;

	for (int tracked = 0; tracked < AV_QP_STATE_N; tracked++) {
		enum ibv_qp_state out = IBV_QPS_UNKNOWN;
		int got = av_qp_check_modify(services[claimed->service].type, (enum ibv_qp_state)tracked,
					     (enum ibv_qp_state)claimed->from, (enum ibv_qp_state)claimed->to,
					     mask, &out);

		if (got != (ok ? 0 : EINVAL))
			complain(claimed, mask, ok ? 0 : EINVAL, got);
		assert_int_equal(out, ok ? claimed->to : (int)IBV_QPS_UNKNOWN);
	}
}

static void cur_state_selects_the_cell(void **state)
{
	for_each_cell(cur_state_replaces_the_tracked_state);
}

static void cur_state_outside_the_enum_is_refused(void **state)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	for (int cur = AV_QP_STATE_N; cur < 40; cur++)
		assert_int_equal(av_qp_check_modify(IBV_QPT_RC, IBV_QPS_RTS, (enum ibv_qp_state)cur,
						    IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE, &out),
				 EINVAL);
	assert_int_equal(out, IBV_QPS_UNKNOWN);
}

static void cur_state_without_state_changes_nothing(void **state)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	/* An SQE that the program has not noticed: it may still change attributes as if in RTS, and stays in
	 * SQE. */
	assert_int_equal(av_qp_check_modify(IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QPS_RESET,
					    IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, &out),
			 0);
	assert_int_equal(out, IBV_QPS_SQE);
}

static void unused_cur_argument_is_not_looked_at(void **state)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	assert_int_equal(av_qp_check_modify(IBV_QPT_RC, IBV_QPS_RTS, (enum ibv_qp_state)77, IBV_QPS_ERR,
					    IBV_QP_STATE, &out),
			 0);
	assert_int_equal(out, IBV_QPS_ERR);
}

/* A program written for RC brings up both ends of an XRC pair with RC's masks. */
static void rc_shaped_masks_bring_up_xrc(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
	const struct {
		enum ibv_qp_state from, to;
	} path[] = {{IBV_QPS_RESET, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_RTR}, {IBV_QPS_RTR, IBV_QPS_RTS}};

	for (size_t t = 0; t < AV_ARRAY_SIZE(types); t++) {
		for (size_t i = 0; i < AV_ARRAY_SIZE(path); i++) {
			struct av_qp_transition rc = av_qp_transition(IBV_QPT_RC, path[i].from, path[i].to);
			enum ibv_qp_state out = IBV_QPS_UNKNOWN;

			assert_int_equal(av_qp_check_modify(types[t], path[i].from, path[i].from, path[i].to,
							    IBV_QP_STATE | rc.required, &out),
					 0);
			assert_int_equal(out, path[i].to);
		}
	}
}

static void unknown_types_have_no_transition(void **state)
{
	static const int types[] = {0, 1, 5, 6, 7, IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER, 11, -1, 1000};
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	for (size_t i = 0; i < AV_ARRAY_SIZE(types); i++)
		for (int from = 0; from < AV_QP_STATE_N; from++)
			for (int to = 0; to < AV_QP_STATE_N; to++) {
				enum ibv_qp_type type = (enum ibv_qp_type)types[i];
				enum ibv_qp_state f = (enum ibv_qp_state)from, t = (enum ibv_qp_state)to;

				assert_false(av_qp_transition(type, f, t).valid);
				assert_int_equal(av_qp_check_modify(type, f, f, t, IBV_QP_STATE, &out),
						 EINVAL);
			}
	assert_int_equal(out, IBV_QPS_UNKNOWN);
}

static void unknown_states_have_no_transition(void **state)
{
	static const int states[] = {7, 8, 64, 0x7fffffff, -1};

	for (size_t s = 0; s < AV_ARRAY_SIZE(services); s++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(states); i++)
			for (int known = 0; known < AV_QP_STATE_N; known++) {
				enum ibv_qp_state k = (enum ibv_qp_state)known,
						  u = (enum ibv_qp_state)states[i];

				assert_false(av_qp_transition(services[s].type, k, u).valid);
				assert_false(av_qp_transition(services[s].type, u, k).valid);
				assert_false(av_qp_transition(services[s].type, u, u).valid);
			}
}

static void states_have_their_names(void **state)
{
	for (int i = 0; i < AV_QP_STATE_N; i++)
		assert_string_equal(av_qp_state_name((enum ibv_qp_state)i), state_names[i]);
	assert_string_equal(av_qp_state_name((enum ibv_qp_state)AV_QP_STATE_N), "?");
	assert_string_equal(av_qp_state_name((enum ibv_qp_state) - 1), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_the_specification),
		cmocka_unit_test(every_required_bit_is_required),
		cmocka_unit_test(every_other_bit_is_optional_or_refused),
		cmocka_unit_test(invalid_transition_is_refused_with_any_bit),
		cmocka_unit_test(modify_without_state_keeps_the_state),
		cmocka_unit_test(cur_state_selects_the_cell),
		cmocka_unit_test(cur_state_outside_the_enum_is_refused),
		cmocka_unit_test(cur_state_without_state_changes_nothing),
		cmocka_unit_test(unused_cur_argument_is_not_looked_at),
		cmocka_unit_test(rc_shaped_masks_bring_up_xrc),
		cmocka_unit_test(unknown_types_have_no_transition),
		cmocka_unit_test(unknown_states_have_no_transition),
		cmocka_unit_test(states_have_their_names),
	};

	return cmocka_run_group_tests_name("qp_state", tests, NULL, NULL);
}
