/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, atomics and ATOMIC_WRITE: operands in one piece, in two, of any kind,
 * aligned or not; values that come from a key, and go to one.
 */
#include "lib/newer_verbs.h"
#include "umr_access_fixture.h"

static void atomic_rows(void)
{
	static const struct {
		const char *name;
		enum leaf kind;
		uint32_t at[2], bytes[2]; /* of two elements */
		enum ibv_wc_status want;
	} rows[] = {
		{"in one piece", LEAF_PLAIN, {8, 100}, {8, 8}, GOOD},
		{"in one piece, on demand", LEAF_ODP, {8, 100}, {8, 8}, GOOD},
		{"in one piece of device memory", LEAF_DEVICE, {8, 100}, {8, 8}, GOOD},
		{"the first of a long piece", LEAF_PLAIN, {64, 100}, {64, 8}, GOOD},
		{"in two pieces", LEAF_PLAIN, {8, 100}, {4, 8}, IBV_WC_REM_INV_REQ_ERR},
		{"in two pieces side by side", LEAF_PLAIN, {8, 12}, {4, 8}, IBV_WC_REM_INV_REQ_ERR},
		{"half of itself off its alignment",
		 LEAF_PLAIN,
		 {12, 100},
		 {8, 8},
		 IBV_WC_REM_INV_REQ_ERR},
		{"a byte off its alignment", LEAF_PLAIN, {9, 100}, {8, 8}, IBV_WC_REM_INV_REQ_ERR},
		{"of nothing", LEAF_NULL, {8, 100}, {8, 8}, GOOD},
		{"of nothing, in two pieces", LEAF_NULL, {8, 100}, {4, 8}, IBV_WC_REM_INV_REQ_ERR},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (int swap = 0; swap < 2; swap++) {
			const struct element e[] = {
				{&leaf[rows[i].kind], rows[i].at[0], rows[i].bytes[0], 0},
				{&leaf[rows[i].kind], rows[i].at[1], rows[i].bytes[1], 0}};
			struct list l = list_of(e, 2);
			struct made key = make(&l);
			uint64_t old = 0, now;

			row("%s of a word %s", swap ? "CMP_AND_SWP" : "FETCH_AND_ADD",
			    rows[i].name);
			memory_fill(seed += 16);
			model_read(&key, 0, 8, (uint8_t *)&old);
			side_poke(&b, AT, 77);
			expect_status(remote(swap ? IBV_WR_ATOMIC_CMP_AND_SWP
						  : IBV_WR_ATOMIC_FETCH_AND_ADD,
					     BASE, key.mr->rkey, 8),
				      rows[i].want, "atomic");
			now = swap ? (old == 1 ? 0 : old) : old + 1;
			if (rows[i].want == GOOD)
				model_write(&key, 0, 8, (const uint8_t *)&now);
			memory_expect();
			EXPECT(side_peek(&b, AT) == (rows[i].want == GOOD ? old : 77),
			       "the old value");
			unmake(&key);
		}
	for (int split = 0; split < 2; split++) {
		const struct element e[] = {{&leaf[LEAF_PLAIN], 3, split ? 5 : 8, 0},
					    {&leaf[LEAF_ODP], 999, 8, 0}};
		struct list l = list_of(e, 2);
		struct made key = make(&l);
		uint64_t word = 40;

		row("the old value goes to %s", split ? "two pieces" : "an unaligned piece");
		memory_fill(seed += 16);
		side_poke(&b, AT, word);
		expect_status(local(IBV_WR_ATOMIC_FETCH_AND_ADD, BASE, key.mr->lkey, 8), GOOD,
			      "atomic");
		model_write(&key, 0, 8, (const uint8_t *)&word);
		memory_expect();
		EXPECT(side_peek(&b, AT) == 41, "the new value");
		unmake(&key);
	}
}

static void atomic_write_rows(void)
{
	const struct element e[] = {{&leaf[LEAF_PLAIN], 16, 8, 0}, {&leaf[LEAF_PLAIN], 35, 13, 0}};
	struct list l = list_of(e, 2);
	struct made key = make(&l);
	uint64_t word = 0x1122334455667788;

	row("ATOMIC_WRITE to a key");
	memory_fill(seed += 16);
	side_poke(&b, AT, word);
	expect_status(remote(WR_ATOMIC_WRITE, BASE, key.mr->rkey, 8), GOOD, "ATOMIC_WRITE");
	model_write(&key, 0, 8, (const uint8_t *)&word);
	memory_expect();
	row("ATOMIC_WRITE of a key's unaligned bytes");
	expect_status(local(WR_ATOMIC_WRITE, BASE + 10, key.mr->lkey, 8), GOOD, "ATOMIC_WRITE");
	model_read(&key, 10, 8, (uint8_t *)&word);
	EXPECT(side_peek(&b, AT) == word, "the word");
	row("ATOMIC_WRITE to a word that is not aligned where it lies");
	expect_status(remote(WR_ATOMIC_WRITE, BASE + 8, key.mr->rkey, 8), IBV_WC_REM_INV_REQ_ERR,
		      "ATOMIC_WRITE");
	memory_expect();
	unmake(&key);
}

static void run(void)
{
	atomic_rows();
	atomic_write_rows();
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
