/* SPDX-License-Identifier: MIT */
#include "segment/segment.h"

#include "base/clock.h"
#include "base/patience.h"

uint64_t av_peer_lock_until(const struct av_seg *seg)
{
	uint64_t now = av_now_ns();

	if (seg->own)
		return UINT64_MAX;
	return now < atomic_load(&seg->in_vain_until_ns) ? now : now + AV_PATIENCE_NS;
}

void av_peer_lock_in_vain(struct av_seg *seg)
{
	atomic_store(&seg->in_vain_until_ns, av_now_ns() + AV_PATIENCE_NS);
}

enum av_lock_result av_peer_lock_wait(struct av_seg *seg, struct av_lock *lock)
{
	enum av_lock_result got = av_lock_wait_until(lock, av_peer_lock_until(seg));

	if (got == AV_LOCK_BUSY) {
		av_peer_lock_in_vain(seg);
		av_lock_order_released(lock);
	}
	return got;
}
