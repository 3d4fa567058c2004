/* SPDX-License-Identifier: MIT */
/* What ibv_rereg_mr() refuses, with which error, and that the region is then as it was. */
#include <errno.h>

#include "rereg_fixture.h"

struct bad_row {
	const char *name;
	int flags; /* at least */
	struct args args;
	int want, error, error2;
};

static const struct bad_row bad[] = {
	{"address NULL", TRANSLATION, {.at = AT_NULL, .length = NEW_LEN}, ERR_INPUT, EINVAL, 0},
	{"length 0", TRANSLATION, {.at = AT_NEW, .length = 0}, ERR_INPUT, EINVAL, 0},
	{"memory that is not mapped",
	 TRANSLATION,
	 {.at = AT_GONE, .length = 8},
	 ERR_CMD,
	 EFAULT,
	 0},
	{"a hole behind the first page",
	 TRANSLATION,
	 {.at = AT_HOLE_BEHIND, .length = 8192},
	 ERR_CMD,
	 EFAULT,
	 0},
	{"memory that cannot be written",
	 TRANSLATION,
	 {.at = AT_READ_ONLY, .length = 8},
	 ERR_CMD,
	 EFAULT,
	 0},
	{"memory without rights",
	 TRANSLATION,
	 {.at = AT_NO_RIGHTS, .length = 8},
	 ERR_CMD,
	 EFAULT,
	 0},
	{"range around the end of the address space",
	 TRANSLATION,
	 {.at = AT_TOP, .length = 200},
	 ERR_CMD,
	 EINVAL,
	 0},
	{"length SIZE_MAX", TRANSLATION, {.at = AT_NEW, .length = SIZE_MAX}, ERR_CMD, EINVAL, 0},
	{"length 2^62",
	 TRANSLATION,
	 {.at = AT_HOLE_BEHIND, .length = 1ul << 62},
	 ERR_CMD,
	 EFAULT,
	 EINVAL},
	{"domain NULL", PD, {.pd = PD_NULL}, ERR_CMD, ENOENT, 0},
	{"domain of another context", PD, {.pd = PD_FOREIGN}, ERR_CMD, ENOENT, 0},
	{"REMOTE_WRITE without LOCAL_WRITE",
	 ACCESS,
	 {.access = IBV_ACCESS_REMOTE_WRITE},
	 ERR_CMD,
	 EINVAL,
	 0},
	{"REMOTE_ATOMIC without LOCAL_WRITE",
	 ACCESS,
	 {.access = IBV_ACCESS_REMOTE_ATOMIC},
	 ERR_CMD,
	 EINVAL,
	 0},
	{"an unknown access bit", ACCESS, {.access = 0x1000}, ERR_CMD, EINVAL, 0},
	{"ON_DEMAND for a region that is not",
	 ACCESS,
	 {.access = IBV_ACCESS_ON_DEMAND},
	 ERR_CMD,
	 EOPNOTSUPP,
	 EINVAL},
};

/* The bad one, and good ones for the other flags. */
static struct args complete(const struct bad_row *r, int flags)
{
	struct args args = r->args;

	args.flags = flags;
	if (r->flags != PD)
		args.pd = flags & PD ? PD_OTHER : PD_NULL;
	if (r->flags != TRANSLATION) {
		args.at = flags & TRANSLATION ? AT_NEW : AT_NULL;
		args.length = flags & TRANSLATION ? NEW_LEN : 0;
	}
	if (r->flags != ACCESS)
		args.access = flags & ACCESS ? PROBE_ALL : 0;
	return args;
}

static void bad_row(const struct bad_row *r, int flags)
{
	struct args args = complete(r, flags);
	struct state s = state_old();
	struct ibv_mr *mr, before;

	row("%s: %s", flags_name(flags), r->name);
	mr = region(&s);
	before = *mr;
	expect_refused(mr, &args, r->want, r->error, r->error2);
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

static void bad_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		for (int flags = 1; flags < 8; flags++)
			if (flags & bad[i].flags)
				bad_row(&bad[i], flags);
}

/* Mistakes that do not belong to one flag; and input errors are found before the device's. */
static void misuse_rows(void)
{
	static const struct {
		const char *name;
		struct args args;
		int want, error;
	} rows[] = {
		{"no flags", {.flags = 0}, ERR_CMD, EINVAL},
		{"no flags, but access", {.flags = 0, .access = PROBE_ALL}, ERR_INPUT, EINVAL},
		{"access without ACCESS",
		 {.flags = PD, .pd = PD_OTHER, .access = PROBE_ALL},
		 ERR_INPUT,
		 EINVAL},
		{"access without ACCESS, with a new place",
		 {.flags = TRANSLATION,
		  .at = AT_NEW,
		  .length = 8,
		  .access = IBV_ACCESS_LOCAL_WRITE},
		 ERR_INPUT,
		 EINVAL},
		{"flag 8", {.flags = 8}, ERR_INPUT, EINVAL},
		{"flag 8 beside a good one", {.flags = 8 | PD, .pd = PD_OTHER}, ERR_INPUT, EINVAL},
		{"all bits",
		 {.flags = -1, .pd = PD_OTHER, .at = AT_NEW, .length = 8},
		 ERR_INPUT,
		 EINVAL},
		{"the sign bit", {.flags = INT32_MIN}, ERR_INPUT, EINVAL},
		{"length 0 and a foreign domain",
		 {.flags = TRANSLATION | PD, .pd = PD_FOREIGN, .at = AT_NEW},
		 ERR_INPUT,
		 EINVAL},
		{"bad access and a foreign domain",
		 {.flags = ACCESS | PD, .pd = PD_FOREIGN, .access = IBV_ACCESS_REMOTE_WRITE},
		 ERR_CMD,
		 EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct state s = state_old();
		struct ibv_mr *mr = region(&s), before = *mr;

		row("misuse: %s", rows[i].name);
		expect_refused(mr, &rows[i].args, rows[i].want, rows[i].error, 0);
		expect_fields(mr, &s, &before);
		expect_state(mr, &s);
		expect_dereg(mr, &s);
	}
}

static void damaged_row(void)
{
	struct state s = state_old();
	struct ibv_mr *mr = region(&s);
	struct args args = {PD, PD_OTHER, AT_NULL, 0, 0};
	uint32_t handle = mr->handle;

	row("damaged handle");
	mr->handle = handle ^ 0x5a5a5a;
	expect_refused(mr, &args, ERR_CMD, ENOENT, 0);
	mr->handle = handle;
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

static void read_only_row(void)
{
	struct state s = {n->pd, holes + PAGE, PAGE, IBV_ACCESS_REMOTE_READ};
	struct args args = {ACCESS, PD_NULL, AT_NULL, 0, PROBE_ALL};
	struct ibv_mr *mr, before;

	row("ACCESS: the right to write memory that cannot be written");
	mr = region(&s);
	before = *mr;
	expect_refused(mr, &args, ERR_CMD, EFAULT, 0);
	expect_fields(mr, &s, &before);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)s.addr, mr->rkey, 8, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)s.addr, mr->rkey, 8,
		     IBV_WC_REM_ACCESS_ERR);
	expect_dereg(mr, &s);
}

static void run(void)
{
	bad_rows();
	misuse_rows();
	damaged_row();
	read_only_row();
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
