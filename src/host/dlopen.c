/* SPDX-License-Identifier: MIT */
/*
 * dlopen(3) of libibverbs opens this library: NCCL, Python's ctypes and many bindings load verbs in
 * no other way. Symbols that we lack are found in the system's libibverbs, on which we depend.
 *
 * The C library finds the caller's RUNPATH and namespace by the return address. So these functions
 * must jump to the next definition: nothing may follow the call; CMakeLists.txt demands that.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/real_calls.h"
#include "observe/flight.h"

AV_FIND_NEXT(dlopen);
AV_FIND_NEXT(dlmopen);

/* The linker finds this name among the loaded libraries, and reads no file. */
#define OURSELVES "libanyverbs.so.1"
#define VERBS	  "libibverbs.so"

/* libibverbs.so, libibverbs.so.1, libibverbs.so.1.14.44.0, in any directory. */
static bool is_verbs(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL, *name = slash ? slash + 1 : file;
	size_t length = strlen(VERBS);

	return name && !strncmp(name, VERBS, length) &&
	       name[length + strspn(name + length, ".0123456789")] == '\0';
}

static const char *instead_of(const char *file)
{
	return is_verbs(file) ? OURSELVES : file;
}

/* In a new namespace the linker loads everything again, except what is preloaded. */
static const char *instead_in(Lmid_t namespace, const char *file)
{
	if (namespace == LM_ID_BASE)
		return instead_of(file);
	if (is_verbs(file))
		av_log(AV_LOG_WARN,
		       "dlmopen(): '%.128s' in another namespace is the system's, without our "
		       "devices",
		       file);
	return file;
}

AV_EXPORT void *dlopen(const char *file, int mode)
{
	return AV_NEXT_OF(dlopen)(instead_of(file), mode);
}

AV_EXPORT void *dlmopen(Lmid_t namespace, const char *file, int mode)
{
	return AV_NEXT_OF(dlmopen)(namespace, instead_in(namespace, file), mode);
}
