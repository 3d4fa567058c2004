/* SPDX-License-Identifier: MIT */
/*
 * One end of the tests' traffic: an open device with protection domains, an arena registered in
 * every way that matters, completion queues and numbered queue pairs. lib/side.h puts a node into
 * this process or another one.
 *
 * What must never fail in a test (opening, registering the arena) ends the program if it does.
 * Functions under test return the errno value.
 */
#ifndef TEST_NODE_H
#define TEST_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define NODE_QPS   8
#define NODE_CQS   6
#define NODE_ARENA (8ul << 20)
#define NODE_SGE   32
#define NODE_LIST  32 /* work requests per post */

/*
 * How the arena is registered. A request names memory by one of these and an offset in the arena.
 */
enum key {
	KEY_FULL,	 /* all rights */
	KEY_READ_ONLY,	 /* no access flags: local reads */
	KEY_LOCAL,	 /* local writes, nothing remote */
	KEY_NO_WRITE,	 /* all rights but REMOTE_WRITE */
	KEY_NO_READ,	 /* all rights but REMOTE_READ */
	KEY_NO_ATOMIC,	 /* all rights but REMOTE_ATOMIC */
	KEY_ATOMIC_ONLY, /* LOCAL_WRITE and REMOTE_ATOMIC */
	KEY_OTHER_PD,	 /* all rights, in another protection domain than the queue pairs */
	KEY_ZERO_BASED,	 /* all rights, addresses are offsets */
	KEY_IOVA,	 /* all rights, addresses chosen by the program */
	KEY_DEAD,	 /* deregistered */
	KEY_GONE,	 /* memory of its own that is no longer accessible */
	KEY_WRONG,	 /* a key that was never given out */
	KEY_ZERO,	 /* 0 */
	KEY_N
};

struct node_info {
	union ibv_gid gid;
	uint64_t base[KEY_N]; /* address of the arena's first byte under that key */
	uint32_t key[KEY_N];  /* rkeys */
	uint32_t lkey[KEY_N]; /* the same numbers, but on a strict device */
	uint32_t comp_vectors;
	struct ibv_device_attr device;
};

struct node_qp_spec {
	enum ibv_qp_type type; /* 0: RC */
	struct ibv_qp_cap cap;
	uint32_t send_cq, recv_cq; /* numbers */
	int sq_sig_all;
};

/* A connection as one end sees it. */
struct node_link {
	uint32_t dest_qpn;
	union ibv_gid dgid;
	uint32_t sq_psn, rq_psn;
	uint32_t access;
	uint8_t mtu, timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, dest_rd_atomic;
	enum ibv_qp_state to; /* last state to enter: INIT, RTR or RTS */
};

/* Work requests without pointers. */
struct node_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm; /* network order */
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	int num_sge;
	struct ibv_sge sge[NODE_SGE];
};

struct node_recv {
	uint64_t wr_id;
	int num_sge;
	struct ibv_sge sge[NODE_SGE];
};

/* The result of a post. */
struct node_posted {
	int ret, errno_;
	int bad; /* index of *bad_wr in the list; -1: not set */
};

struct node_event {
	bool any;
	enum ibv_event_type type;
	int qp, cq; /* number of the object; -1: not one of the node's */
};

struct node {
	struct ibv_context *ctx;
	bool borrowed_ctx;
	struct ibv_pd *pd, *other_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[NODE_CQS];
	struct ibv_qp *qp[NODE_QPS];
	struct ibv_mr *mr[KEY_N];
	uint8_t *arena;
	struct node_info info;
};

/* Open our device; ends the program if it is missing. */
struct ibv_context *node_open_device(void);

/* A domain of XRC that no file names. Return: NULL: errno */
struct ibv_xrcd *node_open_xrcd(struct ibv_context *ctx);
/* A queue pair of it that receives, and an opened handle of one. Return: NULL: errno */
struct ibv_qp *node_create_xrc_recv(struct ibv_context *ctx, struct ibv_xrcd *xrcd);
struct ibv_qp *node_open_xrc_recv(struct ibv_context *ctx, struct ibv_xrcd *xrcd, uint32_t qpn);
/* How to make a shared receive queue of one. */
struct ibv_srq_init_attr_ex node_xrc_srq(uint32_t max_wr, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
					 struct ibv_cq *cq);

/*
 * @shared: a context to use; NULL: open one. Creates CQ 0 and 1, the usual ones for sends and
 *   receives.
 */
void node_open(struct node *n, struct ibv_context *shared);
/* Destroy everything; each destroy must succeed. */
void node_close(struct node *n);

/* Create a queue pair in RESET at a free index. Return: errno value. */
int node_create_qp(struct node *n, int qp, struct node_qp_spec *spec);
int node_destroy_qp(struct node *n, int qp);
int node_connect(struct node *n, int qp, const struct node_link *link);
int node_modify(struct node *n, int qp, struct ibv_qp_attr *attr, int mask);
int node_set_state(struct node *n, int qp, enum ibv_qp_state state);
enum ibv_qp_state node_state(struct node *n, int qp);

/* The next PSN that the requester sends, and that the responder expects. */
struct node_psns {
	uint32_t sq, rq;
};
struct node_psns node_psns(struct node *n, int qp);

int node_create_cq(struct node *n, int cq, int cqe, bool channel);
int node_destroy_cq(struct node *n, int cq);

struct node_posted node_post_send(struct node *n, int qp, const struct node_send *list, int count);
struct node_posted node_post_recv(struct node *n, int qp, const struct node_recv *list, int count);

/*
 * Poll until there are @want completions or @ms have passed. Return: their number; negative:
 * polling failed.
 */
int node_poll(struct node *n, int cq, int want, unsigned int ms, struct ibv_wc *wc);

/* Wait at most @ms for the next asynchronous event, and acknowledge it. */
struct node_event node_async(struct node *n, unsigned int ms);

int node_arm(struct node *n, int cq, int solicited_only);
/*
 * Wait for the next event of the completion channel and acknowledge it. Return: number of its CQ;
 * -1: none in time.
 */
int node_comp_event(struct node *n, unsigned int ms);

#endif
