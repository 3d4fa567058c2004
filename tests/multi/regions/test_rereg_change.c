/* SPDX-License-Identifier: MIT */
/*
 * What ibv_rereg_mr() changes and what it leaves, with every combination of flags and for regions
 * whose addresses are not the program's own.
 */
#include <errno.h>

#include "rereg_fixture.h"

static void good_row(int flags, unsigned int access, const char *what)
{
	struct state s = state_old();
	/* Arguments that the flags do not name are not looked at. */
	struct args args = {flags, flags & PD ? PD_OTHER : PD_FOREIGN,
			    flags & TRANSLATION ? AT_NEW : AT_GONE,
			    flags & TRANSLATION ? NEW_LEN : 0, flags & ACCESS ? access : 0};
	struct ibv_mr *mr, before;

	row("%s: %s", flags_name(flags), what);
	mr = region(&s);
	before = *mr;
	EXPECT(call(mr, &args) == 0, "refused: errno %d", errno);
	if (flags & TRANSLATION) {
		s.addr = n->arena + NEW_AT;
		s.length = NEW_LEN;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)n->arena + OLD_AT, mr->rkey, 8,
			     IBV_WC_REM_ACCESS_ERR);
	}
	if (flags & PD)
		s.pd = n->other_pd;
	if (flags & ACCESS)
		s.access = access;
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

static void good_rows(void)
{
	static const struct {
		unsigned int access;
		const char *name;
	} access[] = {
		{PROBE_ALL, "all rights"},
		{0, "no rights"},
		{IBV_ACCESS_REMOTE_READ, "remote reads only"},
		{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, "atomics only"},
		{PROBE_ALL | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB, "optional bits"},
	};

	for (int flags = 1; flags < 8; flags++)
		for (size_t i = 0; i < COUNT_OF(access) && (i == 0 || flags & ACCESS); i++)
			good_row(flags, access[i].access,
				 flags & ACCESS ? access[i].name : "as named");
}

/* There and back: rights that were taken are given again. */
static void round_trip_row(void)
{
	struct state s = state_old();
	struct ibv_mr *mr = region(&s), before = *mr;
	struct args away = {TRANSLATION | PD | ACCESS, PD_OTHER, AT_NEW, NEW_LEN,
			    IBV_ACCESS_REMOTE_READ};
	struct args back = {TRANSLATION | PD | ACCESS, PD_SAME, AT_OLD, OLD_LEN, PROBE_ALL};

	row("everything away and back, 20 times");
	for (int i = 0; i < 20; i++)
		EXPECT(call(mr, &away) == 0 && call(mr, &back) == 0, "errno %d", errno);
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

static void same_pd_row(void)
{
	struct state s = state_old();
	struct ibv_mr *mr = region(&s), before = *mr;
	struct args args = {PD, PD_SAME, AT_NULL, 0, 0};

	row("PD: the one it has, which changes nothing");
	EXPECT(call(mr, &args) == 0, "errno %d", errno);
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

/* --- addresses of its own -------------------------------------------------------- */

static void based_row(const char *name, const struct state *from, unsigned int access)
{
	struct state s = *from;
	struct args args = {ACCESS, PD_NULL, AT_NULL, 0, access};
	struct ibv_mr *mr, before;

	row("ACCESS: %s", name);
	mr = region(&s);
	before = *mr;
	EXPECT(call(mr, &args) == 0, "refused: errno %d", errno);
	s.access = access;
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

static void zero_based_rows(void)
{
	unsigned int zero = PROBE_ALL | IBV_ACCESS_ZERO_BASED;
	struct state plain = state_old(), based = state_old(), bare = state_old();

	based.access = zero;
	bare.access = IBV_ACCESS_ZERO_BASED;
	based_row("becomes zero-based", &plain, zero);
	based_row("is no longer zero-based", &based, PROBE_ALL);
	based_row("zero-based, fewer rights", &based,
		  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);
	based_row("zero-based, more rights", &bare, zero);
	plain.addr = based.addr = bare.addr = n->arena + NEW_AT;
	plain.length = based.length = bare.length = NEW_LEN;
	based_row("becomes zero-based, in the middle of a page", &plain, zero);
	based_row("is no longer zero-based, in the middle of a page", &based, PROBE_ALL);
	based_row("zero-based, more rights, in the middle of a page", &bare, zero);
}

static void iova_rows(void)
{
	const uint64_t iova = 0x600000000ull;
	struct args args = {ACCESS, PD_NULL, AT_NULL, 0, PROBE_ALL | IBV_ACCESS_MW_BIND};
	struct args move = {TRANSLATION, PD_NULL, AT_NEW, NEW_LEN, 0};
	struct state s = {n->pd, n->arena + NEW_AT, NEW_LEN, PROBE_ALL};
	struct ibv_mr *mr = ibv_reg_mr_iova(n->pd, n->arena + OLD_AT, OLD_LEN, iova, PROBE_ALL);

	row("ACCESS: a region with addresses of the program's choice keeps them");
	EXPECT(call(mr, &args) == 0, "errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, iova, mr->rkey, OLD_LEN, IBV_WC_SUCCESS);
	EXPECT(pattern_check(n->arena + OLD_AT, OLD_LEN, PROBE_SEED, 0) == -1, "bytes");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, iova + 8, mr->rkey, OLD_LEN,
		     IBV_WC_REM_ACCESS_ERR);
	row("TRANSLATION: a region with addresses of the program's choice loses them");
	EXPECT(call(mr, &move) == 0, "errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, iova, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

static void run(void)
{
	good_rows();
	round_trip_row();
	same_pd_row();
	zero_based_rows();
	iova_rows();
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
