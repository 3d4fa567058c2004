/* SPDX-License-Identifier: MIT */
/* Implicit regions: how much of the whole address space does the device use by them? */
#ifndef AV_MEMORY_ODP_IMPLICIT_H
#define AV_MEMORY_ODP_IMPLICIT_H

#include <stdint.h>

#include "segment/segment.h"

/*
 * The pages in use of a context's implicit regions: those that are valid in the device's table and
 * in no other on-demand region, which counts its own pages, valid or not. 0 without an implicit
 * region. The table is read, and nothing else counted: it cannot differ from what is valid.
 * Context: any thread of any process; @seg may be a view. Uses the heap; without memory the answer
 * is 0.
 */
uint64_t av_odp_implicit_pages(const struct av_seg *seg);

#endif
