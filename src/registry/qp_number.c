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

/* The first free index at or after the cursor, or 0. */
static uint32_t qpn_next(void)
{
	for (uint32_t n = 0; n < AV_DIR_QPNS; n++) {
		uint32_t i = av_dir->qpn_cursor + n;

		if (i >= AV_DIR_QPNS - 1) /* the last index with the last tag would be 0xffffff */
			i = i - (AV_DIR_QPNS - 1) + AV_DIR_QPN_FIRST;
		if (i < AV_DIR_QPNS - 1 && qpn_free(atomic_load(&av_dir->qpn[i])))
			return i;
	}
	return 0;
}

void av_dir_qpn_begin(void)
{
	uint64_t seed = av_random();

	av_dir->qpn_cursor =
		AV_DIR_QPN_FIRST + (uint32_t)seed % (AV_DIR_QPNS - 1 - AV_DIR_QPN_FIRST);
	av_dir->qpn_tag = (uint32_t)(seed >> 32) & TAG_MASK;
}

/* The tag of an index that is about to be used again, or for the first time. */
static uint32_t tag_after(uint64_t word)
{
	return (word == 0 ? av_dir->qpn_tag : (uint32_t)word + 1) & TAG_MASK;
}

int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit)
{
	uint32_t i = 0, tag = 0;

	av_dir_change_begin();
	if (av_dir->qps >= limit)
		(void)av_dir_sweep();
	if (av_dir->qps < limit)
		i = qpn_next();
	if (i) {
		tag = tag_after(atomic_load(&av_dir->qpn[i]));
		atomic_store(&av_dir->qpn[i], qpn_word(ref, index, tag));
		av_dir->qpn_cursor = i + 1;
		av_dir->qps++;
		av_dir->context[AV_REF_SLOT(ref)].qps++;
	}
	av_dir_change_end();
	return i ? (int)(tag << AV_QPN_INDEX_BITS | i) : -ENOMEM;
}

void av_dir_qpn_remove(uint32_t qpn)
{
	av_dir_qpn *entry = &av_dir->qpn[qpn & (AV_DIR_QPNS - 1)];
	uint32_t ref;

	av_dir_change_begin();
	ref = (uint32_t)(atomic_load(entry) >> 32);
	if (ref && atomic_load(&av_dir->context[AV_REF_SLOT(ref)].ref) ==
			   ref) { /* else already swept at exit */
		atomic_store(entry, qpn_word(0, ENDED, qpn >> AV_QPN_INDEX_BITS));
		av_dir->qps--;
		av_dir->context[AV_REF_SLOT(ref)].qps--;
	}
	av_dir_change_end();
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
