/* SPDX-License-Identifier: MIT */
/* What there is. */
#include "torture/object.h"

#include <stdio.h>

#include "torture/peer.h"
#include "torture/random_run.h"

struct object object[OBJECTS];
uint32_t dead[DEAD_KEYS];
static uint64_t deaths;

const char *name_of(const struct object *o)
{
	static char text[4][120];
	static unsigned int turn;
	char *t = text[turn++ % 4];
	long place = o >= object && o < object + OBJECTS ? o - object : -1;

	snprintf(t, sizeof(text[0]),
		 "%s %ld (key 0x%x, base 0x%lx, length 0x%lx, at 0x%lx, access 0x%x, pd %d)",
		 o->kind->name, place, o->key, o->base, o->length, o->at, o->access, o->pd);
	return t;
}

struct ibv_pd *pd_of(int pd)
{
	return pd ? n->other_pd : n->pd;
}

void bury(uint32_t key)
{
	if (key)
		dead[deaths++ % DEAD_KEYS] = key;
}

void be_born(uint32_t key, bool chosen)
{
	for (size_t i = 0; i < DEAD_KEYS; i++) {
		if (dead[i] != key)
			continue;
		MUST(chosen, "key 0x%x is good again", key);
		dead[i] = 0;
	}
}

struct object *pick(bool (*suits)(const struct object *o))
{
	size_t from = rnd(OBJECTS);

	for (size_t i = 0; i < OBJECTS; i++) {
		struct object *o = &object[(from + i) % OBJECTS];

		if (suits(o))
			return o;
	}
	return NULL;
}

bool is_free(const struct object *o)
{
	return !o->kind;
}

bool is_any(const struct object *o)
{
	return o->kind;
}

bool is_window(const struct object *o)
{
	return o->kind && o->mw;
}

bool is_region(const struct object *o)
{
	return o->kind && o->mr;
}

bool is_keyed(const struct object *o)
{
	return o->kind && o->key;
}

bool is_null(const struct object *o)
{
	return o->mr && !o->store;
}

bool is_implicit(const struct object *o)
{
	return is_region(o) && o->store == &pages && o->length == SIZE_MAX;
}

void target(const struct object *o, uint64_t *base, uint64_t *length)
{
	*base = is_implicit(o) ? SPACE_AT : o->base;
	*length = o->length < SPACE ? o->length : SPACE;
}

bool is_lost(const struct object *o, uint64_t at, uint64_t bytes)
{
	const struct object *region = o->under ? o->under : o;

	if (!region->kind->asks_for_pages || !unmapping_is_noticed)
		return false;
	for (uint64_t p = at / PAGE; p <= (at + bytes - 1) / PAGE; p++)
		if (unmapped[p] > region->asked)
			return true;
	return false;
}

bool inside(uint64_t addr, uint64_t bytes, const struct object *o)
{
	return addr >= o->base && addr - o->base <= o->length &&
	       bytes <= o->length - (addr - o->base);
}

void forget_binding(struct object *w)
{
	bury(w->key);
	if (w->under)
		w->under->windows--;
	w->under = NULL;
	w->key = 0;
}
