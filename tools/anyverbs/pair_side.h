/* SPDX-License-Identifier: MIT */
/* One side of a pair: a program, and what it writes, each line marked with the side's name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "colour.h"

#define AV_PAIR_LINE 1024 /* longer lines are shown in pieces */

struct av_pair_side {
	const char *name;
	enum av_colour colour;
	pid_t pid;  /* also of its process group; 0: not started */
	int output; /* what it writes; -1: no more */
	bool over;  /* it has ended: */
	int signal; /* the one that killed it; 0: it has exited with @status */
	int status;
	bool stopped;		    /* we have ended it */
	double over_at, stopped_at; /* on the monotonic clock */
	char line[AV_PAIR_LINE];
	size_t length;
};

/* Start it, in a process group of its own that ends with us. Return: false, reported */
bool av_pair_start(struct av_pair_side *side, char **argv);

/* Show lines that are there, not too many, and see whether it has ended. Does not wait. */
void av_pair_look(struct av_pair_side *side, double now);

/* Ask its processes to end; some time after the first call, kill them. */
void av_pair_stop(struct av_pair_side *side, double now);

/* When both are over: kill what is left of their processes, and show its last line. */
void av_pair_end(struct av_pair_side *side);

/* As a shell has it: 128 more than the signal that killed it. 0: it has not failed by itself */
int av_pair_exit_status(const struct av_pair_side *side);
