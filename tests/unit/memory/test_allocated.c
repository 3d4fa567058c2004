/* SPDX-License-Identifier: MIT */
/*
 * Memory that comes with its region: which pages it is given, who may have a region on the same
 * ones, and when they are freed. Both regions are this process's, in contexts of their own.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "lib/closed_input.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "registry/tables.h"
#include "segment/pages.h"

#define PAGE   AV_PAGE_BYTES
#define HUGE   AV_HUGE_PAGE_BYTES
#define BYTES  (2 * PAGE + 1)
#define KEYS   64u
#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define REMOTE IBV_ACCESS_REMOTE_READ
#define WRITE  IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define ODP    IBV_ACCESS_ON_DEMAND
#define ZERO   IBV_ACCESS_ZERO_BASED
#define READ   (AV_SHARED | AV_SHARE_READ)
#define BOTH   (READ | AV_SHARE_WRITE)

static struct av_seg *first, *second, *stranger; /* the last is of another device */
static uint32_t no_slot;			 /* of no context, before that of the first */
static struct av_allocated memory, other;
static struct av_key what, other_what;

static struct av_seg *context_of(const char *device)
{
	const struct av_seg_device dev = {.name = device};
	struct av_seg *seg = av_seg_create(&dev, 0);

	assert_non_null(seg);
	return seg;
}

static void end_context(struct av_seg *seg)
{
	av_seg_end_calls(seg);
	av_odp_notify_end(seg); /* private memory is watched */
	av_seg_close(seg);
}

static int set_up(void **state)
{
	struct av_seg *before = context_of("one");

	no_slot = AV_REF_SLOT(before->ref);
	first = context_of("one");
	second = context_of("one");
	stranger = context_of("two");
	end_context(before);
	return 0;
}

static int tear_down(void **state)
{
	end_context(stranger);
	end_context(second);
	end_context(first);
	return 0;
}

/* --- what is refused --------------------------------------------------------------- */

static const struct {
	uint32_t access;
	uint64_t off; /* of the address, from a free page's begin on */
	uint64_t length;
	int err;
} requests[] = {
	{LOCAL, 0, BYTES, 0},
	{LOCAL | ODP, 0, BYTES, EINVAL},
	{LOCAL | ZERO, 0, BYTES, EINVAL},
	{WRITE, 0, BYTES, EINVAL}, /* without the local right */
	{LOCAL, 1, BYTES, EINVAL},
	{LOCAL, PAGE / 2, BYTES, EINVAL},
	{LOCAL, PAGE, BYTES, EEXIST},
	{LOCAL, 0, 0, EINVAL},
	{LOCAL, 0, 1, 0},
	{LOCAL, 0, SIZE_MAX - HUGE, ENOMEM},
	{LOCAL, 0, SIZE_MAX - HUGE + 1, EINVAL},
};

/* Return: the first of two pages. The second one stays mapped, and can be mapped over nowhere. */
static uint8_t *free_page(void)
{
	uint8_t *p = mmap(NULL, 9 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

TEST_WITH(a_request_must_be_sound, set_up, tear_down)
{
	uint8_t *taken = free_page();

	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(requests); i++) {
		bool share = i % 2;
		uint64_t off = requests[i / 2].off;
		struct av_allocate_request req = {.wanted = off ? taken + off : NULL,
						  .length = requests[i / 2].length,
						  .access = requests[i / 2].access,
						  .share = share ? BOTH : 0};
		int err = av_allocated_make(first, &req, &memory, &what);

		if (err != requests[i / 2].err || (memory.map != NULL) != (err == 0))
			fail_msg("row %zu: %d", i / 2, err);
		av_allocated_end(&memory, false);
	}
	munmap(taken, 9 * PAGE);
}

/* --- which pages ------------------------------------------------------------------- */

static const struct {
	enum av_alloc_type type;
	uint8_t min_log2;
	uint8_t share;
	bool no_rdma;
	int err;
	uint8_t kind, key_share;
} policies[] = {
	{AV_ALLOC_ANON, 12, 0, false, 0, AV_KEY_REGION, AV_KEY_PRIVATE},
	{AV_ALLOC_ANON, 12, READ, false, 0, AV_KEY_PAGES, READ},
	{AV_ALLOC_ANON, 12, 0, true, 0, AV_KEY_MAPPED, 0},
	{AV_ALLOC_CONTIG, 12, 0, false, 0, AV_KEY_PAGES, 0},
	{AV_ALLOC_CONTIG, 12, BOTH, true, 0, AV_KEY_MAPPED, BOTH},
	{AV_ALLOC_PREFER_CONTIG, 12, 0, false, 0, AV_KEY_PAGES, 0},
	/* blocks larger than a huge page do not exist */
	{AV_ALLOC_CONTIG, 22, 0, false, ENOMEM, 0, 0},
	{AV_ALLOC_CONTIG, 22, BOTH, false, ENOMEM, 0, 0},
	{AV_ALLOC_PREFER_CONTIG, 22, 0, false, 0, AV_KEY_REGION, AV_KEY_PRIVATE},
	{AV_ALLOC_PREFER_CONTIG, 22, BOTH, false, 0, AV_KEY_PAGES, BOTH},
};

static void expect_pages(size_t i)
{
	bool private = policies[i].kind == AV_KEY_REGION;
	uint8_t *program = memory.map;

	program[0] = 7;
	if (memory.seg != first || !memory.writable || memory.bytes != 3 * PAGE ||
	    memory.shared != (policies[i].share != 0) ||
	    memory.pages_owner != (private ? 0 : first->ref) ||
	    av_page_users_any(first->ref, memory.at) != memory.shared)
		fail_msg("row %zu: the memory", i);
	if (!private && *((uint8_t *)first->head + memory.at) != 7)
		fail_msg("row %zu: its pages are elsewhere", i);
	assert_int_equal(program[BYTES - 1], 0);
}

static void expect_key(size_t i)
{
	bool private = policies[i].kind == AV_KEY_REGION;

	if (what.kind != policies[i].kind || what.share != policies[i].key_share ||
	    what.access != LOCAL || what.length != BYTES || what.base != (uintptr_t)memory.map ||
	    what.addr != (private ? what.base : memory.at))
		fail_msg("row %zu: the key", i);
	if (!private &&
	    atomic_load(&what.intact) != ((uint64_t)policies[i].type << 32 | (uint64_t)first->ref))
		fail_msg("row %zu: %#lx", i, (unsigned long)atomic_load(&what.intact));
}

TEST_WITH(each_policy_has_its_pages, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(policies); i++) {
		struct av_allocate_request req = {.length = BYTES,
						  .access = LOCAL,
						  .no_rdma = policies[i].no_rdma,
						  .share = policies[i].share,
						  .policy = {.type = policies[i].type,
							     .min_log2 = policies[i].min_log2,
							     .max_log2 = 12}};
		int err = av_allocated_make(first, &req, &memory, &what);

		if (err != policies[i].err)
			fail_msg("row %zu: %d", i, err);
		if (err)
			continue;
		expect_pages(i);
		expect_key(i);
		av_allocated_end(&memory, false);
		assert_null(memory.map);
	}
}

/* What wants huge pages and may do without has some memory, wherever there are none. */
TEST_WITH(huge_pages_are_counted, set_up, tear_down)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct av_allocate_request req = {.length = 2 * HUGE - 1,
						  .access = LOCAL,
						  .share = i ? BOTH : 0,
						  .policy = {.type = AV_ALLOC_PREFER_HUGE}};
		uint64_t huge;

		assert_int_equal(av_allocated_make(first, &req, &memory, &what), 0);
		huge = atomic_load(&what.intact) >> (32 + AV_KEY_HUGE_SHIFT);
		assert_true(memory.bytes >= req.length && memory.bytes <= 2 * HUGE);
		if (what.kind == AV_KEY_PAGES)
			assert_true(huge == 2 || (huge == 0 && i));
		else
			assert_true(i == 0 && what.share & AV_KEY_PRIVATE);
		assert_int_equal(*((uint8_t *)memory.map + req.length - 1), 0);
		av_allocated_end(&memory, false);
	}
}

/* --- a second region --------------------------------------------------------------- */

static uint32_t begin_first(uint8_t rights)
{
	struct av_allocate_request req = {.length = BYTES, .access = LOCAL, .share = rights};
	uint32_t key;

	if (!rights)
		req.policy.type = AV_ALLOC_CONTIG;
	assert_int_equal(av_allocated_make(first, &req, &memory, &what), 0);
	key = av_key_create(first, &what, KEYS);
	assert_int_not_equal(key, 0);
	return key;
}

static void end_first(uint32_t key)
{
	assert_int_equal(av_key_destroy(first, key), 0);
	av_allocated_end(&memory, false);
}

static const struct {
	uint8_t share; /* rights of the first */
	bool write, no_rdma;
	uint32_t access;
	uint64_t off; /* of the address that is wanted; 0: any */
	int err;
	bool writable;
} attachments[] = {
	{READ, false, false, 0, 0, 0, false},
	{READ, false, true, REMOTE, 0, 0, false},
	{READ, true, false, 0, 0, EACCES, false},
	{READ, false, false, LOCAL, 0, EACCES, false},
	{READ, false, false, LOCAL | WRITE, 0, EACCES, false},
	{READ, false, false, LOCAL | ATOMIC, 0, EACCES, false},
	{BOTH, false, false, 0, 0, 0, false},
	{BOTH, true, false, 0, 0, 0, true},
	{BOTH, false, false, LOCAL, 0, 0, true},
	{BOTH, false, false, LOCAL | WRITE, 0, 0, true},
	{AV_SHARED | AV_SHARE_WRITE, true, false, LOCAL, 0, EACCES, false},
	{AV_SHARED | AV_SHARE_WRITE, false, false, 0, 0, EACCES, false},
	{0, false, false, 0, 0, EINVAL, false}, /* it is not shared */
	{BOTH, false, false, WRITE, 0, EINVAL, false},
	{BOTH, false, false, LOCAL | ODP, 0, EINVAL, false},
	{BOTH, false, false, 0, 1, EINVAL, false},
	{BOTH, false, false, 0, PAGE, EEXIST, false},
};

static void expect_attached(size_t i)
{
	uint32_t last = BYTES - 1;

	((uint8_t *)memory.map)[last] = (uint8_t)(i + 1);
	if (other.seg != second || other.pages_owner != first->ref || other.at != memory.at ||
	    other.bytes != memory.bytes || !other.shared ||
	    other.writable != attachments[i].writable ||
	    ((uint8_t *)other.map)[last] != (uint8_t)(i + 1))
		fail_msg("row %zu: the memory", i);
	if (other_what.kind != (attachments[i].no_rdma ? AV_KEY_MAPPED : AV_KEY_PAGES) ||
	    other_what.access != attachments[i].access || other_what.share != AV_SHARE_SECOND ||
	    other_what.length != BYTES || other_what.base != (uintptr_t)other.map ||
	    other_what.addr != memory.at ||
	    atomic_load(&other_what.intact) != atomic_load(&what.intact))
		fail_msg("row %zu: the key", i);
}

/* Can it be written where it may? Elsewhere that would end the program. */
static void expect_rights(const struct av_allocated *m)
{
	int fd = memfd_create("byte", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	assert_int_equal(pread(fd, m->map, 1, 0), m->writable ? 1 : -1);
	close(fd);
}

TEST_WITH(the_first_region_gives_rights, set_up, tear_down)
{
	uint8_t *taken = free_page();

	for (size_t i = 0; i < AV_ARRAY_SIZE(attachments); i++) {
		uint32_t key = begin_first(attachments[i].share);
		uint64_t off = attachments[i].off;
		struct av_attach_request req = {.handle = av_shared_handle(first, key),
						.wanted = off ? taken + off : NULL,
						.access = attachments[i].access,
						.write = attachments[i].write,
						.no_rdma = attachments[i].no_rdma};
		int err = av_allocated_attach(second, &req, &other, &other_what);

		if (err != attachments[i].err || (other.map != NULL) != (err == 0))
			fail_msg("row %zu: %d", i, err);
		if (err == 0) {
			expect_attached(i);
			expect_rights(&other);
			av_allocated_end(&other, false);
		}
		end_first(key);
		assert_false(av_page_users_any(first->ref, memory.at));
	}
	munmap(taken, 9 * PAGE);
}

static int attach(struct av_seg *seg, uint32_t handle)
{
	struct av_attach_request req = {.handle = handle};
	int err = av_allocated_attach(seg, &req, &other, &other_what);

	assert_int_equal(other.map != NULL, err == 0);
	return err;
}

/* Of other contexts' pages, how many does this one hold? */
static unsigned int owners_of_pages(const struct av_seg *seg)
{
	unsigned int n = 0;

	for (size_t i = 0; i < AV_SEG_PAGES_OWNERS; i++)
		n += seg->pages_owner[i].users > 0;
	return n;
}

TEST_WITH(a_handle_names_a_shared_region_of_the_device, set_up, tear_down)
{
	uint32_t key = begin_first(READ), handle = av_shared_handle(first, key);

	assert_int_equal(attach(stranger, handle), EINVAL);
	assert_int_equal(attach(second, handle + 1), EINVAL);
	assert_int_equal(attach(second, handle ^ AV_KEY_INDEX(key)), EINVAL);
	assert_int_equal(attach(second, handle + (7u << AV_HANDLE_INDEX_BITS)), EINVAL);
	assert_int_equal(attach(second, handle | (AV_SLAB_CHUNKS * AV_KEY_CHUNK - 1)), EINVAL);
	assert_int_equal(attach(second, no_slot << AV_HANDLE_INDEX_BITS | AV_KEY_INDEX(key)),
			 EINVAL);
	assert_int_equal(attach(second, handle), 0);
	assert_int_equal(owners_of_pages(second), 1);
	av_allocated_end(&other, false);
	assert_int_equal(owners_of_pages(second), 0);
	assert_int_equal(attach(first, handle), 0); /* in the same context, too */
	av_allocated_end(&other, false);
	end_first(key);
	assert_int_equal(attach(second, handle), EINVAL);
}

/* A program may have closed its standard input. */
TEST_WITH(any_descriptor_is_good, set_up, tear_down)
{
	uint32_t key = begin_first(READ);
	int saved = close_input();

	assert_int_equal(attach(second, av_shared_handle(first, key)), 0);
	av_allocated_end(&other, false);
	input_again(saved);
	end_first(key);
}

/* What another process may have written into the table of its keys. */
static const struct {
	bool held;
	uint8_t kind;
	uint64_t addr, length; /* 0, and not @none: as they are */
	bool none;
	uint32_t owner; /* added to the context */
	int err;
} tables[] = {
	{true, AV_KEY_PAGES, 0, 0, false, 0, 0},
	{true, AV_KEY_MAPPED, 0, 0, false, 0, 0},
	{false, AV_KEY_PAGES, 0, 0, false, 0, EINVAL},
	{true, AV_KEY_REGION, 0, 0, false, 0, EINVAL},
	{true, AV_KEY_PAGES, 0, 0, true, 0, EINVAL},
	{true, AV_KEY_PAGES, 0, 0, false, 1, EINVAL},
	{true, AV_KEY_PAGES, PAGE + 1, PAGE, false, 0, EINVAL},
	{true, AV_KEY_PAGES, 2 * PAGE - 64, PAGE, false, 0, EINVAL},
	{true, AV_KEY_PAGES, AV_HEAP_END, 2 * PAGE, false, 0, EINVAL},
	{true, AV_KEY_PAGES, AV_SEG_BYTES, PAGE, false, 0, EINVAL},
	{true, AV_KEY_PAGES, PAGE, AV_HEAP_END + PAGE, false, 0, EINVAL},
};

TEST_WITH(a_table_of_nonsense_is_not_believed, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(tables); i++) {
		uint32_t key = begin_first(READ);
		struct av_key *k = av_key_entry(first, key), good = *k;

		k->kind = tables[i].kind;
		if (tables[i].addr)
			k->addr = tables[i].addr;
		if (tables[i].length || tables[i].none)
			k->length = tables[i].length;
		atomic_fetch_add(&k->intact, tables[i].owner);
		atomic_store(&k->held, tables[i].held ? key : 0);
		if (attach(second, av_shared_handle(first, key)) != tables[i].err)
			fail_msg("row %zu", i);
		av_allocated_end(&other, false);
		assert_int_equal(atomic_load(&k->lock.owner), 0);
		k->kind = good.kind;
		k->addr = good.addr;
		k->length = good.length;
		atomic_store(&k->intact, atomic_load(&good.intact));
		end_first(key);
		assert_false(av_page_users_any(first->ref, memory.at));
	}
}

/* --- the end ----------------------------------------------------------------------- */

static bool is_mapped(const void *p)
{
	return syscall(SYS_msync, p, PAGE, MS_ASYNC) == 0;
}

/* The next block of that size, which is freed again. */
static uint64_t next_block(void)
{
	struct av_page_block b;

	assert_int_equal(av_pages_alloc(first, BYTES, AV_PAGES_SMALL, &b), 0);
	av_pages_free(first, b.at);
	return b.at;
}

TEST_WITH(the_end_frees_pages_and_a_child_only_unmaps_them, set_up, tear_down)
{
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t key = begin_first(i / 2 ? READ : 0);
		bool inherited = i % 2;
		uint64_t at = memory.at;
		void *map = memory.map;

		assert_int_equal(av_key_destroy(first, key), 0);
		*(uint8_t *)map = 9;
		av_allocated_end(&memory, inherited);
		assert_false(is_mapped(map));
		assert_null(memory.map);
		assert_int_equal(*((uint8_t *)first->head + at), inherited ? 9 : 0);
		assert_int_equal(next_block() == at, !inherited);
		assert_int_equal(av_page_users_any(first->ref, at), inherited && i / 2);
		av_allocated_end(&memory, false); /* again: nothing */
	}
}

/* Whoever is the last. */
TEST_WITH(the_last_user_frees_what_is_shared, set_up, tear_down)
{
	for (unsigned int owner_first = 0; owner_first < 2; owner_first++) {
		uint32_t key = begin_first(BOTH);
		uint64_t at = memory.at;
		volatile uint8_t *byte = (volatile uint8_t *)first->head + at;

		assert_int_equal(attach(second, av_shared_handle(first, key)), 0);
		*byte = 5;
		if (owner_first)
			end_first(key);
		else
			av_allocated_end(&other, false);
		assert_int_equal(*byte, 5);
		assert_int_not_equal(next_block(), at);
		assert_true(av_page_users_any(first->ref, at));
		if (owner_first)
			av_allocated_end(&other, false);
		else
			end_first(key);
		assert_int_equal(*byte, 0);
		assert_false(av_page_users_any(first->ref, at));
		assert_int_equal(next_block(), at);
	}
}

/* --- new rights -------------------------------------------------------------------- */

static const struct {
	uint32_t access;
	bool writable;
	int err;
} changes[] = {
	{LOCAL | WRITE, true, 0},
	{REMOTE, true, 0},
	{REMOTE, false, 0},
	{LOCAL, false, EACCES},
	{LOCAL | ATOMIC, false, EACCES},
	{LOCAL | ODP, true, EINVAL},
	{LOCAL | ZERO, true, EINVAL},
	{WRITE, true, EINVAL},
};

TEST_WITH(rights_change_within_those_of_the_mapping, set_up, tear_down)
{
	struct av_allocated m = {.seg = first, .map = first->head};

	for (size_t i = 0; i < AV_ARRAY_SIZE(changes); i++) {
		m.writable = changes[i].writable;
		if (av_allocated_check_access(&m, changes[i].access) != changes[i].err)
			fail_msg("row %zu", i);
	}
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
