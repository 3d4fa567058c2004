/* SPDX-License-Identifier: MIT */
/* The regions and windows there are, and the model of them. */
#ifndef TORTURE_OBJECT_H
#define TORTURE_OBJECT_H

#include "torture/store.h"

#define OBJECTS	  48u
#define DEAD_KEYS 64u

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define CHANGE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITER (IBV_ACCESS_LOCAL_WRITE | CHANGE | IBV_ACCESS_MW_BIND)
#define FULL   (IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND)

struct kind;

struct object {
	const struct kind *kind; /* NULL: a free place */
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	int pd; /* 0: the queue pairs' */
	unsigned int access;
	uint64_t base, length; /* in its own address space */
	struct store *store;
	uint64_t at;	      /* of the first byte, in the store */
	uint64_t asked;	      /* for its pages: the moment */
	uint32_t key;	      /* that is good, 0: none */
	unsigned int windows; /* bound to it */
	struct object *under; /* of a bound window */
	int qp;		      /* of a bound window of type 2 */
};

struct kind {
	const char *name;
	unsigned int weight;	 /* how often one is made */
	enum ibv_mw_type window; /* 0: a region */
	unsigned int extra;	 /* access flags all have */
	bool asks_for_pages;	 /* registration fails if pages are missing */
	bool bindable, changeable;
	void (*create)(struct object *o);
};

extern struct object object[OBJECTS];
extern uint32_t dead[DEAD_KEYS]; /* keys that were good */

const char *name_of(const struct object *o);
struct ibv_pd *pd_of(int pd);

/* A key that is no longer good; 0 is ignored. */
void bury(uint32_t key);
/* A key that becomes good: not one that died a short while ago, unless the program chose it. */
void be_born(uint32_t key, bool chosen);
/* The window is not bound any more. */
void forget_binding(struct object *w);

/* Any one that suits, or NULL. */
struct object *pick(bool (*suits)(const struct object *o));
bool is_free(const struct object *o);
bool is_any(const struct object *o);
bool is_window(const struct object *o);
bool is_region(const struct object *o);
bool is_keyed(const struct object *o);
/* Of a region: the null region? */
bool is_null(const struct object *o);
bool is_implicit(const struct object *o);
/* Where accesses are aimed: of what is larger than the memory that is modelled, at that. */
void target(const struct object *o, uint64_t *base, uint64_t *length);
/*
 * Has one of these bytes of the store been unmapped since the region that @o is, or lies on, asked
 * for its pages? Such an access is refused before anything else about its memory is looked at.
 */
bool is_lost(const struct object *o, uint64_t at, uint64_t bytes);
/* Are these bytes within it? */
bool inside(uint64_t addr, uint64_t bytes, const struct object *o);

const struct kind *random_kind(void);
unsigned int random_rights(void);
/* Rights that no region can have. */
bool bad_rights(unsigned int access);
/* Of memory such a region may lie on. */
void random_range(const struct kind *k, uint64_t *at, uint64_t *length);
/* errno of registering that range with these rights, 0: good. */
int range_error(const struct kind *k, uint64_t at, uint64_t length, unsigned int access);

#endif
