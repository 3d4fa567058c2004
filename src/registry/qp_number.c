/* SPDX-License-Identifier: MIT */
/* Queue pair numbers and their owners. XRC shared receive queues get their numbers here as well. */
#include <errno.h>

#include "base/random.h"
#include "registry/directory_file.h"

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

/* The first free index at or after the cursor, or 0. @word: out: what is there */
static uint32_t qpn_next(uint64_t *word)
{
	uint32_t cursor = atomic_load(&av_dir->qpn_cursor);

	for (uint32_t n = 0; n < AV_DIR_QPNS; n++) {
		uint32_t i = cursor + n;

		if (i >= AV_DIR_QPNS - 1) /* the last index with the last tag would be 0xffffff */
			i = i - (AV_DIR_QPNS - 1) + AV_DIR_QPN_FIRST;
		if (i >= AV_DIR_QPNS - 1)
			continue;
		*word = atomic_load(&av_dir->qpn[i]);
		if (qpn_free(*word))
			return i;
	}
	return 0;
}

void av_dir_qpn_begin(struct av_dir_file *d)
{
	uint64_t seed = av_random();

	d->qpn_cursor = AV_DIR_QPN_FIRST + (uint32_t)seed % (AV_DIR_QPNS - 1 - AV_DIR_QPN_FIRST);
	d->qpn_tag = (uint32_t)(seed >> 32) & TAG_MASK;
}

/* The tag of an index that is about to be used again, or for the first time. */
static uint32_t tag_after(uint64_t word)
{
	return (word == 0 ? av_dir->qpn_tag : (uint32_t)word + 1) & TAG_MASK;
}

/* Of several that see an index free, the one that changes the word has it. */
static int claim(uint32_t ref, uint32_t index)
{
	uint64_t word;
	uint32_t i, tag;

	do {
		i = qpn_next(&word);
		if (!i)
			return -ENOMEM;
		tag = tag_after(word);
	} while (
		!atomic_compare_exchange_strong(&av_dir->qpn[i], &word, qpn_word(ref, index, tag)));
	atomic_store(&av_dir->qpn_cursor, i + 1);
	return (int)(tag << AV_QPN_INDEX_BITS | i);
}

int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit)
{
	int qpn = av_dir_use(ref, AV_DIR_NUMBERS, 1, limit);

	if (qpn)
		return qpn;
	qpn = claim(ref, index);
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
