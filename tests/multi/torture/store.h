/* SPDX-License-Identifier: MIT */
/*
 * The model of memory: what each byte must be, and whether it is there. A store is a run of bytes
 * that regions lie on: a piece of the address space, or a block of device memory.
 */
#ifndef TORTURE_STORE_H
#define TORTURE_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define PAGE   4096u
#define PAGES  64u
#define SPACE  (PAGES * PAGE)
#define BLOCKS 8u

/* An address that nothing else is mapped at, and far from where the kernel puts mappings by itself.
 */
#ifdef __SANITIZE_THREAD__
#define SPACE_AT 0x1000000000ul
#else
#define SPACE_AT 0x200000000000ul
#endif

enum page_state { RW, RO, NO_RIGHTS, GONE };

struct store {
	uint64_t size;
	uint8_t *shadow;
	struct ibv_dm *dm;  /* NULL: the address space, whose pages have states */
	unsigned int users; /* regions */
};

extern uint8_t *space;
extern enum page_state state[PAGES];
extern uint64_t unmapped[PAGES]; /* moment at which each was last taken from its place, 0: never */
extern struct store pages;	 /* the address space */
extern struct store block[BLOCKS];
extern bool unmapping_is_noticed; /* by the device: docs/DEVIATIONS.md */
extern uint64_t dm_used, dm_max;  /* bytes of device memory */

/* The next moment. A region on pages remembers the one at which it asked for them. */
uint64_t tick(void);
uint64_t moment(void);

/* Map the address space, and ask how much device memory there is. */
void store_open(void);
/* Free the device memory that is left. */
void store_close(void);

/* Can these bytes be accessed? Nothing is mapped beyond the end of the address space that is
 * modelled. *good: how many from the beginning can. */
bool present(const struct store *s, uint64_t at, uint64_t bytes, bool write, uint64_t *good);

/* The bytes at @real must be those of @model from @at. */
void compare(const uint8_t *real, const uint8_t *model, uint64_t at, uint64_t bytes,
	     const char *what);
/* So must those around a place that was accessed. */
void check_store(const struct store *s, uint64_t at, uint64_t bytes);
void check_everything(void);

/* A transfer stopped at a page that is not there: of the pages before, some first bytes are new. */
void adopt_prefix(struct store *s, uint64_t at, const uint8_t *data, uint64_t good);

#endif
