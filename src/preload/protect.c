/* SPDX-License-Identifier: MIT */
/*
 * mprotect(2) and pkey_mprotect(2) on adopted memory: code and protection keys are for private
 * pages (memory/special.h). Other rights are the same for shared ones.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "memory/adopt.h"
#include "memory/special.h"

AV_EXPORT int mprotect(void *start, size_t bytes, int prot)
{
	if (av_unlikely(prot & PROT_EXEC))
		av_adopt_leave((uintptr_t)start, bytes);
	return (int)syscall(SYS_mprotect, start, bytes, prot);
}

/* No key is the same as mprotect(), also on kernels without keys. */
AV_EXPORT int pkey_mprotect(void *start, size_t bytes, int prot, int key)
{
	if (key == -1)
		return mprotect(start, bytes, prot);
	av_special_note((uintptr_t)start, bytes);
	av_adopt_leave((uintptr_t)start, bytes);
	return (int)syscall(SYS_pkey_mprotect, start, bytes, prot, key);
}

/* Ours, whichever the program's calls reach. */
extern __typeof__(pkey_mprotect) our_pkey_mprotect
	__attribute__((alias("pkey_mprotect"), visibility("hidden"), nothrow, leaf));

/* They reach these functions if the library is preloaded or linked, and not if it is opened. */
__attribute__((constructor)) static void begin(void)
{
	if (dlsym(RTLD_DEFAULT, "pkey_mprotect") == (void *)our_pkey_mprotect)
		av_special_begin();
	else
		(void)dlerror(); /* the program must not find our error message */
}
