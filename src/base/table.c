/* SPDX-License-Identifier: MIT */
#include "base/table.h"

#include "base/thread.h"

/* Return: NULL: no memory, or beyond the table */
static _Atomic(void *) *entry_of(struct av_table *table, uint32_t id)
{
	_Atomic(void *) *chunk;

	if (id >= AV_TABLE_CHUNKS * AV_TABLE_CHUNK)
		return NULL;
	chunk = AV_MADE_ONCE(&table->chunk[id / AV_TABLE_CHUNK], AV_TABLE_CHUNK);
	return chunk ? &chunk[id % AV_TABLE_CHUNK] : NULL;
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

/* The next free number after the last used. Context: the mutex is held, and a number is free. */
static uint32_t next_free(struct av_handles *handles, uint32_t limit)
{
	uint32_t n = handles->last;

	do
		n = n >= limit ? 1 : n + 1;
	while (av_table_get(&handles->table, handles->base + n));
	return n;
}

uint32_t av_handles_add(struct av_handles *handles, void *object, uint32_t limit)
{
	AV_LOCKED(&handles->mutex);

	if (handles->used < limit) {
		uint32_t n = next_free(handles, limit), handle = handles->base + n;

		if (av_table_set(&handles->table, handle, object) == 0) {
			handles->last = n;
			handles->used++;
			return handle;
		}
	}
	errno = ENOMEM;
	return 0;
}

void av_handles_remove(struct av_handles *handles, uint32_t handle)
{
	AV_LOCKED(&handles->mutex);
	av_table_clear(&handles->table, handle);
	handles->used--;
}
