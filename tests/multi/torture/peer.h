/* SPDX-License-Identifier: MIT */
/*
 * The two processes: this one, whose memory it is, and the other one, which accesses it and does
 * what it is told over a socket. They are connected by QPS queue pairs.
 */
#ifndef TORTURE_PEER_H
#define TORTURE_PEER_H

#include "lib/side.h"

#define QPS	  2
#define MAX_BYTES 12288u /* of one access */

enum order_kind { CONNECT, ACCESS, SEND_INV, DUMP, FILL, END };

struct order {
	enum order_kind kind;
	int qp;
	struct node_link link;
	enum ibv_wr_opcode opcode;
	uint64_t addr, compare_add, swap;
	uint32_t key, bytes;
	uint8_t data[MAX_BYTES];
};

struct answer {
	uint32_t qpn;
	union ibv_gid gid;
	uint64_t base; /* of its buffer */
	uint32_t key;
	enum ibv_wc_status status;
	uint8_t data[MAX_BYTES];
};

extern struct side a; /* this process */
extern struct node *n;
extern struct order order;   /* the next one; what is not set is what it was the last time */
extern struct answer answer; /* to the last one */

/* Its main loop, if this process has been started as the other one: does not return then. */
void peer_main(int argc, char **argv);
/* Both processes open the device and are connected. */
void peer_start(void);
/* The other process ends; this one's device is closed. */
void peer_end(void);

/* Give it the order, wait for the answer. */
void ask(enum order_kind kind);
/* Both queue pairs through RESET to RTS. */
void reconnect(int qp);
/* The completion of a request of this process, on queue pair @qp, which is good for another one
 * afterwards.
 */
enum ibv_wc_status own_completion(int qp);

#endif
