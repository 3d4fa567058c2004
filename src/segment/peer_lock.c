/* SPDX-License-Identifier: MIT */
#include "segment/segment.h"

#include "base/clock.h"
#include "base/patience.h"

enum av_lock_result av_peer_lock_wait(struct av_seg *seg, struct av_lock *lock)
{
	enum av_lock_result got;
	uint64_t now;

	if (seg->own)
		return av_lock_wait(lock);
	now = av_now_ns();
	got = av_lock_wait_until(
		lock, now < atomic_load(&seg->in_vain_until_ns) ? now : now + AV_PATIENCE_NS);
	if (got == AV_LOCK_BUSY) {
		atomic_store(&seg->in_vain_until_ns, av_now_ns() + AV_PATIENCE_NS);
		av_lock_order_released(lock);
	}
	return got;
}
