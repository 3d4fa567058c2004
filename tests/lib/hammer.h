/* SPDX-License-Identifier: MIT */
/*
 * One of many processes that all send to each other and to themselves, with many threads: its
 * objects, its traffic, and its checks of each completion.
 *
 * Between two processes there is one connection of each kind (see hammer_kinds[]); the kinds differ
 * in the queues they share. Each thread that sends numbers its messages on each connection by
 * itself, so that nothing but the library puts the posts of two threads in order: a stream. Each
 * completion, of a send as of a receive, is looked at:
 *  - each number of a stream comes once (lib/number_window.h), and those that one thread polls
 *    come in order;
 *  - on CQs that are polled under a lock, the streams' numbers come without a gap, and both ends of
 * a connection see the same order of all its streams' messages;
 *  - each receive request is used once, and holds the message that the completion tells of;
 *  - a CQ that only events lead to is polled only then: a lost event is a message that does not
 * come. The first thing that is wrong ends the process.
 */
#ifndef TEST_HAMMER_H
#define TEST_HAMMER_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define HAMMER_PROCESSES_MAX 16
#define HAMMER_THREADS_MAX   32
#define HAMMER_KINDS	     4

/* Shared memory of all processes. */
struct hammer_table {
	/* per stream: by receiver, sender, kind and thread */
	_Atomic uint32_t received[HAMMER_PROCESSES_MAX][HAMMER_PROCESSES_MAX][HAMMER_KINDS]
				 [HAMMER_THREADS_MAX];
	/* the same by sender and receiver, written once the sender has stopped */
	_Atomic uint32_t
		sent[HAMMER_PROCESSES_MAX][HAMMER_PROCESSES_MAX][HAMMER_KINDS][HAMMER_THREADS_MAX];
	/* per connection: hash of the order in which the sender saw its messages complete */
	_Atomic uint64_t order[HAMMER_PROCESSES_MAX][HAMMER_PROCESSES_MAX][HAMMER_KINDS];
};

struct hammer_plan {
	uint32_t index; /* of this process */
	uint32_t processes, threads;
	int table_fd; /* of the table */
};

/* What a peer must know of a process. */
struct hammer_address {
	union ibv_gid gid;
	uint64_t targets; /* start of the streams' places for WRITEs */
	uint32_t rkey;
	uint32_t qpn[HAMMER_PROCESSES_MAX][HAMMER_KINDS]; /* by peer */
};

/* Open the device and create the objects. */
void hammer_open(const struct hammer_plan *plan, struct hammer_address *own);
/* Connect with all processes; @all is indexed by process. Posts the receives. */
void hammer_connect(const struct hammer_address *all);
/* Start the threads. All processes must be connected. */
void hammer_start(void);
/*
 * Stop posting, once each thread has sent something on each connection. Then the table has the
 * numbers of what was sent.
 */
void hammer_stop_sending(void);
/*
 * When all processes have stopped sending: wait for outstanding messages. Return: number of
 * messages received.
 */
uint64_t hammer_settle(void);
/*
 * When all processes have settled: end the threads, compare the order of messages, and destroy
 * everything.
 */
void hammer_close(void);

#endif
