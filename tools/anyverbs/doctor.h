/* SPDX-License-Identifier: MIT */
/*
 * What "anyverbs doctor" looks at. A check tries the real thing where it can, and only reads
 * settings where it cannot. The rows are defined beside their subject, in doctor_*.c, and listed in
 * doctor.c.
 */
#ifndef AV_TOOL_DOCTOR_H
#define AV_TOOL_DOCTOR_H

#include "base/compiler.h"

enum av_verdict { AV_VERDICT_OK, AV_VERDICT_LIMITED, AV_VERDICT_MISSING };

/* Texts are plain sentences of one line; consequence is never empty, advice is when there is none
 * to give. */
struct av_finding {
	enum av_verdict verdict;
	char value[128]; /* what was found, in a few words */
	char consequence[320];
	char advice[320];
};

struct av_check {
	const char *id;	   /* for programs: stable, lower case */
	const char *title; /* for people */
	int essential;	   /* missing it makes the tool's exit status 1 */
	void (*look)(struct av_finding *finding);
};

/* Tables ended by a row without an id. */
extern const struct av_check av_checks_process[]; /* who may reach whose memory */
extern const struct av_check av_checks_memory[];  /* memory, files and limits */
extern const struct av_check av_checks_system[];  /* kernel, processors, libraries, other devices */

void av_finding_value(struct av_finding *finding, const char *fmt, ...) AV_PRINTF(2, 3);

/* Set verdict and consequence; @advice may be "". */
void av_finding_set(struct av_finding *finding, enum av_verdict verdict, const char *consequence,
		    const char *advice);

/* The first line of a file of the kernel's, without its newline; "" if it cannot be read. Return:
 * @text */
const char *av_read_line(const char *path, char *text, int size);

#endif
