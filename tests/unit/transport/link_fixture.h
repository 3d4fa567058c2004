/* SPDX-License-Identifier: MIT */
/*
 * Exchanges between two queue pairs over the fake link (unit/transport/fake_link.h): what is
 * posted, what happens to which packet, and what must come of it. link_run() checks, by the
 * specification and not by the library's own tables:
 *  - each packet: its PSN is the next one, or one that has been sent before with the same contents;
 *    the length, headers and payload that the message wants there (IBTA volume 1, 9.2, 9.3)
 *  - each completion: one for each request, in order, all its fields
 *  - each byte of both hosts' memory, within the buffers and around them. What is complete is
 *    written over at once, so that whatever writes there or reads from there later is noticed
 *  - that nothing is left at the end: nothing is under way, counted, pinned or timed
 * LINK_TRACE=1 in the environment prints the packets of each run.
 */
#ifndef TEST_LINK_FIXTURE_H
#define TEST_LINK_FIXTURE_H

#include "base/newer_verbs.h"
#include "queue/qp.h"
#include "transport/wire_qp.h"
#include "unit/transport/fake_link.h"

#define LINK_REQUESTS 20u

/* Of all queue pairs. Code 5: 131 us; code 1: 10 us. */
#define LINK_TIMEOUT	5
#define LINK_TIMEOUT_NS (4096ull << LINK_TIMEOUT)
#define LINK_PATIENT	10
#define LINK_RNR_TIMER	1
#define LINK_RNR_NS	10000ull
#define LINK_RETRIES	7

struct link_request {
	bool there;
	uint32_t opcode;
	uint32_t bytes;
	uint32_t flags;	   /* enum ibv_send_flags, beside IBV_SEND_SIGNALED */
	unsigned int from; /* host */
};

struct link_exchange {
	const char *name;
	enum ibv_qp_type type; /* XRC_SEND: from host 0; UD: messages of one packet */
	enum ibv_mtu mtu;      /* 0: 256 bytes */
	bool srq;	       /* RC: receive requests are in a shared queue */
	bool apart;	       /* each request is posted when the one before it is complete */
	uint64_t late_ns;      /* receive requests are posted that long after the beginning */
	bool onto;  /* all requests name the memory of the first one; for runs without a fault */
	bool split; /* buffers are of three elements each */
	bool unsignaled;   /* RC: every other request, but for the last, has no completion */
	bool narrow;	   /* losses have narrowed the window before */
	unsigned int room; /* of the interfaces: struct link_setting */
	bool each;	   /* the same */
	bool congested;	   /* the same */
	uint32_t depth;	   /* of send queues; 0: 32 */
	uint8_t rd_atomic; /* max_rd_atomic and max_dest_rd_atomic; 0: 4 */
	/* 0: 7, which is without end for the first; else that - 1 */
	uint8_t rnr_retry, retry_cnt;
	bool endless; /* timeout 0 */
	/* By host, a bit: its timeout is LINK_PATIENT; it neither carries nor reads carried ones.
	 */
	unsigned int patient, plain;
	bool turns; /* each request is posted when the message before it has come */
	/*
	 * The hosts are two processes of one host, and requests are executed at once, without
	 * packets, until the kernel refuses that process the other's memory: from the posting of
	 * request number - 1 on; 0: never. Then the connection moves, if any process was refused.
	 */
	bool near;
	unsigned int refused[LINK_HOSTS];
	uint64_t call_ns[LINK_HOSTS]; /* struct link_setting */
	unsigned int wrong_key; /* the request of that number + 1 names a key that there is not */
	unsigned int own_wrong_key; /* the same of the key of its own buffers */
	bool fails; /* requests may fail, and the caller judges that and what is left */
	struct link_request request[LINK_REQUESTS];
};

/* Short names, for the tables. */
#define SEND	     IBV_WR_SEND
#define SEND_IMM     IBV_WR_SEND_WITH_IMM
#define SEND_INV     IBV_WR_SEND_WITH_INV
#define WRITE	     IBV_WR_RDMA_WRITE
#define WRITE_IMM    IBV_WR_RDMA_WRITE_WITH_IMM
#define READ	     IBV_WR_RDMA_READ
#define CAS	     IBV_WR_ATOMIC_CMP_AND_SWP
#define FAA	     IBV_WR_ATOMIC_FETCH_AND_ADD
#define FLUSH	     AV_WR_FLUSH
#define ATOMIC_WRITE AV_WR_ATOMIC_WRITE

#define POST(opcode, bytes)               \
	{                                 \
		true, opcode, bytes, 0, 0 \
	}
#define POST_WITH(opcode, bytes, flags)       \
	{                                     \
		true, opcode, bytes, flags, 0 \
	}
#define BACK(opcode, bytes)               \
	{                                 \
		true, opcode, bytes, 0, 1 \
	}

/* One end, while link_run() runs and until the next one. */
struct link_side {
	struct av_seg *seg;
	struct av_qp_ref end;
	uint32_t send_cq, recv_cq, rq, srqn, key, window;
	uint8_t *arena;
	unsigned int posted, completed; /* of the exchange's requests, all hosts' counted */
	unsigned int received;
	uint64_t last_ns; /* when the last completion of a send request came */
};
extern struct link_side link_side[LINK_HOSTS];

/* Group setup and teardown. */
int link_set_up(void **state);
int link_tear_down(void **state);

/* Return: packets sent. @faults: by number of the packet */
unsigned int link_run(const struct link_exchange *e, const struct link_fault *faults,
		      unsigned int fault_count);

/* What the completion of a request says; -1: there was none. */
int link_status(unsigned int r);

/*
 * The same step by step, for tests of time: after link_post(), the caller calls link_step(). No
 * check of what is left. link_open() returns what it may change.
 */
struct link_setting *link_open(const struct link_exchange *e, const struct link_fault *faults,
			       unsigned int fault_count);
void link_post(void);
void link_poll(void);
void link_close(void);

/* As ibv_modify_qp(), to ERR, RESET, SQD or back; for exchanges that may fail. */
void link_enter(unsigned int host, enum ibv_qp_state to);

/* Called for each packet that is sent, and each that arrives, between the two. NULL: nobody */
extern void (*link_on_sent)(const struct link_packet *p);
extern void (*link_on_arrival)(const struct link_arrival *a);

/* Called at the end of each link_run() of an exchange that may fail. NULL: nobody */
extern void (*link_judge)(const struct link_exchange *e);

/* Has nobody written to the memory that a request names at its responder? */
bool link_is_untouched(unsigned int r);

/* Run it intact; then with everything that can happen to one packet, to each; to each two. */
void link_each(const struct link_exchange *e);
void link_each_two(const struct link_exchange *e);

/* The message sizes around the edges of an MTU of 256 bytes; and how many there are. */
extern const uint32_t link_sizes[];
extern const unsigned int link_size_count;

/* Both, with two requests of each size; and for each row of a table. */
void link_each_size(enum ibv_qp_type type, uint32_t opcode);
void link_all(const struct link_exchange *rows, unsigned int n);

/* Print the exchange, what happened to its packets and why it is wrong; end the test. */
void link_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
