/* SPDX-License-Identifier: MIT */
/* A context's segment without a directory that has a heap and pages, and so can make objects. */
#ifndef AV_TESTS_FAKE_HEAP_H
#define AV_TESTS_FAKE_HEAP_H

#include <unistd.h>

#include "segment/pages.h"
#include "segment/segment.h"
#include "unit/memory/fake_seg.h"

#define FAKE_HEAP_AT	(1ul << 28)
#define FAKE_HEAP_BYTES (64ul << 20)

struct fake_heap {
	struct fake_seg fake;
};

static inline void fake_heap_open(struct fake_heap *f)
{
	struct av_seg *seg = &f->fake.seg;

	fake_open(&f->fake, 1);
	CHECK(av_own_fd_keep(&seg->file, dup(f->fake.fd)));
	seg->tables = seg->file;
	CHECK(av_heap_create(seg, FAKE_HEAP_AT, FAKE_HEAP_AT + FAKE_HEAP_BYTES, 1));
}

static inline void fake_heap_close(struct fake_heap *f)
{
	av_heap_destroy(&f->fake.seg);
	av_own_fd_close(&f->fake.seg.file);
	fake_close(&f->fake);
}

#endif
