/* SPDX-License-Identifier: MIT */
/*
 * The layout of a segment, sparse anonymous memory of AV_SEG_BYTES:
 *
 *   0                 head: identity, addresses, pins, tables of chunks
 *   sizeof head ...   heap: chunks of objects, rings; the owner extends it, and backs it before use
 *   ...               pages of regions that the library allocates, and of large rings:
 *                     segment/pages.h
 *   AV_ODP_OFFSET     nodes, allocated by any process (memory/region_count.h)
 *   AV_BOUNCE_OFFSET   bounce buffers: backed when first touched, and only by av_copy(), so that a
 *                     full file system is an error and not a SIGBUS
 *   AV_TABLES_OFFSET  queue pairs and CQs (struct av_tables). Here a file of the context's folder
 *                     is mapped instead: what they have counted outlives a process that is killed
 *
 * Each table of objects has one fixed type. Memory that once held a queue pair never holds anything
 * else: a peer with a stale index finds a valid lock and a number that does not match.
 */
#ifndef AV_SEGMENT_LAYOUT_H
#define AV_SEGMENT_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "registry/directory.h"

#define AV_SEG_MAGIC	    0x746e656d67657361ull
#define AV_SEG_BYTES	    (16ull << 30)
#define AV_PAGE_BYTES	    4096u
#define AV_BOUNCE_BYTES	    16384u
#define AV_BOUNCE_COUNT	    4096u
#define AV_TABLES_BYTES	    (128ull << 20)
#define AV_TABLES_OFFSET    (AV_SEG_BYTES - AV_TABLES_BYTES)
#define AV_BOUNCE_OFFSET    (AV_TABLES_OFFSET - (uint64_t)AV_BOUNCE_BYTES * AV_BOUNCE_COUNT)
#define AV_ODP_BYTES	    (1ull << 30)
#define AV_ODP_OFFSET	    (AV_BOUNCE_OFFSET - AV_ODP_BYTES)
#define AV_HEAP_END	    AV_ODP_OFFSET
#define AV_PINS		    256
#define AV_SEG_PAGES_OWNERS 32
#define AV_SLAB_CHUNKS	    1024
#define AV_IMPORT_KEYS	    (1u << 19)
#define AV_IMPORT_PDS	    (1u << 17)

/* The tables of shared objects: bytes per object, and objects per chunk. */
enum av_slab { AV_SLAB_KEY, AV_SLAB_CQ, AV_SLAB_RQ, AV_SLAB_QP, AV_SLAB_N };
#define AV_KEY_INDEX(key) ((key) >> 8) /* memory/key.h */
#define AV_KEY_BYTES	  64u
#define AV_CQ_BYTES	  384u
#define AV_RQ_BYTES	  384u
#define AV_QP_BYTES	  1472u /* an odd number of cache lines, to use all cache sets */
/* Where the counters are in an entry (observe/counters.h). */
#define AV_QP_COUNTERS_AT 448u
#define AV_CQ_COUNTERS_AT 104u
#define AV_KEY_CHUNK	  1024u
#define AV_OBJ_CHUNK	  64u
#define AV_RQ_CHUNK	  128u /* of queue pairs, and shared ones */

/* The sparse file "tables" of a context's folder. */
struct av_tables {
	uint64_t magic;
	/* Chunks in use, from the first; backed before they count. */
	_Atomic uint32_t qp_chunks, cq_chunks;
	uint8_t qp[AV_SLAB_CHUNKS][AV_OBJ_CHUNK][AV_QP_BYTES] AV_ALIGNED(AV_PAGE_BYTES);
	uint8_t cq[AV_SLAB_CHUNKS][AV_OBJ_CHUNK][AV_CQ_BYTES] AV_ALIGNED(AV_PAGE_BYTES);
};
#define AV_TABLES_MAGIC 0x73656c6261747661ull

static_assert(sizeof(struct av_tables) <= AV_TABLES_BYTES, "tables");
static_assert(AV_SLAB_CHUNKS * AV_OBJ_CHUNK >= AV_MAX_QP, "queue pair table");
static_assert(AV_SLAB_CHUNKS * AV_OBJ_CHUNK >= AV_MAX_CQ, "completion queue table");
static_assert(AV_SLAB_CHUNKS * AV_KEY_CHUNK >= AV_MAX_MR, "key table");
static_assert(AV_SLAB_CHUNKS * AV_RQ_CHUNK >= AV_MAX_QP + AV_MAX_SRQ, "receive queue table");

/* "This process is using that key" (memory/key.h), each on its own cache line. */
struct av_pin {
	_Atomic uint64_t word;
	/* While the user copies by a system call: memory/unmapped.h. */
	_Atomic uint32_t revoked;	/* a key: the system call is not to happen */
	_Atomic uint32_t tid;		/* of the thread in it, or about to begin it; 0: none */
	_Atomic uint64_t remote, bytes; /* struct iovec: what it copies to or from */
} AV_ALIGNED(AV_CACHE_LINE);

/* Why somebody looks at each request of a context. */
enum av_watched {
	AV_WATCHED_CAPTURE = 1,
	AV_WATCHED_FAULTS = 2,
	AV_WATCHED_MISUSE = 4,
};

struct av_seg_head {
	uint64_t magic;
	uint32_t ref;		 /* reference of the context in the directory */
	uint32_t proc;		 /* reference of its owner */
	int32_t pid;		 /* in the owner's PID namespace, */
	uint64_t pidns;		 /* whose inode number this is */
	_Atomic uint32_t closed; /* the owner has closed the context */
	_Atomic uint32_t fatal;	 /* transport/reset.h: the device has failed, as that one of
				    av_dir_failures(); 0: it is well */

	char process[16];  /* name of the owner's program */
	char device[64];   /* name of the device that was opened, */
	uint32_t switches; /* and its switches that were on: device/switches.h */

	/*
	 * Importing (ibv_import_device(3)). @origin: the context whose objects this one can use; 0:
	 * none. @pds: the protection domains, one bit per handle. Keys and domains of an importing
	 * context begin at AV_IMPORT_KEYS and AV_IMPORT_PDS. Smaller numbers are the origin's.
	 */
	uint32_t origin;
	_Atomic uint64_t pds[AV_MAX_PD / 64 + 1];

	/* The context's addresses: a destination address is compared with them. */
	uint8_t link_layer;
	uint8_t mtu; /* enum ibv_mtu: active when it was opened */
	uint16_t lid;
	uint32_t port; /* its GIDs: device/port.h */

	/* Pages of other contexts, by the descriptors of this process: segment/pages.h. */
	struct av_seg_foreign {
		_Atomic uint32_t ref; /* the context; 0: none */
		int32_t number;	      /* of the descriptor of its segment */
		uint64_t ino;
	} pages_owner[AV_SEG_PAGES_OWNERS];

	/* The shared heap of the owner's process: segment/segment_map.h. */
	int32_t shared_heap_fd; /* as the owner has it open; -1: there is none */
	uint64_t shared_heap_inode, shared_heap_dev;

	/* Futex of the owner's timer thread: av_seg_wake_timer(). */
	_Atomic uint32_t timer_doorbell;
	_Atomic uint32_t called; /* av_seg_call() */

	/* Device page table: offset of its root, end of its nodes, and a count of invalidations. */
	_Atomic uint64_t odp_root;
	_Atomic uint64_t odp_brk;
	_Atomic uint64_t odp_seq;
	_Atomic uint64_t unmapped_root; /* root of memory/unmapped.h */
	_Atomic uint32_t moving;	/* the owner is moving pages: memory/deferred_free.h */
	_Atomic uint32_t watched;	/* enum av_watched */
	_Atomic uint32_t faults_change; /* counts changes of the fault rules */
	_Atomic uint64_t counter[AV_DIR_COUNTERS]; /* as in av_dir_counters(), of this context */

	/* Bounce buffers: stack of free ones (count << 32 | index + 1); first never used. */
	_Atomic uint64_t bounce_free AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t bounce_fresh;
	_Atomic uint32_t bounce_next[AV_BOUNCE_COUNT];

	struct av_pin pin[AV_PINS];
	_Atomic uint64_t chunk[AV_SLAB_N][AV_SLAB_CHUNKS]; /* offsets; 0: not yet there */

	/* Per chunk of keys (memory/region_count.h): offsets of the nodes; how many exist. */
	_Atomic uint64_t region_counts[AV_SLAB_CHUNKS];
	_Atomic uint32_t region_chunks;
};

/* The tables of a mapped segment. */
static inline struct av_tables *av_tables_of(const struct av_seg_head *head)
{
	return (struct av_tables *)((uintptr_t)head + AV_TABLES_OFFSET);
}

#endif
