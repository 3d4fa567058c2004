/* SPDX-License-Identifier: MIT */
/*
 * A userfaultfd of the program's own. Memory can have one, so ours lets go of what the program
 * registers; and an exchange of pages would lose the registration, so blocks of the shared heap
 * become private before.
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include "base/compiler.h"
#include "base/next.h"
#include "copy/copy.h"
#include "memory/heap_region.h"
#include "memory/odp_track.h"

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
