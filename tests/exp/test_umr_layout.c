/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, what the bytes of a key are: each kind of list, in the request or not,
 * over each kind of region, and keys of keys to the depth that the device states; through the lkey
 * and the rkey by each opcode, between two processes. All regions are compared with the model, byte
 * by byte.
 */
#include "umr_fixture.h"

#include <stdio.h>
#include <string.h>

#define DEPTH 4

static uint8_t bytes[KEY_BYTES];
static uint64_t seed = 1;

/* --- one access of each kind to [at, at + count) of a key ------------------------ */

static void fresh(uint32_t count)
{
	memory_fill(seed += 16);
	side_fill(&b, AT, count, seed + 9, 0);
	pattern_fill(bytes, count, seed + 9, 0);
}

static void expect_good(enum ibv_wc_status got, const char *what)
{
	EXPECT(got == IBV_WC_SUCCESS, "%s: '%s'", what, ibv_wc_status_str(got));
}

static void write_in(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	expect_good(remote(IBV_WR_RDMA_WRITE, key->base + at, key->mr->rkey, count),
		    "WRITE to the rkey");
	model_write(key, at, count, bytes);
	memory_expect();
}

static void write_imm_in(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	post_receive(0, 0, 0);
	expect_good(remote(IBV_WR_RDMA_WRITE_WITH_IMM, key->base + at, key->mr->rkey, count),
		    "WRITE_WITH_IMM to the rkey");
	expect_good(received(&a, count), "its completion");
	model_write(key, at, count, bytes);
	memory_expect();
}

static void read_out(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	expect_good(remote(IBV_WR_RDMA_READ, key->base + at, key->mr->rkey, count),
		    "READ of the rkey");
	model_read(key, at, count, bytes);
	expect_there(AT, bytes, count);
	memory_expect();
}

static void send_out(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	side_recv_one(&b, 0, 1, AT, count);
	expect_good(local(IBV_WR_SEND, key->base + at, key->mr->lkey, count), "SEND from the lkey");
	expect_good(received(&b, count), "its completion");
	model_read(key, at, count, bytes);
	expect_there(AT, bytes, count);
	memory_expect();
}

static void send_in(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	post_receive(key->base + at, key->mr->lkey, count);
	expect_good(remote(IBV_WR_SEND, 0, 0, count), "SEND to the lkey");
	expect_good(received(&a, count), "its completion");
	model_write(key, at, count, bytes);
	memory_expect();
}

static void write_out(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	expect_good(local(IBV_WR_RDMA_WRITE, key->base + at, key->mr->lkey, count),
		    "WRITE from the lkey");
	model_read(key, at, count, bytes);
	expect_there(AT, bytes, count);
	memory_expect();
}

static void read_in(const struct made *key, uint32_t at, uint32_t count)
{
	fresh(count);
	expect_good(local(IBV_WR_RDMA_READ, key->base + at, key->mr->lkey, count),
		    "READ into the lkey");
	model_write(key, at, count, bytes);
	memory_expect();
}

static void (*const access[])(const struct made *key, uint32_t at, uint32_t count) = {
	write_in, write_imm_in, read_out, send_out, send_in, write_out, read_in};

/* All of the key, its first and last byte, and a part from within a piece to within another. */
static void all_accesses(const struct made *key)
{
	const uint32_t end = key->bytes;
	const struct {
		uint32_t at, count;
	} part[] = {{0, end}, {0, 1}, {end - 1, 1}, {end / 5 + 1, end / 2}, {end / 7, 60}};

	for (size_t i = 0; i < COUNT_OF(access); i++)
		for (size_t k = 0; k < COUNT_OF(part); k++)
			access[i](key, part[k].at, part[k].count);
}

/* --- lists ----------------------------------------------------------------------- */

static const struct made *leaf_of(enum leaf kind, uint32_t i)
{
	return &leaf[kind == LEAF_MIXED ? i % LEAF_N : kind];
}

/* Pieces of regions: single bytes, none, across pages, large ones, neighbours with one between. */
static void region_list(struct list *l, enum leaf kind)
{
	static const uint32_t at[] = {3,  9000, 7,     4095, 5000,  40001, 20000,
				      64, 9999, 65535, 5,    30000, 200,   30008};
	static const uint32_t count[] = {1, 0, 13, 2, 3999, 17000, 17, 64, 0, 1, 1, 8, 8, 8};

	l->count = COUNT_OF(at);
	for (uint32_t i = 0; i < l->count; i++)
		l->e[i] = (struct element){leaf_of(kind, i), at[i], count[i], 0};
}

static void region_blocks(struct list *l, enum leaf kind)
{
	static const uint32_t at[] = {5, 40000, 50000, 65535 - 699 * 3};
	static const uint32_t count[] = {7, 3, 0, 1}, stride[] = {50, 11, 4, 3};

	l->count = COUNT_OF(at);
	l->rounds = 700;
	for (uint32_t i = 0; i < l->count; i++)
		l->e[i] = (struct element){leaf_of(kind, i), at[i], count[i], stride[i]};
}

static void region_fixed(struct list *l, enum leaf kind)
{
	l->count = 19;
	for (uint32_t i = 0; i < l->count; i++)
		l->e[i] = (struct element){leaf_of(kind, i), i * 3001 + 1,
					   i + 1 < l->count ? 1001 : 333, 0};
}

/* Pieces of a key, most of it in another order. */
static void key_list(struct list *l, const struct made *key)
{
	uint32_t third = key->bytes / 3;
	const struct element e[] = {{key, 2 * third + 1, third - 1, 0},
				    {key, 0, 1, 0},
				    {key, 5, 0, 0},
				    {key, third, third, 0},
				    {key, 2, third - 2, 0}};

	l->count = COUNT_OF(e);
	memcpy(l->e, e, sizeof(e));
}

static void key_blocks(struct list *l, const struct made *key)
{
	uint32_t half = key->bytes / 2;

	l->count = 2;
	l->rounds = half / 13;
	l->e[0] = (struct element){key, half, 5, 12};
	l->e[1] = (struct element){key, 1, 7, 13};
}

static void key_fixed(struct list *l, const struct made *key)
{
	uint32_t part = key->bytes / 12;

	l->count = 11;
	for (uint32_t i = 0; i < l->count; i++)
		l->e[i] = (struct element){key, (10 - i) * part + 3, i < 10 ? part : part - 1, 0};
}

static const struct {
	const char *name;
	enum ibv_exp_umr_wr_type type;
	void (*of_regions)(struct list *l, enum leaf kind);
	void (*of_key)(struct list *l, const struct made *key);
} kinds[] = {
	{"list", IBV_EXP_UMR_MR_LIST, region_list, key_list},
	{"blocks", IBV_EXP_UMR_REPEAT, region_blocks, key_blocks},
	{"equal pieces", IBV_EXP_UMR_MR_LIST_FIXED_SIZE, region_fixed, key_fixed},
};

static const char *const leaf_name[] = {
	"plain", "on-demand", "implicit", "device", "null", "plain, addresses of its own", "mixed"};

/* A key of a kind of region, keys of it in its turn, and so on; each is used in each way. */
static void tower(size_t kind, bool inlined, enum leaf under)
{
	struct made level[DEPTH];

	for (uint32_t depth = 0; depth < DEPTH; depth++) {
		struct list l = {
			.type = kinds[kind].type,
			.inlined = inlined,
			.base = depth % 2 ? 0 : 0x123456789abull,
			.access = RIGHTS,
		};

		row("%s, %s, of a %s region, depth %u", kinds[kind].name,
		    inlined ? "inline" : "not inline", leaf_name[under], depth + 1);
		if (depth == 0)
			kinds[kind].of_regions(&l, under);
		else
			kinds[kind].of_key(&l, &level[depth - 1]);
		level[depth] = make(&l);
		all_accesses(&level[depth]);
	}
	for (uint32_t depth = 0; depth < DEPTH; depth++)
		unmake(&level[depth]);
}

static void run(void)
{
	for (size_t kind = 0; kind < COUNT_OF(kinds); kind++)
		for (int inlined = 0; inlined < 2; inlined++)
			for (int under = 0; under <= LEAF_MIXED; under++)
				tower(kind, inlined, (enum leaf)under);
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
