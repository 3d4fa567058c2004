/* SPDX-License-Identifier: MIT */
/*
 * A sorted array of blocks, first fit. The array lies in memory of its own, since this is below
 * malloc().
 */
#include "heap/window.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "heap/heap.h"
#include "memory/vma.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define BLOCKS 32768u
#define HUGE   (2ul << 20)

/* Between the heap of brk(2) and where the kernel puts mappings; sanitizers are below. */
#define PLACES_BEGIN 0x200000000000ull
#define PLACES	     512u /* of AV_HEAP_BYTES */
#define TRIES	     8

enum kind {
	SHARED,
	PRIVATE, /* a fork() has made it so: the file has nothing of it, and never will again */
	LOST,	 /* something else is there, or a child may have it */
};

/* Addresses. */
struct block {
	uint64_t begin, end;
	enum kind kind;
};

static struct {
	pthread_mutex_t mutex;
	pthread_once_t once;
	struct block *list;
	uint32_t count;
	uint32_t cursor; /* where the search for room goes on */
	bool closed;	 /* no blocks any more */
} heap = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static struct av_heap_share share;

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

bool av_window_has(const void *p)
{
	uint64_t begin = __atomic_load_n(&share.begin, __ATOMIC_ACQUIRE);

	return begin && (uintptr_t)p - begin < AV_HEAP_BYTES;
}

/* --- the beginning --------------------------------------------------------------- */

/* Where memory is promised strictly, a page of a file that cannot be had is a SIGBUS. */
static bool strict_overcommit(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char c = '2';

	if (fd < 0)
		return false;
	(void)!read(fd, &c, 1);
	close(fd);
	return c == '2';
}

static int make_file(uint64_t *inode)
{
	struct rlimit limit;
	struct stat st;
	int fd;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < AV_HEAP_BYTES)
		return -1;
	fd = memfd_create("anyverbs-heap", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)AV_HEAP_BYTES) == 0 && fstat(fd, &st) == 0) {
		*inode = st.st_ino;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* An empty place of the address space. It stays unmapped: a block is only put where nothing is. */
static uint64_t find_place(void)
{
	uint32_t random = 0;

	for (int i = 0; i < TRIES; i++) {
		uint64_t at;
		void *p;

		(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
		at = PLACES_BEGIN + (random + (uint32_t)i) % PLACES * AV_HEAP_BYTES;
		p = av_mmap(pointer(at), AV_HEAP_BYTES, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			    0);
		if (p == MAP_FAILED)
			continue;
		av_munmap(p, AV_HEAP_BYTES);
		if (p == pointer(at))
			return at;
	}
	return 0;
}

static void begin(void)
{
	uint64_t inode = 0, place;
	void *list;
	int fd;

	if (sysconf(_SC_PAGESIZE) != AV_HEAP_PAGE || strict_overcommit())
		return;
	list = av_mmap(NULL, BLOCKS * sizeof(struct block), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	place = find_place();
	fd = place && list != MAP_FAILED ? make_file(&inode) : -1;
	if (fd < 0) {
		if (list != MAP_FAILED)
			av_munmap(list, BLOCKS * sizeof(struct block));
		return;
	}
	heap.list = list;
	share.inode = inode;
	share.fd = fd;
	__atomic_store_n(&share.begin, place, __ATOMIC_RELEASE);
}

struct av_heap_share *anyverbs_heap_share(void)
{
	pthread_once(&heap.once, begin);
	return &share;
}

/* --- the list; the mutex is held ------------------------------------------------- */

static uint64_t end_of_window(void)
{
	return share.begin + AV_HEAP_BYTES;
}

/* Index of the first block that ends above @addr. */
static uint32_t find(uint64_t addr)
{
	uint32_t low = 0, high = heap.count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (heap.list[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct block *block_at(const void *p)
{
	uint32_t i = find((uintptr_t)p);

	return i < heap.count && heap.list[i].begin == (uintptr_t)p && heap.list[i].kind != LOST
		       ? &heap.list[i]
		       : NULL;
}

/* There is room for one more. */
static void insert(uint32_t i, struct block b)
{
	memmove(&heap.list[i + 1], &heap.list[i], (heap.count - i) * sizeof(b));
	heap.list[i] = b;
	heap.count++;
}

static void erase(uint32_t i)
{
	heap.count--;
	memmove(&heap.list[i], &heap.list[i + 1], (heap.count - i) * sizeof(*heap.list));
	if (heap.cursor > i)
		heap.cursor--;
}

static uint64_t gap_begin(uint32_t i)
{
	return i ? heap.list[i - 1].end : share.begin;
}

static uint64_t gap_end(uint32_t i)
{
	return i < heap.count ? heap.list[i].begin : end_of_window();
}

/* --- blocks ---------------------------------------------------------------------- */

static bool map_block(uint64_t at, uint64_t bytes)
{
	void *p = av_mmap(pointer(at), bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, share.fd,
			  (off_t)(at - share.begin));

	if (p == MAP_FAILED)
		return false;
	if (p == pointer(at))
		return true;
	av_munmap(p, bytes); /* a kernel before 4.17 takes the address for a hint */
	return false;
}

/* What was in the file is not any more. */
static void punch(uint64_t begin, uint64_t end)
{
	(void)!fallocate(share.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)(begin - share.begin), (off_t)(end - begin));
}

/* In the gap before block @i. */
static uint64_t take_in_gap(uint32_t i, uint64_t bytes, uint64_t align)
{
	uint64_t at = round_up(gap_begin(i), align);

	if (at + bytes > gap_end(i) || at + bytes < at || !map_block(at, bytes))
		return 0;
	insert(i, (struct block){at, at + bytes, SHARED});
	heap.cursor = i + 1;
	return at;
}

static uint64_t take(uint64_t bytes, uint64_t align)
{
	uint64_t at = 0;

	if (heap.count + 2 > BLOCKS)
		return 0;
	for (uint32_t n = 0, i = heap.cursor; !at && n <= heap.count; n++, i++) {
		if (i > heap.count)
			i = 0;
		at = take_in_gap(i, bytes, align);
	}
	return at;
}

void *av_window_take(size_t bytes, size_t align)
{
	int saved = errno;
	uint64_t at = 0;

	pthread_once(&heap.once, begin);
	if (share.begin && !heap.closed && bytes <= AV_HEAP_BYTES / 2) {
		bytes = round_up(bytes, AV_HEAP_PAGE);
		align = align > AV_HEAP_PAGE ? align : AV_HEAP_PAGE;
		if (bytes >= HUGE && align < HUGE)
			align = HUGE;
		pthread_mutex_lock(&heap.mutex);
		at = take(bytes, align);
		pthread_mutex_unlock(&heap.mutex);
	}
	errno = saved;
	return pointer(at);
}

size_t av_window_bytes(const void *p)
{
	struct block *b;
	size_t bytes;

	pthread_mutex_lock(&heap.mutex);
	b = block_at(p);
	bytes = b ? b->end - b->begin : 0;
	pthread_mutex_unlock(&heap.mutex);
	return bytes;
}

/* Take [begin, end) out of block @i. */
static void cut(uint32_t i, uint64_t begin, uint64_t end, bool reused)
{
	struct block b = heap.list[i];
	bool lost = reused || b.kind != SHARED; /* a child may have what was private */

	if (b.kind == SHARED)
		punch(begin, end);
	if (end < b.end)
		insert(i + 1, (struct block){end, b.end, b.kind});
	if (lost)
		insert(i + 1, (struct block){begin, end, LOST});
	if (begin > b.begin)
		heap.list[i].end = begin;
	else
		erase(i);
}

void av_window_gone(const void *p, size_t bytes, bool reused)
{
	uint64_t begin = (uintptr_t)p, end = begin + round_up(bytes, AV_HEAP_PAGE);
	int saved = errno;

	pthread_mutex_lock(&heap.mutex);
	for (uint32_t i = find(begin);
	     i < heap.count && heap.list[i].begin < end && heap.count + 2 < BLOCKS;) {
		struct block *b = &heap.list[i];
		uint64_t from = b->begin > begin ? b->begin : begin;
		uint64_t to = b->end < end ? b->end : end;

		if (b->kind == LOST)
			i++;
		else
			cut(i, from, to, reused);
		i = find(to);
	}
	pthread_mutex_unlock(&heap.mutex);
	errno = saved;
}

void av_window_free(void *p)
{
	size_t bytes = av_window_bytes(p);
	int saved = errno;

	if (bytes && av_munmap(p, bytes) == 0)
		av_window_gone(p, bytes, false);
	errno = saved;
}

bool av_window_resize(void *p, size_t bytes)
{
	uint64_t begin = (uintptr_t)p, end = begin + round_up(bytes, AV_HEAP_PAGE), tail = 0;
	int saved = errno;
	struct block *b;
	bool ret = false;

	pthread_mutex_lock(&heap.mutex);
	b = block_at(p);
	if (b && end <= b->end) {
		tail = b->end;
		ret = true;
	} else if (b && b->kind == SHARED && !heap.closed && end <= gap_end((uint32_t)(b - heap.list) + 1)) {
		ret = map_block(b->end, end - b->end);
		b->end = ret ? end : b->end;
	}
	pthread_mutex_unlock(&heap.mutex);
	if (tail > end && av_munmap(pointer(end), tail - end) == 0)
		av_window_gone(pointer(end), tail - end, false);
	errno = saved;
	return ret;
}

/* --- fork ------------------------------------------------------------------------ */

/*
 * Threads may store at any moment: a private mapping of the same pages takes their place in one
 * step, so that a store is in the page before or in the private copy after. Then all of it is
 * copied, and the file's pages go, so that what the program discards later reads as zeros.
 */
static void privatise(const struct av_vma *vma, uint64_t begin, uint64_t end)
{
	int prot = (vma->readable ? PROT_READ : 0) | (vma->writable ? PROT_WRITE : 0);

	if (av_mmap(pointer(begin), end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		    share.fd, (off_t)(begin - share.begin)) == MAP_FAILED)
		return;
	if (av_madvise(pointer(begin), end - begin, MADV_POPULATE_WRITE) == 0)
		punch(begin, end);
	if (prot != (PROT_READ | PROT_WRITE))
		(void)!mprotect(pointer(begin), end - begin, prot);
}

static void privatise_block(int maps, struct block *b)
{
	struct av_vma vma;

	for (uint64_t at = b->begin; at < b->end; at = vma.end) {
		if (!av_vma_next(maps, at, &vma) || vma.begin >= b->end)
			break;
		if (vma.shared && vma.inode == share.inode)
			privatise(&vma, vma.begin > at ? vma.begin : at,
				  vma.end < b->end ? vma.end : b->end);
	}
	b->kind = PRIVATE;
}

static void privatise_all(void)
{
	int maps = heap.count ? av_vma_open_own() : -1;

	if (maps < 0)
		return;
	for (uint32_t i = 0; i < heap.count; i++)
		if (heap.list[i].kind == SHARED)
			privatise_block(maps, &heap.list[i]);
	close(maps);
}

static void before_fork(void)
{
	void (*moving)(bool begins) = atomic_load(&share.moving);
	int saved = errno;

	if (moving)
		moving(true);
	pthread_mutex_lock(&heap.mutex);
	privatise_all();
	if (moving)
		moving(false);
	errno = saved;
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&heap.mutex);
}

/* The file is the parent's: what there is stays, and nothing comes to it. */
static void after_fork_in_child(void)
{
	pthread_mutex_init(&heap.mutex, NULL);
	heap.closed = true;
}

__attribute__((constructor)) static void register_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
