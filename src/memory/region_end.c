/* SPDX-License-Identifier: MIT */
#include "memory/region_end.h"

#include <errno.h>

#include "memory/file_region.h"
#include "memory/key.h"
#include "memory/linger.h"
#include "memory/page_move.h"
#include "memory/recall.h"
#include "memory/window_count.h"

/* Can a copy by this key be kept from the program's memory? @of: what has to linger for that */
static bool can_linger(struct av_seg *seg, const struct av_key *k, struct av_lingering_of *of)
{
	*of = (struct av_lingering_of){0};
	switch ((enum av_key_kind)atomic_load(&k->kind)) {
	case AV_KEY_PAGES:
		of->at = k->addr;
		return (uint32_t)k->intact == seg->ref && k->share == 0;
	case AV_KEY_REGION:
		of->part = k->heap; /* the program has other pages then: av_heap_region_end() */
		return !k->heap || (!av_file_region_is(seg, k->heap) && av_page_move_allowed());
	case AV_KEY_DEVICE:
	case AV_KEY_UMR:
		of->leads_to = k->addr;
		return true;
	case AV_KEY_ODP:
	case AV_KEY_NULL:
		return true;
	default:
		return false;
	}
}

static bool linger(struct av_seg *seg, uint32_t key)
{
	struct av_lingering_of of;

	if (!can_linger(seg, av_key_entry(seg, key), &of) || !av_linger_begin(seg, key, &of))
		return false;
	if (av_recall(seg, key))
		return true;
	av_recall_forget(seg, key);
	av_linger_cancel(seg, key);
	return false;
}

int av_region_end(struct av_seg *seg, uint32_t key)
{
	int err = av_key_destroy(seg, key, linger);

	return err == EBUSY && av_window_none_bound(seg, key) ? av_key_destroy(seg, key, linger)
							      : err;
}

int av_region_change(struct av_seg *seg, uint32_t key, const struct av_key *what)
{
	int err = av_key_change(seg, key, what);

	return err == EBUSY && av_window_none_bound(seg, key) ? av_key_change(seg, key, what) : err;
}
