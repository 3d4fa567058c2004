/* SPDX-License-Identifier: MIT */
#include "shared_heap/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/thread.h"
#include "memory/region.h"

#define MUCH (1ull << 30) /* no machine has less, so that small blocks need not ask */

/* vm.overcommit_memory=0 refuses what can never be there. */
static bool exceeds_all(uint64_t bytes)
{
	struct sysinfo info;

	return bytes > MUCH && sysinfo(&info) == 0 &&
	       bytes / info.mem_unit > info.totalram + info.totalswap;
}

/*
 * Is a block of that size the kernel's to give, or to refuse? Yes where it counts private memory
 * (RLIMIT_DATA), and for more than there is at all.
 */
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
 * The mutex is held for what changes the list and for mapping, never while something is unmapped:
 * registration caches hear of that, and have locks of their own.
 */

AV_FIND_NEXT(munmap);

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE   (2ul << 20)
#define SPARES 16u	   /* blocks that stay mapped when they are given back, */
#define SPARE  (8ul << 20) /* of at most so many bytes each */

/* Between the program and where the kernel puts mappings. */
#define PLACES_BEGIN 0x200000000000ull
#define PLACES	     512u
#define TRIES	     8u

static struct {
	bool inside; /* the lock's holder is changing things: enter_block_heap() */
	int cancel;  /* that thread's state of cancellation before */
	struct av_block_list list;
	bool closed;		/* no new blocks: a fork() is under way, */
	bool inherited;		/* or the file is the parent's */
	bool stay;		/* the last fork() left the blocks where they are */
	uint64_t spare[SPARES]; /* addresses, the oldest first */
	uint32_t spares;
	av_shared_heap_leaving *leaving;
} heap;

typedef void exchange_fn(uint64_t addr, uint64_t bytes, bool begins);

static void prepare_blocks_for_fork(exchange_fn *exchange, bool stay);
static void restore_blocks_in_parent(void);
static void detach_blocks_in_child(void);
static void leave_range(uint64_t addr, uint64_t bytes, exchange_fn *exchange, bool keep);

static struct av_shared_heap self = {
	.file = {.fd = -1},
	.before_fork = prepare_blocks_for_fork,
	.after_fork_in_parent = restore_blocks_in_parent,
	.after_fork_in_child = detach_blocks_in_child,
	.leave = leave_range,
};

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static void *map_heap_range(uint64_t at, uint64_t bytes, int prot, int flags, int fd)
{
	off_t offset = fd < 0 ? 0 : (off_t)(at - self.begin);

	return (void *)AV_RAW(SYS_mmap, at, bytes, prot, flags, fd, offset); /* NOLINT */
}

static bool is_near(uint64_t addr, uint64_t bytes)
{
	uint64_t begin = __atomic_load_n(&self.begin, __ATOMIC_ACQUIRE);

	return begin && addr < begin + AV_SHARED_HEAP_BYTES && bytes > 0 &&
	       addr + (bytes - 1) >= begin;
}

bool av_block_begun(void)
{
	return av_unlikely(__atomic_load_n(&self.begin, __ATOMIC_ACQUIRE) != 0);
}

bool av_block_is_near(const void *p)
{
	return is_near((uintptr_t)p, 1);
}

/*
 * Until exit_block_heap(), the thread is not cancelled: malloc(3) and munmap(2) are no cancellation
 * points. Return: false: this thread is inside already, which a signal handler has interrupted. It
 * gets the kernel's memory, and what it unmaps is lost to the heap.
 *
 * Whoever maps a block or changes the list blocks signals meanwhile: a handler may call fork(),
 * which goes through the list.
 */
static bool enter_block_heap(void)
{
	av_heap_lock();
	if (!heap.inside) {
		heap.cancel = av_cancel_off();
		heap.inside = true;
		return true;
	}
	av_heap_unlock();
	return false;
}

static void exit_block_heap(void)
{
	int before = heap.cancel;

	heap.inside = false;
	av_heap_unlock();
	av_cancel_back(&before);
}

/* --- the beginning --------------------------------------------------------------- */

static bool create_heap_file(void)
{
	return av_anonymous(&self.file, "anyverbs-heap", AV_SHARED_HEAP_BYTES) == 0;
}

static uint64_t find_place(void)
{
	uint32_t number = 0;

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	for (uint32_t i = 0; i < TRIES; i++) {
		uint64_t at = PLACES_BEGIN + (number + i) % PLACES * AV_SHARED_HEAP_BYTES;
		void *p = map_heap_range(
			at, AV_SHARED_HEAP_BYTES, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1);

		if (p == MAP_FAILED)
			continue;
		AV_RAW(SYS_munmap, p, AV_SHARED_HEAP_BYTES);
		if (p == pointer(at))
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
		list = map_heap_range(0, AV_BLOCKS * sizeof(struct av_block),
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (list == MAP_FAILED || !create_heap_file())
		return; /* and without a heap for good */
	heap.list = (struct av_block_list){
		.block = list, .begin = place, .end = place + AV_SHARED_HEAP_BYTES};
	__atomic_store_n(&self.begin, place, __ATOMIC_RELEASE);
}

/* What there is of the parent's stays where it is; new blocks are in a file of the child's. */
static void begin_in_child(void)
{
	struct av_own_fd parents = self.file;

	if (!enter_block_heap())
		return;
	if (create_heap_file()) {
		av_own_fd_close(&parents);
		heap.inherited = heap.closed = false;
	} else {
		self.file = parents;
	}
	exit_block_heap();
}

const struct av_shared_heap *av_block_begin(av_shared_heap_leaving *leaving)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int saved = errno;

	__atomic_store_n(&heap.leaving, leaving, __ATOMIC_RELAXED);
	pthread_once(&once, init_block_heap);
	if (heap.inherited)
		begin_in_child();
	errno = saved;
	return self.begin ? &self : NULL;
}

/* --- the file -------------------------------------------------------------------- */

/* Programs close what they do not know, and the number is somebody else's then. */
static bool has_file(void)
{
	return av_own_fd(&self.file) >= 0;
}

static off_t offset_of(uint64_t addr)
{
	return (off_t)(addr - self.begin);
}

static bool map_block(uint64_t at, uint64_t bytes)
{
	void *p;

	if (!has_file())
		return false;
	p = map_heap_range(at, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, self.file.fd);
	if (p == MAP_FAILED || p == pointer(at))
		return p != MAP_FAILED;
	AV_RAW(SYS_munmap, p, bytes); /* a kernel before 4.17 takes the address for a hint */
	return false;
}

/* What is in the file there is zeros from now on, and no memory. */
static void punch(uint64_t begin_at, uint64_t end)
{
	if (has_file())
		(void)!fallocate(self.file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 offset_of(begin_at), (off_t)(end - begin_at));
}

/* --- leaving; the lock is held where it says so ---------------------------------- */

bool av_block_leave(const void *p, size_t bytes)
{
	uint64_t from = (uintptr_t)p, end = from + av_round_up(bytes, AV_BLOCK_PAGE);
	av_shared_heap_leaving *leaving = __atomic_load_n(&heap.leaving, __ATOMIC_RELAXED);
	struct av_block_list *l = &heap.list;
	sigset_t signals;
	bool any = false;

	if (!is_near(from, bytes) || !enter_block_heap())
		return false;
	av_signals_block(&signals);
	if (av_block_split(l, from) && av_block_split(l, end))
		for (uint32_t i = av_block_find(l, from); i < l->count && l->block[i].begin < end;
		     i++) {
			struct av_block *b = &l->block[i];

			if (b->going || b->kind == AV_BLOCK_LOST)
				continue;
			b->going = any = true;
		}
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	exit_block_heap();
	if (any)
		leaving(from, end - from);
	return any;
}

/* What was private may be a child's, too, who must not see what comes to the file later. Locked.
 * Return: index of the next block */
static uint32_t finish_block_removal(uint32_t i, enum av_block_end how)
{
	struct av_block *b = &heap.list.block[i];

	b->going = false;
	if (how == AV_BLOCK_STAYS)
		return i + 1;
	if (b->kind == AV_BLOCK_SHARED)
		punch(b->begin, b->end);
	if (b->kind == AV_BLOCK_SHARED && how == AV_BLOCK_GONE) {
		av_block_erase(&heap.list, i);
		return i;
	}
	b->kind = AV_BLOCK_LOST;
	if (i == 0 || b[-1].kind != AV_BLOCK_LOST || b[-1].end != b->begin)
		return i + 1;
	b[-1].end = b->end;
	av_block_erase(&heap.list, i);
	return i;
}

void av_block_left(const void *p, size_t bytes, enum av_block_end how)
{
	uint64_t from = (uintptr_t)p, end = from + av_round_up(bytes, AV_BLOCK_PAGE);
	struct av_block_list *l = &heap.list;
	int saved = errno;
	sigset_t signals;

	if (!enter_block_heap())
		return;
	av_signals_block(&signals);
	for (uint32_t i = av_block_find(l, from); i < l->count && l->block[i].begin < end;)
		i = l->block[i].going ? finish_block_removal(i, how) : i + 1;
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	exit_block_heap();
	errno = saved;
}

static void unmap_block_range(uint64_t at, uint64_t bytes)
{
	int saved = errno;

	if (av_block_leave(pointer(at), bytes))
		av_block_left(pointer(at), bytes,
			      AV_NEXT_OF(munmap)(pointer(at), bytes) == 0 ? AV_BLOCK_GONE
									  : AV_BLOCK_STAYS);
	errno = saved;
}

/* --- spare blocks; the lock is held ---------------------------------------------- */

/* Fields of the block at @at, which is one. */
static struct av_block *block_at(uint64_t at)
{
	uint32_t i = av_block_find(&heap.list, at);
	struct av_block *b = &heap.list.block[i];

	return i < heap.list.count && b->begin == at && !b->going && b->kind != AV_BLOCK_LOST
		       ? b
		       : NULL;
}

static void drop_spare(uint32_t i)
{
	heap.spares--;
	memmove(&heap.spare[i], &heap.spare[i + 1], (heap.spares - i) * sizeof(*heap.spare));
}

/* One that fits without waste. */
static uint64_t take_spare(uint64_t bytes, uint64_t align)
{
	for (uint32_t i = heap.spares; i-- > 0;) {
		struct av_block *b = block_at(heap.spare[i]);

		if (b && (b->end - b->begin != bytes || b->begin & (align - 1)))
			continue;
		drop_spare(i);
		if (!b)
			continue;
		b->spare = false;
		return b->begin;
	}
	return 0;
}

/* Return: the block that has to be unmapped for it, 0: none. It may be the same. */
static uint64_t keep_spare(struct av_block *b)
{
	uint64_t victim = 0;

	if (b->kind != AV_BLOCK_SHARED || b->end - b->begin > SPARE || heap.closed)
		return b->begin;
	if (heap.spares == SPARES) {
		victim = heap.spare[0];
		drop_spare(0);
	}
	b->spare = true;
	heap.spare[heap.spares++] = b->begin;
	return victim;
}

/* The oldest spare block, which is not one any more. Takes the lock. */
static uint64_t give_up_spare(uint64_t *bytes)
{
	struct av_block *b = NULL;
	uint64_t at = 0;

	if (!enter_block_heap())
		return 0;
	while (heap.spares && !b) {
		at = heap.spare[0];
		b = block_at(at);
		drop_spare(0);
	}
	if (b) {
		b->spare = false;
		*bytes = b->end - b->begin;
	}
	exit_block_heap();
	return b ? at : 0;
}

bool av_block_drop_spares(void)
{
	uint64_t at, bytes;
	bool any = false;

	for (; (at = give_up_spare(&bytes)); any = true)
		unmap_block_range(at, bytes);
	return any;
}

/* --- blocks ---------------------------------------------------------------------- */

/* Locked; signals wait. */
static uint64_t take_new(uint64_t bytes, uint64_t align)
{
	struct av_block_list *l = &heap.list;
	uint32_t i = l->cursor, left = l->count + 1;
	uint64_t at;

	while ((at = av_block_gap(l, bytes, align, &i, &left))) {
		if (map_block(at, bytes)) {
			av_block_insert(l, i, (struct av_block){.begin = at, .end = at + bytes});
			l->cursor = i + 1;
			return at;
		}
		i++;
	}
	return 0;
}

void *av_block_take(size_t bytes, size_t align, bool zeros)
{
	int saved = errno;
	sigset_t signals;
	uint64_t at = 0;

	if (!__atomic_load_n(&self.begin, __ATOMIC_ACQUIRE) || bytes > AV_SHARED_HEAP_BYTES / 2 ||
	    align > AV_SHARED_HEAP_BYTES / 2)
		return NULL;
	bytes = av_round_up(bytes, AV_BLOCK_PAGE);
	align = align > AV_BLOCK_PAGE ? align : AV_BLOCK_PAGE;
	if (!enter_block_heap())
		return NULL;
	if (!heap.closed && !zeros)
		at = take_spare(bytes, align);
	if (!heap.closed && !at && !limits_apply(bytes)) {
		av_signals_block(&signals);
		at = take_new(bytes, bytes >= HUGE && align < HUGE ? HUGE : align);
		pthread_sigmask(SIG_SETMASK, &signals, NULL);
	}
	exit_block_heap();
	errno = saved;
	return pointer(at);
}

size_t av_block_bytes(const void *p)
{
	struct av_block *b;
	size_t bytes;

	if (!enter_block_heap())
		return 0;
	b = block_at((uintptr_t)p);
	bytes = b && !b->spare ? b->end - b->begin : 0;
	exit_block_heap();
	return bytes;
}

void av_block_free(void *p)
{
	struct av_block *b;
	uint64_t victim = 0, bytes = 0;

	if (!enter_block_heap())
		return;
	b = block_at((uintptr_t)p);
	if (b && !b->spare)
		victim = keep_spare(b);
	b = victim ? block_at(victim) : NULL;
	if (b) {
		b->spare = false;
		bytes = b->end - b->begin;
	}
	exit_block_heap();
	if (bytes)
		unmap_block_range(victim, bytes);
}

bool av_block_resize(void *p, size_t bytes)
{
	uint64_t at = (uintptr_t)p, end = at + av_round_up(bytes, AV_BLOCK_PAGE), surplus = 0;
	int saved = errno;
	struct av_block *b;
	sigset_t signals;
	bool ret = false;

	if (bytes > AV_SHARED_HEAP_BYTES || !enter_block_heap()) /* so @end does not wrap */
		return false;
	b = block_at(at);
	if (b && end <= b->end) {
		surplus = b->end - end;
		ret = true;
	} else if (b && b->kind == AV_BLOCK_SHARED && !heap.closed &&
		   end <= av_block_gap_end(&heap.list, (uint32_t)(b - heap.list.block) + 1)) {
		av_signals_block(&signals);
		ret = !limits_apply(end - b->end) && map_block(b->end, end - b->end);
		b->end = ret ? end : b->end;
		pthread_sigmask(SIG_SETMASK, &signals, NULL);
	}
	exit_block_heap();
	if (surplus)
		unmap_block_range(end, surplus);
	errno = saved;
	return ret;
}

/* Is all of it in shared blocks, so that the file has its bytes? */
static bool all_shared(uint64_t at, uint64_t end)
{
	const struct av_block_list *l = &heap.list;
	bool ret = is_near(at, end - at) && enter_block_heap();

	if (!ret)
		return false;
	for (uint32_t i = av_block_find(l, at); ret && at < end; i++) {
		ret = i < l->count && l->block[i].begin <= at &&
		      l->block[i].kind == AV_BLOCK_SHARED;
		at = ret ? l->block[i].end : at;
	}
	exit_block_heap();
	return ret && has_file();
}

/* Without what was never written. */
static void copy_sparse(uint8_t *to, uint64_t at, uint64_t end)
{
	uint64_t pos = (uint64_t)offset_of(at), part_end;

	for (; av_sparse_next(self.file.fd, &pos, (uint64_t)offset_of(end), &part_end);
	     pos = part_end)
		memcpy(to + (self.begin + pos - at), pointer(self.begin + pos), part_end - pos);
}

/* A fork() may make @from private meanwhile, and empty the file: then all of it counts. */
void av_block_copy(void *to, const void *from, size_t bytes)
{
	uint64_t at = (uintptr_t)from, end = at + bytes;
	int saved = errno;
	bool sparse = all_shared(at, end);

	if (sparse)
		copy_sparse(to, at, end);
	if (!sparse || !all_shared(at, end))
		memcpy(to, from, bytes);
	errno = saved;
}

/* --- fork ------------------------------------------------------------------------ */

/* Without the file: new private memory with the same bytes. What threads store meanwhile is lost.
 */
static bool copy_private(uint64_t at, uint64_t bytes)
{
	void *p = map_heap_range(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (p == MAP_FAILED)
		return false;
	memcpy(p, pointer(at), bytes);
	return AV_RAW(SYS_mremap, p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != -1;
}

/* Have private copies of the file's pages. Return: false: not of all */
static bool populate_heap_copies(uint64_t at, uint64_t end)
{
	uint64_t pos = (uint64_t)offset_of(at), part_end;

	for (; av_sparse_next(self.file.fd, &pos, (uint64_t)offset_of(end), &part_end);
	     pos = part_end)
		if (AV_RAW(SYS_madvise, self.begin + pos, part_end - pos, MADV_POPULATE_WRITE))
			return false;
	return true;
}

/*
 * Threads may store at any moment: a private mapping of the same pages takes their place in one
 * step, so that a store is in the page before or in the private copy after. Then all of it is
 * copied, and the file's pages go, so that what the program discards later reads as zeros. Holes of
 * the file stay holes: nobody stores there any more.
 */
static bool map_private(uint64_t at, uint64_t bytes, bool keep)
{
	if (map_heap_range(at, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, self.file.fd) == MAP_FAILED)
		return false;
	if (populate_heap_copies(at, at + bytes) && !keep)
		punch(at, at + bytes);
	return true;
}

static void privatise(const struct av_vma *vma, uint64_t at, uint64_t end, exchange_fn *exchange,
		      bool keep)
{
	int prot = av_vma_rights(vma);

	exchange(at, end - at, true);
	if (!has_file())
		(void)copy_private(at, end - at);
	else
		(void)map_private(at, end - at, keep);
	if (prot != (PROT_READ | PROT_WRITE))
		AV_RAW(SYS_mprotect, at, end - at, prot);
	exchange(at, end - at, false);
}

/* The first mapping of the file in [at, end), which is [*at, *until) from then on. */
static bool next_mapping(int maps, uint64_t *at, uint64_t end, uint64_t *until, struct av_vma *vma)
{
	while (*at < end && av_vma_next(maps, *at, vma) && vma->begin < end) {
		*at = vma->begin > *at ? vma->begin : *at;
		*until = vma->end < end ? vma->end : end;
		if (vma->shared && av_vma_is_of(vma, &self.file))
			return true;
		*at = vma->end;
	}
	return false;
}

static void privatise_block(int maps, struct av_block *b, exchange_fn *exchange, bool keep)
{
	struct av_vma vma;
	uint64_t until;

	for (uint64_t at = b->begin; next_mapping(maps, &at, b->end, &until, &vma); at = until)
		privatise(&vma, at, until, exchange, keep);
	b->kind = AV_BLOCK_PRIVATE;
}

/* For the child of a process whose blocks stay where they are. Not by the program's mapping, which
 * it may have protected. */
static void copy_block(struct av_block *b)
{
	uint64_t bytes = b->end - b->begin;
	void *p = map_heap_range(0, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	if (p == MAP_FAILED)
		return;
	if (av_sparse_read(self.file.fd, (uint64_t)offset_of(b->begin), bytes, p))
		b->copy = (uintptr_t)p;
	else
		AV_RAW(SYS_munmap, p, bytes);
}

static void drop_copy(struct av_block *b)
{
	if (b->copy)
		AV_RAW(SYS_munmap, b->copy, b->end - b->begin);
	b->copy = 0;
}

/* Without a copy the child gets a private mapping, which may show what the parent stores later. */
static void use_copy(const struct av_vma *vma, uint64_t at, uint64_t end, uint64_t copy)
{
	int prot = av_vma_rights(vma);

	if (copy && AV_RAW(SYS_mprotect, copy, end - at, prot) == 0 &&
	    AV_RAW(SYS_mremap, copy, end - at, end - at, MREMAP_MAYMOVE | MREMAP_FIXED, at) != -1)
		return;
	(void)!map_heap_range(at, end - at, prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
			      self.file.fd);
}

static void use_copies(struct av_block *b)
{
	int maps = av_vma_open_own();
	struct av_vma vma;
	uint64_t until;

	if (maps < 0)
		return;
	for (uint64_t at = b->begin; next_mapping(maps, &at, b->end, &until, &vma); at = until)
		use_copy(&vma, at, until, b->copy ? b->copy + (at - b->begin) : 0);
	close(maps);
	drop_copy(b); /* what found no place */
	b->kind = AV_BLOCK_PRIVATE;
}

static void close_heap(void)
{
	av_heap_lock();
	heap.closed = true;
	av_heap_unlock();
	av_block_drop_spares();
}

static bool is_block_shared(const struct av_block *b)
{
	return b->kind == AV_BLOCK_SHARED && !b->going;
}

static void leave_range(uint64_t addr, uint64_t bytes, exchange_fn *exchange, bool keep)
{
	struct av_block_list *l = &heap.list;
	int saved = errno, maps;

	if (!enter_block_heap())
		return;
	maps = av_vma_open_own();
	for (uint32_t i = av_block_find(l, addr);
	     maps >= 0 && i < l->count && l->block[i].begin < addr + bytes; i++)
		if (is_block_shared(&l->block[i]))
			privatise_block(maps, &l->block[i], exchange, keep);
	if (maps >= 0)
		close(maps);
	exit_block_heap();
	errno = saved;
}

static void prepare_blocks_for_fork(exchange_fn *exchange, bool stay)
{
	int saved = errno, maps;

	close_heap();
	av_heap_lock();
	heap.stay = stay && has_file();
	maps = heap.list.count ? av_vma_open_own() : -1;
	for (uint32_t i = 0; maps >= 0 && i < heap.list.count; i++)
		if (is_block_shared(&heap.list.block[i]) && heap.stay)
			copy_block(&heap.list.block[i]);
		else if (is_block_shared(&heap.list.block[i]))
			privatise_block(maps, &heap.list.block[i], exchange, false);
	if (maps >= 0)
		close(maps);
	errno = saved;
}

static void restore_blocks_in_parent(void)
{
	int saved = errno;

	for (uint32_t i = 0; heap.stay && i < heap.list.count; i++)
		drop_copy(&heap.list.block[i]);
	heap.closed = heap.inherited;
	av_heap_unlock();
	errno = saved;
}

/* What there is stays. The file is the parent's: nothing new comes from it. */
static void detach_blocks_in_child(void)
{
	int saved = errno;

	for (uint32_t i = 0; heap.stay && i < heap.list.count; i++)
		if (is_block_shared(&heap.list.block[i]))
			use_copies(&heap.list.block[i]);
	heap.inherited = true;
	av_heap_lock_in_child();
	errno = saved;
}
