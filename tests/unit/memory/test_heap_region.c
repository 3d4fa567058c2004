/* SPDX-License-Identifier: MIT */
/*
 * Regions on the shared heap, with a shared heap that this test is: which ranges have a
 * descriptor, what it says, and what becomes of it when pages leave the heap, at a fork(), and at
 * the end of a region and of its context.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "lib/closed_input.h"
#include "lib/own_directory.h"
#include "lib/sanitized.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/key.h"
#include "memory/region.h"
#include "segment/pages.h"
#include "unit/memory/heap_parts.h"

#define PAGE  4096ul
#define PAGES 16u /* of the heap that are mapped */
#define RW    (PROT_READ | PROT_WRITE)

/* --- the heap -------------------------------------------------------------------------------- */

typedef void exchange_fn(uint64_t addr, uint64_t bytes, bool begins);

static struct {
	unsigned int before, parent, child, left, kept;
	unsigned int moving; /* contexts whose accesses wait while pages leave */
	bool stay;
} calls;

static struct av_shared_heap heap;
static const struct av_shared_heap_user *called_back;
static uint64_t leaves_from, leaves_bytes; /* what a call of leave() makes private */

static void make_private(uint64_t addr, uint64_t bytes, exchange_fn *exchange)
{
	exchange(addr, bytes, true);
	mmap((void *)addr, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	exchange(addr, bytes, false);
}

static void before_fork(exchange_fn *exchange, bool stay)
{
	calls.before++;
	calls.stay = stay;
}

static void after_fork_in_parent(void)
{
	calls.parent++;
}

static void after_fork_in_child(void)
{
	calls.child++;
}

static struct av_seg *seg, *other;

static void leave(uint64_t addr, uint64_t bytes, exchange_fn *exchange, bool keep)
{
	calls.left++;
	calls.moving = atomic_load(&seg->head->moving) + atomic_load(&other->head->moving);
	calls.kept += keep;
	make_private(leaves_from, leaves_bytes, exchange);
}

/* The first opening of a device asks. */
const struct av_shared_heap *anyverbs_shared_heap(const struct av_shared_heap_user *called)
{
	void *p = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	called_back = called;
	heap = (struct av_shared_heap){
		.begin = (uintptr_t)p,
		.before_fork = before_fork,
		.after_fork_in_parent = after_fork_in_parent,
		.after_fork_in_child = after_fork_in_child,
		.leave = leave,
	};
	if (p == MAP_FAILED || !av_own_fd_keep(&heap.file, memfd_create("heap", MFD_CLOEXEC)) ||
	    ftruncate(heap.file.fd, (off_t)AV_SHARED_HEAP_BYTES))
		return NULL;
	return &heap;
}

/* Pages of the heap's file, from page @at on, at page @where of the window. */
static void map(unsigned int where, unsigned int at, unsigned int pages)
{
	void *p = (void *)(heap.begin + where * PAGE);

	assert_ptr_equal(
		mmap(p, pages * PAGE, RW, MAP_SHARED | MAP_FIXED, heap.file.fd, (off_t)(at * PAGE)),
		p);
}

/* --- contexts -------------------------------------------------------------------------------- */

static int set_up(void **state)
{
	const struct av_seg_device dev = {.name = "any0"};

	av_heap_begin();
	seg = av_seg_create(&dev, 0);
	other = av_seg_create(&dev, 0);
	map(0, 0, PAGES);
	if (!seg || !other)
		return -1;
	av_mm_quiesce_add(seg);
	av_mm_quiesce_add(other);
	return 0;
}

static int tear_down(void **state)
{
	av_mm_quiesce_remove(seg);
	av_mm_quiesce_remove(other);
	av_seg_end_calls(seg);
	av_seg_close(seg);
	av_seg_end_calls(other);
	av_seg_close(other);
	return 0;
}

/* Was there such a region, which has ended now? Its descriptor is the next that is given out. */
static bool ends(struct av_seg *of, uint32_t id)
{
	av_heap_region_end(of, id);
	return is_free(of, id);
}

static uint64_t at_of(uint32_t id)
{
	return atomic_load(&described(seg, id)->at);
}

static uint32_t region_at(struct av_seg *of, uint64_t addr, uint64_t length)
{
	struct av_key what = {.addr = addr, .length = length};

	av_heap_region(of, &what);
	return what.heap;
}

/* A region of whole pages. */
static uint32_t born(struct av_seg *of, unsigned int page, unsigned int pages)
{
	return region_at(of, heap.begin + page * PAGE, pages * PAGE);
}

/* --- which ranges ---------------------------------------------------------------------------- */

TEST_WITH(descriptors_say_whole_pages, set_up, tear_down)
{
	static const struct {
		uint64_t off, length, first, bytes; /* from the heap's begin on */
	} rows[] = {
		{0, PAGE, 0, PAGE},
		{0, 1, 0, PAGE},
		{PAGE - 1, 1, 0, PAGE},
		{PAGE - 1, 2, 0, 2 * PAGE},
		{PAGE, PAGE + 1, PAGE, 2 * PAGE},
		{3 * PAGE + 5, 2 * PAGE, 3 * PAGE, 3 * PAGE},
		{0, PAGES * PAGE, 0, PAGES * PAGE},
		{PAGES * PAGE - 1, 1, (PAGES - 1) * PAGE, PAGE},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t id = region_at(seg, heap.begin + rows[i].off, rows[i].length);
		const struct av_heap_part *d;

		assert_int_not_equal(id, 0);
		d = described(seg, id);
		assert_int_equal(d->addr, heap.begin + rows[i].first);
		assert_int_equal(d->bytes, rows[i].bytes);
		assert_int_equal(atomic_load(&d->at), AV_HEAP_PART_BASE + rows[i].first);
		assert_true(ends(seg, id));
	}
}

TEST_WITH(other_memory_has_none, set_up, tear_down)
{
	uint64_t end = heap.begin + AV_SHARED_HEAP_BYTES;

	assert_int_equal(region_at(seg, heap.begin - 1, PAGE), 0);
	assert_int_equal(region_at(seg, heap.begin - PAGE, PAGE), 0);
	assert_int_equal(region_at(seg, end, 1), 0);
	assert_int_equal(region_at(seg, end - 1, 2), 0);
	assert_int_equal(region_at(seg, heap.begin, UINT64_MAX), 0);
}

/* What the program has at the heap's addresses instead of its pages. */
static void put_private(void)
{
	assert_true(mmap((void *)(heap.begin + 5 * PAGE), PAGE, RW,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

static void put_private_of_file(void)
{
	assert_true(mmap((void *)(heap.begin + 5 * PAGE), PAGE, RW, MAP_PRIVATE | MAP_FIXED,
			 heap.file.fd, 5 * PAGE) != MAP_FAILED);
}

static void put_other_page(void)
{
	map(5, 6, 1);
}

static void put_other_file(void)
{
	int fd = memfd_create("other", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, 6 * PAGE), 0);
	assert_true(mmap((void *)(heap.begin + 5 * PAGE), PAGE, RW, MAP_SHARED | MAP_FIXED, fd,
			 5 * PAGE) != MAP_FAILED);
	close(fd);
}

static void put_nothing(void)
{
	munmap((void *)(heap.begin + 5 * PAGE), PAGE);
}

static void (*const puts_else[])(void) = {
	put_private, put_private_of_file, put_other_page, put_other_file, put_nothing,
};

TEST_WITH(pages_out_of_place_have_none, set_up, tear_down)
{
	uint32_t free_id = born(seg, 0, 1);

	assert_true(ends(seg, free_id));
	for (size_t i = 0; i < AV_ARRAY_SIZE(puts_else); i++) {
		map(0, 0, PAGES);
		puts_else[i]();
		for (unsigned int first = 4; first <= 5; first++)
			for (unsigned int last = 5; last <= 6; last++)
				assert_int_equal(born(seg, first, last - first + 1), 0);
		assert_true(is_free(seg, free_id));
		for (unsigned int page = 4; page <= 6; page += 2) {
			uint32_t id = born(seg, page, 1);

			assert_int_not_equal(id, 0);
			assert_true(ends(seg, id));
		}
	}
}

/* It needs a descriptor to see mappings, and number 0 is one like others. It keeps none. */
TEST_WITH(mappings_are_asked_for, set_up, tear_down)
{
	int input = close_input();
	uint32_t id = born(seg, 0, 1);

	assert_int_equal(fcntl(0, F_GETFD), -1);
	input_again(input);
	assert_int_not_equal(id, 0);
	assert_true(ends(seg, id));
}

/* --- their end ------------------------------------------------------------------------------- */

TEST_WITH(only_its_own_region_ends, set_up, tear_down)
{
	uint32_t a = born(seg, 0, 2), b = born(seg, 1, 2), c = born(other, 0, 2);

	assert_true(a && b && c);
	assert_int_not_equal(a, b);
	av_heap_region_end(seg, a + b);
	assert_true(ends(seg, a));
	assert_true(is_free(seg, a));
	av_heap_region_end(seg, a); /* whose number may be the other context's, too */
	assert_true(is_free(seg, a));
	assert_int_not_equal(atomic_load(&described(other, c)->at), 0);
	assert_int_not_equal(at_of(b), 0);
	assert_true(ends(other, c));
	assert_true(ends(seg, b));
}

TEST_WITH(a_contexts_regions_end_with_it, set_up, tear_down)
{
	uint32_t a = born(seg, 0, 2), b = born(other, 0, 2), c = born(seg, 3, 1);

	assert_true(a && b && c);
	av_heap_region_close(seg);
	assert_true(is_free(seg, a) || is_free(seg, c));
	assert_true(ends(other, b));
}

/* --- pages that leave ------------------------------------------------------------------------ */

TEST_WITH(those_that_left_are_reached_in_their_process, set_up, tear_down)
{
	uint32_t before = born(seg, 0, 4), has_left = born(seg, 3, 2), behind = born(seg, 6, 2);

	leaves_from = heap.begin + 4 * PAGE;
	leaves_bytes = 2 * PAGE;
	calls.left = 0;
	av_heap_leave(leaves_from, leaves_bytes);
	assert_int_equal(calls.left, 1);
	assert_int_not_equal(at_of(before), 0);
	assert_int_equal(at_of(has_left), 0);
	assert_int_not_equal(at_of(behind), 0);
	av_heap_region_close(seg);
}

/* Ranges that are about to be unmapped, pages 2 and 3. */
TEST_WITH(what_is_unmapped_is_not_the_heaps, set_up, tear_down)
{
	static const struct {
		unsigned int begin, end; /* pages of a region */
		bool stays;
	} rows[] = {{0, 2, true}, {4, 5, true}, {0, 3, false}, {2, 4, false}, {3, 5, false}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t id = born(seg, rows[i].begin, rows[i].end - rows[i].begin);

		errno = 77;
		called_back->leaving(heap.begin + 2 * PAGE, 2 * PAGE);
		assert_int_equal(errno, 77);
		if ((at_of(id) != 0) != rows[i].stays)
			fail_msg("row %zu", i);
		assert_true(ends(seg, id));
	}
}

TEST_WITH(other_memory_does_not_leave, set_up, tear_down)
{
	static const struct {
		int64_t begin; /* from the heap's begin on; */
		uint64_t bytes;
		bool leaves;
	} rows[] = {
		{-(int64_t)PAGE, PAGE, false},
		{-(int64_t)PAGE, PAGE + 1, true},
		{AV_SHARED_HEAP_BYTES, PAGE, false},
		{AV_SHARED_HEAP_BYTES - 1, 1, true},
	};

	leaves_from = heap.begin;
	leaves_bytes = PAGE;
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		calls.left = 0;
		av_heap_leave(heap.begin + (uint64_t)rows[i].begin, rows[i].bytes);
		assert_int_equal(calls.left, rows[i].leaves);
	}
}

TEST_WITH(nothing_leaves_that_must_stay, set_up, tear_down)
{
	void *locked = locked_page();
	uint32_t id;

	if (!locked)
		skip();
	id = born(seg, 0, 1);
	calls.left = 0;
	av_heap_leave(heap.begin, PAGE);
	assert_int_equal(calls.left, 0);
	assert_int_not_equal(at_of(id), 0);
	munmap(locked, PAGE);
	av_heap_region_close(seg);
}

/* --- who uses the heap meanwhile -------------------------------------------------------------- */

#define DEAD 0x7ffffffu /* identity of no process */

/* A peer uses a key of such memory in these contexts. */
static const struct {
	uint8_t kind, under;
	int64_t at; /* from the heap's begin on */
	uint64_t length;
	bool used[2], lives, moves;
} users[] = {
	{AV_KEY_REGION, 0, 0, 1, {false, false}, true, true}, /* nobody does */
	{AV_KEY_REGION, 0, 0, 1, {true, false}, true, false},
	{AV_KEY_REGION, 0, 0, 1, {false, true}, true, false},
	{AV_KEY_REGION, 0, 0, 1, {true, true}, true, false},
	{AV_KEY_REGION, 0, 0, 1, {true, true}, false, true}, /* it is dead */
	{AV_KEY_REGION, 0, AV_SHARED_HEAP_BYTES - 1, 1, {true, false}, true, false},
	{AV_KEY_REGION, 0, AV_SHARED_HEAP_BYTES, 1, {true, true}, true, true},
	{AV_KEY_REGION, 0, -1, 1, {true, true}, true, true},
	{AV_KEY_REGION, 0, -1, 2, {false, true}, true, false},
	{AV_KEY_REGION, 0, -(int64_t)PAGE, 2 * AV_SHARED_HEAP_BYTES, {true, false}, true, false},
	/* keys to other memory, whatever their addresses are */
	{AV_KEY_ODP, 0, 0, 1, {true, false}, true, false},
	{AV_KEY_DEVICE, 0, 0, 1, {true, false}, true, true},
	{AV_KEY_NULL, 0, 0, 1, {true, false}, true, true},
	{AV_KEY_PAGES, 0, 0, 1, {true, false}, true, true},
	{AV_KEY_UMR, 0, 0, 1, {true, false}, true, true},
	{AV_KEY_WINDOW, AV_KEY_REGION, 0, 1, {true, false}, true, false},
	{AV_KEY_WINDOW, AV_KEY_ODP, 0, 1, {true, false}, true, false},
	{AV_KEY_WINDOW, AV_KEY_PAGES, 0, 1, {true, false}, true, true},
	{AV_KEY_WINDOW, AV_KEY_REGION, AV_SHARED_HEAP_BYTES, 1, {true, false}, true, true},
};

static struct {
	uint32_t *identity;
	pid_t pid;
} peer; /* a process that lives, and is stopped */

static void start_peer(void)
{
	peer.identity = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(peer.identity != MAP_FAILED);
	peer.pid = fork();
	if (peer.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody running */
		if (av_dir_join(NULL))
			_exit(1);
		__atomic_store_n(peer.identity, av_lock_self, __ATOMIC_RELEASE);
		for (;;)
			raise(SIGSTOP);
	}
	assert_int_equal(waitpid(peer.pid, NULL, WUNTRACED), peer.pid);
	assert_int_not_equal(__atomic_load_n(peer.identity, __ATOMIC_ACQUIRE), 0);
}

static void end_peer(void)
{
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	munmap(peer.identity, PAGE);
}

static uint32_t use(size_t i, struct av_seg *of, bool used)
{
	const struct av_key region = {.kind = AV_KEY_REGION,
				      .addr = heap.begin + (uint64_t)users[i].at,
				      .length = users[i].length};
	uint32_t key = av_key_create(of, &region, 100),
		 user = users[i].lives ? *peer.identity : DEAD;
	struct av_key *k = av_key_entry(of, key);

	if (!key || !k)
		abort();
	k->kind = users[i].kind;
	k->under = users[i].under;
	atomic_store(&of->head->pin[0].word, used ? (uint64_t)user << 32 | key : 0);
	return key;
}

TEST_WITH(pages_move_when_no_context_has_a_user, set_up, tear_down)
{
	struct av_seg *const of[2] = {seg, other};

	start_peer();
	leaves_from = heap.begin;
	leaves_bytes = PAGE;
	for (size_t i = 0; i < AV_ARRAY_SIZE(users); i++) {
		uint32_t key[2] = {use(i, seg, users[i].used[0]), use(i, other, users[i].used[1])};

		calls.left = calls.moving = 0;
		av_heap_leave(leaves_from, leaves_bytes);
		if (calls.left != users[i].moves || calls.moving != 2 * calls.left)
			fail_msg("row %zu", i);
		for (size_t c = 0; c < AV_ARRAY_SIZE(of); c++) {
			assert_int_equal(atomic_load(&of[c]->head->moving), 0);
			atomic_store(&of[c]->head->pin[0].word, 0);
			assert_int_equal(av_key_destroy(of[c], key[c]), 0);
		}
	}
	end_peer();
}

/* --- a peer that is stopped in the middle of a copy ------------------------------------------ */

/*
 * A region ends whose key lingers, or not. @locked: its pages may not move by then. Return: how
 * often pages became private
 */
static unsigned int end_of(bool lingers, bool locked)
{
	void *lock = NULL;
	uint32_t id = born(seg, 0, 1);
	const struct av_key what = {.kind = AV_KEY_REGION, .heap = id};
	uint32_t key = av_key_create(seg, &what, 16);

	assert_true(key && id);
	if (lingers)
		atomic_store(&seg->head->pin[0].word, (uint64_t)*peer.identity << 32 | key);
	assert_int_equal(av_key_destroy(seg, key), 0);
	if (locked) {
		atomic_store(&seg->head->pin[0].word, 0); /* nobody has to be waited for */
		lock = locked_page();
		assert_non_null(lock);
	}
	calls.left = calls.kept = 0;
	av_heap_region_end(seg, id);
	assert_int_equal(calls.kept, calls.left); /* the peer may be reading */
	assert_int_equal(is_free(seg, id), !lingers);
	if (lock)
		munmap(lock, PAGE);
	atomic_store(&seg->head->pin[0].word, 0);
	av_deferred_settle(seg, key);
	av_deferred_sweep(seg);
	assert_true(is_free(seg, id));
	return calls.left;
}

TEST_WITH(its_pages_are_not_the_programs_any_more, set_up, tear_down)
{
	void *locked = locked_page();

	start_peer();
	leaves_from = heap.begin;
	leaves_bytes = PAGE;
	if (locked)
		munmap(locked, PAGE);
	assert_int_equal(end_of(false, false), 0);
	assert_int_equal(end_of(true, false), 1);
	map(0, 0, 1);
	if (locked)
		assert_int_equal(end_of(true, true), 0);
	end_peer();
	if (!locked)
		skip();
}

/* --- fork() ---------------------------------------------------------------------------------- */

static void fork_with(bool stay)
{
	uint32_t a = born(seg, 0, 1), b = born(other, 2, 1);
	int status;
	pid_t child;

	memset(&calls, 0, sizeof(calls));
	child = fork();
	if (child == 0) {
		av_heap_region_end(seg, a); /* the parent's: nothing happens */
		_exit(calls.child != 1 || calls.parent != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(calls.before, 1);
	assert_int_equal(calls.parent, 1);
	assert_int_equal(calls.child, 0);
	assert_int_equal(calls.stay, stay);
	assert_int_equal(at_of(a) != 0, stay);
	assert_int_equal(atomic_load(&described(other, b)->at) != 0, stay);
	assert_true(ends(seg, a));
	assert_true(ends(other, b));
}

TEST_WITH(at_fork_all_become_private, set_up, tear_down)
{
	fork_with(false);
	fork_with(false); /* pages may move again after the first one */
}

TEST_WITH(at_fork_they_stay_if_they_must, set_up, tear_down)
{
	void *locked = locked_page();

	if (!locked)
		skip();
	fork_with(true);
	munmap(locked, PAGE);
	fork_with(false);
}

int main(void)
{
	if (UNDER_TSAN) /* it has a thread of its own */
		return 77;
	return run_cases(own_directory_join, own_directory_leave);
}
