/* SPDX-License-Identifier: MIT */
/*
 * What the tests of ibv_rereg_mr() (test_rereg_*.c) share: what a region is at a moment, that
 * fields and traffic from another process say so, and calls whose arguments are rows of tables.
 */
#ifndef TEST_REREG_FIXTURE_H
#define TEST_REREG_FIXTURE_H

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define TRANSLATION IBV_REREG_MR_CHANGE_TRANSLATION
#define PD	    IBV_REREG_MR_CHANGE_PD
#define ACCESS	    IBV_REREG_MR_CHANGE_ACCESS
#define ERR_INPUT   IBV_REREG_MR_ERR_INPUT
#define ERR_CMD	    IBV_REREG_MR_ERR_CMD

#define OLD_AT	0x200000u /* offsets in the arena */
#define OLD_LEN 0x5000u
#define NEW_AT	0x300018u
#define NEW_LEN 0x3028u

#define PAGE 4096u

extern struct node *n;		  /* a's */
extern struct ibv_pd *foreign_pd; /* of another context */
extern uint8_t *holes;		  /* four pages: gone, read-only, without rights, ordinary */

/* The test: open all this, call @run, and close it again. Return: exit status for main(). */
int rereg_test(int argc, char **argv, void (*run)(void));

/* What a region is at a moment. */
struct state {
	struct ibv_pd *pd;
	uint8_t *addr;
	size_t length;
	unsigned int access;
};

struct state state_old(void); /* at OLD_AT, with all rights */
/* A region that is registered so. */
struct ibv_mr *region(const struct state *s);

/* --- what traffic finds ---------------------------------------------------------- */

/* The fields say what @s does, and keys and handle are those of @before. */
void expect_fields(const struct ibv_mr *mr, const struct state *s, const struct ibv_mr *before);
/* At both ends of the region WRITE, READ and atomics find what @s permits; behind its end, nothing.
 */
void expect_state(const struct ibv_mr *mr, const struct state *s);
/* It can be deregistered, and its key is no good then. */
void expect_dereg(struct ibv_mr *mr, const struct state *s);

/* --- one call -------------------------------------------------------------------- */

enum pd_arg { PD_NULL, PD_SAME, PD_OTHER, PD_FOREIGN };

enum at_arg {
	AT_NULL,
	AT_NEW,
	AT_OLD,
	AT_GONE,
	AT_READ_ONLY,
	AT_NO_RIGHTS,
	AT_HOLE_BEHIND,
	AT_TOP
};

struct args {
	int flags;
	enum pd_arg pd;
	enum at_arg at;
	size_t length;
	unsigned int access;
};

/* errno is 0 before. Return: what ibv_rereg_mr() does */
int call(struct ibv_mr *mr, const struct args *args);
/* It returns @want and sets errno to @error; or to @error2, if that is not 0. */
void expect_refused(struct ibv_mr *mr, const struct args *args, int want, int error, int error2);

/* For the names of rows; good until the next call. */
const char *flags_name(int flags);

#endif
