/* SPDX-License-Identifier: MIT */
/*
 * getrlimit(2), setrlimit(2) and prlimit(2) of RLIMIT_MEMLOCK: unlimited, for programs that use
 * verbs. Adapters lock what is registered, so such programs refuse or warn below some limit:
 * GASNet, Ceph. We lock nothing. Other programs, shells among them, see the limit that there is.
 *
 * Programs also raise the limit to the hard one. What they are told, they can set, though only root
 * may have it: they get as much as there is.
 */
#include <assert.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/next.h"
#include "base/setting.h"

AV_FIND_NEXT(prlimit64);

static bool is_off(void)
{
	static struct av_setting setting = {.variable = "ANYVERBS_MEMLOCK", .value = "real"};

	return av_setting_is(&setting);
}

/* --- does the program use verbs? -------------------------------------------------- */

static bool is_verbs(const char *library)
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
		if (dynamic->d_tag == DT_NEEDED && is_verbs(strings + dynamic->d_un.d_val))
			return 1;
	return 0;
}

extern const char __ehdr_start __attribute__((visibility("hidden"))); /* the linker's: of ours */

/* dladdr() would take a lock (base/next.h). */
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
