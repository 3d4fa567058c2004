/* SPDX-License-Identifier: MIT */
/* A library that opens another, which only its own RUNPATH leads to. */
#include <dlfcn.h>
#include <stddef.h>

void *open_neighbour(void);
extern void *opened_early;

__attribute__((visibility("default"))) void *opened_early;

/* The result is kept in between: a jump to dlopen() would make our caller the one that opens. */
__attribute__((visibility("default"))) void *open_neighbour(void)
{
	void *volatile handle = dlopen("libtest_neighbour.so", RTLD_NOW);

	return handle;
}

__attribute__((constructor)) static void begin(void)
{
	opened_early = OPENS_EARLY ? open_neighbour() : NULL;
}
