/* SPDX-License-Identifier: MIT */
/* Looks up symbols of the system's libibverbs. */
#include <dlfcn.h>

#include "verbs/export.h"

void *av_next(const char *name, const char *version)
{
	return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}
