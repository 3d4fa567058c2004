/* SPDX-License-Identifier: MIT */
/*
 * Mistakes of beginners, as tutorials and threads have them: small programs, and the first line of
 * "anyverbs explain" after each. Both queue pairs are in this process.
 */
#ifndef TEST_MISTAKES_H
#define TEST_MISTAKES_H

#include <stdbool.h>
#include <stdio.h>
#include <infiniband/verbs.h>

#define BYTES 4096u /* of each half of the buffer */
#define WR_ID 7u
#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/*
 * @line: what follows the device's name. <qp0> and <qp1> are the queue pairs' numbers as programs
 * print them, <key> the key of @mr, or of the last region or window that was made, <buf> and
 * <remote> the halves of the buffer, <number> what printed() got.
 */
struct mistake {
	const char *name;
	void (*make)(void);
	const char *line;
};

/* What each mistake begins with. Queue pairs are made by need(). */
struct scene {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* 64 entries */
	struct ibv_mr *mr; /* the whole buffer, for everything */
	union ibv_gid gid;
	uint8_t *buf, *remote;
	struct ibv_qp *qp[2];
	uint32_t qpn[2];
	uint32_t key;
	char number[128];
};
extern struct scene scene;

/* Make both queue pairs: four requests of one element each way, 64 B inline. */
void need(enum ibv_qp_type type);
struct ibv_qp_init_attr usual(enum ibv_qp_type type);

/* Towards the other one; give up after 8 ms. */
struct ibv_qp_attr attr_of(int i);
/* Connect both. */
void connect_both(void);
/* Connect both, the second with @attr. */
void connect_to(struct ibv_qp_attr attr);

/* The mistake's program prints another number, too. */
#define printed(...) snprintf(scene.number, sizeof(scene.number), __VA_ARGS__)

/* Register the buffer's second half, whose key is <key> from now on. */
struct ibv_mr *reg(struct ibv_pd *pd, int access);

/* A request of 64 B from the buffer's first half to its second; post it at queue pair 0. */
struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge);
int post(struct ibv_send_wr *wr);
/* Post it, and wait for its completion. Return: its status */
enum ibv_wc_status run(struct ibv_send_wr *wr);
/* Post a receive request of so many bytes at queue pair 1. */
void post_recv(uint32_t bytes, uint32_t lkey);

void make_connecting_mistakes(void);
void make_request_mistakes(void);
void make_memory_mistakes(void);
void make_datagram_mistakes(void);
void make_queue_mistakes(void);

/* Make each of them, and look at what is told. */
void run_mistakes(const struct mistake *mistake, unsigned int count);

#endif
