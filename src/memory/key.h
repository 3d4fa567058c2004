/* SPDX-License-Identifier: MIT */
/*
 * The key table of a context: what an lkey or rkey stands for. Shared, so that a peer checks an rkey without the
 * help of its owner.
 *
 * A key is index << 8 | tag. The tag changes with each use of an index, and freed indices rest as long as possible,
 * so that a stale key is refused for as long as the key space allows. 0, 0xffffffff and 0xdeadbeef are never keys.
 */
#ifndef AV_MEMORY_KEY_H
#define AV_MEMORY_KEY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "hca/segment.h"

#define AV_KEY_INDEX(key) ((key) >> 8)

/* What kind of thing is behind a key. */
enum av_key_kind {
	AV_KEY_NONE,
	AV_KEY_REGION, /* memory of the owner's address space */
};

/*
 * Written by the owner only. @key is the publication: a reader that finds its own key there after the hazard is set
 * may use the other fields until it ends the hazard, because they change only while @key is 0 and drained.
 */
struct av_key {
	_Atomic uint32_t key; /* 0: dead */
	uint32_t tag;	      /* the last one used; owner only */
	uint32_t pd;	      /* handle of the protection domain */
	uint32_t access;      /* enum ibv_access_flags */
	uint32_t kind;	      /* enum av_key_kind */
	uint64_t base;	      /* address of the first byte in the key's own address space */
	uint64_t length;      /* bytes */
	uint64_t addr;	      /* virtual address of the first byte in the owner's process */
	uint64_t unused[2];
};
static_assert(sizeof(struct av_key) == AV_KEY_BYTES, "key table entry");

/**
 * av_key_create() - publish a key with the fields of @what (all but key and tag)
 * @limit: number of keys the device may have in this context
 * Return: the key, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit);

/**
 * av_key_destroy() - kill a key and wait until nobody uses it
 *
 * After the return no access through it is under way and none will succeed. May wait as long as a copy takes.
 */
void av_key_destroy(struct av_seg *seg, uint32_t key);

/* The table's entry for a key's index, whatever key is there now; NULL if there is no such index. */
static inline struct av_key *av_key_entry(const struct av_seg *seg, uint32_t key)
{
	return av_slab_at(seg, AV_SLAB_KEY, AV_KEY_INDEX(key), AV_KEY_BYTES, AV_KEY_CHUNK);
}

#endif
