/* SPDX-License-Identifier: MIT */
/* A context's segment without a directory: enough of one for the device page table. */
#ifndef AV_TESTS_FAKE_SEG_H
#define AV_TESTS_FAKE_SEG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/check.h"
#include "lib/sanitized.h"
#include "memory/odp.h"
#include "segment/segment.h"

struct fake_seg {
	struct av_seg seg;
	struct av_odp_counters *counters; /* shared with forked children */
	struct av_odp_gauge gauge;
	int fd;
};

#define CHECK_EQUAL(a, b)                                                                        \
	do {                                                                                     \
		uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                                 \
		if (a_ != b_) {                                                                  \
			fprintf(stderr, "%s:%d: %s: %s is %llu, not %llu\n", __FILE__, __LINE__, \
				__func__, #a, (unsigned long long)a_, (unsigned long long)b_);   \
			abort();                                                                 \
		}                                                                                \
	} while (0)

/* Where the last one was, if that is free: qemu keeps tables of all addresses ever used. */
static inline void fake_open(struct fake_seg *f, uint32_t ref)
{
	static void *place;

	memset(f, 0, sizeof(*f));
	f->fd = memfd_create("segment", MFD_CLOEXEC);
	CHECK(f->fd >= 0 && ftruncate(f->fd, (off_t)AV_SEG_BYTES) == 0);
	f->seg.head = mmap(place, AV_SEG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			   f->fd, 0);
	place = f->seg.head;
	f->counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(f->seg.head != MAP_FAILED && f->counters != MAP_FAILED);
	f->seg.ref = ref;
	f->seg.pid = getpid();
	f->seg.own = f->seg.same_pidns = true;
	f->seg.process = AV_OWN_FD_NONE;
	f->seg.odp = f->counters;
	f->seg.odp_gauge = &f->gauge;
}

/* The first chunk of each table of objects, whose entries are all zero. */
#define FAKE_CHUNK_AT(slab) ((uint64_t)((slab) + 1) << 26)
static inline void fake_tables(struct fake_seg *f)
{
	for (int slab = 0; slab < AV_SLAB_N; slab++)
		atomic_store(&f->seg.head->chunk[slab][0], FAKE_CHUNK_AT(slab));
}

static inline void fake_close(struct fake_seg *f)
{
	munmap(f->seg.head, AV_SEG_BYTES);
	munmap(f->counters, 4096);
	close(f->fd);
}

/* The number of the descriptor by which its memory is watched, or -1. */
static inline int fake_uffd(const struct fake_seg *f)
{
	const struct av_odp_root *root = av_odp_root(&f->seg);

	return root ? (int)atomic_load(&root->uffd) - 1 : -1;
}

/* Was any page of the range unmapped after @moment? */
static inline bool fake_unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len,
				       uint64_t moment)
{
	struct av_key k = {.addr = addr, .length = len, .intact = moment};

	return !av_still_mapped(seg, &k, addr, len);
}

/* The pages that are not valid for an access. */
static inline uint64_t fake_missing(const struct av_seg *seg, uint64_t addr, uint64_t len,
				    bool write)
{
	return av_odp_pages(addr, len) - av_odp_valid(seg, addr, len, write);
}

static inline uint64_t counted(const struct fake_seg *f, enum av_odp_counter which)
{
	return atomic_load(&f->counters->value[which]);
}

#endif
