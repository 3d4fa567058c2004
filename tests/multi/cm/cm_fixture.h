/* SPDX-License-Identifier: MIT */
/*
 * Ends of connections in this process and in others, moved by commands of lib/cm_command.h. Each
 * process has one channel, whose number the caller does not need to know.
 */
#ifndef TEST_CM_FIXTURE_H
#define TEST_CM_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/cm_command.h"
#include "lib/spawn.h"

#define SOON	  30000u  /* ms: longer than any event takes */
#define FAR_SOON  100000u /* ms: longer than all repetitions of a message together */
#define DATA_MOST 255

/* What a process is to do. */
enum what {
	DO_OPEN,    /* its channel */
	DO_CLOSE,   /* it */
	DO_LISTEN,  /* at .at, with backlog .number: .id and .at come back */
	DO_ROUTE,   /* to .at: .id comes back */
	DO_CONNECT, /* .id with .data */
	DO_REQUEST, /* both at once */
	DO_ACCEPT,  /* .id with .data */
	DO_READY,   /* .id: RTU */
	DO_REJECT,  /* .id with .data, reason .number */
	DO_DISCONNECT,
	DO_DESTROY,
	DO_HEAR,     /* the next event, of kind .number, but for TIMEWAIT_EXIT: .event comes back */
	DO_HEAR_ANY, /* the next event of any kind, but for TIMEWAIT_EXIT, within FAR_SOON */
	DO_SERVE,    /* accept and end what comes, until .number have ended, or the next order */
	DO_SERVE_ALL, /* accept what comes, until .number connections are there */
	DO_MEASURE,   /* .held comes back */
};

struct order {
	enum what what;
	uint32_t id, number, bytes;
	uint64_t uid;
	uint16_t ps; /* 0: RDMA_PS_TCP */
	struct sockaddr_in at;
	uint8_t data[DATA_MOST + 1];
};

/* What a process has: to be compared. */
struct held {
	unsigned int descriptors;
	uint64_t bytes; /* allocated; 0: a sanitizer does not say */
};

struct outcome {
	int ret; /* 0 or -errno */
	uint32_t id;
	struct sockaddr_in at;
	struct rdma_ucm_event_resp event;
	struct held held;
};

struct party {
	bool here; /* this process; else: */
	struct spawned process;
};

/* main() calls it first: another process does not return from it. */
void parties_main(int argc, char **argv);

void party_start(struct party *p); /* with its channel open */
void party_stop(struct party *p);

/* At the end of main(): nothing is left in the folder soon. Return: its exit status */
int cm_end(void);

struct outcome party_do(struct party *p, const struct order *o);
/*
 * The same in two steps, so that something else is done meanwhile; each order that was begun ends.
 * Another process only.
 */
void party_begin(struct party *p, const struct order *o);
struct outcome party_end(struct party *p);

/* Which must succeed: listen at any port of 127.0.0.1, request, hear. */
uint32_t party_listen(struct party *p, struct sockaddr_in *at);
uint32_t party_request(struct party *p, const struct sockaddr_in *at, const void *data,
		       uint32_t bytes);
struct rdma_ucm_event_resp party_hear(struct party *p, enum cm_kind kind);
/* An order without anything else. Return: its result */
int party_tell(struct party *p, enum what what, uint32_t id);

/* A connection between both, with all its events heard. */
struct link {
	uint32_t active, passive;
};
struct link parties_connect(struct party *active, struct party *passive,
			    const struct sockaddr_in *at);
/* It ends by the active side, and both ids are destroyed. */
void parties_part(struct party *active, struct party *passive, struct link l);

#endif
