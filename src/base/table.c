/* SPDX-License-Identifier: MIT */
/* Adding to and walking the table of handles. */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

/* Return: NULL: no memory, or beyond the table */
static _Atomic(void *) *entry_of(struct av_table *table, uint32_t id)
{
	_Atomic(void *) *chunk, *none = NULL;

	if (id >= AV_TABLE_CHUNKS * AV_TABLE_CHUNK)
		return NULL;
	chunk = atomic_load(&table->chunk[id / AV_TABLE_CHUNK]);
	if (!chunk) {
		chunk = calloc(AV_TABLE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return NULL;
		if (!atomic_compare_exchange_strong(&table->chunk[id / AV_TABLE_CHUNK], &none,
						    chunk)) {
			free(chunk);
			chunk = none;
		}
	}
	return &chunk[id % AV_TABLE_CHUNK];
}

int av_table_set(struct av_table *table, uint32_t id, void *object)
{
	_Atomic(void *) *entry = entry_of(table, id);

	if (!entry)
		return ENOMEM;
	atomic_store_explicit(entry, object, memory_order_release);
	return 0;
}

int av_table_add(struct av_table *table, uint32_t id, void *object)
{
	_Atomic(void *) *entry = entry_of(table, id);
	void *none = NULL;

	if (!entry)
		return ENOMEM;
	return atomic_compare_exchange_strong(entry, &none, object) ? 0 : EBUSY;
}

void av_table_clear(struct av_table *table, uint32_t id)
{
	atomic_store(&atomic_load(&table->chunk[id / AV_TABLE_CHUNK])[id % AV_TABLE_CHUNK], NULL);
}

void av_table_fini(struct av_table *table)
{
	for (uint32_t i = 0; i < AV_TABLE_CHUNKS; i++)
		free(atomic_load(&table->chunk[i]));
}

void av_table_each(struct av_table *table, void (*visit)(uint32_t id, void *object, void *arg),
		   void *arg)
{
	for (uint32_t i = 0; i < AV_TABLE_CHUNKS; i++) {
		_Atomic(void *) *chunk = atomic_load(&table->chunk[i]);

		for (uint32_t j = 0; chunk && j < AV_TABLE_CHUNK; j++) {
			void *object = atomic_load(&chunk[j]);

			if (object)
				visit(i * AV_TABLE_CHUNK + j, object, arg);
		}
	}
}
