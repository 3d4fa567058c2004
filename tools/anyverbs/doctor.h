/* SPDX-License-Identifier: MIT */
/*
 * The checks of "anyverbs doctor". A check tries the real thing if it can, and reads settings only
 * if it cannot. Each table lives beside its subject in doctor_*.c and is listed in doctor.c.
 */
#pragma once

#include "base/compiler.h"

enum av_verdict { AV_VERDICT_OK, AV_VERDICT_LIMITED, AV_VERDICT_MISSING };

/*
 * All texts are plain sentences of one line. @consequence is never empty; @advice is "" if there is
 * none.
 */
struct av_finding {
	enum av_verdict verdict;
	char value[512]; /* what was found: a few words, or a path */
	char consequence[320];
	char advice[320];
};

struct doctor_check {
	const char *id;	   /* for programs: stable and lower case */
	const char *title; /* for people */
	int essential;	   /* if missing, the tool exits with status 1 */
	void (*look)(struct av_finding *finding);
};

/* Each table ends with a row whose id is NULL. */
extern const struct doctor_check
	doctor_checks_process[]; /* access to the memory of other processes */
extern const struct doctor_check doctor_checks_memory[];  /* memory, files and limits */
extern const struct doctor_check doctor_checks_heap[];	  /* memory of programs that run */
extern const struct doctor_check doctor_checks_network[]; /* the network */
extern const struct doctor_check
	doctor_checks_system[]; /* kernel, processors, libraries, other devices */

void av_finding_value(struct av_finding *finding, const char *fmt, ...) AV_PRINTF(2, 3);

/* Set verdict and consequence; @advice may be "". */
void av_finding_set(struct av_finding *finding, enum av_verdict verdict, const char *consequence,
		    const char *advice);

/* Read the first line of a kernel file, without newline; "" if it cannot be read. Return: @text. */
const char *av_read_line(const char *path, char *text, int size);
