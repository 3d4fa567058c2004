/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/text.h"
#include "base/thread.h"
#include "segment/layout.h"

/*
 * getrlimit(2), setrlimit(2) and prlimit(2) of RLIMIT_MEMLOCK: unlimited, for programs that use
 * verbs. Adapters lock what is registered, so such programs refuse or warn below some limit:
 * GASNet, Ceph. We lock nothing. Other programs, shells among them, see the limit that there is.
 *
 * Programs also raise the limit to the hard one. What they are told, they can set, though only root
 * may have it: they get as much as there is.
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

/* The linker has made some of these addresses absolute, and not those of the kernel's own object.
 */
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

/* Is it told something else than there is? */
static bool is_told(pid_t pid, __rlimit_resource_t resource)
{
	return resource == RLIMIT_MEMLOCK && (!pid || pid == getpid()) && !is_off() && uses_verbs();
}

/* @next was refused, as more than the hard limit: that limit instead. */
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

AV_EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *next,
		      struct rlimit *now)
{
	return limit_of(pid, resource, next, now);
}

AV_EXPORT int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *next,
			struct rlimit64 *now)
{
	return limit_of(pid, resource, next, now);
}

AV_EXPORT int getrlimit(__rlimit_resource_t resource, struct rlimit *now)
{
	return limit_of(0, resource, NULL, now);
}

AV_EXPORT int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *now)
{
	return limit_of(0, resource, NULL, now);
}

AV_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *next)
{
	return limit_of(0, resource, next, NULL);
}

AV_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *next)
{
	return limit_of(0, resource, next, NULL);
}

/*
 * mlockall(2) with a device open: the kernel would bring in all pages of all mappings, and fill the
 * holes of segments, which are 16 GiB each. So it locks pages as they come; then each mapping of
 * the program's is locked, which brings in its pages.
 */

AV_FIND_NEXT(mlockall);

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

/* Is it a mapping of a whole segment, of its tables, or of a peer's heap? Its own blocks are not.
 */
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
