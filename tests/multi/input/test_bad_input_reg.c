/* SPDX-License-Identifier: MIT */
/* Which rights, ranges and addresses can be registered, which are refused, and the keys of what is.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "bad_input_fixture.h"

enum {
	LW = IBV_ACCESS_LOCAL_WRITE,
	RW = IBV_ACCESS_REMOTE_WRITE,
	RR = IBV_ACCESS_REMOTE_READ,
	RA = IBV_ACCESS_REMOTE_ATOMIC
};

static void mr_row(const char *name, void *addr, size_t length, int access, int want)
{
	struct ibv_mr *mr;

	row("reg_mr: %s", name);
	errno = 0;
	mr = ibv_reg_mr(n->pd, addr, length, access);
	if (want) {
		EXPECT_MADE(mr, want);
		return;
	}
	if (!EXPECT(mr, "errno %d", errno))
		return;
	EXPECT(mr->addr == addr && mr->length == length && mr->pd == n->pd && mr->context == n->ctx,
	       "a field");
	EXPECT(mr->lkey != 0 && mr->lkey != UINT32_MAX && mr->rkey != 0, "keys 0x%x 0x%x", mr->lkey,
	       mr->rkey);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void access_rows(void)
{
	static const struct {
		const char *name;
		int access, want;
	} rows[] = {
		{"REMOTE_WRITE without LOCAL_WRITE", RW, EINVAL},
		{"REMOTE_ATOMIC without LOCAL_WRITE", RA, EINVAL},
		{"both without LOCAL_WRITE", RW | RA | RR, EINVAL},
		{"ON_DEMAND", LW | IBV_ACCESS_ON_DEMAND, 0},
		{"no flags", 0, 0},
		{"REMOTE_READ alone", RR, 0},
		{"MW_BIND alone", IBV_ACCESS_MW_BIND, 0},
		{"all rights", LW | RW | RR | RA | IBV_ACCESS_MW_BIND, 0},
		{"ZERO_BASED", LW | IBV_ACCESS_ZERO_BASED, 0},
		{"HUGETLB without ON_DEMAND is ignored", LW | IBV_ACCESS_HUGETLB, 0},
		{"RELAXED_ORDERING", LW | IBV_ACCESS_RELAXED_ORDERING, 0},
		{"FLUSH_GLOBAL of newer headers", 1 << 8, 0},
		{"FLUSH_PERSISTENT of newer headers", 1 << 9, EOPNOTSUPP},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		mr_row(rows[i].name, n->arena, PAGE, rows[i].access, rows[i].want);
	for (int bit = 10; bit < 32; bit++) {
		char name[64];
		bool optional = bit >= 20 && bit <= 29;

		snprintf(name, sizeof(name), "bit %d, %s", bit, optional ? "optional" : "unknown");
		mr_row(name, n->arena, PAGE, (int)(LW | 1u << bit), optional ? 0 : EINVAL);
	}
}

/* Far from where the kernel places what other threads map meanwhile: a hole stays a hole. */
#define LONELY ((void *)0x200000000000)

static void range_rows(void)
{
	uint8_t *p =
		mmap(LONELY, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *shared =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t max = here.info.device.max_mr_size;

	munmap(p + 2 * PAGE, PAGE);
	mprotect(p + 4 * PAGE, PAGE, PROT_READ);
	mprotect(p + 6 * PAGE, PAGE, PROT_NONE);
	mr_row("unmapped memory", p + 2 * PAGE, PAGE, LW, EFAULT);
	mr_row("unmapped memory, for reading", p + 2 * PAGE, PAGE, 0, EFAULT);
	mr_row("one byte of unmapped memory at the end", p + PAGE, PAGE + 1, 0, EFAULT);
	mr_row("a hole in the middle", p + PAGE + 1, 2 * PAGE, 0, EFAULT);
	mr_row("address NULL", NULL, PAGE, LW, EFAULT);
	mr_row("bad flags and bad memory: the flags win", p + 2 * PAGE, PAGE, RW, EINVAL);
	mr_row("read-only memory, LOCAL_WRITE", p + 4 * PAGE, PAGE, LW, EFAULT);
	mr_row("read-only memory, MW_BIND", p + 4 * PAGE, PAGE, IBV_ACCESS_MW_BIND, EFAULT);
	mr_row("read-only memory in the middle, LOCAL_WRITE", p + 3 * PAGE, 3 * PAGE, LW, EFAULT);
	mr_row("read-only memory, no flags", p + 4 * PAGE, PAGE, 0, 0);
	mr_row("read-only memory, REMOTE_READ", p + 4 * PAGE, PAGE, RR, 0);
	mr_row("memory without rights", p + 6 * PAGE, PAGE, 0, EFAULT);
	mr_row("shared memory", shared, 2 * PAGE, LW | RW, 0);
	mr_row("text of the program", (void *)(uintptr_t)mr_row, 1, RR, 0);
	mr_row("an address range that wraps", (void *)-PAGE, 2 * PAGE, 0, EINVAL);
	mr_row("a length that wraps", p, SIZE_MAX, 0, EINVAL);
	mr_row("a page round-up that wraps", (void *)-PAGE, PAGE - 1, 0, EINVAL);
	if (max < SIZE_MAX)
		mr_row("longer than max_mr_size", p, max + 1, 0, EINVAL);
	mr_row("length 0", p, 0, LW, 0);
	mr_row("length 0, address not aligned", p + 1, 0, LW, 0);
	mr_row("length 0, unmapped memory", p + 2 * PAGE, 0, LW, 0);
	mr_row("one byte", p + 5, 1, LW | RR, 0);
	mr_row("twice the same range", n->arena, NODE_ARENA, LW, 0);
	munmap(p, 8 * PAGE);
	munmap(shared, 2 * PAGE);
}

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

static bool is_there(void *page)
{
	unsigned char present = 0;

	return mincore(page, PAGE, &present) == 0 && (present & 1);
}

/* A mapping that the library has looked at, and that has changed since without its being told. */
static void known_mapping_rows(void)
{
	uint8_t *p =
		mmap(LONELY, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mr_row("the first page of a mapping", p, PAGE, LW, 0);
	EXPECT(!is_there(p + PAGE), "another page has been brought in, too");
	mr_row("a page of a known mapping", p + PAGE, PAGE, LW, 0);
	EXPECT(is_there(p + PAGE), "it has not been brought in");
	mr_row("bytes of two pages of a known mapping", p + 3 * PAGE - 1, 2, LW, 0);
	EXPECT(is_there(p + 2 * PAGE) && is_there(p + 3 * PAGE), "they have not been brought in");
	EXPECT(!is_there(p + 4 * PAGE), "another page has been brought in, too");
	mprotect(p + PAGE, PAGE, PROT_NONE);
	mr_row("known, rights taken away", p + PAGE, PAGE, LW, EFAULT);
	mr_row("known, rights taken away, for reading", p + PAGE, PAGE, 0, EFAULT);
	mr_row("known, rights taken away from the second page", p + PAGE - 1, 2, 0, EFAULT);
	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	mr_row("known, now read-only, LOCAL_WRITE", p + 2 * PAGE, PAGE, LW, EFAULT);
	mr_row("known, now read-only, REMOTE_READ", p + 2 * PAGE, PAGE, RR, 0);
	if (madvise(p + 5 * PAGE, PAGE, MADV_GUARD_INSTALL) == 0)
		mr_row("known, now a guard page", p + 5 * PAGE, PAGE, LW, EFAULT);
	munmap(p + 6 * PAGE, PAGE);
	mr_row("known, unmapped", p + 6 * PAGE, PAGE, LW, EFAULT);
	munmap(p, 8 * PAGE);
}

static void iova_rows(void)
{
	const struct {
		const char *name;
		uint64_t iova;
		int access, want;
	} rows[] = {
		{"another offset in the page", (uintptr_t)n->arena + 8, LW, EINVAL},
		{"wraps", -PAGE, LW, EINVAL},
		{"0", 0, LW, 0},
		{"anywhere", 0x123456789000, LW | RW, 0},
		{"bad flags", 0, RW, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr;

		row("reg_mr_iova: %s", rows[i].name);
		errno = 0;
		mr = ibv_reg_mr_iova(n->pd, n->arena, 2 * PAGE, rows[i].iova, rows[i].access);
		if (rows[i].want) {
			EXPECT_MADE(mr, rows[i].want);
		} else if (EXPECT(mr, "errno %d", errno)) {
			EXPECT(mr->addr == n->arena, "addr is the virtual address");
			EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
		}
	}
}

static void key_rows(void)
{
	struct ibv_mr *mr[200];
	uint32_t before;

	row("reg_mr: keys of living regions are all different");
	for (size_t i = 0; i < COUNT_OF(mr); i++) {
		mr[i] = ibv_reg_mr(n->pd, n->arena, PAGE, LW);
		for (size_t k = 0; mr[i] && k < i; k++)
			EXPECT(mr[k]->lkey != mr[i]->lkey, "key 0x%x twice", mr[i]->lkey);
	}
	before = mr[COUNT_OF(mr) - 1]->lkey;
	for (size_t i = 0; i < COUNT_OF(mr); i++)
		EXPECT(ibv_dereg_mr(mr[i]) == 0, "ibv_dereg_mr");
	row("reg_mr: a key is not given out again soon");
	for (size_t i = 0; i < COUNT_OF(mr); i++) {
		struct ibv_mr *again = ibv_reg_mr(n->pd, n->arena, PAGE, LW);

		EXPECT(again->lkey != before, "after %zu registrations", i);
		ibv_dereg_mr(again);
	}
}

static void run(void)
{
	access_rows();
	range_rows();
	known_mapping_rows();
	iova_rows();
	key_rows();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, run);
}
