/* SPDX-License-Identifier: MIT */
/*
 * Explains what a check has found: writes it to the thread's pending record (observe/diagnosis.h),
 * with the numbers that were compared. The key may have changed since.
 * Context: any, with or without locks and pins.
 */
#ifndef AV_MEMORY_MR_EXPLAIN_H
#define AV_MEMORY_MR_EXPLAIN_H

#include "memory/window.h"
#include "memory/xfer.h"
#include "observe/diagnosis.h"

/**
 * av_mr_explain() - explain what av_mem_get() @found
 * @found: AV_CHECK_MEMORY_FAULT: nothing, but the memory could not be accessed
 *
 * Counts a refusal at the key's region, if it has one.
 * Return:  av_fault_of(@found, @refused)
 */
AV_COLD enum av_fault av_mr_explain(struct av_seg *seg, const struct av_mem_request *req,
				    enum av_check found, enum av_fault refused);

/*
 * The same of av_mem_get_list(). @sge: the element that is refused; @left: bytes that were wanted
 * from there on
 */
AV_COLD enum av_fault av_mr_explain_element(struct av_seg *seg, uint32_t pd, uint32_t access,
					    const struct ibv_sge *sge, uint64_t left,
					    enum av_check found, enum av_fault refused);

/* av_window_bind() @found it. */
AV_COLD void av_window_explain(struct av_seg *seg, const struct av_window_bind *bind,
			       enum av_check found);

/* A key cannot be invalidated. @bind: its rkey, the queue pair's number and domain. */
AV_COLD void av_invalidate_explain(struct av_seg *seg, const struct av_window_bind *bind,
				   enum av_check found);

#endif
