/* SPDX-License-Identifier: MIT */
/*
 * The queue-pair state table, cell by cell: every service, every pair of states, every attribute
 * bit. What is expected is lib/qp_table.h, which shares nothing with the table under test.
 */
#include <errno.h>

#include "base/compiler.h"
#include "lib/qp_table.h"
#include "lib/unit.h"
#include "queue/qp.h"

#define BIT(n) ((int)(1u << (n)))

static void for_each_cell(void (*check)(const struct qp_cell *e))
{
	for (int s = 0; s < QP_TABLE_SERVICES; s++)
		for (int from = 0; from < AV_QP_STATE_N; from++)
			for (int to = 0; to < AV_QP_STATE_N; to++) {
				struct qp_cell e = qp_table_cell(s, from, to);

				check(&e);
			}
}

static int modify(const struct qp_cell *e, int mask, enum ibv_qp_state *out)
{
	return av_qp_check_modify(qp_table_type(e->service), (enum ibv_qp_state)e->from,
				  (enum ibv_qp_state)e->from, (enum ibv_qp_state)e->to, mask, out);
}

static void complain(const struct qp_cell *e, int mask, int want, int got)
{
	fail_msg("%s %s>%s mask 0x%x: %d instead of %d", qp_table_service(e->service),
		 qp_table_state(e->from), qp_table_state(e->to), (unsigned int)mask, got, want);
}

static void accepts(const struct qp_cell *e, int mask)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;
	int got = modify(e, mask | IBV_QP_STATE, &out);

	if (got != 0)
		complain(e, mask, 0, got);
	assert_int_equal(out, e->to);
}

static void refuses(const struct qp_cell *e, int mask)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;
	int got = modify(e, mask | IBV_QP_STATE, &out);

	if (got != EINVAL)
		complain(e, mask, EINVAL, got);
	assert_int_equal(out, IBV_QPS_UNKNOWN); /* written only on success */
}

static void cell_is_the_specification(const struct qp_cell *e)
{
	struct av_qp_transition t = av_qp_transition(
		qp_table_type(e->service), (enum ibv_qp_state)e->from, (enum ibv_qp_state)e->to);

	assert_int_equal(t.valid, e->valid);
	assert_int_equal(t.required, e->required);
	assert_int_equal(t.optional, e->optional);
}

static void required_mask_decides(const struct qp_cell *e)
{
	if (!e->valid) {
		refuses(e, 0);
		return;
	}
	accepts(e, e->required);
	for (int bit = 1; bit < QP_TABLE_BITS; bit++)
		if (e->required & BIT(bit))
			refuses(e, e->required & ~BIT(bit));
}

static void optional_bits_decide(const struct qp_cell *e)
{
	if (!e->valid)
		return;
	for (int bit = 1; bit < QP_TABLE_BITS; bit++) {
		if (e->required & BIT(bit))
			continue;
		if ((e->optional | e->ignored) & BIT(bit))
			accepts(e, e->required | BIT(bit));
		else
			refuses(e, e->required | BIT(bit));
	}
	accepts(e, e->required | e->optional);
	accepts(e, e->required | e->optional | e->ignored);
}

static void invalid_cell_stays_invalid(const struct qp_cell *e)
{
	if (e->valid)
		return;
	for (int bit = 1; bit < QP_TABLE_BITS; bit++)
		refuses(e, BIT(bit));
	refuses(e, INT32_MAX);
	refuses(e, -1);
}

static void without_state_bit_stays(const struct qp_cell *e)
{
	const int mask = e->required | e->optional;
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;
	int got;

	if (e->from != e->to)
		return;
	/* The target argument must not matter: give one that is never valid. */
	got = av_qp_check_modify(qp_table_type(e->service), (enum ibv_qp_state)e->from,
				 (enum ibv_qp_state)e->from, (enum ibv_qp_state)99, mask, &out);
	assert_int_equal(got, e->valid ? 0 : EINVAL);
	assert_int_equal(out, e->valid ? e->from : IBV_QPS_UNKNOWN);
}

TEST(every_cell_is_the_specification)
{
	for_each_cell(cell_is_the_specification);
}

TEST(every_required_bit_is_required)
{
	for_each_cell(required_mask_decides);
}

TEST(every_other_bit_is_optional_or_refused)
{
	for_each_cell(optional_bits_decide);
}

TEST(invalid_transition_is_refused_with_any_bit)
{
	for_each_cell(invalid_cell_stays_invalid);
}

TEST(modify_without_state_keeps_the_state)
{
	for_each_cell(without_state_bit_stays);
}

/* The cell consulted is the claimed state's, whatever the state tracked; only four states may be
 * claimed. */
static void cur_state_replaces_the_tracked_state(const struct qp_cell *claimed)
{
	const bool claimable = claimed->from >= IBV_QPS_RTR && claimed->from <= IBV_QPS_SQE;
	const bool ok = claimable && claimed->valid && claimed->optional & IBV_QP_CUR_STATE;
	const int mask = IBV_QP_STATE | IBV_QP_CUR_STATE | claimed->required;

	for (int tracked = 0; tracked < AV_QP_STATE_N; tracked++) {
		enum ibv_qp_state out = IBV_QPS_UNKNOWN;
		int got = av_qp_check_modify(qp_table_type(claimed->service),
					     (enum ibv_qp_state)tracked,
					     (enum ibv_qp_state)claimed->from,
					     (enum ibv_qp_state)claimed->to, mask, &out);

		if (got != (ok ? 0 : EINVAL))
			complain(claimed, mask, ok ? 0 : EINVAL, got);
		assert_int_equal(out, ok ? claimed->to : (int)IBV_QPS_UNKNOWN);
	}
}

TEST(cur_state_selects_the_cell)
{
	for_each_cell(cur_state_replaces_the_tracked_state);
}

TEST(cur_state_outside_the_enum_is_refused)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	for (int cur = AV_QP_STATE_N; cur < 40; cur++)
		assert_int_equal(av_qp_check_modify(IBV_QPT_RC, IBV_QPS_RTS, (enum ibv_qp_state)cur,
						    IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE,
						    &out),
				 EINVAL);
	assert_int_equal(out, IBV_QPS_UNKNOWN);
}

TEST(cur_state_without_state_changes_nothing)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	/* An SQE that the program has not noticed: it may still change attributes as if in RTS, and
	 * stays in SQE. */
	assert_int_equal(av_qp_check_modify(IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QPS_RESET,
					    IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, &out),
			 0);
	assert_int_equal(out, IBV_QPS_SQE);
}

TEST(unused_cur_argument_is_not_looked_at)
{
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	assert_int_equal(av_qp_check_modify(IBV_QPT_RC, IBV_QPS_RTS, (enum ibv_qp_state)77,
					    IBV_QPS_ERR, IBV_QP_STATE, &out),
			 0);
	assert_int_equal(out, IBV_QPS_ERR);
}

/* A program written for RC brings up both ends of an XRC pair with RC's masks. */
TEST(rc_shaped_masks_bring_up_xrc)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
	const struct {
		enum ibv_qp_state from, to;
	} path[] = {{IBV_QPS_RESET, IBV_QPS_INIT},
		    {IBV_QPS_INIT, IBV_QPS_RTR},
		    {IBV_QPS_RTR, IBV_QPS_RTS}};

	for (size_t t = 0; t < AV_ARRAY_SIZE(types); t++) {
		for (size_t i = 0; i < AV_ARRAY_SIZE(path); i++) {
			struct av_qp_transition rc =
				av_qp_transition(IBV_QPT_RC, path[i].from, path[i].to);
			enum ibv_qp_state out = IBV_QPS_UNKNOWN;

			assert_int_equal(av_qp_check_modify(types[t], path[i].from, path[i].from,
							    path[i].to, IBV_QP_STATE | rc.required,
							    &out),
					 0);
			assert_int_equal(out, path[i].to);
		}
	}
}

/* All types of verbs, XRC or not: nothing but what the other half of an RC pair has is left out. */
static const struct {
	enum ibv_qp_type type;
	int left_out;
} masks[] = {
	{IBV_QPT_RC, 0},
	{IBV_QPT_UC, 0},
	{IBV_QPT_UD, 0},
	{IBV_QPT_XRC_SEND, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
	{IBV_QPT_XRC_RECV, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY},
};

TEST(only_xrc_leaves_attributes_out)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(masks); i++) {
		assert_int_equal(av_qp_own_mask(masks[i].type, INT32_MAX),
				 INT32_MAX & ~masks[i].left_out);
		assert_int_equal(av_qp_own_mask(masks[i].type, 0), 0);
	}
}

TEST(unknown_types_have_no_transition)
{
	static const int types[] = {0,	1,  5,	 6, 7, IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER,
				    11, -1, 1000};
	enum ibv_qp_state out = IBV_QPS_UNKNOWN;

	for (size_t i = 0; i < AV_ARRAY_SIZE(types); i++)
		for (int from = 0; from < AV_QP_STATE_N; from++)
			for (int to = 0; to < AV_QP_STATE_N; to++) {
				enum ibv_qp_type type = (enum ibv_qp_type)types[i];
				enum ibv_qp_state f = (enum ibv_qp_state)from,
						  t = (enum ibv_qp_state)to;

				assert_false(av_qp_transition(type, f, t).valid);
				assert_int_equal(
					av_qp_check_modify(type, f, f, t, IBV_QP_STATE, &out),
					EINVAL);
			}
	assert_int_equal(out, IBV_QPS_UNKNOWN);
}

TEST(unknown_states_have_no_transition)
{
	static const int states[] = {7, 8, 64, 0x7fffffff, -1};

	for (int s = 0; s < QP_TABLE_SERVICES; s++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(states); i++)
			for (int known = 0; known < AV_QP_STATE_N; known++) {
				enum ibv_qp_state k = (enum ibv_qp_state)known,
						  u = (enum ibv_qp_state)states[i];

				assert_false(av_qp_transition(qp_table_type(s), k, u).valid);
				assert_false(av_qp_transition(qp_table_type(s), u, k).valid);
				assert_false(av_qp_transition(qp_table_type(s), u, u).valid);
			}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
