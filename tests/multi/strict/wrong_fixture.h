/* SPDX-License-Identifier: MIT */
/*
 * Small wrong programs that work on a plain device, each beside one that is right. The plain device
 * lets both pass. A strict one shows the wrong one within WRONG_SEEDS seeds, and "anyverbs explain"
 * names its mistake; it never harms the right one.
 */
#ifndef TEST_WRONG_FIXTURE_H
#define TEST_WRONG_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"

#define WRONG_SEEDS 20
#define BYTES	    4096u /* of a message */
#define GRH	    40u	  /* before a datagram */
#define SLOTS	    8u	  /* messages in each buffer */
#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Both ends are in one process. What each program begins with; begin() makes the rest. */
struct scene {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq; /* the channel is @recv_cq's */
	struct ibv_mr *src_mr, *dst_mr;
	uint8_t *src, *dst; /* SLOTS * BYTES each; 0 */
	struct ibv_qp *a, *b;
	struct ibv_ah *ah; /* UD */
	uint8_t gid_row;   /* the first one that is not empty */
};
extern struct scene scene;

/*
 * The programs are right, or end with false: the data is wrong, or something never comes. Each is
 * run in a process of its own. @words: a part of what explain says of the wrong one; NULL: the
 * device cannot know.
 */
struct wrong {
	const char *name;
	const char *words;
	bool (*wrong)(void);
	bool (*right)(void);
	const char *settings; /* of the device, plain or strict; NULL: none */
};

/* A row of name_wrong() and name_right(). */
#define ROW(name, says, said)                                \
	{                                                    \
		says, said, name##_wrong, name##_right, NULL \
	}

/*
 * main() of a test. The argument is the number of plain runs of each, and those that are right see
 * all seeds; without it 3 of both.
 */
int wrong_run(int argc, char **argv, const struct wrong *rows, size_t count);

/* Two connected queue pairs, or two of UD: 5 requests each way of 2 elements. */
void begin(enum ibv_qp_type type);
/* The same, with these limits; they become what the queue pairs have. */
void begin_with(enum ibv_qp_type type, struct ibv_qp_cap *cap);

/* What an unconnected queue pair needs to send to @to. */
struct ibv_qp_attr attr_to(const struct ibv_qp *to);

/* Message @n of @bytes: of the source, or expected at the destination. */
void fill(void *at, uint32_t n, size_t bytes);
bool is_filled(const void *at, uint32_t n, size_t bytes);

/* A signalled request of message @slot; one-sided ones are for the same slot of @dst. */
struct ibv_send_wr request(enum ibv_wr_opcode opcode, unsigned int slot, struct ibv_sge *sge);
int post(struct ibv_send_wr *wr);			      /* at queue pair a */
void send_slot(enum ibv_wr_opcode opcode, unsigned int slot); /* make and post; has to succeed */
int post_recv(unsigned int slot); /* at queue pair b, into that slot of @dst */

/* The next completion. Return: false: there is none for a while */
bool next_wc(struct ibv_cq *cq, struct ibv_wc *wc);
bool is_sent(void);	/* it is a success */
bool is_received(void); /* the same */

/* Wait until the word is not 0. Return: false: it stays */
bool becomes_set(const volatile uint8_t *at);

#endif
