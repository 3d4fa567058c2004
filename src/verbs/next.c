/* SPDX-License-Identifier: MIT */
/* The system's own libibverbs behind us. */
#include <dlfcn.h>

#include "verbs/export.h"

void *av_next(const char *name, const char *version)
{
	return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}
