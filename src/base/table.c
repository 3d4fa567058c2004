/* SPDX-License-Identifier: MIT */
/* Adding to and walking the table of handles. */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

int av_table_set(struct av_table *table, uint32_t id, void *object)
{
	_Atomic(void *) *chunk, *none = NULL;

	if (id >= AV_TABLE_CHUNKS * AV_TABLE_CHUNK)
		return ENOMEM;
	chunk = atomic_load(&table->chunk[id / AV_TABLE_CHUNK]);
	if (!chunk) {
		chunk = calloc(AV_TABLE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return ENOMEM;
		if (!atomic_compare_exchange_strong(&table->chunk[id / AV_TABLE_CHUNK], &none,
						    chunk)) {
			free(chunk);
			chunk = none;
		}
	}
	atomic_store_explicit(&chunk[id % AV_TABLE_CHUNK], object, memory_order_release);
	return 0;
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
