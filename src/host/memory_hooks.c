/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/text.h"
#include "base/thread.h"
#include "copy/copy.h"
#include "host/hooks.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "segment/segment.h"

/* Code and protection keys are for private pages, and rights do not change while pages move. */

AV_EXPORT int mprotect(void *start, size_t bytes, int prot)
{
	return av_heap_protect((uintptr_t)start, bytes, prot, -1);
}

/* No key is the same as mprotect(), also on kernels without keys. */
AV_EXPORT int pkey_mprotect(void *start, size_t bytes, int prot, int key)
{
	return av_heap_protect((uintptr_t)start, bytes, prot, key);
}

/*
 * A userfaultfd of the program's own. Memory can have only one, so ours releases what the program
 * registers. And an exchange of pages would lose the registration: blocks become private before.
 */

AV_FIND_NEXT(ioctl);

static int register_range(int fd, void *arg)
{
	int saved = errno, ret;
	struct uffdio_register r;
	bool known = av_copy(&r, arg, sizeof(r)) == AV_COPY_OK;

	if (known)
		av_heap_leave(r.range.start, r.range.len);
	errno = saved;
	ret = AV_NEXT_OF(ioctl)(fd, UFFDIO_REGISTER, arg);
	if (ret == 0 || errno != EBUSY || !known)
		return ret;
	av_odp_release(r.range.start, r.range.len);
	errno = saved;
	return AV_NEXT_OF(ioctl)(fd, UFFDIO_REGISTER, arg);
}

AV_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list more;
	void *arg;

	va_start(more, request);
	arg = va_arg(more, void *);
	va_end(more);
	return av_unlikely(request == UFFDIO_REGISTER) ? register_range(fd, arg)
						       : AV_NEXT_OF(ioctl)(fd, request, arg);
}

/*
 * madvise(2) on the shared heap: discarding must leave zeros, and MADV_FREE must work, though the
 * pages are not private. Other advice is only for private pages. Calls that do not come here (the
 * system call by number, the C library's own) reach memory/odp_notify.c as userfaultfd's events.
 */

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

static int kernel(uint64_t addr, uint64_t len, int advice)
{
	return (int)syscall(SYS_madvise, addr, len, advice);
}

/* The kernel may also keep pages that may be freed: so those on the heap stay. */
static int free_others(int maps, uint64_t addr, uint64_t end)
{
	struct av_heap_extent extent;
	int ret = 0;

	while (ret == 0 && av_heap_next(maps, addr, end, &extent)) {
		if (extent.begin > addr)
			ret = kernel(addr, extent.begin - addr, MADV_FREE);
		addr = extent.end;
	}
	return ret == 0 && addr < end ? kernel(addr, end - addr, MADV_FREE) : ret;
}

static int madvise_free_pages(uint64_t addr, uint64_t len)
{
	int maps = av_vma_open_own();
	int ret;

	if (maps < 0)
		return kernel(addr, len, MADV_FREE);
	ret = free_others(maps, addr, addr + len);
	syscall(SYS_close, maps);
	return ret;
}

/*
 * First the mapping's pages, then the file's, so that nothing is lost if the kernel refuses. Then
 * the mapping's again: pages that became private meanwhile may be the file's from before. The
 * listener gets an event, too, and must not discard what the program stores next.
 */
static int discard(uint64_t addr, uint64_t len, int advice)
{
	int ret = kernel(addr, len, advice);
	AV_ERRNO_KEPT;

	if (ret || av_likely(!av_heap_is_near(addr, len)))
		return ret;
	av_heap_discard(addr, len);
	(void)kernel(addr, len, advice);
	av_odp_barrier();
	return 0;
}

/* The heap counts as private memory, which has no file whose pages could be removed. */
static int remove_pages(uint64_t addr, uint64_t len)
{
	struct av_heap_extent extent;
	int maps = av_vma_open_own();
	bool any = maps >= 0 && av_heap_next(maps, addr, addr + len, &extent);

	if (maps >= 0)
		syscall(SYS_close, maps);
	if (!any)
		return kernel(addr, len, MADV_REMOVE);
	errno = EINVAL;
	return -1;
}

static bool is_for_private(int advice)
{
	return advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == MADV_DONTDUMP ||
	       advice == MADV_MERGEABLE || advice == MADV_GUARD_INSTALL;
}

static bool discards(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED;
}

static bool takes_pages(int advice)
{
	return discards(advice) || advice == MADV_FREE || advice == MADV_REMOVE;
}

static int dispatch_madvise(uint64_t addr, uint64_t len, int advice)
{
	if (discards(advice))
		return discard(addr, len, advice);
	if (advice == MADV_FREE && av_unlikely(av_heap_is_near(addr, len)))
		return madvise_free_pages(addr, len);
	if (advice == MADV_REMOVE && av_unlikely(av_heap_is_near(addr, len)))
		return remove_pages(addr, len);
	if (is_for_private(advice) && len)
		av_heap_leave(addr, len);
	return kernel(addr, len, advice);
}

AV_EXPORT int madvise(void *start, size_t bytes, int advice)
{
	AV_UNCANCELLED;
	uint64_t addr = (uintptr_t)start, page = (uint64_t)sysconf(_SC_PAGESIZE), len;
	uint32_t call;
	int ret;

	if (addr % page || bytes > UINT64_MAX - addr - page)
		return kernel(addr, bytes, advice);
	len = av_round_up(bytes, page); /* as the kernel does */
	if (!takes_pages(advice))
		return dispatch_madvise(addr, len, advice);
	call = av_odp_discard_begin(addr, len);
	ret = dispatch_madvise(addr, len, advice);
	av_odp_discard_end(call);
	return ret;
}

/*
 * getrlimit(2), setrlimit(2) and prlimit(2) report RLIMIT_MEMLOCK as unlimited to programs that use
 * verbs (not to shells): adapters lock registered memory, so such programs (GASNet, Ceph) refuse or
 * warn below some limit; we lock nothing.
 *
 * Programs also raise it to the hard one they were told, but only root may: they get the real one.
 */

AV_FIND_NEXT(prlimit64);

static bool is_off(void)
{
	static struct av_setting setting = {.variable = "ANYVERBS_MEMLOCK", .value = "real"};

	return av_setting_is(&setting);
}

/* --- does the program use verbs? -------------------------------------------------- */

static bool is_verbs_needed(const char *library)
{
	return !strcmp(library, "libibverbs.so.1") || !strcmp(library, "libanyverbs.so.1");
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *object)
{
	for (unsigned int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
	return NULL;
}

/* The linker has made some of these addresses absolute, but not those of the kernel's object. */
static const char *strings_of(const struct dl_phdr_info *object, const ElfW(Dyn) * dynamic)
{
	for (; dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_STRTAB)
			return (const char *)(dynamic->d_un.d_ptr < object->dlpi_addr
						      ? object->dlpi_addr + dynamic->d_un.d_ptr
						      : dynamic->d_un.d_ptr);
	return NULL;
}

/* A callback of dl_iterate_phdr(3). Return: 1: the object, which is not ours, needs verbs */
static int needs_verbs(struct dl_phdr_info *object, size_t size, void *us)
{
	const ElfW(Dyn) *dynamic = dynamic_of(object);
	const char *strings = dynamic ? strings_of(object, dynamic) : NULL;

	(void)size;
	if (!strings || object->dlpi_addr == (uintptr_t)us)
		return 0;
	for (; dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_NEEDED && is_verbs_needed(strings + dynamic->d_un.d_val))
			return 1;
	return 0;
}

extern const char __ehdr_start __attribute__((visibility("hidden"))); /* the linker's: of ours */

/* dladdr() would take a lock (base/real_calls.h). */
static bool uses_verbs(void)
{
	return dl_iterate_phdr(needs_verbs, (void *)&__ehdr_start);
}

/* --- the calls ----------------------------------------------------------------------- */

static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "the kernel's");

/* Is the limit reported as unlimited? */
static bool is_told(pid_t pid, __rlimit_resource_t resource)
{
	return resource == RLIMIT_MEMLOCK && (!pid || pid == getpid()) && !is_off() && uses_verbs();
}

/* The kernel refused @next, which is above the hard limit. Set that limit instead. */
static int set_most(const struct rlimit *next, void *to)
{
	struct rlimit most;

	if (AV_NEXT_OF(prlimit64)(0, RLIMIT_MEMLOCK, NULL, (void *)&most))
		return -1;
	most.rlim_cur = next->rlim_cur < most.rlim_max ? next->rlim_cur : most.rlim_max;
	return AV_NEXT_OF(prlimit64)(0, RLIMIT_MEMLOCK, (void *)&most, to);
}

static int limit_of(pid_t pid, __rlimit_resource_t resource, const void *next, void *to)
{
	int saved = errno, ret = AV_NEXT_OF(prlimit64)(pid, resource, next, to), err = errno;
	const struct rlimit *wanted = next;
	struct rlimit *now = to;
	bool refused = ret && err == EPERM && wanted && wanted->rlim_max == RLIM_INFINITY;

	if ((ret ? !refused : !now) || !is_told(pid, resource)) {
		errno = err;
		return ret;
	}
	if (refused && set_most(wanted, to))
		return -1;
	if (now)
		now->rlim_cur = now->rlim_max = RLIM_INFINITY;
	errno = saved;
	return 0;
}

AV_LIBC_EXPORT(int, prlimit,
	       (pid_t pid, __rlimit_resource_t resource, const struct rlimit *next,
		struct rlimit *now));
int av_libc_prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *next,
		    struct rlimit *now)
{
	return limit_of(pid, resource, next, now);
}

AV_LIBC_EXPORT(int, getrlimit, (__rlimit_resource_t resource, struct rlimit *now));
int av_libc_getrlimit(__rlimit_resource_t resource, struct rlimit *now)
{
	return limit_of(0, resource, NULL, now);
}

AV_LIBC_EXPORT(int, setrlimit, (__rlimit_resource_t resource, const struct rlimit *next));
int av_libc_setrlimit(__rlimit_resource_t resource, const struct rlimit *next)
{
	return limit_of(0, resource, next, NULL);
}

AV_LIBC_ALIAS(prlimit64, prlimit);
AV_LIBC_ALIAS(getrlimit64, getrlimit);
AV_LIBC_ALIAS(setrlimit64, setrlimit);

/*
 * mlockall(2) with a device open: the kernel would bring in all pages, and fill the holes of
 * segments, which have 16 GiB each. So we have it lock pages when they come, and then lock each
 * mapping of the program's, which brings in its pages.
 */

AV_FIND_NEXT(mlockall);

/* Is it a mapping of a whole segment, of its tables, or of a peer's heap? Our blocks are not. */
static bool is_sparse(const char *line, uint64_t bytes)
{
	return (bytes >= AV_TABLES_OFFSET && strstr(line, " /memfd:anyverbs-")) ||
	       (bytes == AV_TABLES_BYTES && strstr(line, "/anyverbs-") && strstr(line, "/tables"));
}

/* @lock: unlock what is sparse, and lock all else, as far as may be. Return: is there any? */
static bool any_sparse(bool lock)
{
	AV_UNCANCELLED;
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL, *rest;
	size_t room = 0;
	bool ret = false;

	while (maps && getline(&line, &room, maps) > 0) {
		uint64_t begin = strtoul(line, &rest, 16);
		uint64_t end = *rest == '-' ? strtoul(rest + 1, NULL, 16) : begin;
		bool sparse = is_sparse(line, end - begin);

		ret |= sparse;
		if (lock)
			(void)syscall(sparse ? SYS_munlock : SYS_mlock, begin, end - begin);
	}
	free(line);
	if (maps)
		fclose(maps);
	return ret;
}

AV_EXPORT int mlockall(int flags)
{
	int saved = errno;

	if (!(flags & MCL_CURRENT) || !any_sparse(false)) {
		errno = saved;
		return AV_NEXT_OF(mlockall)(flags);
	}
	if (AV_NEXT_OF(mlockall)(flags | MCL_ONFAULT))
		return -1;
	if (!(flags & MCL_ONFAULT)) {
		(void)any_sparse(true);
		if (flags & MCL_FUTURE) /* what comes later, as it was asked for */
			(void)AV_NEXT_OF(mlockall)(MCL_FUTURE);
	}
	errno = saved;
	return 0;
}
