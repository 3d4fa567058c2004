/* SPDX-License-Identifier: MIT */
/*
 * Copies and atomics behind UMR keys: which bytes arrive, in how many calls, and what a fault
 * means. The other process's memory is an array here, and the calls that reach it are replaced.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "fake_seg.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/region.h"
#include "memory/translate.h"

#define RUN_PIECES 64u /* that are expanded at a time */
#define PAGE	   4096u
#define ROOM	   (32u * PAGE)
#define TOTAL	   9000u /* bytes of a list */
#define LIST_AT	   (3u << 20)
#define TOP	   (1u << 8)
#define REGION	   (2u << 8)
#define NOTHING	   (3u << 8) /* a null region */
#define SECOND	   (4u << 8) /* another key to the same bytes */
#define PD	   7u
#define LOCAL	   IBV_ACCESS_LOCAL_WRITE

struct end {
	struct fake_seg fake;
	uint8_t *memory;
	struct av_span span; /* all of the list */
};
static struct end dst, src;
static uint8_t was[ROOM];

/* --- the kernel ------------------------------------------------------------------ */

static struct {
	ssize_t error, many_error; /* 0: it copies */
	size_t most;		   /* bytes that one call of many pieces copies */
	unsigned int calls, many;
	size_t pins, runs; /* of the last call of many pieces */
} kernel;

static bool is_there(const struct iovec *local, bool write)
{
	return av_copy_probe(local->iov_base, !write) == AV_COPY_OK;
}

ssize_t av_vm_call(bool write, const struct av_vm_remote *remote, const struct iovec *local,
		   size_t count)
{
	uint8_t *there = (uint8_t *)(uintptr_t)remote->addr;
	ssize_t done = 0;

	assert_int_not_equal(atomic_load(&remote->pin->word), 0);
	kernel.calls++;
	if (kernel.error || !is_there(local, write))
		return kernel.error ? kernel.error : -EFAULT;
	for (size_t i = 0; i < count; done += local[i++].iov_len)
		memcpy(write ? there + done : local[i].iov_base,
		       write ? local[i].iov_base : there + done, local[i].iov_len);
	return done;
}

/* Byte @at of a list of pieces. Its pieces are aligned as the other process's, in a line. */
static uint8_t *byte_of(const struct iovec *iov, size_t count, size_t at)
{
	for (size_t i = 0; i < count; at -= iov[i++].iov_len)
		if (at < iov[i].iov_len)
			return (uint8_t *)iov[i].iov_base + at;
	return NULL;
}

ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
			size_t pin_count, const struct iovec *local, size_t count,
			const struct iovec *remote, size_t remote_count)
{
	size_t done = 0;
	uint8_t *here;

	assert_ptr_equal(seg, write ? &dst.fake.seg : &src.fake.seg);
	assert_true(pin_count > 0);
	for (size_t i = 0; i < pin_count; i++) {
		assert_int_not_equal(atomic_load(&pins[i]->word), 0);
		assert_true(i == 0 || pins[i] != pins[i - 1]);
	}
	kernel.many++;
	kernel.pins = pin_count;
	kernel.runs = remote_count;
	if (kernel.many_error)
		return kernel.many_error;
	for (; (here = byte_of(local, count, done)) && done < kernel.most; done++) {
		uint8_t *there = byte_of(remote, remote_count, done);

		assert_non_null(there);
		assert_int_equal(((uintptr_t)here - (uintptr_t)there) % AV_PIECES_LINE, 0);
		*(write ? there : here) = *(write ? here : there);
	}
	assert_true(done == kernel.most || !byte_of(remote, remote_count, done));
	return (ssize_t)done;
}

/* --- both ends ------------------------------------------------------------------- */

static struct av_key *key_of(struct end *e, uint32_t key, uint8_t kind)
{
	struct av_key *k = av_key_entry(&e->fake.seg, key);

	if (!k)
		abort(); /* unlike cmocka's, the compiler knows that one */
	k->kind = kind;
	k->pd = PD;
	k->access = LOCAL;
	atomic_store(&k->held, key);
	atomic_store(&k->key, key);
	return k;
}

static struct av_klm_list *list_of(struct end *e)
{
	return av_seg_at(&e->fake.seg, LIST_AT, sizeof(struct av_klm_list));
}

/* Keys without a list. */
static void open_end(struct end *e, bool here)
{
	struct av_key *k;

	fake_open(&e->fake, 1);
	fake_tables(&e->fake);
	e->fake.seg.own = here;
	e->fake.seg.proc = av_lock_self;
	e->fake.seg.vm_refused = true; /* which has been told */
	k = key_of(e, REGION, AV_KEY_REGION);
	k->addr = (uintptr_t)e->memory;
	k->length = ROOM;
	k = key_of(e, NOTHING, AV_KEY_NULL);
	k->access = 0;
	k = key_of(e, TOP, AV_KEY_UMR);
	k->addr = LIST_AT;
}

/* The next element. */
static void add(struct end *e, uint32_t key, uint64_t at, uint64_t length)
{
	struct av_klm_list *list = list_of(e);

	list->at[list->count++] = (struct av_klm_entry){
		.addr = at, .length = length, .start = list->round, .key = key};
	list->round += length;
}

static void begin(struct end *e, bool writes)
{
	struct av_mem_request req = {
		.key = TOP, .pd = PD, .access = writes ? LOCAL : 0, .length = list_of(e)->round};

	key_of(e, TOP, AV_KEY_UMR)->length = req.length;
	assert_int_equal(av_mem_get(&e->fake.seg, &req, &e->span), AV_CHECK_NONE);
	assert_non_null(e->span.umr);
}

/* Nothing stays pinned. */
static void close_end(struct end *e)
{
	if (e->span.pin)
		av_pin_end(e->span.pin);
	e->span.pin = NULL;
	for (unsigned int i = 0; i < AV_PINS; i++)
		assert_int_equal(atomic_load(&e->fake.seg.head->pin[i].word), 0);
	fake_close(&e->fake);
}

static int set_up(void **state)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.most = SIZE_MAX;
	dst.memory =
		mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	src.memory = dst.memory + ROOM;
	return dst.memory == MAP_FAILED || av_copy_init();
}

static int tear_down(void **state)
{
	return munmap(dst.memory, 2 * ROOM);
}

/* --- which bytes arrive ---------------------------------------------------------- */

/* How a list is cut, and how far apart the pieces are. */
static const struct {
	uint64_t first, then, gap;
} cuts[] = {
	{TOTAL, 0, 0},	  {1, 7, 3},	   {45, 45, 0},	    {45, 45, 64},
	{1024, 1024, 1},  {1025, 1025, 1}, {1024, 1024, 0}, {3000, 5, 9},
	{20, 7000, 4000}, {64, 64, 64},	   {8000, 1, 1},
};

static void cut(struct end *e, size_t how)
{
	uint64_t at = 5 * how, length = cuts[how].first;

	for (uint64_t left = TOTAL; left > 0; length = cuts[how].then) {
		length = length < left ? length : left;
		add(e, REGION, at, length);
		at += length + cuts[how].gap;
		left -= length;
	}
}

/* @i: the element of an earlier byte, or 0; out: of this one */
static uint8_t *place_of(struct end *e, uint64_t at, uint32_t *i)
{
	const struct av_klm_entry *element = list_of(e)->at;

	while (at - element[*i].start >= element[*i].length)
		++*i;
	return e->memory + element[*i].addr + (at - element[*i].start);
}

/* Both are lists here, or one of them in the other process. @from: bytes that are left out */
static enum av_fault copy(size_t d, size_t s, bool d_here, bool s_here, uint64_t from)
{
	uint32_t d_at = 0, s_at = 0;
	enum av_fault ret;

	for (size_t i = 0; i < 2 * ROOM; i++)
		dst.memory[i] = (uint8_t)(i * 7 + i / 251);
	memcpy(was, dst.memory, ROOM);
	kernel.calls = kernel.many = 0;
	open_end(&dst, d_here);
	open_end(&src, s_here);
	cut(&dst, d);
	cut(&src, s);
	begin(&dst, true);
	begin(&src, false);
	ret = av_klm_copy(&dst.span, from, &src.span, from, TOTAL - 2 * from);
	for (uint64_t i = from; ret == AV_FAULT_NONE && i < TOTAL - from; i++) {
		uint8_t *to = place_of(&dst, i, &d_at);

		if (*to != *place_of(&src, i, &s_at))
			fail_msg("%zu from %zu: byte %lu", d, s, (unsigned long)i);
		was[to - dst.memory] = *to;
	}
	if (ret == AV_FAULT_NONE)
		assert_memory_equal(dst.memory, was, ROOM);
	close_end(&dst);
	close_end(&src);
	return ret;
}

TEST_WITH(every_list_to_every_list, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(cuts) * AV_ARRAY_SIZE(cuts); i++)
		for (unsigned int far = 0; far < 3; far++)
			assert_int_equal(copy(i / AV_ARRAY_SIZE(cuts), i % AV_ARRAY_SIZE(cuts),
					      far != 1, far != 2, i % 3 ? i : 0),
					 AV_FAULT_NONE);
}

/* The middle of a list, too: two bytes of TOTAL, and one. */
TEST_WITH(single_bytes, set_up, tear_down)
{
	for (unsigned int far = 0; far < 3; far++) {
		assert_int_equal(copy(3, 4, far != 1, far != 2, TOTAL / 2 - 1), AV_FAULT_NONE);
		open_end(&dst, far != 1);
		open_end(&src, far != 2);
		add(&dst, REGION, 0, 10);
		add(&src, REGION, 0, 10);
		begin(&dst, true);
		begin(&src, false);
		memset(dst.memory, 0x11, PAGE);
		memset(src.memory, 0x22, PAGE);
		assert_int_equal(av_klm_copy(&dst.span, 4, &src.span, 6, 1), AV_FAULT_NONE);
		for (unsigned int i = 0; i < 10; i++)
			assert_int_equal(dst.memory[i], i == 4 ? 0x22 : 0x11);
		close_end(&dst);
		close_end(&src);
	}
}

/* Between pieces behind a key and plain bytes: an element of a list of spans may be either. */
TEST_WITH(one_end_without_a_key, set_up, tear_down)
{
	for (unsigned int to_pieces = 0; to_pieces < 2; to_pieces++) {
		struct end *e = to_pieces ? &dst : &src;
		struct av_spans pieces = {.count = 1, .bytes = 20}, plain;

		open_end(&dst, true);
		open_end(&src, true);
		add(e, REGION, 100, 10);
		add(e, REGION, 200, 10);
		begin(e, to_pieces);
		pieces.at[0] = e->span;
		av_spans_local(&plain, &e->fake.seg, e->memory + PAGE, 20);
		memset(e->memory, 0x11, PAGE);
		memset(e->memory + PAGE, 0x22, PAGE);
		assert_int_equal(to_pieces ? av_xfer_copy(&pieces, &plain, 0)
					   : av_xfer_copy(&plain, &pieces, 0),
				 AV_FAULT_NONE);
		assert_int_equal(e->memory[to_pieces ? 209 : PAGE + 19], to_pieces ? 0x22 : 0x11);
		assert_int_equal(e->memory[to_pieces ? 210 : PAGE + 20], to_pieces ? 0x11 : 0x22);
		close_end(&dst);
		close_end(&src);
	}
}

/* What a call leaves is copied piece by piece. */
TEST_WITH(calls_that_do_less, set_up, tear_down)
{
	static const size_t most[] = {1, 44, 45, 46, 100, 2000};

	for (size_t i = 0; i < AV_ARRAY_SIZE(most); i++)
		for (unsigned int far = 1; far < 3; far++) {
			kernel.most = most[i];
			assert_int_equal(copy(3, 3, far != 1, far != 2, 0), AV_FAULT_NONE);
			assert_true(kernel.many > 0 && kernel.calls > 0);
		}
}

/* --- how many calls -------------------------------------------------------------- */

static const struct {
	size_t cut;
	unsigned int calls, many; /* at most; exactly, if it is 0 */
} costs[] = {
	{0, 1, 0},			    /* a large piece */
	{2, 0, 4},			    /* 200 small ones */
	{3, 0, 4},			    /* the same, apart */
	{4, 0, 4},			    /* as large as small ones are */
	{5, TOTAL / 1025, 2},		    /* larger ones, and a rest */
	{1, 0, TOTAL / 7 / RUN_PIECES + 2}, /* many */
};

TEST_WITH(small_pieces_share_a_call, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(costs); i++)
		for (unsigned int far = 1; far < 3; far++) {
			size_t cut_far = costs[i].cut;

			assert_int_equal(copy(far == 1 ? cut_far : 0, far == 2 ? cut_far : 0,
					      far != 1, far != 2, 0),
					 AV_FAULT_NONE);
			if (kernel.calls > 2 * costs[i].calls || kernel.many > costs[i].many)
				fail_msg("row %zu: %u and %u calls", i, kernel.calls, kernel.many);
		}
}

/*
 * Each key that pieces lie behind stays pinned, and is named once for pieces in a row. Adjacent
 * pieces are one.
 */
TEST_WITH(keys_and_runs_of_a_call, set_up, tear_down)
{
	for (unsigned int far = 1; far < 3; far++)
		for (unsigned int row = 1; row <= 4; row++) {
			unsigned int gap = row % 2 ? 10 : 0;
			struct end *e = far == 1 ? &dst : &src;
			struct av_key *k;

			open_end(&dst, far != 1);
			open_end(&src, far != 2);
			k = key_of(e, SECOND, AV_KEY_REGION);
			k->addr = (uintptr_t)e->memory;
			k->length = ROOM;
			for (unsigned int i = 0; i < 12; i++)
				add(e, i / row % 2 ? SECOND : REGION, (10 + gap) * i, 10);
			add(far == 1 ? &src : &dst, REGION, 0, 120);
			begin(&dst, true);
			begin(&src, false);
			assert_int_equal(av_klm_copy(&dst.span, 0, &src.span, 0, 120),
					 AV_FAULT_NONE);
			assert_int_equal(kernel.pins, 12 / row);
			assert_int_equal(kernel.runs, gap ? 12 : 1);
			close_end(&dst);
			close_end(&src);
		}
}

/* --- faults ---------------------------------------------------------------------- */

static const struct {
	ssize_t error, many_error;
	enum av_fault write, read;
} errors[] = {
	{0, -EFAULT, AV_FAULT_NONE, AV_FAULT_NONE}, /* piece by piece there is none */
	{-EFAULT, -EFAULT, AV_FAULT_DST, AV_FAULT_SRC},
	{-EPERM, -EPERM, AV_FAULT_FORBIDDEN, AV_FAULT_FORBIDDEN},
	{-ESRCH, -ESRCH, AV_FAULT_GONE, AV_FAULT_GONE},
	{-EAGAIN, -EAGAIN, AV_FAULT_BUSY, AV_FAULT_BUSY},
};

TEST_WITH(each_error_of_the_kernel_has_its_meaning, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(errors); i++)
		for (size_t how = 0; how < AV_ARRAY_SIZE(cuts); how++) {
			kernel.error = errors[i].error;
			kernel.many_error = errors[i].many_error;
			if (copy(how, how, false, true, 0) != errors[i].write ||
			    copy(how, how, true, false, 0) != errors[i].read)
				fail_msg("row %zu: list %zu", i, how);
		}
}

/* A piece in the middle is not there, in this process. */
TEST_WITH(a_fault_at_the_near_end, set_up, tear_down)
{
	for (unsigned int far = 0; far < 3; far++)
		for (unsigned int bad = 1; bad < 3; bad++) {
			struct end *e = bad == 1 ? &dst : &src;
			enum av_fault ret;

			if (far == bad)
				continue;
			open_end(&dst, far != 1);
			open_end(&src, far != 2);
			for (uint64_t i = 0; i < 9; i++) {
				add(&dst, REGION, 2 * i * PAGE, 100);
				add(&src, REGION, 2 * i * PAGE + 50, 100);
			}
			begin(&dst, true);
			begin(&src, false);
			assert_int_equal(mprotect(e->memory + 8 * PAGE, PAGE, PROT_NONE), 0);
			memset(src.memory, 0x55, PAGE);
			ret = av_klm_copy(&dst.span, 0, &src.span, 0, 900);
			assert_int_equal(
				mprotect(e->memory + 8 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
			if (ret != (bad == 1 ? AV_FAULT_DST : AV_FAULT_SRC) ||
			    dst.memory[99] != 0x55)
				fail_msg("far %u, bad %u: %d", far, bad, (int)ret);
			close_end(&dst);
			close_end(&src);
		}
}

/* Keys that change, or go, after the check of the list. */
TEST_WITH(keys_that_go_meanwhile, set_up, tear_down)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct end *e = i & 1 ? &src : &dst;
		bool changes = i & 2;
		enum av_fault fault = i & 1 ? AV_FAULT_SRC : AV_FAULT_DST;
		struct av_key *k;

		open_end(&dst, true);
		open_end(&src, true);
		cut(&dst, 3);
		cut(&src, 3);
		begin(&dst, true);
		begin(&src, false);
		k = av_key_entry(&e->fake.seg, REGION);
		assert_non_null(k);
		atomic_store(&k->key, 0);
		atomic_store(&k->held, changes ? REGION : 0);
		assert_int_equal(av_klm_copy(&dst.span, 0, &src.span, 0, TOTAL),
				 changes ? AV_FAULT_BUSY : fault);
		close_end(&dst);
		close_end(&src);
	}
}

/* --- null regions ---------------------------------------------------------------- */

TEST_WITH(a_piece_of_a_null_region, set_up, tear_down)
{
	for (unsigned int far = 0; far < 3; far++) {
		open_end(&dst, far != 1);
		open_end(&src, far != 2);
		for (unsigned int i = 0; i < 3; i++) {
			add(&dst, i == 1 ? NOTHING : REGION, 200 * i, 100);
			add(&src, i == 2 ? NOTHING : REGION, 200 * i, 100);
		}
		key_of(&dst, NOTHING, AV_KEY_NULL); /* which may be written */
		begin(&dst, true);
		begin(&src, false);
		memset(dst.memory, 0x11, PAGE);
		memset(src.memory, 0x22, PAGE);
		assert_int_equal(av_klm_copy(&dst.span, 0, &src.span, 0, 300), AV_FAULT_NONE);
		for (unsigned int i = 0; i < PAGE; i++)
			if (dst.memory[i] != (i < 100 ? 0x22 : i < 400 || i >= 500 ? 0x11 : 0))
				fail_msg("far %u: byte %u", far, i);
		close_end(&dst);
		close_end(&src);
	}
}

/* --- atomics --------------------------------------------------------------------- */

static const struct {
	uint32_t key;
	uint64_t at[2], length[2]; /* of two elements */
	enum av_fault ret;
	uint64_t old; /* if it works */
} atomics[] = {
	{REGION, {16, 64}, {8, 8}, AV_FAULT_NONE, 5},
	{REGION, {20, 64}, {8, 8}, AV_FAULT_REM_MISALIGNED, 0},
	{REGION, {17, 64}, {8, 8}, AV_FAULT_REM_MISALIGNED, 0},
	{REGION, {16, 20}, {4, 8}, AV_FAULT_REM_MISALIGNED, 0},
	{REGION, {16, 23}, {7, 1}, AV_FAULT_REM_MISALIGNED, 0},
	{NOTHING, {16, 64}, {8, 8}, AV_FAULT_NONE, 0},
};

TEST_WITH(an_operand_is_one_aligned_word, set_up, tear_down)
{
	const struct av_atomic one = {.op = AV_ATOMIC_ADD, .bytes = 8, .value = {{1}}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(atomics); i++) {
		struct av_operand old = {{77}};
		uint64_t word = 5;
		enum av_fault ret;

		open_end(&dst, true);
		for (unsigned int n = 0; n < 2; n++)
			add(&dst, atomics[i].key, atomics[i].at[n], atomics[i].length[n]);
		key_of(&dst, NOTHING, AV_KEY_NULL);
		begin(&dst, true);
		dst.span.length = 8;
		memcpy(dst.memory + 16, &word, sizeof(word));
		ret = av_klm_atomic(&dst.span, &one, &old, 0);
		memcpy(&word, dst.memory + 16, sizeof(word));
		if (ret != atomics[i].ret ||
		    (ret == AV_FAULT_NONE && old.word[0] != atomics[i].old) ||
		    word != 5u + (ret == AV_FAULT_NONE && atomics[i].key == REGION))
			fail_msg("row %zu: %d", i, (int)ret);
		close_end(&dst);
	}
}

TEST_WITH(an_operand_behind_a_key_that_goes, set_up, tear_down)
{
	const struct av_atomic one = {.op = AV_ATOMIC_ADD, .bytes = 8, .value = {{1}}};

	for (unsigned int changes = 0; changes < 2; changes++) {
		struct av_operand old;
		struct av_key *k;

		open_end(&dst, true);
		add(&dst, REGION, 16, 8);
		begin(&dst, true);
		k = av_key_entry(&dst.fake.seg, REGION);
		assert_non_null(k);
		atomic_store(&k->key, 0);
		atomic_store(&k->held, changes ? REGION : 0);
		assert_int_equal(av_klm_atomic(&dst.span, &one, &old, 0),
				 changes ? AV_FAULT_BUSY : AV_FAULT_DST);
		close_end(&dst);
	}
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
