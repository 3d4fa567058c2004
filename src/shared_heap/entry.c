/* SPDX-License-Identifier: MIT */
/* What the library of verbs finds, and whether there may be a heap in this process. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/uncancelled.h"
#include "segment/shared_heap.h"
#include "shared_heap/blocks.h"

/* Where memory is promised strictly, a page of a file that is not to be had is a SIGBUS. */
static bool strict_overcommit(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char c = '0';

	if (fd < 0)
		return false;
	(void)!read(fd, &c, 1);
	close(fd);
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
AV_EXPORT const struct av_shared_heap *anyverbs_shared_heap(av_shared_heap_leaving *leaving)
{
	AV_UNCANCELLED;
	int saved = errno;
	bool may = av_block_begun() || (!strict_overcommit() && !has_sanitizer());

	errno = saved;
	return may ? av_block_begin(leaving) : NULL;
}
