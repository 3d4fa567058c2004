/* SPDX-License-Identifier: MIT */
/*
 * What the tests of shared regions share: regions in this process, and a third process that
 * creates, registers and ends them as it is told.
 */
#ifndef TEST_SHARED_MR_FIXTURE_H
#define TEST_SHARED_MR_FIXTURE_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs_exp.h>

#include "lib/spawn.h"
#include "lib/two_sides.h"

#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define U_READ	IBV_EXP_ACCESS_SHARED_MR_USER_READ
#define U_WRITE IBV_EXP_ACCESS_SHARED_MR_USER_WRITE
#define SHARE	(RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR | U_READ | U_WRITE)
#define MB	(1ul << 20)
#define BYTES	(3 * MB)
#define WORD	"--sharer" /* for spawn_self() */

enum todo {
	DO_CREATE, /* a region with these rights */
	DO_ATTACH, /* to that handle */
	DO_DEREG,
	DO_FILL,  /* with a pattern */
	DO_CHECK, /* for one */
	DO_STORE, /* one byte; is it permitted? */
	DO_FORK,  /* have a child that lives for long */
	DO_CLOSE, /* the device */
};

struct order {
	enum todo what;
	uint32_t handle;
	uint64_t access, seed;
	size_t length;
};

struct answer {
	int err;
	uint32_t handle, rkey;
	uint64_t addr;
	int64_t found;
};

/* Begin: becomes the third process if it is one, or opens the two sides, connected. And end. */
void fixture_open(int argc, char **argv);
int fixture_close(void);

struct ibv_mr *create(struct ibv_pd *pd, size_t length, uint64_t access);
struct ibv_mr *attach(struct ibv_pd *pd, uint32_t handle, void *addr, uint64_t access);

/* Expect that it can be. */
void dereg(struct ibv_mr *mr);

/* Have the third process do something; wait for its answer. */
struct answer tell(struct spawned *s, struct order o);
struct answer tell_create(struct spawned *s, size_t length, uint64_t access);

/* It ends, leaving open what it has. */
void end(struct spawned *s);

#endif
