/* SPDX-License-Identifier: MIT */
/*
 * Atomics on memory of this process and of another one: what is stored, which lock is held, how
 * often the operand is read, and what a fault means. The other process's memory is an array here,
 * and the calls that reach it are replaced.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "lib/atomic_model.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "memory/translate.h"
#include "unit/memory/seg_fixture.h"

#define PAGE   4096u
#define BYTES  128u	 /* around the operands */
#define OTHER  0x300005u /* context with pages */
#define ROUNDS 200

static uint8_t memory[BYTES] AV_ALIGNED(64);
static struct av_span span;
static struct av_dir_stripe *stripe; /* of the operand */

/* --- the kernel ------------------------------------------------------------------ */

static struct {
	ssize_t error[2]; /* of a read, and of a write; 0: none */
	unsigned int calls[2];
	void (*meanwhile)(void); /* during the first read */
	bool held;		 /* another holds the lock then */
} kernel;

ssize_t av_vm_call(bool write, const struct av_vm_remote *remote, const struct iovec *local,
		   size_t count)
{
	uint8_t *there = (uint8_t *)(uintptr_t)remote->addr;

	assert_int_equal(count, 1);
	assert_int_equal(local->iov_len, remote->bytes);
	assert_int_equal(((uintptr_t)local->iov_base - remote->addr) % remote->bytes, 0);
	assert_int_equal(atomic_load(&stripe->lock.owner) != 0,
			 write || kernel.calls[0] > 0 || kernel.held);
	kernel.calls[write]++;
	if (kernel.error[write])
		return kernel.error[write];
	memcpy(write ? there : local->iov_base, write ? local->iov_base : there, local->iov_len);
	if (kernel.meanwhile && kernel.calls[0] == 1 && !write)
		kernel.meanwhile();
	return (ssize_t)local->iov_len;
}

static int set_up(void **state)
{
	fake_open(&fake, 1);
	fake.seg.proc = av_lock_self;
	fake.seg.vm_refused = true; /* which has been told */
	memset(&kernel, 0, sizeof(kernel));
	return av_copy_init();
}

/* The operand is @at, in this process or out of its reach. */
static void place(void *at, uint32_t bytes, bool here)
{
	span = (struct av_span){.local = here ? at : NULL,
				.addr = (uintptr_t)at,
				.length = bytes,
				.seg = &fake.seg};
	stripe = av_dir_stripe(fake.seg.proc, span.addr);
	kernel.calls[0] = kernel.calls[1] = 0;
}

static uint32_t taken(void)
{
	return atomic_load(&stripe->taken);
}

static enum av_fault apply(const struct av_atomic *a, struct av_operand *old)
{
	enum av_fault ret = av_xfer_atomic(&span, a, old, 0);

	assert_int_equal(atomic_load(&stripe->lock.owner), 0);
	return ret;
}

/* --- what is stored -------------------------------------------------------------- */

static const uint32_t sizes[] = {1, 2, 4, 8, 16, 32};

static void once(struct av_atomic *a, unsigned int at, bool here)
{
	struct av_operand was, old = {{0}};
	uint8_t before[BYTES];
	uint32_t then;
	bool stores;

	model_random(a, &was);
	for (unsigned int i = 0; i < BYTES; i++)
		memory[i] = (uint8_t)(i * 37 + at);
	memcpy(memory + at, &was, a->bytes);
	memcpy(before, memory, BYTES);
	place(memory + at, a->bytes, here);
	then = taken();
	assert_int_equal(apply(a, &old), AV_FAULT_NONE);
	if (a->op != AV_ATOMIC_SWAP || (here && a->bytes < sizeof(uint64_t)))
		assert_memory_equal(&old, &was, a->bytes);
	stores = model_atomic(a, before + at);
	if (memcmp(memory, before, BYTES))
		fail_msg("operation %d on %u bytes at %u%s", (int)a->op, a->bytes, at,
			 a->how ? ", swapped" : "");
	assert_int_equal(taken(), then + 1);
	assert_int_equal(kernel.calls[0], !here); /* nobody came: it has been read */
	assert_int_equal(kernel.calls[1], !here && stores);
}

TEST_WITH(every_operation_at_every_place, set_up, close_fake)
{
	for (unsigned int s = 0; s < AV_ARRAY_SIZE(sizes); s++)
		for (unsigned int i = 0; i < ROUNDS * AV_ATOMIC_OP_N; i++) {
			struct av_atomic a = {.op = i % AV_ATOMIC_OP_N, .bytes = sizes[s]};

			a.how = i / AV_ATOMIC_OP_N % 2;
			once(&a, i * sizes[s] % (BYTES - 32), i % 2);
			once(&a, i * sizes[s] % (BYTES - 32), i % 2 == 0);
		}
}

/*
 * A word by itself, which the processor's instructions can do; or only if the mask is empty, or
 * full. The operand's other words are not its own.
 */
static const struct {
	enum av_atomic_op op;
	uint64_t mask, compare_mask, compare, value, before, after;
} words[] = {
	{AV_ATOMIC_ADD, 0, 0, 0, 3, 5, 8},
	{AV_ATOMIC_ADD, 1, 0, 0, 3, 5, 6}, /* nothing is carried out of the lowest bit */
	{AV_ATOMIC_ADD, 0xf, 0, 0, 1, 1, 0},
	{AV_ATOMIC_CMP_SWAP, UINT64_MAX, UINT64_MAX, 5, 9, 5, 9},
	{AV_ATOMIC_CMP_SWAP, UINT64_MAX, UINT64_MAX, 4, 9, 5, 5},
	{AV_ATOMIC_CMP_SWAP, 8, UINT64_MAX, 5, 9, 5, 13},
	{AV_ATOMIC_CMP_SWAP, UINT64_MAX, 1, 7, 9, 5, 9},
};

TEST_WITH(a_word_is_changed_under_its_mask, set_up, close_fake)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(words); i++) {
		uint64_t beyond = i % 2 ? UINT64_MAX : 0, after;
		struct av_operand old = {{0}};
		struct av_atomic a = {.op = words[i / 2].op,
				      .bytes = 8,
				      .mask = {{words[i / 2].mask, beyond}},
				      .compare_mask = {{words[i / 2].compare_mask, beyond}},
				      .compare = {{words[i / 2].compare, beyond}},
				      .value = {{words[i / 2].value, beyond}}};

		memcpy(memory, &words[i / 2].before, sizeof(uint64_t));
		place(memory, 8, true);
		assert_int_equal(apply(&a, &old), AV_FAULT_NONE);
		memcpy(&after, memory, sizeof(after));
		if (after != words[i / 2].after || old.word[0] != words[i / 2].before)
			fail_msg("row %zu: %#lx, was %#lx", i / 2, (unsigned long)after,
				 (unsigned long)old.word[0]);
	}
}

/* --- others ---------------------------------------------------------------------- */

static const struct av_atomic add_one = {.op = AV_ATOMIC_ADD, .bytes = 8, .value = {{1}}};

static void another_adds(void)
{
	atomic_fetch_add(&stripe->taken, 1);
	memory[0] += 10;
}

static void another_goes_on_adding(void)
{
	memory[0] += 10;
	atomic_store(&stripe->lock.owner, 0);
	kernel.held = false;
}

static void another_is_followed_by_one_more(void)
{
	atomic_fetch_add(&stripe->taken, 1);
	another_goes_on_adding();
}

static const struct {
	void (*meanwhile)(void);
	bool held; /* the lock, at the beginning */
	uint64_t old;
	unsigned int reads;
} others[] = {
	{NULL, false, 5, 1},
	{another_adds, false, 15, 2},
	{another_goes_on_adding, true, 15, 2},
	{another_is_followed_by_one_more, true, 15, 2},
};

/* What was read without the lock counts only if nobody held it, or has held it since. */
TEST_WITH(what_another_changed_is_read_again, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(others); i++) {
		struct av_operand old;

		memset(memory, 0, sizeof(memory));
		memory[0] = 5;
		place(memory, 8, false);
		kernel.meanwhile = others[i].meanwhile;
		kernel.held = others[i].held;
		atomic_store(&stripe->lock.owner, kernel.held ? av_lock_self : 0);
		assert_int_equal(av_xfer_atomic(&span, &add_one, &old, 0), AV_FAULT_NONE);
		if (old.word[0] != others[i].old || kernel.calls[0] != others[i].reads ||
		    memory[0] != others[i].old + 1)
			fail_msg("row %zu: %u reads", i, kernel.calls[0]);
	}
}

TEST_WITH(a_lock_that_is_not_given_up_is_busy, set_up, close_fake)
{
	struct av_operand old;

	memory[0] = 5;
	place(memory, 8, true);
	atomic_store(&stripe->lock.owner, av_lock_self);
	assert_int_equal(av_xfer_atomic(&span, &add_one, &old, 0), AV_FAULT_BUSY);
	assert_int_equal(atomic_load(&stripe->lock.owner), av_lock_self);
	assert_int_equal(memory[0], 5);
	atomic_store(&stripe->lock.owner, 0);
}

/* Pages have the lock of their own context and place, whoever has a key to them. */
TEST_WITH(pages_have_a_lock_of_their_own, set_up, close_fake)
{
	struct av_operand old;

	for (unsigned int pages = 0; pages < 2; pages++) {
		uint32_t then[2];
		struct av_dir_stripe *of[2];

		place(memory, 8, true);
		span.pages_owner = pages ? OTHER : 0;
		span.offset = 1u << 20;
		of[0] = stripe;
		of[1] = av_dir_stripe(OTHER, span.offset);
		assert_ptr_not_equal(of[0], of[1]);
		stripe = of[pages];
		for (unsigned int i = 0; i < 2; i++)
			then[i] = atomic_load(&of[i]->taken);
		assert_int_equal(apply(&add_one, &old), AV_FAULT_NONE);
		for (unsigned int i = 0; i < 2; i++)
			assert_int_equal(atomic_load(&of[i]->taken), then[i] + (i == pages));
	}
}

/* --- faults ---------------------------------------------------------------------- */

static const struct {
	ssize_t read, write; /* errors of the kernel */
	enum av_fault ret;
} errors[] = {
	{-EFAULT, 0, AV_FAULT_DST},	   {0, -EFAULT, AV_FAULT_DST},
	{-ENOMEM, 0, AV_FAULT_DST},	   {0, -ENOMEM, AV_FAULT_DST},
	{-EPERM, 0, AV_FAULT_FORBIDDEN},   {0, -EPERM, AV_FAULT_FORBIDDEN},
	{-ESRCH, 0, AV_FAULT_GONE},	   {0, -ESRCH, AV_FAULT_GONE},
	{-EAGAIN, -EAGAIN, AV_FAULT_BUSY}, {0, -EAGAIN, AV_FAULT_BUSY},
};

TEST_WITH(each_error_of_the_kernel_has_its_meaning, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(errors); i++) {
		struct av_operand old;

		place(memory, 8, false);
		kernel.error[0] = errors[i].read;
		kernel.error[1] = errors[i].write;
		if (apply(&add_one, &old) != errors[i].ret)
			fail_msg("row %zu", i);
		assert_int_equal(kernel.calls[1], errors[i].read == 0);
	}
}

/* Also if a comparison fails, and nothing would be stored. */
TEST_WITH(memory_that_cannot_be_written_is_a_fault, set_up, close_fake)
{
	uint8_t *pages = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	for (int prot = PROT_NONE; prot <= PROT_READ; prot++)
		for (unsigned int s = 0; s < AV_ARRAY_SIZE(sizes); s++)
			for (int op = 0; op < AV_ATOMIC_OP_N; op++) {
				struct av_atomic a = {.op = op,
						      .bytes = sizes[s],
						      .compare = {{op == AV_ATOMIC_CMP_SWAP}}};
				struct av_operand old;

				memset(&a.compare_mask, 0xff, sizeof(a.compare_mask));
				assert_int_equal(mprotect(pages, PAGE, prot), 0);
				place(pages, a.bytes, true);
				if (apply(&a, &old) != AV_FAULT_DST)
					fail_msg("operation %d on %u bytes, rights %d", op, a.bytes,
						 prot);
			}
	munmap(pages, PAGE);
}

/* --- on demand ------------------------------------------------------------------- */

static const struct {
	ssize_t error;
	enum av_fault ret;
	uint64_t faults, failed;
} events[] = {
	{-EPERM, AV_FAULT_FORBIDDEN, 0, 0},			      /* given up: no event */
	{0, AV_FAULT_NONE, 1, 0},	    {0, AV_FAULT_NONE, 1, 0}, /* the page is valid now */
	{-EAGAIN, AV_FAULT_BUSY, 1, 0},	    {-EFAULT, AV_FAULT_DST, 2, 1},
};

TEST_WITH(page_faults_are_counted, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(events); i++) {
		struct av_operand old;

		place(memory, 8, false);
		span.odp = true;
		kernel.error[0] = events[i].error;
		if (apply(&add_one, &old) != events[i].ret ||
		    counted(&fake, AV_ODP_COUNT_FAULTS) != events[i].faults ||
		    counted(&fake, AV_ODP_COUNT_FAILED_RESOLUTIONS) != events[i].failed)
			fail_msg("row %zu: %lu", i,
				 (unsigned long)counted(&fake, AV_ODP_COUNT_FAULTS));
		assert_int_equal(counted(&fake, AV_ODP_COUNT_FAULT_PAGES), events[i].faults > 0);
		if (events[i].ret == AV_FAULT_NONE) /* it has been written */
			assert_int_equal(fake_missing(&fake.seg, span.addr, 8, true), 0);
	}
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
