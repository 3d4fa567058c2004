/* SPDX-License-Identifier: MIT */
/*
 * ibv_rereg_mr(): every combination of flags with good and bad arguments, what the call says and what traffic
 * from another process then finds; what cannot be re-registered; and re-registration while another process
 * writes, reads and adds without pause.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "lib/expect.h"
#include "lib/flood.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define TRANSLATION IBV_REREG_MR_CHANGE_TRANSLATION
#define PD	    IBV_REREG_MR_CHANGE_PD
#define ACCESS	    IBV_REREG_MR_CHANGE_ACCESS
#define ERR_INPUT   IBV_REREG_MR_ERR_INPUT
#define ERR_CMD	    IBV_REREG_MR_ERR_CMD

#define OLD_AT	0x200000u /* offsets in the arena */
#define OLD_LEN 0x5000u
#define NEW_AT	0x300018u
#define NEW_LEN 0x3028u

static struct side a, b; /* the region is a's, in this process */
static struct node *n;
static struct ibv_pd *foreign_pd; /* of another context */
static uint8_t *holes;		  /* four pages: gone, read-only, without rights, ordinary */
static size_t page = 4096;

/* What a region is at a moment. */
struct state {
	struct ibv_pd *pd;
	uint8_t *addr;
	size_t length;
	unsigned int access;
};

static struct ibv_mr *region(const struct state *s)
{
	struct ibv_mr *mr = ibv_reg_mr(s->pd, s->addr, s->length, s->access);

	if (!mr)
		DIE("ibv_reg_mr: errno %d", errno);
	return mr;
}

static struct state state_old(void)
{
	return (struct state){n->pd, n->arena + OLD_AT, OLD_LEN, PROBE_ALL};
}

/* --- what traffic finds --- */

static bool protects(const struct ibv_pd *pd)
{
	return pd == n->other_pd;
}

static uint64_t key_address(const struct state *s, uint64_t offset)
{
	return s->access & IBV_ACCESS_ZERO_BASED ? offset : (uintptr_t)s->addr + offset;
}

static void expect_at(const struct ibv_mr *mr, const struct state *s, uint64_t offset, bool inside)
{
	static const struct {
		enum ibv_wr_opcode op;
		unsigned int needs;
	} ops[] = {
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC},
	};

	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		bool good = inside && !protects(s->pd) && (s->access & ops[i].needs);
		enum ibv_wc_status want = good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;

		if (inside && i == 0)
			memset(s->addr + offset, 0, 8);
		EXPECT_PROBE(&b, &a, 0, ops[i].op, key_address(s, offset), mr->rkey, 8, want);
		if (inside && i == 0)
			EXPECT((pattern_check(s->addr + offset, 8, PROBE_SEED, 0) == -1) == good,
			       "bytes at %lu of %zu", offset, s->length);
	}
}

static void expect_fields(const struct ibv_mr *mr, const struct state *s, const struct ibv_mr *before)
{
	EXPECT(mr->pd == s->pd, "field pd");
	EXPECT(mr->addr == s->addr && mr->length == s->length, "field addr %p, length %zu", mr->addr,
	       mr->length);
	EXPECT(mr->lkey == before->lkey && mr->rkey == before->rkey && mr->handle == before->handle &&
		       mr->context == before->context,
	       "keys, handle or context changed");
}

static void expect_state(const struct ibv_mr *mr, const struct state *s)
{
	expect_at(mr, s, 0, true);
	expect_at(mr, s, (s->length - 8) & ~7ul, true);
	expect_at(mr, s, (s->length & ~7ul) + 8, false);
}

static void expect_dereg(struct ibv_mr *mr, const struct state *s)
{
	uint32_t rkey = mr->rkey;

	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, key_address(s, 0), rkey, 8, IBV_WC_REM_ACCESS_ERR);
}

/* --- one call --- */

enum pd_arg { PD_NULL, PD_SAME, PD_OTHER, PD_FOREIGN };
enum at_arg { AT_NULL, AT_NEW, AT_OLD, AT_GONE, AT_READ_ONLY, AT_NO_RIGHTS, AT_HOLE_BEHIND, AT_TOP };

struct args {
	int flags;
	enum pd_arg pd;
	enum at_arg at;
	size_t length;
	unsigned int access;
};

static struct ibv_pd *pd_of(enum pd_arg arg)
{
	struct ibv_pd *pd[] = {NULL, n->pd, n->other_pd, foreign_pd};

	return pd[arg];
}

static uint8_t *address_of(enum at_arg arg)
{
	uint8_t *at[] = {
		NULL,	      n->arena + NEW_AT, n->arena + OLD_AT, holes,
		holes + page, holes + 2 * page,	 holes - page,	    (uint8_t *)(uintptr_t)(UINT64_MAX - 100)};

	return at[arg];
}

static int call(struct ibv_mr *mr, const struct args *args)
{
	errno = 0;
	return ibv_rereg_mr(mr, args->flags, pd_of(args->pd), address_of(args->at), args->length,
			    (int)args->access);
}

static void expect_refused(struct ibv_mr *mr, const struct args *args, int want, int error, int error2)
{
	int ret = call(mr, args), err = errno;

	EXPECT(ret == want, "returned %d, not %d", ret, want);
	EXPECT(err == error || (error2 && err == error2), "errno %d, not %d", err, error);
}

static const char *flags_name(int flags)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s%s%s%s", flags & TRANSLATION ? "TRANSLATION " : "",
		 flags & PD ? "PD " : "", flags & ACCESS ? "ACCESS " : "", flags ? "" : "no flags ");
	return text;
}

/* --- good arguments --- */

static void good_row(int flags, unsigned int access, const char *what)
{
	struct state s = state_old();
	/* Arguments that the flags do not name are not looked at. */
	struct args args = {flags, flags & PD ? PD_OTHER : PD_FOREIGN, flags & TRANSLATION ? AT_NEW : AT_GONE,
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
			good_row(flags, access[i].access, flags & ACCESS ? access[i].name : "as named");
}

/* There and back: rights that were taken are given again. */
static void round_trip_row(void)
{
	struct state s = state_old();
	struct ibv_mr *mr = region(&s), before = *mr;
	struct args away = {TRANSLATION | PD | ACCESS, PD_OTHER, AT_NEW, NEW_LEN, IBV_ACCESS_REMOTE_READ};
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

/* --- bad arguments --- */

struct bad_row {
	const char *name;
	int flags; /* at least */
	struct args args;
	int want, error, error2;
};

static const struct bad_row bad[] = {
	{"address NULL", TRANSLATION, {.at = AT_NULL, .length = NEW_LEN}, ERR_INPUT, EINVAL, 0},
	{"length 0", TRANSLATION, {.at = AT_NEW, .length = 0}, ERR_INPUT, EINVAL, 0},
	{"memory that is not mapped", TRANSLATION, {.at = AT_GONE, .length = 8}, ERR_CMD, EFAULT, 0},
	{"a hole behind the first page",
	 TRANSLATION,
	 {.at = AT_HOLE_BEHIND, .length = 8192},
	 ERR_CMD,
	 EFAULT,
	 0},
	{"memory that cannot be written", TRANSLATION, {.at = AT_READ_ONLY, .length = 8}, ERR_CMD, EFAULT, 0},
	{"memory without rights", TRANSLATION, {.at = AT_NO_RIGHTS, .length = 8}, ERR_CMD, EFAULT, 0},
	{"range around the end of the address space",
	 TRANSLATION,
	 {.at = AT_TOP, .length = 200},
	 ERR_CMD,
	 EINVAL,
	 0},
	{"length SIZE_MAX", TRANSLATION, {.at = AT_NEW, .length = SIZE_MAX}, ERR_CMD, EINVAL, 0},
	{"length 2^62", TRANSLATION, {.at = AT_HOLE_BEHIND, .length = 1ul << 62}, ERR_CMD, EFAULT, EINVAL},
	{"domain NULL", PD, {.pd = PD_NULL}, ERR_CMD, ENOENT, 0},
	{"domain of another context", PD, {.pd = PD_FOREIGN}, ERR_CMD, ENOENT, 0},
	{"REMOTE_WRITE without LOCAL_WRITE", ACCESS, {.access = IBV_ACCESS_REMOTE_WRITE}, ERR_CMD, EINVAL, 0},
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
		 {.flags = TRANSLATION, .at = AT_NEW, .length = 8, .access = IBV_ACCESS_LOCAL_WRITE},
		 ERR_INPUT,
		 EINVAL},
		{"flag 8", {.flags = 8}, ERR_INPUT, EINVAL},
		{"flag 8 beside a good one", {.flags = 8 | PD, .pd = PD_OTHER}, ERR_INPUT, EINVAL},
		{"all bits", {.flags = -1, .pd = PD_OTHER, .at = AT_NEW, .length = 8}, ERR_INPUT, EINVAL},
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

/* --- read-only memory: rights to write cannot be added --- */

static void read_only_row(void)
{
	struct state s = {n->pd, holes + page, page, IBV_ACCESS_REMOTE_READ};
	struct args args = {ACCESS, PD_NULL, AT_NULL, 0, PROBE_ALL};
	struct ibv_mr *mr, before;

	row("ACCESS: the right to write memory that cannot be written");
	mr = region(&s);
	before = *mr;
	expect_refused(mr, &args, ERR_CMD, EFAULT, 0);
	expect_fields(mr, &s, &before);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)s.addr, mr->rkey, 8, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)s.addr, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	expect_dereg(mr, &s);
}

/* --- addresses of its own --- */

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
	based_row("zero-based, fewer rights", &based, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);
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
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, iova + 8, mr->rkey, OLD_LEN, IBV_WC_REM_ACCESS_ERR);
	row("TRANSLATION: a region with addresses of the program's choice loses them");
	EXPECT(call(mr, &move) == 0, "errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, iova, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
}

/* --- local use --- */

/* A receive that names memory the region no longer covers, or may no longer write. */
static void receive_row(const char *name, const struct args *args, bool works)
{
	struct state s = state_old();
	struct ibv_mr *mr;
	struct node_recv recv = {.wr_id = 7, .num_sge = 1};
	struct node_send send = {.opcode = IBV_WR_SEND,
				 .flags = IBV_SEND_SIGNALED,
				 .num_sge = 1,
				 .sge = {side_sge(&b, KEY_FULL, PROBE_AT, 4096)}};
	struct node_posted posted;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR}, sent;

	row("a posted receive, then %s", name);
	mr = region(&s);
	recv.sge[0] = (struct ibv_sge){.addr = (uintptr_t)s.addr, .length = 4096, .lkey = mr->lkey};
	EXPECT(side_post_recv(&a, 0, &recv, 1).ret == 0, "ibv_post_recv");
	EXPECT(call(mr, args) == 0, "errno %d", errno);
	posted = side_post_send(&b, 0, &send, 1);
	EXPECT(posted.ret == 0 && side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1, "no completion");
	EXPECT(side_poll(&a, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.wr_id == 7, "no receive");
	EXPECT(sent.status == (works ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR), "sender: '%s'",
	       ibv_wc_status_str(sent.status));
	EXPECT(wc.status == (works ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR), "receiver: '%s'",
	       ibv_wc_status_str(wc.status));
	probe_reconnect(&b, &a, 0);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* The owner's own request from the region. */
static void source_row(const char *name, const struct args *args, bool works)
{
	struct state s = state_old();
	struct node_send write = {.opcode = IBV_WR_RDMA_WRITE,
				  .flags = IBV_SEND_SIGNALED,
				  .remote_addr = b.info.base[KEY_FULL] + PROBE_AT,
				  .rkey = b.info.key[KEY_FULL],
				  .num_sge = 1};
	enum ibv_wc_status got, want = works ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
	struct ibv_mr *mr;

	row("%s, then a request from the old place", name);
	mr = region(&s);
	EXPECT(call(mr, args) == 0, "errno %d", errno);
	write.sge[0] = (struct ibv_sge){.addr = (uintptr_t)s.addr, .length = 64, .lkey = mr->lkey};
	got = probe_request(&a, &b, 0, &write);
	EXPECT(got == want, "'%s'", ibv_wc_status_str(got));
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void local_rows(void)
{
	static const struct args moved = {TRANSLATION, PD_NULL, AT_NEW, NEW_LEN, 0};
	static const struct args other = {PD, PD_OTHER, AT_NULL, 0, 0};
	static const struct args no_write = {ACCESS, PD_NULL, AT_NULL, 0, 0};
	static const struct args more = {ACCESS, PD_NULL, AT_NULL, 0, PROBE_ALL | IBV_ACCESS_MW_BIND};

	receive_row("another place", &moved, false);
	receive_row("another domain", &other, false);
	receive_row("no right to write", &no_write, false);
	receive_row("more rights", &more, true);
	source_row("another place", &moved, false);
	source_row("another domain", &other, false);
	source_row("no right to write", &no_write, true);
}

/* --- domains --- */

static void expect_busy(struct ibv_pd *pd, const char *which)
{
	int ret;

	errno = 0;
	ret = ibv_dealloc_pd(pd);
	EXPECT(ret == EBUSY && errno == EBUSY, "%s: %d, errno %d", which, ret, errno);
}

static void domain_rows(void)
{
	struct ibv_pd *one = ibv_alloc_pd(n->ctx), *two = ibv_alloc_pd(n->ctx);
	struct ibv_mr *mr = ibv_reg_mr(one, n->arena + OLD_AT, OLD_LEN, PROBE_ALL);

	row("PD: the old domain can be freed, the new one is busy");
	expect_busy(one, "old domain before");
	EXPECT(ibv_rereg_mr(mr, PD, two, NULL, 0, 0) == 0, "errno %d", errno);
	expect_busy(two, "new domain");
	EXPECT(ibv_dealloc_pd(one) == 0, "old domain: errno %d", errno);
	EXPECT(ibv_rereg_mr(mr, PD | ACCESS, foreign_pd, NULL, 0, 0) == ERR_CMD, "foreign domain");
	expect_busy(two, "after a refusal");
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(two) == 0, "new domain afterwards: errno %d", errno);
}

static void parent_domain_row(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = n->pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(n->ctx, &attr);
	struct state s = state_old();
	struct ibv_mr *mr = region(&s), before = *mr;

	row("PD: a parent domain protects as the domain it contains");
	if (!EXPECT(parent, "ibv_alloc_parent_domain: errno %d", errno))
		return;
	EXPECT(ibv_rereg_mr(mr, PD, n->other_pd, NULL, 0, 0) == 0, "errno %d", errno);
	EXPECT(ibv_rereg_mr(mr, PD, parent, NULL, 0, 0) == 0, "errno %d", errno);
	s.pd = parent;
	expect_fields(mr, &s, &before);
	expect_state(mr, &s);
	expect_dereg(mr, &s);
	EXPECT(ibv_dealloc_pd(parent) == 0, "ibv_dealloc_pd: errno %d", errno);
}

/* --- what cannot be re-registered --- */

static void null_rows(void)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(n->pd);

	for (int flags = 0; flags < 8 && mr; flags++) {
		struct args args = {flags, PD_OTHER, AT_NEW, NEW_LEN, flags & ACCESS ? PROBE_ALL : 0};

		row("null region: %s", flags_name(flags));
		expect_refused(mr, &args, ERR_INPUT, EINVAL, 0);
		EXPECT(mr->pd == n->pd && !mr->addr && mr->length == SIZE_MAX, "fields");
	}
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void device_rows(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 8192};
	struct ibv_dm *dm = ibv_alloc_dm(n->ctx, &attr);
	struct ibv_mr *mr = dm ? ibv_reg_dm_mr(n->pd, dm, 0, 8192, PROBE_ALL | IBV_ACCESS_ZERO_BASED) : NULL;

	if (!EXPECT(mr, "device memory"))
		return;
	for (int flags = 0; flags < 8; flags++) {
		struct args args = {flags, PD_OTHER, AT_NEW, NEW_LEN, flags & ACCESS ? PROBE_ALL : 0};

		row("device memory: %s", flags_name(flags));
		expect_refused(mr, &args, ERR_CMD, EINVAL, 0);
		EXPECT(mr->pd == n->pd && !mr->addr && mr->length == 8192, "fields");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, 0, mr->rkey, 8192, IBV_WC_SUCCESS);
	}
	row("device memory: afterwards");
	EXPECT(ibv_free_dm(dm) == EBUSY, "ibv_free_dm with a region");
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0, "errno %d", errno);
}

static void bind(struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length)
{
	struct ibv_mw_bind wr = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = mr,
			      .addr = length ? (uintptr_t)mr->addr : 0,
			      .length = length,
			      .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE},
	};
	struct ibv_wc wc;
	int ret = ibv_bind_mw(n->qp[0], mw, &wr);

	if (EXPECT(ret == 0, "ibv_bind_mw: %d", ret))
		EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "bind");
}

static void window_rows(void)
{
	struct state s = state_old();
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct args args = {.flags = 0};
	struct ibv_mr *mr, before;

	s.access |= IBV_ACCESS_MW_BIND;
	mr = region(&s);
	before = *mr;
	bind(mw, mr, OLD_LEN);
	for (int flags = 1; flags < 8; flags++) {
		args = (struct args){flags, PD_OTHER, AT_NEW, NEW_LEN, flags & ACCESS ? PROBE_ALL : 0};
		row("with a window bound: %s", flags_name(flags));
		expect_refused(mr, &args, ERR_CMD, EBUSY, 0);
		expect_fields(mr, &s, &before);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mw->rkey, 8, IBV_WC_SUCCESS);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 8, IBV_WC_SUCCESS);
	}
	row("with a window unbound again");
	bind(mw, NULL, 0);
	EXPECT(call(mr, &args) == 0, "errno %d", errno);
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_mw(mw) == 0, "errno %d", errno);
}

/* --- with traffic --- */

#define FLOOD_BYTES 16384u
#define FLIPS	    (TEST_SANITIZED ? 1000 : 4000)

static struct flood flood;

static uint64_t word_at(uint64_t offset)
{
	return *(volatile uint64_t *)(n->arena + offset);
}

static void fill_words(uint64_t offset, uint64_t value)
{
	for (uint64_t i = 0; i < FLOOD_BYTES; i += 8)
		*(volatile uint64_t *)(n->arena + offset + i) = value;
}

static uint64_t torn_packets(uint64_t offset)
{
	uint64_t torn = 0;

	for (uint64_t i = 0; i < FLOOD_BYTES; i += 8)
		torn += word_at(offset + i) != word_at(offset + i / FLOOD_PACKET * FLOOD_PACKET);
	return torn;
}

/* Whatever changes, address 0 stays good: no request may fail, and each finds the old or the new place. */
static void flip(struct ibv_mr *mr, int i)
{
	unsigned int zero = PROBE_ALL | IBV_ACCESS_ZERO_BASED;
	uint8_t *at = n->arena + (i & 1 ? NEW_AT : OLD_AT);
	unsigned int access = i % 3 ? zero : zero | IBV_ACCESS_MW_BIND;
	int flags = i % 5 == 0 ? TRANSLATION | ACCESS : i % 5 == 1 ? ACCESS : TRANSLATION;
	int ret = ibv_rereg_mr(mr, flags, NULL, at, FLOOD_BYTES, flags & ACCESS ? (int)access : 0);

	EXPECT(ret == 0, "change %d: %d, errno %d", i, ret, errno);
}

static void steady_row(enum ibv_wr_opcode op)
{
	struct ibv_mr *mr =
		ibv_reg_mr(n->pd, n->arena + OLD_AT, FLOOD_BYTES, PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	struct flood_work work = {op, 0, mr->rkey, op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : FLOOD_BYTES};
	struct flood_report report;

	row("%s from another process during %d changes", probe_name(op), FLIPS);
	fill_words(OLD_AT, 0);
	fill_words(NEW_AT, op == IBV_WR_RDMA_READ);
	flood_go(&flood, &work);
	for (int i = 0; i < FLIPS && !flood_failed(&flood); i++)
		flip(mr, i);
	report = flood_stop(&flood);
	if (!EXPECT(report.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(report.status)))
		flood_reconnect(&flood);
	EXPECT(report.torn == 0, "%lu torn packets", report.torn);
	if (op == IBV_WR_RDMA_WRITE)
		EXPECT(torn_packets(OLD_AT) + torn_packets(NEW_AT) == 0, "torn packets");
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		EXPECT(word_at(OLD_AT) + word_at(NEW_AT) == report.done, "%lu + %lu of %lu", word_at(OLD_AT),
		       word_at(NEW_AT), report.done);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

struct away {
	const char *name;
	struct args away, back;
};

/* After the call nothing reaches the old place; before, everything does. */
static bool turn(struct ibv_mr *mr, const struct away *r, int i, unsigned int *refused)
{
	bool wait = i % 16 == 15, failed;
	struct flood_report report;

	if (!EXPECT(call(mr, &r->away) == 0, "away, %d: errno %d", i, errno))
		return false;
	fill_words(OLD_AT, UINT64_MAX);
	if (wait)
		report = flood_until_failure(&flood);
	for (uint64_t at = 0; at < FLOOD_BYTES; at += 8)
		if (!EXPECT(word_at(OLD_AT + at) == UINT64_MAX, "written at %lu after the change %d", at, i))
			return false;
	if (!EXPECT(call(mr, &r->back) == 0, "back, %d: errno %d", i, errno))
		return false;
	failed = wait || flood_failed(&flood);
	if (!failed)
		return true;
	if (!wait)
		report = flood_until_failure(&flood);
	EXPECT(report.status == IBV_WC_REM_ACCESS_ERR, "'%s'", ibv_wc_status_str(report.status));
	++*refused;
	flood_reconnect(&flood);
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)n->arena + OLD_AT, mr->rkey,
					      FLOOD_BYTES});
	return true;
}

static void away_rows(void)
{
	static const struct away rows[] = {
		{"another place",
		 {TRANSLATION, PD_NULL, AT_NEW, FLOOD_BYTES, 0},
		 {TRANSLATION, PD_NULL, AT_OLD, FLOOD_BYTES, 0}},
		{"another domain", {PD, PD_OTHER, AT_NULL, 0, 0}, {PD, PD_SAME, AT_NULL, 0, 0}},
		{"fewer rights",
		 {ACCESS, PD_NULL, AT_NULL, 0, IBV_ACCESS_LOCAL_WRITE},
		 {ACCESS, PD_NULL, AT_NULL, 0, PROBE_ALL}},
		{"all at once",
		 {TRANSLATION | PD | ACCESS, PD_OTHER, AT_NEW, FLOOD_BYTES, IBV_ACCESS_REMOTE_READ},
		 {TRANSLATION | PD | ACCESS, PD_SAME, AT_OLD, FLOOD_BYTES, PROBE_ALL}},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + OLD_AT, FLOOD_BYTES, PROBE_ALL);
		struct flood_work work = {IBV_WR_RDMA_WRITE, (uintptr_t)n->arena + OLD_AT, mr->rkey,
					  FLOOD_BYTES};
		uint64_t end = now_ms() + 1000;
		unsigned int refused = 0;

		row("WRITE from another process while the region goes to %s and back", rows[i].name);
		flood_go(&flood, &work);
		for (int t = 0; t < 32 || now_ms() < end; t++)
			if (!turn(mr, &rows[i], t, &refused))
				break;
		(void)flood_stop(&flood);
		EXPECT(refused >= 2, "%u requests refused", refused);
		flood_reconnect(&flood);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static void dereg_under_traffic_row(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + OLD_AT, FLOOD_BYTES, PROBE_ALL);
	struct flood_report report;

	row("WRITE from another process while the region is deregistered after changes");
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)n->arena + OLD_AT, mr->rkey,
					      FLOOD_BYTES});
	for (int i = 0; i < 100; i++)
		EXPECT(ibv_rereg_mr(mr, ACCESS, NULL, NULL, 0, PROBE_ALL) == 0, "errno %d", errno);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	fill_words(OLD_AT, UINT64_MAX);
	report = flood_until_failure(&flood);
	EXPECT(report.status == IBV_WC_REM_ACCESS_ERR, "'%s'", ibv_wc_status_str(report.status));
	EXPECT(torn_packets(OLD_AT) == 0 && word_at(OLD_AT) == UINT64_MAX, "written after ibv_dereg_mr()");
	flood_reconnect(&flood);
}

/* --- both ends at once: who writes from one region to the other while both change must not wait in a circle
 * --- */

static struct ibv_mr *ring[2];
static atomic_bool stop;
static _Atomic uint64_t moved[2], changed[2];

static void *writer(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct node_send s = {.opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .rkey = ring[!me]->rkey,
			      .num_sge = 1,
			      .sge = {{.length = FLOOD_BYTES, .lkey = ring[me]->lkey}}};
	struct ibv_wc wc;

	while (!atomic_load(&stop)) {
		if (node_post_send(n, 2 + me, &s, 1).ret || node_poll(n, 2 + me, 1, 10000, &wc) != 1)
			DIE("a WRITE between regions that change has no completion");
		if (wc.status != IBV_WC_SUCCESS)
			DIE("a WRITE between regions that change: '%s'", ibv_wc_status_str(wc.status));
		atomic_fetch_add(&moved[me], 1);
	}
	return NULL;
}

static void *changer(void *arg)
{
	int me = (int)(intptr_t)arg;
	unsigned int access = PROBE_ALL | IBV_ACCESS_ZERO_BASED;

	while (!atomic_load(&stop)) {
		if (ibv_rereg_mr(ring[me], ACCESS, NULL, NULL, 0, (int)access))
			DIE("ibv_rereg_mr: errno %d", errno);
		atomic_fetch_add(&changed[me], 1);
	}
	return NULL;
}

static void ring_open(void)
{
	struct node_qp_spec spec = spec_default();

	for (uint32_t i = 0; i < 2; i++) {
		if (node_create_cq(n, 2 + (int)i, 16, false))
			DIE("ibv_create_cq");
		spec.send_cq = spec.recv_cq = 2 + i;
		if (node_create_qp(n, 2 + (int)i, &spec))
			DIE("ibv_create_qp");
		ring[i] = ibv_reg_mr(n->pd, n->arena + (i ? NEW_AT : OLD_AT), FLOOD_BYTES,
				     PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	}
	pair_connect(&a, 2, NULL, &a, 3, NULL);
}

static void circle_row(void)
{
	pthread_t thread[4];
	struct timespec limit;
	uint64_t end;

	row("regions written from one to the other, both changing without pause");
	atomic_store(&stop, false);
	changed[0] = changed[1] = 0;
	ring_open();
	for (intptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 2 ? writer : changer, (void *)(i & 1));
	end = now_ms() + 1500;
	while (now_ms() < end && moved[0] + moved[1] < 200000)
		sched_yield();
	atomic_store(&stop, true);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 5;
	for (int i = 0; i < 4; i++)
		if (pthread_timedjoin_np(thread[i], NULL, &limit))
			DIE("they wait for each other: %lu and %lu written, %lu and %lu changes", moved[0],
			    moved[1], changed[0], changed[1]);
	EXPECT(moved[0] > 10 && moved[1] > 10 && changed[0] > 10 && changed[1] > 10,
	       "%lu and %lu written, %lu and %lu changes", moved[0], moved[1], changed[0], changed[1]);
	for (int i = 0; i < 2; i++)
		EXPECT(ibv_dereg_mr(ring[i]) == 0, "ibv_dereg_mr");
}

/* --- receives into a region that changes all the time --- */

static void change_while(void (*work)(uint32_t bytes), uint32_t bytes)
{
	pthread_t thread;

	atomic_store(&stop, false);
	changed[0] = 0;
	ring[0] = ibv_reg_mr(n->pd, n->arena + OLD_AT, 65536, PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	pthread_create(&thread, NULL, changer, (void *)0);
	work(bytes);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	EXPECT(changed[0] > 10, "%lu changes", changed[0]);
	EXPECT(ibv_dereg_mr(ring[0]) == 0, "ibv_dereg_mr");
}

static struct node_recv changing_receive(uint32_t bytes)
{
	return (struct node_recv){.num_sge = 1, .sge = {{.addr = 8, .length = bytes, .lkey = ring[0]->lkey}}};
}

static void expect_message(uint32_t bytes, uint64_t number)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (node_poll(n, 1, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("message %lu: no receive completion", number);
	EXPECT(wc.status == IBV_WC_SUCCESS, "message %lu: receive '%s'", number,
	       ibv_wc_status_str(wc.status));
	EXPECT(pattern_check(n->arena + OLD_AT + 8, bytes, number, 0) == -1, "message %lu: bytes", number);
}

static void messages_from_other(uint32_t bytes)
{
	struct node_recv r = changing_receive(bytes);
	struct node_send s = {.opcode = IBV_WR_SEND,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .sge = {side_sge(&b, KEY_FULL, PROBE_AT, bytes)}};
	enum ibv_wc_status got;

	for (uint64_t i = 0; (i < 500 || changed[0] < 500) && failures() == 0; i++) {
		side_fill(&b, PROBE_AT, bytes, i, 0);
		EXPECT(node_post_recv(n, 0, &r, 1).ret == 0, "ibv_post_recv");
		got = probe_request(&b, &a, 0, &s);
		if (EXPECT(got == IBV_WC_SUCCESS, "message %lu: '%s'", i, ibv_wc_status_str(got)))
			expect_message(bytes, i);
	}
}

/* Queue pair 4 sends to itself, out of the changing region as well. */
static void messages_from_self(uint32_t bytes)
{
	struct node_recv r = changing_receive(bytes);
	struct node_send s = {.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .num_sge = 2};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	s.sge[0] = side_sge(&a, KEY_FULL, PROBE_AT, bytes - 4);
	s.sge[1] = (struct ibv_sge){.addr = 60000, .length = 4, .lkey = ring[0]->lkey};
	for (uint64_t i = 0; (i < 500 || changed[0] < 500) && failures() == 0; i++) {
		pattern_fill(n->arena + PROBE_AT, bytes - 4, i, 0);
		pattern_fill(n->arena + OLD_AT + 60000, 4, i, bytes - 4);
		EXPECT(node_post_recv(n, 4, &r, 1).ret == 0 && node_post_send(n, 4, &s, 1).ret == 0, "post");
		EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
		       "message %lu: '%s'", i, ibv_wc_status_str(wc.status));
		expect_message(bytes, i);
	}
}

static void message_rows(void)
{
	static const uint32_t sizes[] = {8, 5000, 40000};

	pair_create(&a, 4, &a, 4, NULL);
	pair_connect(&a, 4, NULL, &a, 4, NULL);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		row("messages of %u bytes from another process into a region that changes all the time",
		    sizes[i]);
		change_while(messages_from_other, sizes[i]);
		row("messages of %u bytes from and into a region that changes all the time", sizes[i]);
		change_while(messages_from_self, sizes[i]);
	}
	pair_destroy(&a, 4, &a, 4);
}

/* --- */

static void make_holes(void)
{
	void *lonely = (void *)0x200000000000; /* a hole where nobody else's mappings come to lie */

	holes = mmap(lonely, 6 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (holes == MAP_FAILED)
		DIE("mmap");
	holes += page; /* one ordinary page before the gap */
	memset(holes, 0, 5 * page);
	mprotect(holes + page, page, PROT_READ);
	mprotect(holes + 2 * page, page, PROT_NONE);
	munmap(holes, page);
}

static void run(void)
{
	good_rows();
	round_trip_row();
	same_pd_row();
	bad_rows();
	misuse_rows();
	damaged_row();
	read_only_row();
	zero_based_rows();
	iova_rows();
	local_rows();
	domain_rows();
	parent_domain_row();
	null_rows();
	device_rows();
	window_rows();
	flood_start(&flood, &a, 1);
	steady_row(IBV_WR_RDMA_WRITE);
	steady_row(IBV_WR_RDMA_READ);
	steady_row(IBV_WR_ATOMIC_FETCH_AND_ADD);
	away_rows();
	dereg_under_traffic_row();
	flood_end(&flood);
	message_rows();
	circle_row();
}

int main(int argc, char **argv)
{
	struct ibv_context *other;

	time_limit(60);
	flood_agent_main(argc, argv);
	side_agent_main(argc, argv);
	sandbox_enter();
	side_open(&a, NULL);
	side_start(&b);
	n = a.node;
	other = node_open_device();
	foreign_pd = ibv_alloc_pd(other);
	make_holes();
	probe_open(&b, &a, 0);
	run();
	probe_close(&b, &a, 0);
	ibv_dealloc_pd(foreign_pd);
	ibv_close_device(other);
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
	return summary();
}
