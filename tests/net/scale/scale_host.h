/* SPDX-License-Identifier: MIT */
/*
 * One of many hosts that all talk to each other, led by scale.py: before each step a host says a
 * line, and goes on when it is answered, which is when all hosts have said theirs. It uses the
 * public verbs alone.
 */
#ifndef TEST_SCALE_HOST_H
#define TEST_SCALE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define GRH_BYTES 40u
#define UNTOUCHED 0xee

struct scale_host {
	/* What it was asked for. */
	uint32_t rank, hosts;
	uint32_t each;	   /* queue pairs to each peer; datagrams to each peer in a round */
	uint32_t bytes;	   /* of a message */
	uint32_t rounds;   /* in each of which every message is another */
	uint32_t together; /* connections that have requests at a time */

	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	union ibv_gid gid;
	uint8_t gid_index;
	uint8_t *memory; /* registered by the @mr */
	size_t memory_bytes;
	struct ibv_mr *mr;
	uint32_t wrong; /* messages that were not as they should be */
	uint32_t twice; /* datagrams that were only late when they were sent once more */
};

/* What calls have cost since the mark. */
struct scale_mark {
	uint64_t thread_ns, wall_ns;
};
struct scale_mark scale_mark(void);
void scale_say_cost(const char *step, struct scale_mark since);

/* Memory for @bytes, all of it touched, and a CQ for @cqe completions. */
void scale_prepare(struct scale_host *h, size_t bytes, uint32_t cqe);

/* Wait for the driver's answer to what was printed. Return: the line, valid until the next one */
char *scale_answer(void);

/* The next word of a line, which must be there. */
const char *scale_word(char **line);
uint64_t scale_number(char **line);
union ibv_gid scale_gid(char **line);
void scale_print_gid(const union ibv_gid *gid);

/* Wait until there are completions. All must be good. Return: how many */
int scale_completions(struct scale_host *h, struct ibv_wc *wc, int room);

/* Message @n from one host to another, as pattern_fill() wants it. */
uint64_t scale_seed(const struct scale_host *h, uint32_t from, uint32_t to, uint32_t n,
		    uint32_t round);

/* Number of peer @rank, from 0 on, on this host; and back. */
static inline uint32_t scale_peer(const struct scale_host *h, uint32_t rank)
{
	return rank - (rank > h->rank);
}

static inline uint32_t scale_rank(const struct scale_host *h, uint32_t peer)
{
	return peer + (peer >= h->rank);
}

/* The two ways to talk. */
void scale_connected(struct scale_host *h);
void scale_datagrams(struct scale_host *h);

#endif
