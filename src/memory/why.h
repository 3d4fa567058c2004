/* SPDX-License-Identifier: MIT */
/*
 * Explains a failed use of a key, for the record of the failure. Looks at the key again after the
 * failure and writes to the thread's pending record (observe/diagnosis.h). The key may have changed
 * since, so this explains but decides nothing.
 *
 * Context: any, with or without locks and pins.
 */
#ifndef AV_MEMORY_WHY_H
#define AV_MEMORY_WHY_H

#include "memory/translate.h"
#include "memory/window.h"
#include "observe/diagnosis.h"

/* av_mem_get() returned @found. */
AV_COLD void av_mem_why(struct av_seg *seg, const struct av_mem_request *req,
			enum av_mem_fault found);

/* av_mem_get_list() returned @found, without saying for which element. */
AV_COLD void av_mem_why_list(struct av_seg *seg, uint32_t pd, uint32_t access,
			     const struct ibv_sge *sge, uint32_t count, uint64_t bytes,
			     enum av_mem_fault found);

/* The key is in order, but its memory could not be accessed. */
AV_COLD void av_mem_why_fault(struct av_seg *seg, const struct av_mem_request *req);

/* av_window_bind() refused. */
AV_COLD void av_window_why(struct av_seg *seg, const struct av_window_bind *bind);

/* A key cannot be invalidated. @bind: its rkey, the queue pair's number and domain. */
AV_COLD void av_invalidate_why(struct av_seg *seg, const struct av_window_bind *bind,
			       enum av_invalidate found);

#endif
