/* SPDX-License-Identifier: MIT */
#include "heap/blocks.h"

#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>

#include "base/thread.h"
#include "memory/region.h"

#define MUCH (1ull << 30) /* no machine has less, so that small blocks need not ask */

/* av_heap_enter(), to map a block or change the list. Signals wait: a fork() would read it. */
static bool enter_to_change(void)
{
	if (!av_heap_enter())
		return false;
	av_signals_block(&av_blocks.signals);
	av_blocks.changing = true;
	return true;
}

/* vm.overcommit_memory=0 refuses what can never be there. */
static bool exceeds_all(uint64_t bytes)
{
	struct sysinfo info;

	return bytes > MUCH && sysinfo(&info) == 0 &&
	       bytes / info.mem_unit > info.totalram + info.totalswap;
}

/* For the kernel to decide? Yes if it counts private memory (RLIMIT_DATA), or past all there is. */
static bool limits_apply(uint64_t bytes)
{
	struct rlimit data;

	return getrlimit(RLIMIT_DATA, &data) || data.rlim_cur != RLIM_INFINITY ||
	       exceeds_all(bytes);
}

uint32_t av_block_find(const struct av_block_list *l, uint64_t addr)
{
	uint32_t low = 0, high = l->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (l->block[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t av_block_gap_end(const struct av_block_list *l, uint32_t i)
{
	return i < l->count ? l->block[i].begin : l->end;
}

uint64_t av_block_gap(struct av_block_list *l, uint64_t bytes, uint64_t align, uint32_t *i,
		      uint32_t *left)
{
	while (l->count < AV_BLOCKS && *left) {
		uint64_t begin, at;

		if (*i > l->count)
			*i = 0;
		begin = *i ? l->block[*i - 1].end : l->begin;
		at = (begin + align - 1) & ~(align - 1);
		(*left)--;
		if (at >= begin && at <= l->end && bytes <= av_block_gap_end(l, *i) - begin &&
		    at - begin <= av_block_gap_end(l, *i) - begin - bytes)
			return at;
		(*i)++;
	}
	return 0;
}

void av_block_insert(struct av_block_list *l, uint32_t i, struct av_block b)
{
	memmove(&l->block[i + 1], &l->block[i], (l->count - i) * sizeof(b));
	l->block[i] = b;
	l->count++;
}

void av_block_erase(struct av_block_list *l, uint32_t i)
{
	l->count--;
	memmove(&l->block[i], &l->block[i + 1], (l->count - i) * sizeof(*l->block));
	if (l->cursor > i)
		l->cursor--;
}

bool av_block_split(struct av_block_list *l, uint64_t addr)
{
	uint32_t i = av_block_find(l, addr);
	struct av_block rest;

	if (i == l->count || l->block[i].begin >= addr)
		return true;
	if (l->count == AV_BLOCKS)
		return false;
	rest = l->block[i];
	rest.begin = addr;
	l->block[i].end = addr;
	av_block_insert(l, i + 1, rest);
	return true;
}

/*
 * The lock is held for what changes the list and for mapping, never while something is unmapped:
 * registration caches hear of that, and have locks of their own.
 */

AV_FIND_NEXT(munmap);

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define HUGE (2ul << 20)

/* Blocks that were given back and stay: of all at most what the C library keeps of such blocks. */
#define SPARE_BYTES (16ul << 20)

/* Between the program and where the kernel puts mappings. Tests beside a sanitizer have others. */
#ifndef PLACES_BEGIN
#define PLACES_BEGIN 0x200000000000ull
#define PLACES	     512u
#endif
#define TRIES 8u

static bool is_near(uint64_t addr, uint64_t bytes)
{
	uint64_t begin = __atomic_load_n(&av_heap_shown.begin, __ATOMIC_ACQUIRE);

	return begin && addr < begin + AV_SHARED_HEAP_BYTES && bytes > 0 &&
	       addr + (bytes - 1) >= begin;
}

bool av_block_begun(void)
{
	return av_unlikely(__atomic_load_n(&av_heap_shown.begin, __ATOMIC_ACQUIRE) != 0);
}

bool av_block_is_near(const void *p)
{
	return is_near((uintptr_t)p, 1);
}

/* --- the beginning --------------------------------------------------------------- */

static bool create_heap_file(void)
{
	return av_anonymous(&av_heap_shown.file, "anyverbs-heap", AV_SHARED_HEAP_BYTES) == 0;
}

static uint64_t find_place(void)
{
	uint32_t number = 0;

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	for (uint32_t i = 0; i < TRIES; i++) {
		uint64_t at = PLACES_BEGIN + (number + i) % PLACES * AV_SHARED_HEAP_BYTES;
		void *p = av_heap_map(at, AV_SHARED_HEAP_BYTES, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
					      MAP_FIXED_NOREPLACE);

		if (p == MAP_FAILED)
			continue;
		AV_RAW(SYS_munmap, p, AV_SHARED_HEAP_BYTES);
		if (p == av_heap_pointer(at))
			return at;
	}
	return 0;
}

static void init_block_heap(void)
{
	AV_UNCANCELLED;
	uint64_t place = sysconf(_SC_PAGESIZE) == AV_BLOCK_PAGE ? find_place() : 0;
	void *list = MAP_FAILED;

	if (place)
		list = av_heap_map(0, AV_BLOCKS * sizeof(struct av_block), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	if (list == MAP_FAILED || !create_heap_file())
		return; /* and without a heap for good */
	av_blocks.list = (struct av_block_list){
		.block = list, .begin = place, .end = place + AV_SHARED_HEAP_BYTES};
	__atomic_store_n(&av_heap_shown.begin, place, __ATOMIC_RELEASE);
}

/* What there is of the parent's stays where it is; new blocks are in a file of the child's. */
static void begin_in_child(void)
{
	struct av_own_fd parents = av_heap_shown.file;

	if (!av_heap_enter())
		return;
	if (create_heap_file()) {
		av_own_fd_close(&parents);
		av_blocks.inherited = av_blocks.closed = false;
	} else {
		av_heap_shown.file = parents;
	}
	av_heap_exit();
}

const struct av_shared_heap *av_block_begin(const struct av_shared_heap_user *user)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	AV_ERRNO_KEPT;

	__atomic_store_n(&av_blocks.user, user, __ATOMIC_RELAXED);
	pthread_once(&once, init_block_heap);
	if (av_blocks.inherited)
		begin_in_child();
	return av_heap_shown.begin ? &av_heap_shown : NULL;
}

static bool map_block(uint64_t at, uint64_t bytes)
{
	void *p;

	if (!av_heap_has_file())
		return false;
	p = av_heap_map(at, bytes, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE);
	if (p == MAP_FAILED || p == av_heap_pointer(at))
		return p != MAP_FAILED;
	AV_RAW(SYS_munmap, p, bytes); /* a kernel before 4.17 takes the address for a hint */
	return false;
}

/* --- leaving; the lock is held where it says so ---------------------------------- */

bool av_block_unmap_begin(const void *p, size_t bytes)
{
	uint64_t from = (uintptr_t)p, end = from + av_round_up(bytes, AV_BLOCK_PAGE);
	struct av_block_list *l = &av_blocks.list;
	bool any = false;

	if (!is_near(from, bytes) || !enter_to_change())
		return false;
	if (av_block_split(l, from) && av_block_split(l, end))
		for (uint32_t i = av_block_find(l, from); i < l->count && l->block[i].begin < end;
		     i++) {
			struct av_block *b = &l->block[i];

			if (b->going || b->kind == AV_BLOCK_LOST)
				continue;
			b->going = any = true;
		}
	av_heap_exit();
	if (any)
		__atomic_load_n(&av_blocks.user, __ATOMIC_RELAXED)->leaving(from, end - from);
	return any;
}

/* What was private may be a child's, too, who must not see what comes to the file later. Locked.
 * Return: index of the next block */
static uint32_t finish_block_removal(uint32_t i, enum av_block_unmapped how)
{
	struct av_block *b = &av_blocks.list.block[i];

	b->going = false;
	if (how == AV_BLOCK_STAYS)
		return i + 1;
	if (b->kind == AV_BLOCK_SHARED)
		av_heap_punch(b->begin, b->end);
	if (b->kind == AV_BLOCK_SHARED && how == AV_BLOCK_GONE) {
		av_block_erase(&av_blocks.list, i);
		return i;
	}
	b->kind = AV_BLOCK_LOST;
	if (i == 0 || b[-1].kind != AV_BLOCK_LOST || b[-1].end != b->begin)
		return i + 1;
	b[-1].end = b->end;
	av_block_erase(&av_blocks.list, i);
	return i;
}

void av_block_unmap_end(const void *p, size_t bytes, enum av_block_unmapped how)
{
	uint64_t from = (uintptr_t)p, end = from + av_round_up(bytes, AV_BLOCK_PAGE);
	struct av_block_list *l = &av_blocks.list;

	if (!enter_to_change())
		return;
	for (uint32_t i = av_block_find(l, from); i < l->count && l->block[i].begin < end;)
		i = l->block[i].going ? finish_block_removal(i, how) : i + 1;
	av_heap_exit();
}

static void unmap_block_range(uint64_t at, uint64_t bytes)
{
	AV_ERRNO_KEPT;

	if (av_block_unmap_begin(av_heap_pointer(at), bytes))
		av_block_unmap_end(av_heap_pointer(at), bytes,
				   AV_NEXT_OF(munmap)(av_heap_pointer(at), bytes) == 0
					   ? AV_BLOCK_GONE
					   : AV_BLOCK_STAYS);
}

/* --- spare blocks; the lock is held ---------------------------------------------- */

/* Fields of the block at @at, which is one. */
static struct av_block *block_at(uint64_t at)
{
	uint32_t i = av_block_find(&av_blocks.list, at);
	struct av_block *b = &av_blocks.list.block[i];

	return i < av_blocks.list.count && b->begin == at && !b->going && b->kind != AV_BLOCK_LOST
		       ? b
		       : NULL;
}

static void drop_spare(uint32_t i)
{
	av_blocks.spares--;
	memmove(&av_blocks.spare[i], &av_blocks.spare[i + 1],
		(av_blocks.spares - i) * sizeof(*av_blocks.spare));
}

/* One that fits without waste. Takes the lock, as below. */
static uint64_t take_spare(uint64_t bytes, uint64_t align)
{
	uint64_t at = 0;

	if (!av_heap_enter())
		return 0;
	for (uint32_t i = av_blocks.closed ? 0 : av_blocks.spares; i-- > 0 && !at;) {
		const struct av_spare s = av_blocks.spare[i];
		struct av_block *b;

		if (s.bytes != bytes || s.at & (align - 1))
			continue;
		drop_spare(i);
		b = block_at(s.at);
		if (!b)
			continue;
		b->spare = false;
		at = s.at;
	}
	av_heap_exit();
	return at;
}

static bool keep_spare(struct av_block *b)
{
	uint64_t bytes = b->end - b->begin;

	if (b->kind != AV_BLOCK_SHARED || bytes > SPARE_BYTES / 2 || av_blocks.closed ||
	    av_blocks.spares == AV_BLOCK_SPARES)
		return false;
	b->spare = true;
	av_blocks.spare[av_blocks.spares++] = (struct av_spare){b->begin, bytes};
	return true;
}

/* Are there more than @most bytes, or is there no room for another? */
static bool too_many_spares(uint64_t most)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < av_blocks.spares; i++)
		bytes += av_blocks.spare[i].bytes;
	return bytes > most || av_blocks.spares == AV_BLOCK_SPARES;
}

/* The oldest spare block, if there are too many: it is not one any more. Takes the lock. */
static struct av_spare give_up_spare(uint64_t most)
{
	struct av_spare s = {0};
	struct av_block *b = NULL;

	if (!av_heap_enter())
		return s;
	while (!b && too_many_spares(most)) {
		s = av_blocks.spare[0];
		b = block_at(s.at);
		drop_spare(0);
	}
	if (b)
		b->spare = false;
	av_heap_exit();
	return b ? s : (struct av_spare){0};
}

static bool drop_spares(uint64_t most)
{
	struct av_spare s;
	bool any = false;

	for (; (s = give_up_spare(most)).at; any = true)
		unmap_block_range(s.at, s.bytes);
	return any;
}

bool av_block_drop_spares(void)
{
	return drop_spares(0);
}

/* --- blocks ---------------------------------------------------------------------- */

static uint64_t take_new(uint64_t bytes, uint64_t align)
{
	struct av_block_list *l = &av_blocks.list;
	uint32_t i, left;
	uint64_t at = 0;

	if (!enter_to_change())
		return 0;
	i = l->cursor;
	left = l->count + 1;
	while (!av_blocks.closed && (at = av_block_gap(l, bytes, align, &i, &left))) {
		if (map_block(at, bytes)) {
			av_block_insert(l, i, (struct av_block){.begin = at, .end = at + bytes});
			l->cursor = i + 1;
			break;
		}
		i++;
	}
	av_heap_exit();
	return at;
}

void *av_block_take(size_t bytes, size_t align, bool zeros)
{
	uint64_t at;

	if (!av_block_begun() || bytes > AV_SHARED_HEAP_BYTES / 2 ||
	    align > AV_SHARED_HEAP_BYTES / 2)
		return NULL;
	bytes = av_round_up(bytes, AV_BLOCK_PAGE);
	align = align > AV_BLOCK_PAGE ? align : AV_BLOCK_PAGE;
	at = zeros ? 0 : take_spare(bytes, align);
	if (!at && !limits_apply(bytes))
		at = take_new(bytes, bytes >= HUGE && align < HUGE ? HUGE : align);
	return av_heap_pointer(at);
}

size_t av_block_bytes(const void *p)
{
	struct av_block *b;
	size_t bytes;

	if (!av_heap_enter())
		return 0;
	b = block_at((uintptr_t)p);
	bytes = b && !b->spare ? b->end - b->begin : 0;
	av_heap_exit();
	return bytes;
}

void av_block_free(void *p)
{
	struct av_block *b;
	uint64_t bytes = 0;
	bool many;

	if (!av_heap_enter())
		return;
	b = block_at((uintptr_t)p);
	if (b && !b->spare && !keep_spare(b))
		bytes = b->end - b->begin;
	many = too_many_spares(SPARE_BYTES);
	av_heap_exit();
	if (bytes)
		unmap_block_range((uintptr_t)p, bytes);
	if (many)
		(void)drop_spares(SPARE_BYTES);
}

bool av_block_resize(void *p, size_t bytes)
{
	uint64_t at = (uintptr_t)p, end = at + av_round_up(bytes, AV_BLOCK_PAGE), surplus = 0;
	struct av_block *b;
	bool ret = false;

	if (bytes > AV_SHARED_HEAP_BYTES || !enter_to_change()) /* so @end does not wrap */
		return false;
	b = block_at(at);
	if (b && end <= b->end) {
		surplus = b->end - end;
		ret = true;
	} else if (b && b->kind == AV_BLOCK_SHARED && !av_blocks.closed &&
		   end <= av_block_gap_end(&av_blocks.list,
					   (uint32_t)(b - av_blocks.list.block) + 1)) {
		ret = !limits_apply(end - b->end) && map_block(b->end, end - b->end);
		b->end = ret ? end : b->end;
	}
	av_heap_exit();
	if (surplus)
		unmap_block_range(end, surplus);
	return ret;
}

/* Is all of it in shared blocks, so that the file has its bytes? */
static bool all_shared(uint64_t at, uint64_t end)
{
	const struct av_block_list *l = &av_blocks.list;
	bool ret = is_near(at, end - at) && av_heap_enter();

	if (!ret)
		return false;
	for (uint32_t i = av_block_find(l, at); ret && at < end; i++) {
		ret = i < l->count && l->block[i].begin <= at &&
		      l->block[i].kind == AV_BLOCK_SHARED;
		at = ret ? l->block[i].end : at;
	}
	av_heap_exit();
	return ret && av_heap_has_file();
}

/* Without what was never written. */
static void copy_sparse(uint8_t *to, uint64_t at, uint64_t end)
{
	uint64_t pos = av_heap_offset(at), part_end;

	for (; av_sparse_next(av_heap_shown.file.fd, &pos, av_heap_offset(end), &part_end);
	     pos = part_end)
		memcpy(to + (av_heap_shown.begin + pos - at),
		       av_heap_pointer(av_heap_shown.begin + pos), part_end - pos);
}

/* A fork() may make @from private meanwhile, and empty the file: then all of it counts. */
void av_block_copy(void *to, const void *from, size_t bytes)
{
	uint64_t at = (uintptr_t)from, end = at + bytes;
	AV_ERRNO_KEPT;
	bool sparse = all_shared(at, end);

	if (sparse)
		copy_sparse(to, at, end);
	if (!sparse || !all_shared(at, end))
		memcpy(to, from, bytes);
}
