/* SPDX-License-Identifier: MIT */
/*
 * What the tests of user-mode registration (test_umr_*.c) share: two sides, regions of all kinds,
 * keys made of them, and a model of what such a key stands for: a table of its bytes, each with the
 * region and the place where it lies, made by going through the lists one byte at a time.
 */
#ifndef TEST_UMR_FIXTURE_H
#define TEST_UMR_FIXTURE_H

#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define LEAF_BYTES 65536u
#define KEY_BYTES  40000u /* of a key, at most */
#define ELEMENTS   64
#define AT	   0x20000u /* of messages, in the other side's arena, */
#define HERE	   0x40000u /* and where they are fetched to, in ours */
#define PATIENCE   20000u
#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)

extern struct node *n; /* a's */

enum leaf {
	LEAF_PLAIN,
	LEAF_ODP,
	LEAF_IMPLICIT, /* the whole address space; its bytes are some of the arena */
	LEAF_DEVICE,
	LEAF_NULL,
	LEAF_IOVA, /* plain, with addresses of its own */
	LEAF_N,
	LEAF_MIXED = LEAF_N /* of all of these, in turns */
};

/* Where a byte of a key lies. */
struct spot {
	uint8_t leaf;
	uint32_t at;
};

/* A region, or a key made of others. */
struct made {
	struct ibv_mr *mr;
	uint64_t base; /* its first address */
	uint32_t bytes;
	struct spot *spots;
};

struct element {
	const struct made *of;
	uint32_t at, bytes, stride;
};

struct list {
	enum ibv_exp_umr_wr_type type;
	bool inlined;
	uint64_t base, access;
	uint32_t count, rounds; /* rounds: of IBV_EXP_UMR_REPEAT */
	struct element e[ELEMENTS];
};

extern struct made leaf[LEAF_N];

/* The test: open all this, call @run, and close it again. Return: exit status for main(). */
int umr_test(int argc, char **argv, void (*run)(void));

/* --- keys ------------------------------------------------------------------------ */

struct ibv_mr *create_key(uint32_t klms, uint32_t flags);
/* A key filled from the list, and its model. */
struct made make(const struct list *list);
void unmake(struct made *key);

/*
 * A request to fill @mr from the list; its arrays live until the next one is made. Not inline: in
 * the fixture's container.
 */
struct ibv_exp_send_wr fill_request(struct ibv_mr *mr, const struct list *list);
struct ibv_exp_send_wr invalidate_request(struct ibv_mr *mr);

/* Post one request of queue pair 0, signalled; its completion's status. An error is cleared away.
 */
enum ibv_wc_status run_request(struct ibv_exp_send_wr *wr);
void need_fill(struct ibv_mr *mr, const struct list *list);
void need_invalidate(struct ibv_mr *mr);

/* --- bytes ----------------------------------------------------------------------- */

/* All leaves, as they are and as they should be. */
struct memory {
	uint8_t of[LEAF_N][LEAF_BYTES];
};

void memory_fill(uint64_t seed); /* the leaves, and @model: a pattern of each */
void memory_expect(void);	 /* the leaves are as @model */
extern struct memory model;

/* What the model says of a key's bytes [at, at + bytes). */
void model_read(const struct made *key, uint32_t at, uint32_t bytes, uint8_t *to);
void model_write(const struct made *key, uint32_t at, uint32_t bytes, const uint8_t *from);

/* Bytes of the other side's arena, by way of plain keys. */
void expect_there(uint32_t at, const uint8_t *bytes, uint32_t count);

/* --- plain requests of queue pair 0 ---------------------------------------------- */

/* From the other side to @addr under @rkey, with its bytes at AT. Return: the completion's status
 */
enum ibv_wc_status remote(enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey, uint32_t bytes);
/* From here, with a local buffer under @lkey, to the other side's bytes at AT. */
enum ibv_wc_status local(enum ibv_wr_opcode op, uint64_t addr, uint32_t lkey, uint32_t bytes);
/* Receive requests: one here into @addr under @lkey; the completion of the one that was used. */
void post_receive(uint64_t addr, uint32_t lkey, uint32_t bytes);
enum ibv_wc_status received(struct side *s, uint32_t bytes);

#endif
