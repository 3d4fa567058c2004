/* SPDX-License-Identifier: MIT */
/*
 * Connections between two hosts over the fake link: what each program does when it hears what, what
 * happens to which message, and what must come of it. cm_link_run() checks, by the specification
 * and not by the library's own tables:
 *  - each message: the numbers of both ends, its transaction, the queue pair that it names; that
 *    one which comes again is the same one (IBTA volume 1, 12.6, 12.9)
 *  - each event: who hears it, the other program's parameters, its private data and zeros behind
 *  - what each end hears, once and in order
 *  - that nothing is left when both ids have ended: no connection, no port, no alarm
 * CM_LINK_TRACE=1 in the environment prints messages and events of each run.
 */
#ifndef TEST_CM_LINK_FIXTURE_H
#define TEST_CM_LINK_FIXTURE_H

#include "lib/cm_command.h"
#include "unit/cm/fake_manager.h"
#include "wire/cm_message.h"

#define CM_KINDS   (CM_TIMEWAIT_EXIT + 1)
#define CM_HISTORY 6u
#define CM_CASES   4u
#define MS	   1000000ull
#define SECOND	   (1000 * MS)

/* What a program does. Host 0 asks, host 1 listens. */
enum cm_link_act {
	STAY,
	ACCEPT,
	READY,
	REJECT, /* with private data */
	DISCONNECT,
	DESTROY,
	NOTIFY, /* of the first packet, before the RTU */
	LISTEN,
	UNLISTEN,
	/* What befalls a host. */
	CUT,  /* what it sends is lost from now on */
	MOVE, /* its interface is made anew, with the same address */
	DIE,  /* the process ends: host 1, of @together */
};

struct cm_link_do {
	enum cm_link_act act;
	uint64_t after_ns;
};

/* What an id hears in all its life: enum cm_kind, ended by 0. */
struct cm_link_case {
	uint8_t hears[LINK_HOSTS][CM_HISTORY];
};

struct cm_link_exchange {
	const char *name;
	uint16_t ps;	   /* 0: RDMA_PS_TCP */
	bool together;	   /* processes of one directory */
	bool deaf;	   /* nobody listens from the beginning */
	unsigned int full; /* of struct link_setting */
	uint16_t lost;	   /* all messages of that kind are; 0: none */
	struct cm_link_do on[LINK_HOSTS][CM_KINDS];
	struct cm_link_do then[LINK_HOSTS]; /* after the beginning, whatever it has heard */
	uint8_t reason;			    /* that is heard; 0: the consumer's */
	/* The first one is that of an intact link. With faults, any may come. */
	struct cm_link_case cases[CM_CASES];
};

/* What each end of a whole connection hears, and what programs do that want one. */
#define ASKER_HEARS    CM_CONNECT_RESPONSE, CM_DISCONNECTED, CM_TIMEWAIT_EXIT
#define LISTENER_HEARS CM_CONNECT_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_TIMEWAIT_EXIT
#define IS_READY_AND_PARTS                                                               \
	{                                                                                \
		[CM_CONNECT_RESPONSE] = {READY, 0}, [CM_DISCONNECTED] = {DISCONNECT, 0}, \
		[CM_TIMEWAIT_EXIT] = {DESTROY, 0},                                       \
	}
#define ACCEPTS_AND_PARTS                                                                \
	{                                                                                \
		[CM_CONNECT_REQUEST] = {ACCEPT, 0}, [CM_DISCONNECTED] = {DISCONNECT, 0}, \
		[CM_TIMEWAIT_EXIT] = {DESTROY, 0},                                       \
	}

/* A message that was sent. */
struct cm_link_message {
	unsigned int from;
	uint64_t ns; /* since the beginning */
	uint16_t attribute;
	uint64_t transaction;
	uint32_t local, remote; /* numbers of connections; of SIDR the request's, and 0 */
};
#define CM_LINK_MESSAGES 200u
extern struct cm_link_message cm_link_sent[CM_LINK_MESSAGES];

/* What was heard, by any id of a host, and when since the beginning. */
struct cm_link_heard {
	unsigned int host;
	uint8_t kind;
	int status;
	uint64_t ns;
};
#define CM_LINK_EVENTS 40u
extern struct cm_link_heard cm_link_heard[CM_LINK_EVENTS];
extern unsigned int cm_link_events;

/* Group setup and teardown. */
int cm_link_set_up(void **state);
int cm_link_tear_down(void **state);

/* Return: messages sent until nothing more happened */
unsigned int cm_link_run(const struct cm_link_exchange *e, const struct link_fault *faults,
			 unsigned int fault_count);

/* Run it intact; then with everything that can happen to one message, to each; to each two. */
void cm_link_each(const struct cm_link_exchange *e);
void cm_link_each_two(const struct cm_link_exchange *e);

/* Both, for each row of a table; and the former between processes of one directory, too. */
void cm_link_all(const struct cm_link_exchange *rows, unsigned int n);

/* When the message of that kind was sent for the @nth time (0: first); UINT64_MAX: it was not. */
uint64_t cm_link_sent_ns(uint16_t attribute, unsigned int nth);
unsigned int cm_link_sent_count(uint16_t attribute);

/* When a host heard that; UINT64_MAX: it did not. */
uint64_t cm_link_heard_ns(unsigned int host, uint8_t kind);

/* What is wrong, and in which run: cm_link_run() says so, and fails, when that is over. */
void cm_link_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
