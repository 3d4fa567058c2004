/* SPDX-License-Identifier: MIT */
/*
 * Threads of this process, each on a queue pair that is connected with itself, and other processes
 * make completions in one CQ. One thread takes an event, arms the CQ, and polls once, as perftest
 * does. An event that is lost makes it wait for ever, and the test end by its time limit.
 */
#ifndef TEST_EVENT_RACE_H
#define TEST_EVENT_RACE_H

#include "lib/node.h"

struct event_race {
	const char *name;
	struct ibv_cq *(*create)(struct node *n, int cqe);
	void (*wait)(struct ibv_cq *cq);		   /* for an event; acknowledges it */
	int (*poll)(struct ibv_cq *cq, struct ibv_wc *wc); /* as ibv_poll_cq() for one */
	bool solicited; /* arms for those; else what is sent completes in the CQ, too */
	unsigned int count, period_us; /* moderation */
};

/* Begin of main(), in which the other processes end. Before the sides are opened: @switches. */
void event_races_open(int argc, char **argv, const char *switches);

/* @rows of them make RACE_EVENTS completions (environment; else @usual) together. */
void event_races(const struct event_race *races, unsigned int rows, unsigned int usual);

/* Return: its exit status */
int event_races_close(void);

/* The usual ways. */
struct ibv_cq *race_create(struct node *n, int cqe);
void race_wait(struct ibv_cq *cq);
int race_poll(struct ibv_cq *cq, struct ibv_wc *wc);

/* The node in this process. */
extern struct node *race_node;

#endif
