/* SPDX-License-Identifier: MIT */
#include "registry/directory.h"

/* Queue pair numbers and their owners. XRC shared receive queues get their numbers here as well. */

#define TAG_MASK (AV_QPN_MASK >> AV_QPN_INDEX_BITS)
#define ENDED	 1u /* in place of the index: the number was used, and is free */

static uint64_t qpn_word(uint32_t ref, uint32_t index, uint32_t tag)
{
	return (uint64_t)ref << 32 | (uint64_t)index << 8 | tag;
}

static bool qpn_free(uint64_t word)
{
	return word >> 32 == 0 || av_dir_context_owner((uint32_t)(word >> 32)) == 0;
}

static bool index_free(uint32_t i)
{
	return qpn_free(atomic_load(&av_dir->qpn[i]));
}

/* --- claiming --------------------------------------------------------------------- */

/*
 * A process's numbers lie close together, since the kernel is told of whole blocks of them
 * (registry/tables.h). They also go round all indices before one is used again, as far as others
 * leave room: so packets of a queue pair that is gone find no other.
 */
#define BLOCK	  (1u << AV_QPN_BLOCK_BITS)
#define QPN_END	  (AV_DIR_QPNS - 1) /* the last index with the last tag would be 0xffffff */
#define BLOCK_END (AV_DIR_QPNS / BLOCK)

static uint32_t block_end(uint32_t index)
{
	uint32_t end = (index / BLOCK + 1) * BLOCK;

	return end < QPN_END ? end : QPN_END;
}

/* The first free one in [from, end), or 0. */
static uint32_t next_in(uint32_t from, uint32_t end)
{
	for (uint32_t i = from; i < end; i++)
		if (index_free(i))
			return i;
	return 0;
}

/* The next free one in the block of the last that this process was given, or 0. */
static uint32_t next_beside(void)
{
	uint32_t last = atomic_load(&av_dir->proc[AV_REF_SLOT(av_lock_self)].qpn);

	return last < AV_DIR_QPN_FIRST || last >= QPN_END ? 0 : next_in(last + 1, block_end(last));
}

static bool block_free(uint32_t block)
{
	for (uint32_t i = block * BLOCK; i < block_end(block * BLOCK); i++)
		if (!index_free(i))
			return false;
	return true;
}

/* In the first block at or after the cursor's that is wholly free, or 0. */
static uint32_t next_block(uint32_t cursor)
{
	uint32_t first = AV_DIR_QPN_FIRST / BLOCK, blocks = BLOCK_END - first;
	uint32_t from = cursor / BLOCK < first ? 0 : (cursor / BLOCK - first) % blocks;

	for (uint32_t n = 0; n < blocks; n++) {
		uint32_t block = first + (from + n) % blocks, begin = block * BLOCK;

		if (block_free(block))
			return n == 0 && cursor > begin && cursor < block_end(begin) ? cursor
										     : begin;
	}
	return 0;
}

/* The first at or after the cursor, or 0. */
static uint32_t next_any(uint32_t cursor)
{
	uint32_t from = cursor % AV_DIR_QPNS, i;

	from = from < AV_DIR_QPN_FIRST ? AV_DIR_QPN_FIRST : from;
	i = next_in(from, QPN_END);
	return i ? i : next_in(AV_DIR_QPN_FIRST, from);
}

/* The next search begins behind what this one has found. */
static uint32_t next_elsewhere(void)
{
	uint32_t cursor = atomic_load(&av_dir->qpn_cursor), i = next_block(cursor);

	if (i) {
		atomic_store(&av_dir->qpn_cursor, (i / BLOCK + 1) * BLOCK);
		return i;
	}
	i = next_any(cursor);
	if (i)
		atomic_store(&av_dir->qpn_cursor, i + 1);
	return i;
}

/* Of several that see an index free, the one that changes the word has it. */
static int claim_qpn(uint32_t ref, uint32_t index)
{
	uint64_t word;
	uint32_t i, tag;

	do {
		i = next_beside();
		if (!i)
			i = next_elsewhere();
		if (!i)
			return -ENOMEM;
		word = atomic_load(&av_dir->qpn[i]);
		/* 0: the index is used for the first time. */
		tag = (word == 0 ? av_dir->qpn_tag : (uint32_t)word + 1) & TAG_MASK;
	} while (!qpn_free(word) || !atomic_compare_exchange_strong(&av_dir->qpn[i], &word,
								    qpn_word(ref, index, tag)));
	atomic_store(&av_dir->proc[AV_REF_SLOT(av_lock_self)].qpn, i);
	return (int)(tag << AV_QPN_INDEX_BITS | i);
}

int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit)
{
	int qpn = av_dir_use(ref, AV_DIR_NUMBERS, 1, limit);

	if (qpn)
		return qpn;
	qpn = claim_qpn(ref, index);
	if (qpn < 0)
		av_dir_unuse(ref, AV_DIR_NUMBERS, 1);
	return qpn;
}

void av_dir_qpn_remove(uint32_t qpn)
{
	av_dir_qpn *entry = &av_dir->qpn[qpn & (AV_DIR_QPNS - 1)];
	uint64_t word = atomic_load(entry);
	uint32_t ref = (uint32_t)(word >> 32), tag = qpn >> AV_QPN_INDEX_BITS;

	/* Else its context has been swept, at exit, and the index may be another's. */
	if (ref && (word & TAG_MASK) == tag && av_dir_context_owner(ref) == av_lock_self &&
	    atomic_compare_exchange_strong(entry, &word, qpn_word(0, ENDED, tag)))
		av_dir_unuse(ref, AV_DIR_NUMBERS, 1);
}

struct av_qp_location av_dir_qpn_find(uint32_t qpn)
{
	uint64_t word = atomic_load(&av_dir->qpn[qpn & (AV_DIR_QPNS - 1)]);
	struct av_qp_location location = {0};

	if ((word & 0xff) == qpn >> AV_QPN_INDEX_BITS && !qpn_free(word)) {
		location.ref = (uint32_t)(word >> 32);
		location.index = (uint32_t)(word >> 8) & 0xffffff;
	}
	return location;
}

bool av_dir_qpn_ended(uint32_t qpn)
{
	uint64_t word = atomic_load(&av_dir->qpn[qpn & (AV_DIR_QPNS - 1)]);

	return word != 0 && (word & TAG_MASK) == qpn >> AV_QPN_INDEX_BITS && qpn_free(word);
}
