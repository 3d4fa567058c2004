/* SPDX-License-Identifier: MIT */
/* Which check is named when a key, a window or an invalidation is refused, and what it compared. */
#include <string.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/region.h"
#include "unit/memory/heap_fixture.h"

#define PID   4711
#define PD    3u
#define QPN   77u
#define BASE  0x1000000ull
#define BYTES 0x4000ull
#define PAGE  0x1000ull
#define KEYS  64u
#define NONE  (60u << 8) /* of an index that no key has */

#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define READ   IBV_ACCESS_REMOTE_READ
#define WRITE  IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define BIND   IBV_ACCESS_MW_BIND
#define ZERO   IBV_ACCESS_ZERO_BASED
#define KNOWN  (LOCAL | WRITE | ATOMIC | READ | ZERO | AV_ACCESS_FLUSH_GLOBAL)

static uint32_t region_of(uint8_t kind, uint32_t access)
{
	const struct av_key what = {.kind = kind,
				    .pd = PD,
				    .access = access,
				    .base = BASE,
				    .addr = BASE,
				    .length = BYTES};
	uint32_t key = av_key_create(seg, &what, KEYS);

	assert_int_not_equal(key, 0);
	return key;
}

/* Return: its key. @bound: to a part of a region, by QPN */
static uint32_t window_of(enum ibv_mw_type type, bool bound)
{
	struct av_window_bind bind = {.pd = PD, .qpn = QPN, .access = READ | WRITE, .addr = BASE};

	bind.window = av_window_create(seg, type, PD, KEYS);
	assert_int_not_equal(bind.window, 0);
	bind.rkey = bind.window + 1;
	bind.length = BYTES;
	bind.region = region_of(AV_KEY_REGION, LOCAL | BIND);
	if (!bound)
		return bind.window;
	assert_int_equal(av_window_bind(seg, &bind), 0);
	return bind.rkey;
}

static uint64_t refusals(uint32_t key)
{
	uint64_t value[AV_MR_GAUGES];

	av_region_counted(seg, key, value);
	return value[AV_MR_REFUSED];
}

static bool noted(enum av_check check, uint64_t wanted, uint64_t limit)
{
	const struct av_flight_record *r = av_diag_pending();

	return r->check == check && r->wanted == wanted && r->limit == limit;
}

/* --- a key ----------------------------------------------------------------------- */

enum what {
	REGION,
	ON_THE_HEAP,
	UMR,
	NO_MEMORY,
	WINDOW_1,
	WINDOW_2,
	WINDOW_UNBOUND,
	WINDOW_OTHER_TAG,
	NEVER_GIVEN,
	NO_INDEX,
	ZERO_KEY,
	ENDED,
};

static uint32_t make(enum what what)
{
	uint32_t key;

	switch (what) {
	case UMR:
		return region_of(AV_KEY_UMR, LOCAL | READ);
	case NO_MEMORY:
		return region_of(AV_KEY_NULL, LOCAL | READ);
	case WINDOW_1:
		return window_of(IBV_MW_TYPE_1, true);
	case WINDOW_2:
		return window_of(IBV_MW_TYPE_2, true);
	case WINDOW_UNBOUND:
		return window_of(IBV_MW_TYPE_2, false);
	case WINDOW_OTHER_TAG:
		return window_of(IBV_MW_TYPE_2, true) + 1;
	case NEVER_GIVEN:
		return region_of(AV_KEY_REGION, LOCAL | READ) + 1;
	case NO_INDEX:
		return NONE | 1;
	case ZERO_KEY:
		return 0;
	case ENDED:
		key = region_of(AV_KEY_REGION, LOCAL | READ);
		assert_int_equal(av_key_destroy(seg, key), 0);
		return key;
	default:
		key = region_of(AV_KEY_REGION, LOCAL | READ);
		/* In this place windows have their queue pair. */
		av_key_entry(seg, key)->heap = what == ON_THE_HEAP ? QPN + 1 : 0;
		return key;
	}
}

static const struct {
	enum what what;
	bool remote, whole, other_pd;
	uint32_t qpn, access;
	int64_t before; /* the range begins so much before the key's */
	uint64_t length;
	enum av_check check;
	uint64_t wanted, limit;
	uint32_t has; /* besides AV_HAS_MEASURE and AV_HAS_ACCESS */
} keys[] = {
	{REGION, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0,
	 AV_HAS_REGION},
	{REGION, false, false, false, QPN, LOCAL, 0, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0,
	 AV_HAS_REGION},
	{REGION, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_UNMAPPED, 0, 0,
	 AV_HAS_REGION},
	{ON_THE_HEAP, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0,
	 AV_HAS_REGION},
	{UMR, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0, AV_HAS_REGION},
	{UMR, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_PIECE, 0, 0, AV_HAS_REGION},
	/* which key */
	{NEVER_GIVEN, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_UNKNOWN, 0, 0, 0},
	{NEVER_GIVEN, false, false, false, QPN, READ, 0, BYTES, AV_CHECK_LKEY_UNKNOWN, 0, 0, 0},
	{NO_INDEX, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_UNKNOWN, 0, 0, 0},
	{ZERO_KEY, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_UNKNOWN, 0, 0, 0},
	{ENDED, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_DEAD, 0, 0, 0},
	{WINDOW_UNBOUND, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_UNBOUND, 0, 0, 0},
	{WINDOW_2, false, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_IS_WINDOW, 0, 0,
	 AV_HAS_REGION | AV_HAS_REGION_QP},
	{NO_MEMORY, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_KEY_IS_NULL, 0, 0,
	 AV_HAS_REGION},
	{NO_MEMORY, false, false, false, QPN, READ, 5, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0,
	 AV_HAS_REGION},
	/* who */
	{REGION, true, false, true, QPN, READ, 0, BYTES, AV_CHECK_KEY_PD, PD + 1, PD,
	 AV_HAS_REGION},
	{WINDOW_2, true, false, false, QPN, READ, 0, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0,
	 AV_HAS_REGION | AV_HAS_REGION_QP},
	{WINDOW_2, true, false, false, QPN + 1, READ, 0, BYTES, AV_CHECK_KEY_WINDOW_QP, QPN + 1,
	 QPN, AV_HAS_REGION | AV_HAS_REGION_QP},
	{WINDOW_1, true, false, false, QPN + 1, READ, 0, BYTES, AV_CHECK_MEMORY_FAULT, 0, 0,
	 AV_HAS_REGION},
	/* what */
	{REGION, true, false, false, QPN, READ | WRITE, 0, BYTES, AV_CHECK_KEY_RIGHTS, READ | WRITE,
	 LOCAL | READ, AV_HAS_REGION},
	{REGION, true, false, false, QPN, READ, 3, 10, AV_CHECK_KEY_BEFORE, 3, BYTES,
	 AV_HAS_REGION},
	{REGION, true, false, false, QPN, READ, -10, BYTES, AV_CHECK_KEY_BEHIND, 10, BYTES,
	 AV_HAS_REGION},
	{REGION, true, false, false, QPN, READ, 0, BYTES + 1, AV_CHECK_KEY_BEHIND, 1, BYTES,
	 AV_HAS_REGION},
	{REGION, true, true, false, QPN, READ, 3, 10, AV_CHECK_MEMORY_FAULT, 0, 0, AV_HAS_REGION},
};

/* The key is refused by the check of row @i, or its memory is to fail later. */
static void expect_refused(size_t i, const struct av_mem_request *req)
{
	struct av_span span;
	enum av_check found = av_mem_get(seg, req, &span), check = keys[i].check;

	if (found == AV_CHECK_NONE)
		av_pin_end(span.pin);
	if (check == AV_CHECK_MEMORY_FAULT || check == AV_CHECK_KEY_UNMAPPED)
		check = keys[i].what == UMR ? AV_CHECK_KEY_PIECE : AV_CHECK_NONE;
	if (found != check)
		fail_msg("row %zu: refused by check %u", i, found);
}

static void expect_access(size_t i, const struct av_mem_request *req)
{
	const struct av_flight_record *r = av_diag_pending();

	if (r->has != (AV_HAS_MEASURE | AV_HAS_ACCESS | keys[i].has) || r->key != req->key ||
	    r->remote != req->remote || r->address != req->addr || r->length != req->length ||
	    r->access != req->access || r->pd != req->pd)
		fail_msg("row %zu: the access", i);
}

static void expect_region(size_t i, uint32_t key)
{
	const struct av_flight_record *r = av_diag_pending();
	const struct av_key *k = av_key_entry(seg, key);
	bool told = keys[i].has & AV_HAS_REGION;
	uint32_t qpn = keys[i].has & AV_HAS_REGION_QP ? QPN : 0;

	if (r->region_kind != (told ? k->kind : 0) || r->region_access != (told ? k->access : 0) ||
	    r->region_pd != (told ? PD : 0) || r->region_qp != qpn ||
	    r->region_address != (told ? BASE : 0) || r->region_length != (told ? BYTES : 0) ||
	    r->region_pid != (told ? PID : 0))
		fail_msg("row %zu: the region", i);
}

TEST_WITH(the_check_that_refused_a_key_is_named, set_up, tear_down)
{
	seg->head->pid = PID;
	for (size_t i = 0; i < AV_ARRAY_SIZE(keys); i++) {
		struct av_mem_request req = {.key = make(keys[i].what),
					     .pd = PD + keys[i].other_pd,
					     .access = keys[i].access,
					     .qpn = keys[i].qpn,
					     .remote = keys[i].remote,
					     .whole = keys[i].whole,
					     .addr = BASE - (uint64_t)keys[i].before,
					     .length = keys[i].length};
		uint64_t counted = refusals(req.key);

		expect_refused(i, &req);
		assert_int_equal(av_mr_explain(seg, &req, keys[i].check, AV_FAULT_LOC_PROT),
				 AV_FAULT_LOC_PROT);
		if (!noted(keys[i].check, keys[i].wanted, keys[i].limit))
			fail_msg("row %zu: check %u, %lu of %lu", i, av_diag_pending()->check,
				 (unsigned long)av_diag_pending()->wanted,
				 (unsigned long)av_diag_pending()->limit);
		expect_access(i, &req);
		expect_region(i, req.key);
		assert_int_equal(refusals(req.key) - counted, (keys[i].has & AV_HAS_REGION) != 0);
	}
}

/* The key that the index has in place of the one that is asked for. */
TEST_WITH(the_key_of_today_is_told, set_up, tear_down)
{
	struct av_mem_request req = {
		.key = make(WINDOW_OTHER_TAG), .pd = PD, .remote = true, .length = 1};

	av_mr_explain(seg, &req, AV_CHECK_KEY_DEAD, AV_FAULT_REM_ACCESS);
	assert_true(noted(AV_CHECK_KEY_DEAD, 0, req.key - 1));
	assert_int_equal(av_diag_pending()->has & AV_HAS_REGION, 0);
	assert_int_equal(refusals(req.key), 0);
}

TEST_WITH(a_fault_of_the_memory_is_none_of_the_key, set_up, tear_down)
{
	struct av_mem_request req = {.key = make(UMR),
				     .pd = PD,
				     .access = READ,
				     .remote = true,
				     .addr = BASE,
				     .length = BYTES};

	av_mr_explain(seg, &req, AV_CHECK_MEMORY_FAULT, AV_FAULT_REM_ACCESS);
	assert_true(noted(AV_CHECK_MEMORY_FAULT, 0, 0));
	assert_int_equal(refusals(req.key), 1);
}

/* A key that changes is no failure, and neither are commands in a payload. */
TEST_WITH(what_is_no_refusal_is_not_noted, set_up, tear_down)
{
	struct av_mem_request req = {.key = make(REGION), .pd = PD, .length = 1};

	av_diag_drop();
	assert_int_equal(av_mr_explain(seg, &req, AV_CHECK_BUSY, AV_FAULT_LOC_PROT), AV_FAULT_BUSY);
	assert_int_equal(av_mr_explain(seg, &req, AV_CHECK_TUNNELED, AV_FAULT_REM_ACCESS),
			 AV_FAULT_TUNNELED);
	assert_int_equal(av_diag_pending()->check, AV_CHECK_NONE);
	assert_int_equal(refusals(req.key), 0);
}

/* --- a list ---------------------------------------------------------------------- */

enum element { GOOD, GONE, BAD, PIECES, EMPTY, EMPTY_BAD, ELEMENTS };

static const struct {
	enum element list[3]; /* each of PAGE bytes, but for the empty ones */
	uint64_t bytes;
	enum av_check check;
	uint64_t wanted;
	enum element told; /* which key; ELEMENTS: none */
	bool counted;
} lists[] = {
	{{GOOD, BAD, GOOD}, 3 * PAGE, AV_CHECK_LKEY_UNKNOWN, 0, BAD, false},
	{{EMPTY_BAD, GOOD, BAD}, 2 * PAGE, AV_CHECK_LKEY_UNKNOWN, 0, BAD, false},
	{{GOOD, EMPTY_BAD, EMPTY}, 3 * PAGE, AV_CHECK_KEY_LIST, 2 * PAGE, ELEMENTS, false},
	{{GOOD, GOOD, GOOD}, 3 * PAGE + 1, AV_CHECK_KEY_LIST, 1, ELEMENTS, false},
	{{PIECES, BAD, GOOD}, 3 * PAGE, AV_CHECK_KEY_PIECE, 0, PIECES, true},
	{{GOOD, GONE, BAD}, 3 * PAGE, AV_CHECK_KEY_UNMAPPED, 0, GONE, true},
};

/* Return: what refuses the list, which is explained */
static enum av_check explain_list(const struct ibv_sge *sge, uint32_t count, uint64_t bytes)
{
	struct av_spans spans;
	enum av_check found = av_mem_get_list(seg, PD, LOCAL, sge, count, bytes, &spans);

	assert_int_not_equal(found, AV_CHECK_NONE);
	assert_int_equal(spans.count, 0);
	assert_int_equal(av_mr_explain_element(seg, PD, LOCAL, &sge[spans.refused], spans.bytes,
					       found, AV_FAULT_RECV_PROT),
			 AV_FAULT_RECV_PROT);
	return found;
}

TEST_WITH(the_element_at_fault_is_found, set_up, tear_down)
{
	uint32_t key[ELEMENTS];

	for (size_t i = 0; i < AV_ARRAY_SIZE(lists); i++) {
		struct ibv_sge sge[3];
		uint64_t before;
		uint32_t told;

		key[GOOD] = key[EMPTY] = region_of(AV_KEY_REGION, LOCAL | READ);
		key[PIECES] = region_of(AV_KEY_UMR, LOCAL | READ);
		key[BAD] = key[EMPTY_BAD] = NONE | 2;
		key[GONE] = region_of(AV_KEY_REGION, LOCAL | READ);
		for (size_t e = 0; e < 3; e++) {
			enum element is = lists[i].list[e];

			sge[e] = (struct ibv_sge){.lkey = key[is],
						  .addr = BASE + (is == GONE) * PAGE,
						  .length = is < EMPTY ? PAGE : 0};
		}
		atomic_store(&seg->head->odp_seq, 2 * i + 1);
		av_unmapped_record(seg, BASE + PAGE, PAGE);
		atomic_store(&seg->head->odp_seq, 2 * i + 2);
		told = lists[i].told < ELEMENTS ? key[lists[i].told] : 0;
		before = refusals(told);
		if (explain_list(sge, 3, lists[i].bytes) != lists[i].check ||
		    !noted(lists[i].check, lists[i].wanted, 0) || av_diag_pending()->key != told ||
		    refusals(told) != before + lists[i].counted)
			fail_msg("row %zu: check %u, key %#x", i, av_diag_pending()->check,
				 av_diag_pending()->key);
		for (unsigned int p = 0; p < AV_PINS; p++)
			assert_int_equal(atomic_load(&seg->head->pin[p].word), 0);
	}
}

/* The last part of an element is asked for with its own length. */
TEST_WITH(an_element_is_cut_to_what_is_left, set_up, tear_down)
{
	struct ibv_sge sge = {.lkey = make(REGION), .addr = BASE, .length = BYTES};

	for (uint64_t bytes = BYTES - 1; bytes <= BYTES; bytes++) {
		av_mr_explain_element(seg, PD, LOCAL, &sge, bytes, AV_CHECK_MEMORY_FAULT,
				      AV_FAULT_LOC_PROT);
		assert_true(noted(AV_CHECK_MEMORY_FAULT, 0, 0));
		assert_int_equal(av_diag_pending()->length, bytes);
		assert_int_equal(av_diag_pending()->access, LOCAL);
		assert_int_equal(av_diag_pending()->pd, PD);
	}
}

/* A count that cannot be is of a peer that has changed it. */
TEST_WITH(a_list_has_no_more_elements_than_allowed, set_up, tear_down)
{
	struct ibv_sge sge[AV_MAX_SGE + 1];
	uint64_t bytes = AV_MAX_SGE * PAGE;

	for (size_t i = 0; i <= AV_MAX_SGE; i++)
		sge[i] = (struct ibv_sge){.lkey = make(REGION), .addr = BASE, .length = PAGE};
	sge[AV_MAX_SGE - 1].lkey = NONE | 2;
	explain_list(sge, AV_MAX_SGE, bytes);
	assert_true(noted(AV_CHECK_LKEY_UNKNOWN, 0, 0));
	explain_list(sge, AV_MAX_SGE + 1, bytes);
	assert_true(noted(AV_CHECK_KEY_LIST, bytes, 0));
}

/* --- a bind ---------------------------------------------------------------------- */

static uint32_t window; /* of the row, any key */
static struct av_window_bind bind;

enum bad {
	NOTHING,
	NO_WINDOW, /* the index was never used */
	WINDOW_IS_REGION,
	OTHER_INDEX,
	WINDOW_PD,
	NO_REGION,
	UNKNOWN_REGION,
	OLD_REGION,
	REGION_PD,
	BOUND,
};

static const struct {
	enum ibv_mw_type type;
	enum bad bad;
	uint8_t kind;
	uint32_t region, access;
	int64_t before;
	uint64_t length;
	enum av_check check;
	uint64_t wanted, limit; /* 0, 0: of names that a row makes */
} binds[] = {
	{IBV_MW_TYPE_2, NO_WINDOW, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_WINDOW, 0, 0},
	{IBV_MW_TYPE_2, WINDOW_IS_REGION, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_WINDOW, 0, 0},
	{IBV_MW_TYPE_2, OTHER_INDEX, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_WINDOW, 0, 0},
	{IBV_MW_TYPE_2, WINDOW_PD, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES, AV_CHECK_BIND_PD,
	 PD, PD + 1},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, LOCAL | BIND, READ | BIND, 0, BYTES,
	 AV_CHECK_BIND_FLAGS, READ | BIND, KNOWN},
	/* types */
	{IBV_MW_TYPE_1, NOTHING, AV_KEY_REGION, LOCAL | BIND, READ | ZERO, 0, BYTES,
	 AV_CHECK_BIND_TYPE, READ | ZERO, BYTES},
	{IBV_MW_TYPE_1, NO_REGION, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES, AV_CHECK_BIND_TYPE,
	 READ, BYTES},
	{IBV_MW_TYPE_2, NO_REGION, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_LENGTH, BYTES, 0},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, LOCAL | BIND, READ, 0, 0, AV_CHECK_BIND_LENGTH, 0,
	 0},
	{IBV_MW_TYPE_2, BOUND, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES, AV_CHECK_BIND_BOUND, 0,
	 0},
	/* regions */
	{IBV_MW_TYPE_2, UNKNOWN_REGION, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_REGION, 0, 0},
	{IBV_MW_TYPE_2, OLD_REGION, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_REGION, 0, 0},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_UMR, LOCAL | BIND, READ, 0, BYTES, AV_CHECK_BIND_REGION, 0,
	 0},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_NULL, LOCAL | BIND, READ, 0, BYTES, AV_CHECK_BIND_REGION, 0,
	 0},
	{IBV_MW_TYPE_2, REGION_PD, AV_KEY_REGION, LOCAL | BIND, READ, 0, BYTES,
	 AV_CHECK_BIND_REGION_PD, PD, PD + 1},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, LOCAL, READ, 0, BYTES, AV_CHECK_BIND_REGION_FLAG,
	 BIND, LOCAL},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, LOCAL | BIND | ZERO, READ, 0, BYTES,
	 AV_CHECK_BIND_REGION_FLAG, BIND, LOCAL | BIND | ZERO},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, BIND, WRITE, 0, BYTES, AV_CHECK_BIND_RIGHTS, WRITE,
	 BIND},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, BIND, ATOMIC, 0, BYTES, AV_CHECK_BIND_RIGHTS,
	 ATOMIC, BIND},
	/* ranges; reading needs no right of the region */
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_REGION, BIND, READ, 3, 10, AV_CHECK_BIND_RANGE, 3, BYTES},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_ODP, LOCAL | BIND, WRITE, -10, BYTES, AV_CHECK_BIND_RANGE,
	 10, BYTES},
	{IBV_MW_TYPE_2, NOTHING, AV_KEY_PAGES, LOCAL | BIND, KNOWN, 0, BYTES + 1,
	 AV_CHECK_BIND_RANGE, 1, BYTES},
	{IBV_MW_TYPE_1, BOUND, AV_KEY_REGION, LOCAL | BIND, KNOWN & ~(uint32_t)ZERO, 0, BYTES + 2,
	 AV_CHECK_BIND_RANGE, 2, BYTES},
};

static void set_up_bind(size_t i)
{
	uint32_t region = region_of(binds[i].kind, binds[i].region);

	window = window_of(binds[i].type, binds[i].bad == BOUND);
	bind = (struct av_window_bind){.window = window,
				       .rkey = window + 1,
				       .region = region,
				       .access = binds[i].access,
				       .pd = PD,
				       .qpn = QPN,
				       .addr = BASE - (uint64_t)binds[i].before,
				       .length = binds[i].length};
	switch (binds[i].bad) {
	case NO_WINDOW:
		bind.window = bind.rkey = NONE | 1;
		break;
	case WINDOW_IS_REGION:
		bind.window = bind.rkey = region;
		break;
	case OTHER_INDEX:
		bind.rkey += 1u << 8;
		break;
	case WINDOW_PD:
		av_key_entry(seg, window)->pd = PD + 1;
		break;
	case NO_REGION:
		bind.region = 0;
		break;
	case UNKNOWN_REGION:
		bind.region = NONE | 1;
		break;
	case OLD_REGION:
		bind.region++;
		break;
	case REGION_PD:
		av_key_entry(seg, region)->pd = PD + 1;
		break;
	default:
		break;
	}
}

/* What was compared, of a check that compares names. */
static void names_of(enum av_check check, enum bad bad, uint64_t *wanted, uint64_t *limit)
{
	const struct av_key *k = av_key_entry(seg, bind.region);

	switch (check) {
	case AV_CHECK_BIND_WINDOW:
		*wanted = bind.rkey;
		*limit = bind.window;
		break;
	case AV_CHECK_BIND_LENGTH:
		*wanted = bind.length;
		*limit = bind.region;
		break;
	case AV_CHECK_BIND_BOUND:
		*wanted = bind.rkey;
		*limit = window;
		break;
	case AV_CHECK_BIND_REGION:
		*wanted = bind.region;
		*limit = bad == UNKNOWN_REGION ? 0 : atomic_load(&k->key);
		break;
	default:
		break;
	}
}

/* Of what the check looked at last: the window, or its region. */
static void expect_looked_at(size_t i)
{
	const struct av_flight_record *r = av_diag_pending();
	bool at_region =
		binds[i].check >= AV_CHECK_BIND_REGION && binds[i].check <= AV_CHECK_BIND_RANGE;
	const struct av_key *k = av_key_entry(seg, at_region ? bind.region : bind.window);
	bool there = at_region ? binds[i].bad != NO_REGION && binds[i].bad != UNKNOWN_REGION
			       : binds[i].bad != NO_WINDOW;

	if (!(r->has & AV_HAS_REGION) || r->region_kind != (there ? k->kind : AV_KEY_NONE) ||
	    r->region_pd != (there ? k->pd : 0))
		fail_msg("row %zu: kind %u, domain %u", i, r->region_kind, r->region_pd);
}

TEST_WITH(the_check_that_refused_a_bind_is_named, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(binds); i++) {
		const struct av_flight_record *r = av_diag_pending();
		uint64_t wanted = binds[i].wanted, limit = binds[i].limit;
		enum av_check found;

		fake_heap_close(&heap);
		fake_heap_open(&heap);
		set_up_bind(i);
		if (wanted == 0)
			names_of(binds[i].check, binds[i].bad, &wanted, &limit);
		found = av_window_bind(seg, &bind);
		av_window_explain(seg, &bind, found);
		if (found != binds[i].check || !noted(binds[i].check, wanted, limit))
			fail_msg("row %zu: check %u, %lu of %lu", i, r->check,
				 (unsigned long)r->wanted, (unsigned long)r->limit);
		if (!(r->has & AV_HAS_ACCESS) || r->key != bind.region || r->remote ||
		    r->address != bind.addr || r->length != bind.length ||
		    r->access != bind.access || r->pd != PD)
			fail_msg("row %zu: the access", i);
		expect_looked_at(i);
	}
}

/* --- an invalidation ------------------------------------------------------------- */

TEST_WITH(a_key_that_cannot_be_invalidated, set_up, tear_down)
{
	const struct av_flight_record *r = av_diag_pending();
	struct av_window_bind what = {.rkey = NONE | 1, .pd = PD, .qpn = QPN};

	av_invalidate_explain(seg, &what, AV_CHECK_INVALIDATE_WINDOW);
	assert_true(noted(AV_CHECK_INVALIDATE_WINDOW, what.rkey, 0));
	assert_int_equal(r->has, AV_HAS_MEASURE | AV_HAS_ACCESS);
	assert_int_equal(r->key, what.rkey);
	what.rkey = make(REGION);
	av_invalidate_explain(seg, &what, AV_CHECK_INVALIDATE_WINDOW);
	assert_true(noted(AV_CHECK_INVALIDATE_WINDOW, what.rkey, 0));
	assert_int_equal(r->region_kind, AV_KEY_REGION);
	what.rkey = make(WINDOW_OTHER_TAG);
	av_invalidate_explain(seg, &what, AV_CHECK_INVALIDATE_UNBOUND);
	assert_true(noted(AV_CHECK_INVALIDATE_UNBOUND, what.rkey, what.rkey - 1));
	assert_int_equal(r->region_kind, AV_KEY_WINDOW);
	assert_int_equal(r->region_qp, QPN);
}

/* --- a table of nonsense --------------------------------------------------------- */

/* A peer may have written anything to the place of no key. */
TEST_WITH(zero_is_no_key, set_up, tear_down)
{
	struct av_mem_request req = {.remote = true, .length = 1};
	struct av_window_bind none = {.access = READ};
	struct av_span span;
	struct av_key *k;

	make(REGION);
	k = av_key_entry(seg, 0);
	assert_non_null(k);
	k->kind = AV_KEY_REGION;
	k->length = BYTES;
	av_mr_explain(seg, &req, av_mem_get(seg, &req, &span), AV_FAULT_REM_ACCESS);
	assert_true(noted(AV_CHECK_KEY_UNKNOWN, 0, 0));
	assert_int_equal(refusals(0), 0);
	k->kind = AV_KEY_WINDOW;
	av_window_explain(seg, &none, av_window_bind(seg, &none));
	assert_true(noted(AV_CHECK_BIND_WINDOW, 0, 0));
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
