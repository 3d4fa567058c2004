/* SPDX-License-Identifier: MIT */
/* Shared by the files behind lib/hammer.h. */
#ifndef TEST_HAMMER_STATE_H
#define TEST_HAMMER_STATE_H

#include <errno.h>
#include <pthread.h>

#include "lib/expect.h"
#include "lib/hammer.h"
#include "lib/number_window.h"

#define SEND_DEPTH   32u /* of a queue pair; less than the sum of its threads' windows */
#define RQ_DEPTH     16u
#define SRQ_DEPTH    64u
#define BUFFER_BYTES 20480u /* of a receive request; longer messages than those that are staged */
#define PLACE_BYTES  64u    /* of a message's head at the sender, and of a WRITE at its target */
#define INLINE_BYTES 256u
#define LINKS_MAX    (HAMMER_PROCESSES_MAX * HAMMER_KINDS)
#define SRQS	     2u
#define NO_SRQ	     SRQS
#define THREAD_SHIFT 24 /* immediate data: the thread, and the low bits of the number */

enum cq_kind {
	CQ_LOCKED, /* polled by one thread at a time, so the whole order is known */
	CQ_FREE,   /* polled by several threads at once */
	CQ_EVENTS, /* polled after an event, by several threads at once */
	CQ_N
};

struct hammer_kind {
	enum cq_kind send_cq, recv_cq;
	uint32_t srq; /* or NO_SRQ */
};
extern const struct hammer_kind hammer_kinds[HAMMER_KINDS];

/* The first bytes of each message. Filler follows. */
struct head {
	uint32_t from, kind, thread, number, bytes;
};

struct stream {
	uint32_t next; /* number of the next message; used by the sending thread only */
	struct window sent, received;
};

/* One end of a connection. */
struct link {
	struct ibv_qp *qp;
	uint32_t peer, kind;
	uint64_t targets; /* the peer's places for this connection's WRITEs */
	uint32_t rkey;
	_Atomic uint32_t in_flight;
	uint64_t send_order, recv_order; /* if the CQ is CQ_LOCKED; guarded by its lock */
	struct stream stream[HAMMER_THREADS_MAX];
};

struct thread {
	pthread_t id;
	uint32_t index;
	uint64_t rng;
	/* Last number polled of each stream; -1: none. */
	int64_t last_sent[LINKS_MAX][HAMMER_THREADS_MAX];
	int64_t last_received[LINKS_MAX][HAMMER_THREADS_MAX];
};

struct buffer {
	struct link *link; /* the link whose receive queue it belongs to; NULL: */
	struct ibv_srq *srq;
	_Atomic bool posted;
};

struct hammer_state {
	struct hammer_plan plan;
	struct hammer_table *table;
	uint32_t senders; /* threads that send: the first ones; the others wait for events */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[CQ_N];
	pthread_mutex_t lock; /* guards polling of CQ_LOCKED */
	struct ibv_srq *srq[SRQS];
	struct ibv_mr *mr;
	uint8_t *memory, *heads, *targets, *filler, *buffers; /* the parts of one region */
	size_t memory_bytes;
	uint32_t links, buffer_count;
	struct link link[LINKS_MAX]; /* by peer, then by kind */
	struct buffer *buffer;
	struct thread thread[HAMMER_THREADS_MAX];
	_Atomic bool stop_sending, quit;
	_Atomic uint32_t sending; /* threads that still send */
};
extern struct hammer_state hammer;

/* Report a mistake and end the process at once, because other threads are running. */
void hammer_fault(const char *fmt, ...) TEST_PRINTF(1, 2) __attribute__((noreturn));
/* Report a mistake with a message. */
void hammer_stream_fault(const struct link *l, uint32_t thread, uint32_t number, const char *what)
	__attribute__((noreturn));

#define HAMMER_NEED(cond)                                                                      \
	do {                                                                                   \
		if (!(cond))                                                                   \
			hammer_fault("%s:%d: %s, errno %d", __FILE__, __LINE__, #cond, errno); \
	} while (0)

static inline uint32_t hammer_random(struct thread *t, uint32_t limit)
{
	t->rng = t->rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((t->rng >> 33) % limit);
}

static inline struct link *hammer_link_to(uint32_t peer, uint32_t kind)
{
	return &hammer.link[peer * HAMMER_KINDS + kind];
}

/* Place of a message's head, and at the peer of a WRITE with the same numbers. */
static inline uint64_t hammer_place(const struct link *l, uint32_t thread, uint32_t number)
{
	uint64_t stream = (uint64_t)(l - hammer.link) * HAMMER_THREADS_MAX + thread;

	return (stream * WINDOW_SIZE + number % WINDOW_SIZE) * PLACE_BYTES;
}

void hammer_post_receive(uint32_t buffer);
void hammer_destroy(void);

/* Post some messages on a connection, if there is room. */
void hammer_send_some(struct thread *t, struct link *l);
/* Poll and check each completion. Return: number of completions. */
int hammer_poll(struct thread *t, enum cq_kind kind);

#endif
