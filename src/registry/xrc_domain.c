/* SPDX-License-Identifier: MIT */
/* XRC domains: which are open, in which contexts, and which file names them. */
#include <errno.h>
#include <fcntl.h>

#include "registry/directory_file.h"

static bool xrcd_live(struct av_dir_xrcd *x)
{
	uint32_t ref = atomic_load(&x->ref);

	if (ref && !av_dir_context_owner(ref))
		atomic_store(&x->ref, ref = 0);
	return ref != 0;
}

/* A named domain's number, or 0: not open. @mine: this context's entry of it. */
static uint32_t xrcd_find(uint32_t ref, uint64_t dev, uint64_t ino, struct av_dir_xrcd **mine,
			  struct av_dir_xrcd **free)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < AV_MAX_XRCD; i++) {
		struct av_dir_xrcd *x = &av_dir->xrcd[i];

		if (!xrcd_live(x)) {
			if (!*free)
				*free = x;
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): @x is a row */
		} else if ((dev || ino) && x->dev == dev && x->ino == ino) {
			number = x->number;
			if (atomic_load(&x->ref) == ref)
				*mine = x;
		}
	}
	return number;
}

static int xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags)
{
	struct av_dir_xrcd *mine = NULL, *free = NULL;
	uint32_t number = xrcd_find(ref, dev, ino, &mine, &free);

	if (!number && !(oflags & O_CREAT))
		return -EAGAIN;
	if (number && (oflags & O_EXCL))
		return -EINVAL;
	if (mine) {
		mine->opens++;
		return (int)number;
	}
	if (!free)
		return -ENOMEM;
	if (!number)
		number = ++av_dir->xrcd_last & 0x7fffffff;
	*free = (struct av_dir_xrcd){.number = number, .opens = 1, .dev = dev, .ino = ino};
	atomic_store(&free->ref, ref);
	return (int)number;
}

int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags)
{
	int ret;

	ret = av_dir_change_begin();
	if (ret)
		return ret;
	ret = xrcd_open(ref, dev, ino, oflags);
	av_dir_change_end();
	return ret;
}

/* Only this process has entries of its contexts: others see one end at any time. */
void av_dir_xrcd_close(uint32_t ref, uint32_t number)
{
	av_dir_hold();
	for (uint32_t i = 0; i < AV_MAX_XRCD; i++) {
		struct av_dir_xrcd *x = &av_dir->xrcd[i];

		if (atomic_load(&x->ref) == ref && x->number == number) {
			if (--x->opens == 0)
				atomic_store(&x->ref, 0);
			break;
		}
	}
	av_dir_release();
}
