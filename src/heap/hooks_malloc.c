/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/thread.h"
#include "heap/blocks.h"

/* What the library of verbs finds, and whether there may be a heap in this process. */

/* Where memory is promised strictly, a page of a file that is not to be had is a SIGBUS. */
static bool strict_overcommit(void)
{
	int fd AV_CLOSED = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char c = '0';

	if (fd < 0)
		return false;
	(void)!read(fd, &c, 1);
	return c == '2';
}

/* Its allocator is to see every block, so that it finds what it is there to find. */
static bool has_sanitizer(void)
{
	static const char *const names[] = {"__asan_init", "__hwasan_init", "__lsan_init",
					    "__msan_init", "__tsan_init"};
	bool found = false;

	for (size_t i = 0; i < AV_ARRAY_SIZE(names) && !found; i++)
		found = dlsym(RTLD_DEFAULT, names[i]) != NULL;
	if (!found)
		(void)dlerror(); /* the program must not find our error message */
	return found;
}

/* Nothing is taken before it has been asked for: whoever asks sees to fork(). */
AV_EXPORT const struct av_shared_heap *anyverbs_shared_heap(const struct av_shared_heap_user *user)
{
	AV_UNCANCELLED;
	AV_ERRNO_KEPT;
	bool may = av_block_begun() || (!strict_overcommit() && !has_sanitizer());

	return may ? av_block_begin(user) : NULL;
}

/* The malloc() family: large blocks are the shared heap's, all others whose they were. */

AV_FIND_NEXT(malloc);
AV_FIND_NEXT(free);
AV_FIND_NEXT(calloc);
AV_FIND_NEXT(malloc_usable_size);
AV_FIND_NEXT(realloc);
AV_FIND_NEXT(memalign);
AV_FIND_NEXT(aligned_alloc);
AV_FIND_NEXT(posix_memalign);
AV_FIND_NEXT(valloc);
AV_FIND_NEXT(pvalloc);

/* Smaller ones share pages and page table entries; but who asks for whole pages gets them. */
#define LARGE (64u << 10)

AV_EXPORT void free_sized(void *p, size_t bytes);
AV_EXPORT void free_aligned_sized(void *p, size_t align, size_t bytes);

/* What comes first, or else from the function behind ours; the same again without spare blocks. */
#define OR_NEXT(first, next)                                      \
	({                                                        \
		void *p_ = (first);                               \
		if (!p_)                                          \
			p_ = (next);                              \
		if (av_unlikely(!p_) && av_block_drop_spares()) { \
			p_ = (first);                             \
			if (!p_)                                  \
				p_ = (next);                      \
		}                                                 \
		p_;                                               \
	})

static bool is_large(size_t bytes)
{
	return bytes >= LARGE;
}

AV_EXPORT void *malloc(size_t bytes)
{
	return OR_NEXT(is_large(bytes) ? av_block_take(bytes, 1, false) : NULL,
		       AV_NEXT_OF(malloc)(bytes));
}

/* dlsym(3) frees its last message here before it has found the function behind ours: it is lost. */
static void free_first(void *p)
{
	static _Thread_local bool inside AV_TLS_FAST;

	if (inside)
		return;
	inside = true;
	AV_NEXT_OF(free)(p);
	inside = false;
}

AV_EXPORT void free(void *p)
{
	if (av_block_is_near(p))
		av_block_free(p);
	else if (av_likely(__atomic_load_n(&next_free, __ATOMIC_RELAXED)))
		AV_NEXT_OF(free)(p);
	else
		free_first(p);
}

/* C23 */
AV_EXPORT void free_sized(void *p, size_t bytes)
{
	free(p);
}

AV_EXPORT void free_aligned_sized(void *p, size_t align, size_t bytes)
{
	free(p);
}

AV_EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;
	bool large = !__builtin_mul_overflow(count, size, &bytes) && is_large(bytes);

	return OR_NEXT(large ? av_block_take(bytes, 1, true) : NULL,
		       AV_NEXT_OF(calloc)(count, size));
}

AV_EXPORT size_t malloc_usable_size(void *p)
{
	return av_block_is_near(p) ? av_block_bytes(p) : AV_NEXT_OF(malloc_usable_size)(p);
}

static void *relocate_allocation(void *p, size_t had, size_t bytes)
{
	void *to = av_block_is_near(p) ? calloc(1, bytes) : malloc(bytes);

	if (!to)
		return NULL;
	av_block_copy(to, p, had < bytes ? had : bytes);
	free(p);
	return to;
}

AV_EXPORT void *realloc(void *p, size_t bytes)
{
	if (!p)
		return malloc(bytes);
	if (!av_block_is_near(p)) {
		size_t had = is_large(bytes) && av_block_begun() ? malloc_usable_size(p) : 0;

		/* What is large already and not the shared heap's stays there. */
		if (had && !is_large(had))
			return relocate_allocation(p, had, bytes);
		return bytes ? OR_NEXT(NULL, AV_NEXT_OF(realloc)(p, bytes))
			     : AV_NEXT_OF(realloc)(p, 0);
	}
	if (is_large(bytes) && av_block_resize(p, bytes))
		return p;
	if (bytes)
		return relocate_allocation(p, av_block_bytes(p), bytes);
	free(p);
	return NULL;
}

AV_EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (!__builtin_mul_overflow(count, size, &bytes))
		return realloc(p, bytes);
	errno = ENOMEM;
	return NULL;
}

static void *take_aligned(size_t align, size_t bytes)
{
	bool large = is_large(bytes) || (bytes >= AV_BLOCK_PAGE && align >= AV_BLOCK_PAGE);

	return large && align && (align & (align - 1)) == 0 ? av_block_take(bytes, align, false)
							    : NULL;
}

AV_EXPORT void *memalign(size_t align, size_t bytes)
{
	return OR_NEXT(take_aligned(align, bytes), AV_NEXT_OF(memalign)(align, bytes));
}

AV_EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
	return OR_NEXT(take_aligned(align, bytes), AV_NEXT_OF(aligned_alloc)(align, bytes));
}

AV_EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
	void *p = align % sizeof(void *) == 0 ? take_aligned(align, bytes) : NULL;

	int err;

	if (p) {
		*out = p;
		return 0;
	}
	err = AV_NEXT_OF(posix_memalign)(out, align, bytes);
	return err == ENOMEM && av_block_drop_spares()
		       ? AV_NEXT_OF(posix_memalign)(out, align, bytes)
		       : err;
}

AV_EXPORT void *valloc(size_t bytes)
{
	return OR_NEXT(take_aligned(AV_BLOCK_PAGE, bytes), AV_NEXT_OF(valloc)(bytes));
}

AV_EXPORT void *pvalloc(size_t bytes)
{
	return OR_NEXT(take_aligned(AV_BLOCK_PAGE, bytes), AV_NEXT_OF(pvalloc)(bytes));
}
