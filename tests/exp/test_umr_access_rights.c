/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, what an access through a key needs: rights of the key, and of the
 * regions, keys and windows behind it; their domains, and their being there.
 */
#include <stdio.h>
#include <errno.h>
#include <sys/mman.h>

#include "lib/apart.h"
#include "lib/userfaultfd.h"
#include "umr_access_fixture.h"

/* --- rights of the key ----------------------------------------------------------- */

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
		{"REMOTE_ATOMIC", WRITE | IBV_EXP_ACCESS_REMOTE_ATOMIC,
		 L_READ | L_WRITE | R_ATOMIC},
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

/* --- what is behind an element --------------------------------------------------- */

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

/* The word of the atomic lies at the first multiple of 8 behind the first piece, which is within
 * the middle.
 */
static void element_rows(void)
{
	const struct made *base = &leaf[LEAF_PLAIN];
	struct ibv_mr *mr =
		need(ibv_reg_mr(n->other_pd, plain_memory(), LEAF_BYTES, IBV_ACCESS_LOCAL_WRITE));
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
	struct ibv_mr *mr =
		need(ibv_reg_mr(n->pd, plain_memory(), 64 + PIECE + 55, IBV_ACCESS_LOCAL_WRITE));
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
		.bind_info = {mr, leaf[LEAF_PLAIN].base, LEAF_BYTES,
			      PROBE_ALL & ~IBV_ACCESS_LOCAL_WRITE},
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

static void run(void)
{
	rights_rows();
	element_rows();
	short_row();
	nested_rows();
	window_element_row();
	if (has_userfaultfd())
		unmapped_row();
	else
		puts("left out: no userfaultfd: memory that is unmapped goes unnoticed");
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
