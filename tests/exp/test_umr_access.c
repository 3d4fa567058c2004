/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, what an access through a key needs: rights of the key and of the regions behind it,
 * their domains, their being there; keys of keys and their limits; atomics; what else uses keys (shared
 * receive queues, windows, FLUSH); and that requests find the key as the one before them left it.
 */
#include "umr_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/apart.h"
#include "lib/newer_verbs.h"
#include "lib/odp_counters.h"
#include "lib/userfaultfd.h"

#define INDIRECT IBV_EXP_MR_INDIRECT_KLMS
#define BASE	 0x8000u
#define PIECE	 104u
#define GOOD	 IBV_WC_SUCCESS
#define REMOTE	 IBV_WC_REM_ACCESS_ERR
#define LOCAL	 IBV_WC_LOC_PROT_ERR
#define WRITE	 IBV_EXP_ACCESS_LOCAL_WRITE
#define QP_SELF	 1 /* connected with itself */
#define QP_SHARE 2 /* with a shared receive queue */
#define QP_EX	 3 /* with the functions ibv_wr_...() */

static uint8_t bytes[KEY_BYTES];
static uint64_t seed = 1000;

/* --- how each kind of access ends --- */

static void expect_status(enum ibv_wc_status got, enum ibv_wc_status wanted, const char *what)
{
	EXPECT(got == wanted, "%s: '%s', not '%s'", what, ibv_wc_status_str(got), ibv_wc_status_str(wanted));
}

/* A message to a receive buffer behind the key. */
static void expect_receive(uint64_t addr, uint32_t lkey, uint32_t count, bool good)
{
	struct node_recv recv = {.num_sge = 1, .sge = {{.addr = addr, .length = count, .lkey = lkey}}};
	struct node_send send = {.opcode = IBV_WR_SEND,
				 .flags = IBV_SEND_SIGNALED,
				 .num_sge = 1,
				 .sge = {side_sge(&b, KEY_FULL, AT, count)}};
	struct ibv_wc wc;

	EXPECT(node_post_recv(n, 0, &recv, 1).ret == 0, "ibv_post_recv");
	EXPECT(side_post_send(&b, 0, &send, 1).ret == 0, "ibv_post_send");
	if (side_poll(&b, 0, 1, PATIENCE, &wc) != 1)
		DIE("no completion of the SEND");
	expect_status(wc.status, good ? GOOD : IBV_WC_REM_OP_ERR, "SEND to the lkey");
	expect_status(received(&a, count), good ? GOOD : LOCAL, "receiving");
	if (!good)
		probe_reconnect(&b, &a, 0);
}

/* Which accesses are permitted. */
enum {
	R_WRITE = 1,
	R_READ = 2,
	R_ATOMIC = 4,
	L_READ = 8,
	L_WRITE = 16,
	READS = R_READ | L_READ,
	ALL = R_WRITE | R_ATOMIC | L_WRITE | READS
};

/*
 * All accesses to @count bytes at @addr of a key; what is permitted is done, and of the rest nothing. @key:
 * its model with @at the place of the bytes, for what is done.
 */
static void expect_accesses(const struct made *key, uint32_t at, uint32_t count, unsigned int good)
{
	uint64_t addr = key->base + at;
	const bool writes = good & R_WRITE, fetches = good & R_READ;

	memory_fill(seed += 16);
	side_fill(&b, AT, count, seed + 9, 0);
	pattern_fill(bytes, count, seed + 9, 0);
	expect_status(remote(IBV_WR_RDMA_WRITE, addr, key->mr->rkey, count), writes ? GOOD : REMOTE, "WRITE");
	if (writes)
		model_write(key, at, count, bytes);
	memory_expect();
	expect_status(remote(IBV_WR_RDMA_READ, addr, key->mr->rkey, count), fetches ? GOOD : REMOTE, "READ");
	if (fetches)
		model_read(key, at, count, bytes);
	expect_there(AT, bytes, count);
	side_fill(&b, AT, count, seed + 9, 0);
	pattern_fill(bytes, count, seed + 9, 0);
	expect_receive(addr, key->mr->lkey, count, good & L_WRITE);
	if (good & L_WRITE)
		model_write(key, at, count, bytes);
	memory_expect();
	expect_status(local(IBV_WR_RDMA_READ, addr, key->mr->lkey, count), good & L_WRITE ? GOOD : LOCAL,
		      "READ into the lkey");
	expect_status(local(IBV_WR_RDMA_WRITE, addr, key->mr->lkey, count), good & L_READ ? GOOD : LOCAL,
		      "WRITE from the lkey");
	memory_expect();
	expect_status(remote(IBV_WR_ATOMIC_FETCH_AND_ADD, (addr + 7) & ~7ull, key->mr->rkey, 8),
		      good & R_ATOMIC ? GOOD : REMOTE, "FETCH_AND_ADD");
}

static struct list list_of(const struct element *e, uint32_t count)
{
	struct list l = {.base = BASE, .access = RIGHTS, .inlined = true, .count = count};

	memcpy(l.e, e, count * sizeof(*e));
	return l;
}

/* Three pieces, of which the one in the middle is the one that matters. Words are where atomics want them. */
static struct list around(const struct made *middle)
{
	const struct element e[] = {{&leaf[LEAF_PLAIN], 512, PIECE, 0},
				    {middle, 64, PIECE + 56, 0},
				    {&leaf[LEAF_DEVICE], 16, PIECE, 0}};

	return list_of(e, 3);
}

/* --- rights of the key --- */

static void rights_rows(void)
{
	static const struct {
		const char *name;
		uint64_t access;
		unsigned int good;
	} rows[] = {
		{"none", 0, L_READ},
		{"LOCAL_WRITE", WRITE, L_READ | L_WRITE},
		{"REMOTE_READ", IBV_EXP_ACCESS_REMOTE_READ, READS},
		{"REMOTE_WRITE", WRITE | IBV_EXP_ACCESS_REMOTE_WRITE, L_READ | L_WRITE | R_WRITE},
		{"REMOTE_ATOMIC", WRITE | IBV_EXP_ACCESS_REMOTE_ATOMIC, L_READ | L_WRITE | R_ATOMIC},
		{"all", RIGHTS, ALL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct list l = around(&leaf[LEAF_PLAIN]);
		struct made key;

		row("rights of the key: %s", rows[i].name);
		l.access = rows[i].access;
		key = make(&l);
		expect_accesses(&key, PIECE + 1, 100, rows[i].good);
		unmake(&key);
	}
}

/* --- what is behind an element --- */

static struct made like(const struct made *m, struct ibv_mr *mr)
{
	struct made copy = *m;

	copy.mr = mr;
	return copy;
}

/* A key around something, which is then used in each way, and around it. */
static void element_row(const char *name, const struct made *middle, unsigned int good)
{
	struct list l = around(middle);
	struct made key;

	row("an element that is %s", name);
	key = make(&l);
	expect_accesses(&key, PIECE - 1, 100, good);
	row("an element that is %s, the bytes before and behind", name);
	expect_accesses(&key, 0, PIECE, ALL);
	expect_accesses(&key, 2 * PIECE + 56, PIECE, ALL);
	unmake(&key);
}

static struct ibv_mr *need(struct ibv_mr *mr)
{
	if (!mr)
		DIE("registering: errno %d", errno);
	return mr;
}

static void *plain_memory(void)
{
	return (void *)(uintptr_t)leaf[LEAF_PLAIN].base;
}

/* The word of the atomic lies at the first multiple of 8 behind the first piece, which is within the middle.
 */
static void element_rows(void)
{
	const struct made *base = &leaf[LEAF_PLAIN];
	struct ibv_mr *mr = need(ibv_reg_mr(n->other_pd, plain_memory(), LEAF_BYTES, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr gone;
	struct made m = like(base, mr);

	element_row("of another domain", &m, 0);
	gone = *mr;
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	m = like(base, &gone);
	element_row("deregistered", &m, 0);
	gone.lkey = 0;
	element_row("no key", &m, 0);
	gone.lkey = 0xdeadbe00;
	element_row("a key that never was", &m, 0);
	mr = need(ibv_reg_mr(n->pd, plain_memory(), LEAF_BYTES, 0));
	m = like(base, mr);
	element_row("read-only", &m, READS);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* It is the bytes that are accessed that have to be there. */
static void short_row(void)
{
	struct ibv_mr *mr = need(ibv_reg_mr(n->pd, plain_memory(), 64 + PIECE + 55, IBV_ACCESS_LOCAL_WRITE));
	struct made m = like(&leaf[LEAF_PLAIN], mr), key;
	struct list l = around(&m);

	row("a region too short by a byte");
	key = make(&l);
	expect_accesses(&key, PIECE + 55, PIECE, ALL);
	expect_accesses(&key, PIECE + 56, PIECE, R_ATOMIC);
	unmake(&key);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* Keys within the key. */
static void nested_rows(void)
{
	struct element e = {&leaf[LEAF_IOVA], 8, 1000, 0};
	struct list l = list_of(&e, 1);
	struct made inner = make(&l), m;

	l.access = WRITE;
	need_fill(inner.mr, &l);
	element_row("a key without remote rights", &inner, ALL);
	l.access = IBV_EXP_ACCESS_REMOTE_READ;
	need_fill(inner.mr, &l);
	element_row("a key that may not be written", &inner, READS);
	need_invalidate(inner.mr);
	element_row("an invalidated key", &inner, 0);
	m = like(&inner, create_key(1, INDIRECT));
	element_row("a key that was never filled", &m, 0);
	EXPECT(ibv_dereg_mr(m.mr) == 0, "ibv_dereg_mr");
	l.access = RIGHTS;
	need_fill(inner.mr, &l);
	element_row("a key filled again", &inner, ALL);
	unmake(&inner);
}

/* A window's key is for remote use only. */
static void window_element_row(void)
{
	struct ibv_mr *mr =
		need(ibv_reg_mr(n->pd, plain_memory(), LEAF_BYTES, PROBE_ALL | IBV_ACCESS_MW_BIND));
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {mr, leaf[LEAF_PLAIN].base, LEAF_BYTES, PROBE_ALL & ~IBV_ACCESS_LOCAL_WRITE},
	};
	struct ibv_mr as_mr = *mr;
	struct made m = like(&leaf[LEAF_PLAIN], &as_mr);
	struct ibv_wc wc;

	EXPECT(ibv_bind_mw(n->qp[0], mw, &bind) == 0 && node_poll(n, 0, 1, PATIENCE, &wc) == 1 &&
		       wc.status == GOOD,
	       "binding");
	as_mr.lkey = mw->rkey;
	element_row("a window", &m, 0);
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0, "closing");
}

/* Memory of a region that goes away. */
static void unmapped_row(void)
{
	uint8_t *at = mmap((void *)APART_AT, LEAF_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct ibv_mr *mr = need(ibv_reg_mr(n->pd, at, LEAF_BYTES, IBV_ACCESS_LOCAL_WRITE));
	struct made m = like(&leaf[LEAF_PLAIN], mr);

	m.base = (uintptr_t)at;
	EXPECT(munmap(at, LEAF_BYTES) == 0, "munmap");
	element_row("unmapped", &m, 0);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* --- the life of a key and of what is behind it --- */

static void life_rows(void)
{
	struct list l = around(&leaf[LEAF_PLAIN]);
	struct made key, other, now;
	uint32_t rkey;

	key = make(&l);
	row("a key that is invalidated");
	need_invalidate(key.mr);
	expect_accesses(&key, 1, 100, 0);
	row("and again");
	need_invalidate(key.mr);
	expect_accesses(&key, 1, 100, 0);
	row("filled with something else");
	l = list_of(&(struct element){&leaf[LEAF_IMPLICIT], 4000, 200, 0}, 1);
	l.base = 0;
	other = make(&l);
	need_fill(key.mr, &l);
	now = like(&other, key.mr);
	expect_accesses(&now, 1, 100, ALL);
	row("beyond its end, and before its beginning");
	now.base = 152;
	expect_accesses(&now, 0, 49, R_ATOMIC); /* whose word is inside */
	now.base = (uint64_t)-1;
	expect_accesses(&now, 0, 50, R_ATOMIC);
	unmake(&other);
	row("a key that is deregistered");
	rkey = key.mr->rkey;
	unmake(&key);
	for (int i = 0; i < 2; i++)
		EXPECT(remote(i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 1, rkey, 8) == REMOTE, "reached");
}

static void change(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, int access)
{
	EXPECT(ibv_rereg_mr(mr, flags, pd, addr, addr ? LEAF_BYTES : 0, access) == 0,
	       "ibv_rereg_mr: errno %d", errno);
}

/* The region under a key is re-registered; the key is left as it is. */
static void rereg_rows(void)
{
	struct ibv_mr *mr = need(ibv_reg_mr(n->pd, plain_memory(), LEAF_BYTES, IBV_ACCESS_LOCAL_WRITE));
	struct made m = like(&leaf[LEAF_PLAIN], mr);
	struct list l = around(&m);
	struct made key = make(&l);
	uint8_t *elsewhere = n->arena + 0x600000;

	row("a region re-registered: in another domain");
	change(mr, IBV_REREG_MR_CHANGE_PD, n->other_pd, NULL, 0);
	expect_accesses(&key, PIECE, 100, 0);
	row("a region re-registered: back in its domain");
	change(mr, IBV_REREG_MR_CHANGE_PD, n->pd, NULL, 0);
	expect_accesses(&key, PIECE, 100, ALL);
	row("a region re-registered: read-only");
	change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0);
	expect_accesses(&key, PIECE, 100, READS);
	row("a region re-registered: elsewhere");
	change(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, elsewhere,
	       IBV_ACCESS_LOCAL_WRITE);
	expect_accesses(&key, PIECE, 100, 0);
	row("a region re-registered: back in its place");
	change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, plain_memory(), 0);
	expect_accesses(&key, PIECE, 100, ALL);
	unmake(&key);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* --- keys of keys --- */

static void depth_rows(void)
{
	enum { LEVELS = 5 };
	struct element e = {&leaf[LEAF_PLAIN], 0, 4000, 0};
	struct list l = list_of(&e, 1);
	struct made level[LEVELS];

	for (int i = 0; i < LEVELS; i++) {
		level[i] = make(&l);
		e = (struct element){&level[i], 8, level[i].bytes - 8, 0};
		l = list_of(&e, 1);
		row("keys of keys, %d deep", i + 1);
		expect_accesses(&level[i], 3, 100, i < 4 ? ALL : 0);
	}
	row("a key on the way is filled with less depth");
	e = (struct element){&leaf[LEAF_PLAIN], 24, 4000 - 24, 0};
	l = list_of(&e, 1);
	need_fill(level[3].mr, &l);
	expect_accesses(&level[4], 3, 100, ALL);
	for (int i = 0; i < LEVELS; i++)
		unmake(&level[i]);
}

/* Circles are made by filling a key with what leads to it. */
static void circle_rows(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1000, 0}, 1);
	struct made x = make(&l), y, z;

	row("a key of itself");
	l = list_of(&(struct element){&x, 0, 1000, 0}, 1);
	need_fill(x.mr, &l);
	expect_accesses(&x, 3, 100, 0);
	row("two keys of each other");
	y = make(&l);
	l = list_of(&(struct element){&y, 0, 1000, 0}, 1);
	need_fill(x.mr, &l);
	expect_accesses(&x, 3, 100, 0);
	expect_accesses(&y, 3, 100, 0);
	row("many elements that all lead back");
	l.count = 20;
	for (uint32_t i = 0; i < l.count; i++)
		l.e[i] = (struct element){&x, 0, 1000, 0};
	z = make(&l);
	for (uint32_t i = 0; i < l.count; i++)
		l.e[i].of = i % 2 ? &z : &y;
	need_fill(z.mr, &l);
	expect_accesses(&z, 3, 100, 0);
	expect_accesses(&z, 1003, 100, 0);
	unmake(&x);
	unmake(&y);
	unmake(&z);
}

/* --- sizes --- */

/* A list as long as it may be: the bytes of a region from the last to the first. */
static void longest_row(void)
{
	struct ibv_exp_mem_region *regions = calloc(LEAF_BYTES, sizeof(*regions));
	struct ibv_mr *mr = create_key(LEAF_BYTES, INDIRECT);
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1, 0}, 1);
	uint8_t *reversed = malloc(LEAF_BYTES);
	struct ibv_exp_send_wr wr;

	row("a list of %u single bytes", LEAF_BYTES);
	l.inlined = false;
	wr = fill_request(mr, &l);
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		regions[i] = (struct ibv_exp_mem_region){leaf[LEAF_PLAIN].base + LEAF_BYTES - 1 - i,
							 leaf[LEAF_PLAIN].mr, 1};
	wr.ext_op.umr.mem_list.mem_reg_list = regions;
	wr.ext_op.umr.num_mrs = LEAF_BYTES;
	expect_status(run_request(&wr), GOOD, "UMR_FILL");
	memory_fill(seed += 16);
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		reversed[i] = model.of[LEAF_PLAIN][LEAF_BYTES - 1 - i];
	expect_status(remote(IBV_WR_RDMA_READ, BASE, mr->rkey, LEAF_BYTES), GOOD, "READ");
	expect_there(AT, reversed, LEAF_BYTES);
	memory_fill(seed += 16);
	expect_status(remote(IBV_WR_RDMA_WRITE, BASE, mr->rkey, LEAF_BYTES), GOOD, "WRITE");
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		model.of[LEAF_PLAIN][LEAF_BYTES - 1 - i] = reversed[i];
	memory_expect();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	free(regions);
	free(reversed);
}

/* Keys of more bytes than there is memory. */
static void wide_rows(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_NULL], 5, 8, 0}, 1);
	struct ibv_mr *mr = create_key(1, INDIRECT);
	struct ibv_exp_send_wr wr;
	const uint64_t base = UINT64_MAX - (1ull << 62) + 1, rounds = 1ull << 59;
	static const uint8_t zeros[64];

	row("a key of 2^62 bytes up to the last address");
	l.type = IBV_EXP_UMR_REPEAT;
	l.base = base;
	wr = fill_request(mr, &l);
	wr.ext_op.umr.mem_list.rb.repeat_count[0] = rounds;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list[0].stride[0] = 24;
	expect_status(run_request(&wr), GOOD, "UMR_FILL");
	for (int i = 0; i < 3; i++) {
		static const uint64_t at[] = {0, 1ull << 61, (1ull << 62) - 64};

		side_fill(&b, AT, 64, ++seed, 0);
		expect_status(remote(IBV_WR_RDMA_READ, base + at[i], mr->rkey, 64), GOOD, "READ");
		expect_there(AT, zeros, 64);
	}
	expect_status(remote(IBV_WR_RDMA_READ, UINT64_MAX - 62, mr->rkey, 64), REMOTE, "READ beyond");
	expect_status(remote(IBV_WR_RDMA_READ, base - 1, mr->rkey, 64), REMOTE, "READ before");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* --- atomics --- */

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
		{"not aligned where it lies", LEAF_PLAIN, {12, 100}, {8, 8}, IBV_WC_REM_INV_REQ_ERR},
		{"of nothing", LEAF_NULL, {8, 100}, {8, 8}, GOOD},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (int swap = 0; swap < 2; swap++) {
			const struct element e[] = {
				{&leaf[rows[i].kind], rows[i].at[0], rows[i].bytes[0], 0},
				{&leaf[rows[i].kind], rows[i].at[1], rows[i].bytes[1], 0}};
			struct list l = list_of(e, 2);
			struct made key = make(&l);
			uint64_t old = 0, now;

			row("%s of a word %s", swap ? "CMP_AND_SWP" : "FETCH_AND_ADD", rows[i].name);
			memory_fill(seed += 16);
			model_read(&key, 0, 8, (uint8_t *)&old);
			side_poke(&b, AT, 77);
			expect_status(remote(swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
					     BASE, key.mr->rkey, 8),
				      rows[i].want, "atomic");
			now = swap ? (old == 1 ? 0 : old) : old + 1;
			if (rows[i].want == GOOD)
				model_write(&key, 0, 8, (const uint8_t *)&now);
			memory_expect();
			EXPECT(side_peek(&b, AT) == (rows[i].want == GOOD ? old : 77), "the old value");
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
		expect_status(local(IBV_WR_ATOMIC_FETCH_AND_ADD, BASE, key.mr->lkey, 8), GOOD, "atomic");
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
	expect_status(remote(IBV_WR_ATOMIC_WRITE, BASE, key.mr->rkey, 8), GOOD, "ATOMIC_WRITE");
	model_write(&key, 0, 8, (const uint8_t *)&word);
	memory_expect();
	row("ATOMIC_WRITE of a key's unaligned bytes");
	expect_status(local(IBV_WR_ATOMIC_WRITE, BASE + 10, key.mr->lkey, 8), GOOD, "ATOMIC_WRITE");
	model_read(&key, 10, 8, (uint8_t *)&word);
	EXPECT(side_peek(&b, AT) == word, "the word");
	row("ATOMIC_WRITE to a word that is not aligned where it lies");
	expect_status(remote(IBV_WR_ATOMIC_WRITE, BASE + 8, key.mr->rkey, 8), IBV_WC_REM_INV_REQ_ERR,
		      "ATOMIC_WRITE");
	memory_expect();
	unmake(&key);
}

/* --- other users of keys --- */

/* Both ends are keys of this process, in lists with plain elements between. */
static void both_ends_row(void)
{
	struct element e[] = {{&leaf[LEAF_PLAIN], 100, 1000, 0}, {&leaf[LEAF_DEVICE], 3, 2001, 0}};
	struct element f[] = {{&leaf[LEAF_ODP], 60, 7, 0}, {&leaf[LEAF_IOVA], 501, 3000, 0}};
	struct list from = list_of(e, 2), to = list_of(f, 2);
	struct made x = make(&from), y = make(&to);
	struct node_send send = {
		.opcode = IBV_WR_RDMA_WRITE,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = y.base + 1,
		.rkey = y.mr->rkey,
		.num_sge = 3,
		.sge = {{x.base + 5, 1500, x.mr->lkey},
			{(uintptr_t)n->arena + HERE, 11, n->mr[KEY_FULL]->lkey},
			{x.base + 2000, 800, x.mr->lkey}},
	};
	struct ibv_wc wc;

	row("from key to key, elements of a list");
	pair_create(&a, QP_SELF, &a, QP_SELF, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
	memory_fill(seed += 16);
	pattern_fill(n->arena + HERE, 11, seed, 0);
	model_read(&x, 5, 1500, bytes);
	memcpy(bytes + 1500, n->arena + HERE, 11);
	model_read(&x, 2000, 800, bytes + 1511);
	EXPECT(node_post_send(n, QP_SELF, &send, 1).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == GOOD, "no success");
	model_write(&y, 1, 2311, bytes);
	memory_expect();
	pair_destroy(&a, QP_SELF, &a, QP_SELF);
	unmake(&x);
	unmake(&y);
}

/* Messages of each size, which travel in different ways, to a shared receive queue. */
static void shared_queue_rows(void)
{
	static const uint32_t sizes[] = {1, 64, 65, 16384, 16385, 30000};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(n->pd, &srq_attr);
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_send_sge = 1},
	};
	struct node_qp_spec spec = spec_default();
	struct element e[] = {{&leaf[LEAF_PLAIN], 1, 20000, 0},
			      {&leaf[LEAF_DEVICE], 3, 1, 0},
			      {&leaf[LEAF_ODP], 60, 10000, 0}};
	struct list l = list_of(e, 3);
	struct made key = make(&l);

	n->qp[QP_SHARE] = srq ? ibv_create_qp(n->pd, &init) : NULL;
	if (!n->qp[QP_SHARE] || side_create_qp(&b, QP_SHARE, &spec, NULL))
		DIE("queue pairs");
	pair_connect(&a, QP_SHARE, NULL, &b, QP_SHARE, NULL);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct ibv_sge sge = {key.base, sizes[i], key.mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		struct node_send send = {.opcode = IBV_WR_SEND,
					 .flags = IBV_SEND_SIGNALED,
					 .num_sge = 1,
					 .sge = {side_sge(&b, KEY_FULL, AT, sizes[i])}};
		struct ibv_wc wc;

		row("a message of %u bytes to a shared receive queue", sizes[i]);
		memory_fill(seed += 16);
		side_fill(&b, AT, sizes[i], seed + 9, 0);
		pattern_fill(bytes, sizes[i], seed + 9, 0);
		EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0, "ibv_post_srq_recv");
		EXPECT(side_post_send(&b, QP_SHARE, &send, 1).ret == 0, "ibv_post_send");
		EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == GOOD, "sending");
		expect_status(received(&a, sizes[i]), GOOD, "receiving");
		model_write(&key, 0, sizes[i], bytes);
		memory_expect();
	}
	pair_destroy(&a, QP_SHARE, &b, QP_SHARE);
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	unmake(&key);
}

/* Each piece of on-demand memory is an access of its own: as many page faults as pieces on fresh pages. */
static void page_fault_row(void)
{
	enum { PAGES = 8, PAGE = 4096 };
	uint8_t *at =
		mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = need(
		ibv_reg_mr(n->pd, at, (size_t)PAGES * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	struct made m = {
		.mr = mr, .base = (uintptr_t)at, .bytes = PAGES * PAGE, .spots = leaf[LEAF_ODP].spots};
	const struct element e[] = {
		{&m, 5, 100, 0}, {&m, 2 * PAGE, 20, 0}, {&m, 4 * PAGE - 1, 2, 0}, {&m, 7 * PAGE, 300, 0}};
	struct list l = list_of(e, 4);
	struct made key = make(&l);
	uint64_t faults = odp_counter(ODP_FAULTS), pages = odp_counter(ODP_FAULT_PAGES);

	row("page faults of pieces");
	expect_status(remote(IBV_WR_RDMA_READ, BASE, key.mr->rkey, key.bytes), GOOD, "READ");
	EXPECT(odp_counter(ODP_FAULTS) == faults + 4, "%llu page faults",
	       (unsigned long long)(odp_counter(ODP_FAULTS) - faults));
	if (has_userfaultfd())
		EXPECT(odp_counter(ODP_FAULT_PAGES) == pages + 5, "%llu pages",
		       (unsigned long long)(odp_counter(ODP_FAULT_PAGES) - pages));
	unmake(&key);
	EXPECT(ibv_dereg_mr(mr) == 0 && munmap(at, (size_t)PAGES * PAGE) == 0, "closing");
}

/* Windows cannot be bound to an indirect key. */
static void window_rows(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1000, 0}, 1);
	struct made key = make(&l);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {.bind_info = {key.mr, BASE, 64, IBV_ACCESS_REMOTE_READ}};
	struct ibv_exp_send_wr wr;

	row("windows on a key");
	errno = 0;
	EXPECT(ibv_bind_mw(n->qp[0], mw, &bind) == ENOTSUP && errno == ENOTSUP, "type 1 is bound");
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_BIND_MW;
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info = (struct ibv_exp_mw_bind_info){key.mr, BASE, 64, IBV_EXP_ACCESS_REMOTE_READ};
	EXPECT(run_request(&wr) == IBV_WC_MW_BIND_ERR, "type 2 is bound");
	row("LOCAL_INV of a key");
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_LOCAL_INV;
	wr.ex.invalidate_rkey = key.mr->rkey;
	EXPECT(run_request(&wr) == IBV_WC_LOC_QP_OP_ERR, "accepted");
	expect_accesses(&key, 1, 100, ALL);
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dealloc_mw(two) == 0, "ibv_dealloc_mw");
	unmake(&key);
}

static enum ibv_wc_status flush(struct ibv_qp_ex *ex, uint32_t rkey, uint8_t level)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	flush_of(ex)(ex, rkey, BASE, 1000, GLOBAL, level);
	EXPECT(ibv_wr_complete(ex) == 0 && node_poll(n, 0, 1, PATIENCE, &wc) == 1, "no completion");
	return wc.status;
}

/* The length of what is flushed is nothing that takes time. */
static void flush_rows(void)
{
	static const struct {
		const char *name;
		uint64_t access, rounds;
		uint8_t level;
		enum ibv_wc_status want;
	} rows[] = {
		{"a range", RIGHTS | ACCESS_FLUSH_GLOBAL, 500, RANGE, GOOD},
		{"a range beyond the end", RIGHTS | ACCESS_FLUSH_GLOBAL, 499, RANGE, REMOTE},
		{"all of it", RIGHTS | ACCESS_FLUSH_GLOBAL, 500, WHOLE, GOOD},
		{"2^60 bytes", RIGHTS | ACCESS_FLUSH_GLOBAL, 1ull << 59, WHOLE, GOOD},
		{"a range, without the right", RIGHTS, 500, RANGE, REMOTE},
	};
	struct ibv_qp_init_attr_ex init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = spec_default().cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = n->pd,
		.send_ops_flags = QP_EX_WITH_FLUSH,
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct list l = list_of(&(struct element){&leaf[LEAF_NULL], 5, 2, 0}, 1);
		struct ibv_mr *mr = create_key(1, INDIRECT);
		struct node_link link = link_default();
		struct ibv_exp_send_wr wr;

		row("FLUSH: %s", rows[i].name);
		l.type = IBV_EXP_UMR_REPEAT;
		l.access = rows[i].access;
		wr = fill_request(mr, &l);
		wr.ext_op.umr.mem_list.rb.repeat_count[0] = rows[i].rounds;
		expect_status(run_request(&wr), GOOD, "UMR_FILL");
		n->qp[QP_EX] = ibv_create_qp_ex(n->ctx, &init);
		if (!n->qp[QP_EX])
			DIE("ibv_create_qp_ex: errno %d", errno);
		link.access |= ACCESS_FLUSH_GLOBAL;
		pair_connect(&a, QP_EX, &link, &a, QP_EX, &link);
		expect_status(flush(ibv_qp_to_qp_ex(n->qp[QP_EX]), mr->rkey, rows[i].level), rows[i].want,
			      "FLUSH");
		while (node_async(n, 0).any)
			;
		EXPECT(node_destroy_qp(n, QP_EX) == 0 && ibv_dereg_mr(mr) == 0, "closing");
	}
}

/* Datagrams, which bring a header with them, from key to key. */
static void datagram_row(void)
{
	struct element e[] = {{&leaf[LEAF_PLAIN], 100, 300, 0}, {&leaf[LEAF_DEVICE], 3, 300, 0}};
	struct element f[] = {{&leaf[LEAF_ODP], 60, 41, 0}, {&leaf[LEAF_IOVA], 501, 600, 0}};
	struct list from = list_of(e, 2), to = list_of(f, 2);
	struct made x = make(&from), y = make(&to);
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0], .recv_cq = n->cq[1], .qp_type = IBV_QPT_UD, .cap = spec_default().cap};
	struct ibv_ah_attr to_self = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = a.info.gid, .hop_limit = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 5};
	struct ibv_sge out = {x.base + 1, 500, x.mr->lkey}, in = {y.base, 540, y.mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {
		.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	row("a datagram from key to key");
	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		DIE("a queue pair: errno %d", errno);
	attr.qp_state = IBV_QPS_RTR;
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
	memory_fill(seed += 16);
	send.wr.ud.ah = ibv_create_ah(n->pd, &to_self);
	send.wr.ud.remote_qpn = qp->qp_num;
	send.wr.ud.remote_qkey = 5;
	EXPECT(ibv_post_recv(qp, &recv, &bad_recv) == 0 && ibv_post_send(qp, &send, &bad) == 0, "posting");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == GOOD, "sending");
	EXPECT(node_poll(n, 1, 1, PATIENCE, &wc) == 1 && wc.status == GOOD && wc.byte_len == 540,
	       "receiving");
	model_read(&x, 1, 500, bytes);
	model_write(&y, 40, 500, bytes);
	memcpy(model.of[LEAF_ODP] + 60, (void *)(uintptr_t)(leaf[LEAF_ODP].base + 60), 40); /* the header */
	memory_expect();
	EXPECT(ibv_destroy_ah(send.wr.ud.ah) == 0 && ibv_destroy_qp(qp) == 0, "closing");
	unmake(&x);
	unmake(&y);
}

/* --- order of requests --- */

/* In one list: a key is filled and used, filled otherwise and used, and invalidated. */
static void order_row(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 600, 0}, 1);
	struct made x = make(&l), y;
	struct ibv_sge sge[2] = {{x.base, 600, x.mr->lkey}, {x.base, 600, x.mr->lkey}};
	struct ibv_exp_send_wr wr[6], *bad;
	struct ibv_exp_mem_region one = {leaf[LEAF_PLAIN].base, leaf[LEAF_PLAIN].mr, 600},
				  two = {leaf[LEAF_DEVICE].base + 9, leaf[LEAF_DEVICE].mr, 600};
	struct ibv_wc wc[6];

	row("a key is used between two fills of one list");
	l = list_of(&(struct element){&leaf[LEAF_DEVICE], 9, 600, 0}, 1);
	y = make(&l);
	memory_fill(seed += 16);
	for (int i = 0; i < 6; i++) {
		wr[i] = i == 4 ? invalidate_request(x.mr) : fill_request(x.mr, &l);
		wr[i].ext_op.umr.mem_list.mem_reg_list = i ? &two : &one;
		wr[i].next = i < 5 ? &wr[i + 1] : NULL;
	}
	for (int i = 1; i < 6; i += 2) {
		memset(&wr[i].ext_op, 0, sizeof(wr[i].ext_op));
		wr[i].exp_opcode = IBV_EXP_WR_RDMA_WRITE;
		wr[i].exp_send_flags = i == 3 ? IBV_EXP_SEND_SIGNALED : 0;
		wr[i].sg_list = &sge[i > 1];
		wr[i].num_sge = 1;
		wr[i].wr.rdma.remote_addr = b.info.base[KEY_FULL] + AT + (i > 1 ? 600 : 0);
		wr[i].wr.rdma.rkey = b.info.key[KEY_FULL];
		wr[i].wr_id = (uint64_t)i;
	}
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0, "refused");
	EXPECT(node_poll(n, 0, 2, PATIENCE, wc) == 2, "number of completions");
	EXPECT(wc[0].wr_id == 3 && wc[0].status == GOOD, "the WRITE behind the second fill");
	EXPECT(wc[1].wr_id == 5 && wc[1].status == LOCAL, "the WRITE behind the invalidation");
	probe_reconnect(&b, &a, 0);
	model_read(&x, 0, 600, bytes);
	model_read(&y, 0, 600, bytes + 600);
	expect_there(AT, bytes, 1200);
	unmake(&x);
	unmake(&y);
}

/*
 * Requests wait behind a message that finds no receive request; the peer that posts one executes them all,
 * the fill among them.
 */
static void executed_by_peer_row(bool inlined)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 64, 0}, 1);
	struct made key = make(&l);
	struct node_send send = {
		.opcode = IBV_WR_SEND, .num_sge = 1, .sge = {side_sge(&a, KEY_FULL, HERE, 8)}};
	struct node_send use = {.opcode = IBV_WR_RDMA_WRITE,
				.wr_id = 9,
				.flags = IBV_SEND_SIGNALED,
				.num_sge = 1,
				.sge = {{key.base, 600, key.mr->lkey}},
				.remote_addr = b.info.base[KEY_FULL] + AT,
				.rkey = b.info.key[KEY_FULL]};
	struct ibv_exp_send_wr fill, *bad;
	struct made now;
	struct ibv_wc wc;

	row("a fill that waited, %s", inlined ? "inline" : "not inline");
	memory_fill(seed += 16);
	l = list_of(&(struct element){&leaf[LEAF_IOVA], 9, 600, 0}, 1);
	l.inlined = inlined;
	now = make(&l);
	fill = fill_request(key.mr, &l);
	EXPECT(node_post_send(n, 0, &send, 1).ret == 0, "ibv_post_send");
	EXPECT(ibv_exp_post_send(n->qp[0], &fill, &bad) == 0, "ibv_exp_post_send");
	EXPECT(node_post_send(n, 0, &use, 1).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 1, 0, &wc) == 0, "it did not wait");
	side_recv_one(&b, 0, 1, PROBE_AT, 8);
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.wr_id == 9, "no completion");
	expect_status(wc.status, GOOD, "the WRITE");
	expect_status(received(&b, 8), GOOD, "the message");
	model_read(&now, 0, 600, bytes);
	expect_there(AT, bytes, 600);
	unmake(&now);
	unmake(&key);
}

/* A key of another domain than the queue pair's cannot be filled. */
static void domain_row(void)
{
	struct ibv_exp_create_mr_in in = {
		.pd = n->other_pd,
		.attr = {.max_klm_list_size = 4, .create_flags = INDIRECT, .exp_access_flags = RIGHTS},
	};
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1000, 0}, 1);
	struct ibv_mr *mr = need(ibv_exp_create_mr(&in));
	struct ibv_exp_send_wr wr = fill_request(mr, &l);

	row("a key of another domain");
	expect_status(run_request(&wr), IBV_WC_MW_BIND_ERR, "UMR_FILL");
	wr = invalidate_request(mr);
	expect_status(run_request(&wr), IBV_WC_MW_BIND_ERR, "UMR_INVALIDATE");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void run(void)
{
	rights_rows();
	element_rows();
	short_row();
	nested_rows();
	window_element_row();
	unmapped_row();
	life_rows();
	rereg_rows();
	depth_rows();
	circle_rows();
	longest_row();
	wide_rows();
	atomic_rows();
	atomic_write_rows();
	both_ends_row();
	shared_queue_rows();
	page_fault_row();
	window_rows();
	flush_rows();
	datagram_row();
	order_row();
	executed_by_peer_row(true);
	executed_by_peer_row(false);
	domain_row();
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
