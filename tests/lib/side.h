/* SPDX-License-Identifier: MIT */
/*
 * A node (lib/node.h) in this process or another, with one interface: each function does what the
 * node_ function of the same name does. The other process is this program, executed again: verbs
 * objects do not survive fork(), and equal addresses would hide mistakes. It takes its orders over
 * a socket.
 *
 * main() calls side_agent_main() or sides_begin() first.
 */
#ifndef TEST_SIDE_H
#define TEST_SIDE_H

#include <sys/types.h>

#include "lib/node.h"
#include "lib/on_the_wire.h"
#include "lib/pattern.h"

struct side {
	struct node *node; /* in this process; NULL: in the other one */
	int sock;
	pid_t pid;
	unsigned int later_ms; /* see side_later() */
	int first_qp; /* its queue pairs are the node's from here on: two sides may share a node's
			 context or queue pair */
	struct node_info info;
};

/* Runs the main loop and never returns if this process was started as an agent. */
void side_agent_main(int argc, char **argv);

/* Likewise; else it has the sandbox and a time limit. */
void sides_begin(int argc, char **argv, unsigned int seconds);

/*
 * A job that only this test has, done by the other process while the caller continues. Set it
 * before side_agent_main(), start it by side_begin(), fetch its result by side_end().
 */
struct side_job {
	uint64_t arg[4];
};
extern uint64_t (*side_work)(struct node *n, const struct side_job *job);
void side_begin(struct side *s, const struct side_job *job);
uint64_t side_end(struct side *s);
/* Within side_work: tell the caller that the job has come as far as it waits for. */
void side_note(void);
/* Wait until the job that was begun calls side_note(), which it must before it ends. */
void side_await(struct side *s);

void side_start(struct side *s);			    /* in another process */
void side_open(struct side *s, struct ibv_context *shared); /* in this one */
/* Enter the sandbox and open both sides. */
void sides_open(struct side *here, struct side *there);
void side_stop(struct side *s);
/* SIGKILL for the other process, and side_bury(). */
void side_kill(struct side *s);
/* SIGSTOP for the other process. When this returns, all of its threads stand still. */
void side_suspend(struct side *s);
/* The other process has been killed, or will be: wait for its end, and forget it. Return: how it
 * ended, as waitpid() says it */
int side_bury(struct side *s);

/*
 * Answer the next call at once but execute it @ms later (other process only): for events while the
 * caller waits. The call's result is lost.
 */
void side_later(struct side *s, unsigned int ms);

int side_create_qp(struct side *s, int qp, struct node_qp_spec *spec, uint32_t *qpn);
int side_destroy_qp(struct side *s, int qp);
int side_connect(struct side *s, int qp, const struct node_link *link);
int side_modify(struct side *s, int qp, struct ibv_qp_attr *attr, int mask);
int side_set_state(struct side *s, int qp, enum ibv_qp_state state);
enum ibv_qp_state side_state(struct side *s, int qp);
struct node_psns side_psns(struct side *s, int qp);
int side_create_cq(struct side *s, int cq, int cqe, bool channel);
int side_destroy_cq(struct side *s, int cq);
struct node_posted side_post_send(struct side *s, int qp, const struct node_send *list, int count);
struct node_posted side_post_recv(struct side *s, int qp, const struct node_recv *list, int count);
int side_poll(struct side *s, int cq, int want, unsigned int ms, struct ibv_wc *wc);
/*
 * Expect the completions of requests 0 to @count - 1 (at most NODE_LIST) in CQ 0: all successes, or
 * one of @first and the rest flushed.
 */
void side_expect_sent(struct side *s, int count, unsigned int ms, enum ibv_wc_status first);
struct node_event side_async(struct side *s, unsigned int ms);
/* The same, but for changes of the host's addresses, which come at any moment. */
struct node_event side_own_async(struct side *s, unsigned int ms);
int side_arm(struct side *s, int cq, int solicited_only);
int side_comp_event(struct side *s, unsigned int ms);

/* Bytes of the arena; see lib/pattern.h. */
void side_fill(struct side *s, uint64_t offset, uint64_t bytes, uint64_t seed, uint64_t from);
int64_t side_check(struct side *s, uint64_t offset, uint64_t bytes, uint64_t seed, uint64_t from);
void side_poke(struct side *s, uint64_t offset, uint64_t word);
uint64_t side_peek(struct side *s, uint64_t offset);

/* Pieces of messages; see lib/pattern.h. */
void side_clear_areas(struct side *s, const struct area *areas, int count);
void side_load_areas(struct side *s, const struct area *areas, int count, uint64_t seed);
int64_t side_check_areas(struct side *s, const struct area *areas, int count, uint64_t seed,
			 uint64_t bytes);

/* Scatter/gather elements of single requests. */
struct ibv_sge side_sge(const struct side *s, enum key key, uint64_t offset, uint32_t bytes);

/* A signalled request of one element: a SEND; one to @addr; one to an offset in @to's arena. */
struct node_send side_message(struct ibv_sge sge);
struct node_send side_rdma(enum ibv_wr_opcode op, struct ibv_sge sge, uint64_t addr, uint32_t rkey);
struct node_send side_rdma_to(enum ibv_wr_opcode op, struct ibv_sge sge, const struct side *to,
			      uint64_t offset);

void side_recv_one(struct side *s, int qp, uint64_t wr_id, uint64_t offset, uint32_t bytes);

/*
 * The link attributes of most rows: small timers, everything permitted. On the wire, all retries
 * together have to outlast a busy machine, since the peer's process has to run for an answer: more
 * than a second.
 */
struct node_link link_default(void);

/* Queue pairs of the usual size. */
struct node_qp_spec spec_default(void);

/*
 * Create queue pair @qa of @a and @qb of @b and connect them. The attributes of each end (NULL:
 * default) are completed with numbers and addresses. The same side and number twice: a queue pair
 * connected with itself.
 */
void pair_create(struct side *a, int qa, struct side *b, int qb, const struct node_qp_spec *spec);
void pair_connect(struct side *a, int qa, const struct node_link *la, struct side *b, int qb,
		  const struct node_link *lb);
void pair_destroy(struct side *a, int qa, struct side *b, int qb);

/*
 * Another timer and number of retries for a connected queue pair without requests: rows that want
 * a failure soon have had their successes patiently before.
 */
void side_set_patience(struct side *s, int qp, uint8_t timeout, uint8_t retry_cnt);

/* Connect a UC queue pair in RESET with itself, for tests that only need it to take requests. */
void side_connect_uc_to_itself(struct side *s, int qp, unsigned int access);

uint32_t side_qpn(struct side *s, int qp);

#endif
