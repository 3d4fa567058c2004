/* SPDX-License-Identifier: MIT */
#include "verbs/next.h"

#include <dlfcn.h>

void *av_next(const char *name, const char *version)
{
	return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}
