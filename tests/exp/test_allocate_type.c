/* SPDX-License-Identifier: MIT */
/*
 * What pages each allocation type gives to regions and queues, where the kernel makes huge pages
 * and where it does not, and the settings that say so, of the process and of one context.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "exp/allocate_fixture.h"
#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"

#define WORD "--without-huge" /* a run in which the kernel makes no huge pages for the process */

/* --- allocation types ------------------------------------------------------------ */

enum { SMALL, HUGE_WHOLE, HUGE_ALL, PRIVATE, POOL, NONE }; /* what comes of it */

static const struct type_row {
	const char *type, *min, *max;
	size_t length;
	int want, without_huge; /* if the machine has huge pages, and if not */
	bool complains;
} type_rows[] = {
	{NULL, NULL, NULL, 8192, SMALL, SMALL, false},
	{NULL, NULL, NULL, 5 * MB, HUGE_WHOLE, SMALL, false},
	{"ANON", NULL, NULL, 4 * MB, PRIVATE, PRIVATE, false},
	{"anon", NULL, NULL, 8192, PRIVATE, PRIVATE, false},
	{"HUGE", NULL, NULL, 5 * MB, HUGE_ALL, NONE, false},
	{"Huge", NULL, NULL, 8192, HUGE_ALL, NONE, false},
	{"CONTIG", NULL, NULL, 5 * MB, HUGE_WHOLE, SMALL, false},
	{"contig", NULL, NULL, 8192, SMALL, SMALL, false},
	{"CONTIG", "13", NULL, 8192, HUGE_ALL, NONE, false},
	{"CONTIG", "21", NULL, 5 * MB, HUGE_ALL, NONE, false},
	{"CONTIG", "22", NULL, 8192, NONE, NONE, false},
	{"CONTIG", "23", "23", 16 * MB, NONE, NONE, false},
	{"CONTIG", NULL, "12", 4 * MB, SMALL, SMALL, false},
	{"CONTIG", "12", "12", 4 * MB, SMALL, SMALL, false},
	{"CONTIG", NULL, "13", 4 * MB, HUGE_WHOLE, SMALL, false},
	{"PREFER_CONTIG", NULL, NULL, 8192, SMALL, SMALL, false},
	{"prefer_Contig", NULL, NULL, 5 * MB, HUGE_WHOLE, SMALL, false},
	{"PREFER_CONTIG", "16", NULL, 8192, HUGE_ALL, PRIVATE, false},
	{"PREFER_CONTIG", "22", NULL, 4 * MB, PRIVATE, PRIVATE, false},
	{"PREFER_HUGE", NULL, NULL, 8192, HUGE_ALL, PRIVATE, false},
	{"prefer_huge", NULL, NULL, 5 * MB, HUGE_ALL, PRIVATE, false},
	{"ALL", NULL, NULL, 8192, SMALL, SMALL, false},
	{"all", NULL, NULL, 5 * MB, HUGE_WHOLE, SMALL, false},
	{"ALL", "22", NULL, 8192, PRIVATE, PRIVATE, false},
	{"", NULL, NULL, 5 * MB, HUGE_WHOLE, SMALL, false},
	{"HUGE ", NULL, NULL, 8192, SMALL, SMALL, false},
	{"nonsense", NULL, NULL, 5 * MB, HUGE_WHOLE, SMALL, false},
	{"CONTIG", "11", NULL, 8192, SMALL, SMALL, true},
	{"CONTIG", "24", NULL, 8192, SMALL, SMALL, true},
	{"CONTIG", NULL, "11", 4 * MB, HUGE_WHOLE, SMALL, true},
	{"CONTIG", NULL, "24", 4 * MB, HUGE_WHOLE, SMALL, true},
	{"CONTIG", "15", "14", 4 * MB, HUGE_WHOLE, SMALL, true},
	{"CONTIG", "14", "14", 8192, HUGE_ALL, NONE, false},
	{"CONTIG", "x", NULL, 8192, SMALL, SMALL, true},
	{"CONTIG", "13x", NULL, 8192, SMALL, SMALL, true},
	{"CONTIG", "-13", NULL, 8192, SMALL, SMALL, true},
};

static void set_type(const char *object, const struct type_row *r)
{
	set(object, "ALLOC_TYPE", r ? r->type : NULL);
	set(object, "MIN_LOG2_CONTIG_BSIZE", r ? r->min : NULL);
	set(object, "MAX_LOG2_CONTIG_BSIZE", r ? r->max : NULL);
}

/* What is written to stderr between the two calls. */
static int saved_stderr, said;

static void listen_begin(void)
{
	said = memfd_create("stderr", MFD_CLOEXEC);
	saved_stderr = dup(2);
	dup2(said, 2);
}

static bool listen_end(const char *expected)
{
	char text[512];
	ssize_t n;

	fflush(stderr);
	dup2(saved_stderr, 2);
	close(saved_stderr);
	n = pread(said, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	close(said);
	return expected ? strstr(text, expected) != NULL : n == 0;
}

static void expect_pages(const struct ibv_mr *mr, const struct type_row *r, int want)
{
	size_t whole = r->length / HUGE_BYTES, all = (r->length + HUGE_BYTES - 1) / HUGE_BYTES, got;

	EXPECT(pages_private(mr->addr) == (want == PRIVATE || want == POOL), "private: %d",
	       pages_private(mr->addr));
	if (want == PRIVATE)
		return;
	if (want == POOL && !pages_physical())
		return;
	got = pages_huge(mr->addr, want == HUGE_ALL || want == POOL ? all * HUGE_BYTES : r->length);
	EXPECT(got == (want == HUGE_ALL || want == POOL ? all
		       : want == HUGE_WHOLE		? whole
							: 0),
	       "%zu huge pages", got);
}

static void mr_type_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(type_rows); i++) {
		const struct type_row *r = &type_rows[i];
		int want = have_huge					 ? r->want
			   : r->want == HUGE_ALL && pages_in_pool() >= 8 ? POOL
									 : r->without_huge;
		struct ibv_mr *mr;

		row("region of %zu KiB, type '%s', blocks %s..%s", r->length >> 10,
		    r->type ? r->type : "(not set)", r->min ? r->min : "", r->max ? r->max : "");
		set_type("MR", r);
		listen_begin();
		mr = reg(NULL, r->length, ALLOCATE, false);
		EXPECT(listen_end(r->complains ? "Invalid value" : NULL), "other words on stderr");
		set_type("MR", NULL);
		EXPECT(want == NONE ? !mr && errno == ENOMEM : mr != NULL, "%p, errno %d",
		       (void *)mr, errno);
		if (!mr)
			continue;
		memset(mr->addr, 0x11, r->length);
		expect_pages(mr, r, want);
		dereg(mr);
	}
}

/* --- queues ---------------------------------------------------------------------- */

enum object { OBJ_CQ, OBJ_RC, OBJ_UC, OBJ_UD, OBJ_N };
static const char *const object_name[] = {"CQ", "RC", "UC", "UD"};

static void *create_queue(enum object object, uint32_t size)
{
	static const enum ibv_qp_type types[] = {
		[OBJ_RC] = IBV_QPT_RC, [OBJ_UC] = IBV_QPT_UC, [OBJ_UD] = IBV_QPT_UD};
	struct ibv_qp_init_attr attr = {
		.send_cq = a.node->cq[0],
		.recv_cq = a.node->cq[0],
		.cap = {.max_send_wr = size,
			.max_recv_wr = size,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	errno = 0;
	if (object == OBJ_CQ)
		return ibv_create_cq(ctx, (int)size, NULL, NULL, 0);
	attr.qp_type = types[object];
	return ibv_create_qp(pd, &attr);
}

static void destroy_queue(enum object object, void *queue)
{
	EXPECT((object == OBJ_CQ ? ibv_destroy_cq(queue) : ibv_destroy_qp(queue)) == 0,
	       "destroying: errno %d", errno);
}

/* On how many more bytes of huge pages is it? -1: not created */
static long queue_pages(enum object object, uint32_t size)
{
	size_t before = pages_mapped_huge(), after;
	void *queue = create_queue(object, size);

	if (!queue)
		return -1;
	after = pages_mapped_huge();
	destroy_queue(object, queue);
	EXPECT(pages_mapped_huge() == before, "huge pages stay");
	return (long)(after - before);
}

static void queue_type_rows(void)
{
	const struct {
		const char *type, *min;
		bool huge, must;
	} rows[] = {
		{NULL, NULL, false, false},	      {"ANON", NULL, false, false},
		{"anon", NULL, false, false},	      {"HUGE", NULL, true, true},
		{"hUgE", NULL, true, true},	      {"CONTIG", NULL, false, false},
		{"CONTIG", "13", true, true},	      {"PREFER_CONTIG", NULL, false, false},
		{"PREFER_CONTIG", "13", true, false}, {"PREFER_HUGE", NULL, true, false},
		{"prefer_huge", NULL, true, false},   {"ALL", NULL, true, false},
		{"nonsense", NULL, false, false},     {"PREFER_CONTIG", "22", false, false},
	};

	for (int object = 0; object < OBJ_N; object++) {
		const char *prefix = object == OBJ_CQ ? "CQ" : "QP";

		for (size_t i = 0; i < COUNT_OF(rows); i++) {
			long got;

			row("%s of 4 requests, type '%s', minimum %s", object_name[object],
			    rows[i].type ? rows[i].type : "(not set)",
			    rows[i].min ? rows[i].min : "");
			set(prefix, "ALLOC_TYPE", rows[i].type);
			set(prefix, "MIN_LOG2_CONTIG_BSIZE", rows[i].min);
			got = queue_pages((enum object)object, 4);
			set_type(prefix, NULL);
			if (!have_huge && rows[i].must)
				EXPECT(got == -1 && errno == ENOMEM, "%ld, errno %d", got, errno);
			else if (rows[i].huge && have_huge)
				EXPECT(got >= (long)HUGE_BYTES, "%ld bytes of huge pages, errno %d",
				       got, errno);
			else
				EXPECT(got == 0, "%ld bytes of huge pages, errno %d", got, errno);
		}
		row("%s, impossible blocks", object_name[object]);
		set(prefix, "ALLOC_TYPE", "CONTIG");
		set(prefix, "MIN_LOG2_CONTIG_BSIZE", "22");
		EXPECT_MINUS_ONE(queue_pages((enum object)object, 4), ENOMEM);
		set_type(prefix, NULL);
		row("%s, as large as its pages", object_name[object]);
		EXPECT((queue_pages((enum object)object, 16384) > 0) ==
			       (have_huge && object != OBJ_N),
		       "huge pages");
	}
}

/* HUGE_CQ and its like: exactly "y", of their object only, and less than the type. */
static void huge_variable_rows(void)
{
	static const char *const variable[] = {"HUGE_CQ", "HUGE_RC", "HUGE_UC", "HUGE_UD"};
	static const struct {
		const char *value, *type;
		bool huge;
	} rows[] = {{"y", NULL, true},	    {"Y", NULL, false},	  {"yes", NULL, false},
		    {"1", NULL, false},	    {"y", "ANON", false}, {"n", "HUGE", true},
		    {"y", "nonsense", true}};

	for (int set_of = 0; set_of < OBJ_N && have_huge; set_of++) {
		for (int object = 0; object < OBJ_N; object++) {
			row("%s=y for %s", variable[set_of], object_name[object]);
			setenv(variable[set_of], "y", 1);
			EXPECT((queue_pages((enum object)object, 4) > 0) == (object == set_of),
			       "huge pages");
		}
		for (size_t i = 0; i < COUNT_OF(rows); i++) {
			row("%s=%s, type %s", variable[set_of], rows[i].value,
			    rows[i].type ? rows[i].type : "(not set)");
			setenv(variable[set_of], rows[i].value, 1);
			set(set_of == OBJ_CQ ? "CQ" : "QP", "ALLOC_TYPE", rows[i].type);
			EXPECT((queue_pages((enum object)set_of, 4) > 0) == rows[i].huge,
			       "huge pages");
			set(set_of == OBJ_CQ ? "CQ" : "QP", "ALLOC_TYPE", NULL);
		}
		unsetenv(variable[set_of]);
	}
}

/* A CQ that is resized gets its new ring as a new one would. */
static void resize_row(void)
{
	struct ibv_cq *cq = create_queue(OBJ_CQ, 4);
	size_t before = pages_mapped_huge();

	row("resizing a CQ, type HUGE");
	set("CQ", "ALLOC_TYPE", "HUGE");
	EXPECT(ibv_resize_cq(cq, 64) == (have_huge ? 0 : ENOMEM), "errno %d", errno);
	EXPECT((pages_mapped_huge() > before) == have_huge, "huge pages");
	set("CQ", "ALLOC_TYPE", NULL);
	EXPECT(ibv_resize_cq(cq, 4) == 0 && pages_mapped_huge() == before, "and back");
	destroy_queue(OBJ_CQ, cq);
}

/* --- settings of one context ----------------------------------------------------- */

static void private_rows(void)
{
	struct ibv_context *other = node_open_device();
	struct ibv_mr *mr;
	char *longest = malloc(VERBS_MAX_ENV_VAL + 2);

	NEED(longest);
	row("settings without a private environment are the process'");
	EXPECT(ibv_exp_setenv(ctx, "ANYVERBS_TEST_SETTING", "1", 0) == 0, "errno %d", errno);
	EXPECT(!strcmp(getenv("ANYVERBS_TEST_SETTING"), "1"), "another value");
	EXPECT(ibv_exp_setenv(ctx, "ANYVERBS_TEST_SETTING", "2", 0) == 0 &&
		       !strcmp(getenv("ANYVERBS_TEST_SETTING"), "1"),
	       "overwritten");
	EXPECT(ibv_exp_setenv(ctx, "ANYVERBS_TEST_SETTING", "2", 1) == 0 &&
		       !strcmp(getenv("ANYVERBS_TEST_SETTING"), "2"),
	       "not overwritten");
	row("a private environment starts as the process'");
	setenv("MLX_MR_ALLOC_TYPE", "ANON", 1);
	EXPECT(ibv_exp_use_priv_env(ctx) == 0 && ibv_exp_use_priv_env(ctx) == 0, "errno %d", errno);
	unsetenv("MLX_MR_ALLOC_TYPE");
	mr = reg(NULL, 8192, ALLOCATE, false);
	EXPECT(mr && pages_private(mr->addr), "not what it was");
	dereg(mr);
	row("a private environment is changed apart");
	EXPECT(ibv_exp_setenv(ctx, "MLX_MR_ALLOC_TYPE", "CONTIG", 0) == 0, "errno %d", errno);
	mr = reg(NULL, 8192, ALLOCATE, false);
	EXPECT(mr && pages_private(mr->addr), "overwritten");
	dereg(mr);
	EXPECT(ibv_exp_setenv(ctx, "MLX_MR_ALLOC_TYPE", "CONTIG", 1) == 0, "errno %d", errno);
	EXPECT(!getenv("MLX_MR_ALLOC_TYPE"), "the process has it, too");
	mr = reg(NULL, 8192, ALLOCATE, false);
	EXPECT(mr && !pages_private(mr->addr), "not overwritten");
	dereg(mr);
	row("another context's settings are others");
	EXPECT(ibv_exp_use_priv_env(other) == 0 &&
		       ibv_exp_setenv(other, "MLX_MR_ALLOC_TYPE", "HUGE", 1) == 0,
	       "errno %d", errno);
	mr = reg(NULL, 8192, ALLOCATE, false);
	EXPECT(mr && pages_huge(mr->addr, 8192) == 0 && !pages_private(mr->addr),
	       "the other's setting counts");
	dereg(mr);
	row("impossible settings");
	EXPECT_MINUS_ONE(ibv_exp_setenv(ctx, "A=B", "1", 1), EINVAL);
	EXPECT_MINUS_ONE(ibv_exp_setenv(ctx, "", "1", 1), EINVAL);
	EXPECT_MINUS_ONE(ibv_exp_setenv(ctx, NULL, "1", 1), EINVAL);
	memset(longest, 'x', VERBS_MAX_ENV_VAL + 1);
	longest[VERBS_MAX_ENV_VAL + 1] = '\0';
	EXPECT_MINUS_ONE(ibv_exp_setenv(ctx, "ANYVERBS_TEST_LONG", longest, 1), EINVAL);
	longest[VERBS_MAX_ENV_VAL] = '\0';
	EXPECT(ibv_exp_setenv(ctx, "ANYVERBS_TEST_LONG", longest, 1) == 0, "the longest: errno %d",
	       errno);
	EXPECT(ibv_exp_setenv(ctx, "MLX_MR_ALLOC_TYPE", "", 1) == 0, "errno %d", errno);
	EXPECT(ibv_close_device(other) == 0, "ibv_close_device");
	free(longest);
}

/* --- both kinds of machine ------------------------------------------------------- */

static void without_huge_pages(void)
{
	struct spawned s;

	spawn_self(&s, WORD);
	spawn_wait(&s);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);

	if (sock >= 0)
		prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	sandbox_begin(200);
	fixture_open();
	EXPECT(sock < 0 || !have_huge, "huge pages although they are switched off");
	mr_type_rows();
	queue_type_rows();
	huge_variable_rows();
	resize_row();
	if (sock < 0)
		without_huge_pages();
	private_rows();
	side_stop(&a);
	return sandbox_end();
}
