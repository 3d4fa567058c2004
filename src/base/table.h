/* SPDX-License-Identifier: MIT */
/* Objects by small numbers. Look-ups are lock-free beside additions: the table stays in place. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/compiler.h"

/*
 * @count objects, all zero, made when they are first needed, by whichever thread. @at: the _Atomic
 * pointer to them, NULL before. NULL: no memory
 */
#define AV_MADE_ONCE(at, count)                                         \
	({                                                              \
		__auto_type have = atomic_load(at);                     \
		__typeof__(have) none = NULL;                           \
                                                                        \
		if (!have && (have = calloc(count, sizeof(*have))) &&   \
		    !atomic_compare_exchange_strong(at, &none, have)) { \
			free(have);                                     \
			have = none;                                    \
		}                                                       \
		have;                                                   \
	})

#define AV_TABLE_CHUNKS 1024u
#define AV_TABLE_CHUNK	1024u

struct av_table {
	_Atomic(_Atomic(void *) *) chunk[AV_TABLE_CHUNKS];
};

/* Return: 0; ENOMEM, also if @id is beyond the table */
AV_MUST_USE int av_table_set(struct av_table *table, uint32_t id, void *object);

/* The same for an entry that must be empty. Return: also EBUSY: it is not, and does not change */
AV_MUST_USE int av_table_add(struct av_table *table, uint32_t id, void *object);

/* Clear entry @id, which is set. */
void av_table_clear(struct av_table *table, uint32_t id);

/* Free the chunks. The caller frees the objects. */
void av_table_fini(struct av_table *table);

/* The object of that number, or NULL. The caller ensures that nobody frees it meanwhile. */
static inline void *av_table_get(const struct av_table *table, uint32_t id)
{
	_Atomic(void *) *chunk;

	if (av_unlikely(id >= AV_TABLE_CHUNKS * AV_TABLE_CHUNK))
		return NULL;
	chunk = atomic_load_explicit(&table->chunk[id / AV_TABLE_CHUNK], memory_order_acquire);
	return av_likely(chunk != NULL)
		       ? atomic_load_explicit(&chunk[id % AV_TABLE_CHUNK], memory_order_acquire)
		       : NULL;
}

/*
 * Call @visit for each entry. If others may clear entries meanwhile, @object may be freed already,
 * unless the caller prevents that; @id is right.
 */
void av_table_each(struct av_table *table, void (*visit)(uint32_t id, void *object, void *arg),
		   void *arg);

/* Handles of objects without a place in the segment. A freed one is reused as late as possible. */
struct av_handles {
	struct av_table table;
	pthread_mutex_t mutex;
	uint32_t base; /* handles are base + 1, ... */
	uint32_t last, used;
};

/* @limit: below AV_TABLE_CHUNKS * AV_TABLE_CHUNK. Return: handle, or 0 and errno ENOMEM. */
AV_MUST_USE uint32_t av_handles_add(struct av_handles *handles, void *object, uint32_t limit);
void av_handles_remove(struct av_handles *handles, uint32_t handle);
