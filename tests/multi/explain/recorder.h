/* SPDX-License-Identifier: MIT */
/* What the flight recorder says about what was just done. */
#ifndef TEST_RECORDER_H
#define TEST_RECORDER_H

#include <stdbool.h>

#include "lib/side.h"
#include "observe/check.h"
#include "observe/flight.h"

#define ANY UINT64_MAX /* for a number that may be anything */

/* One expected record. */
struct seed {
	const char *name;
	enum av_check check;
	enum av_flight_kind kind;
	uint64_t wanted, limit;
};

extern struct side a, b; /* a is in this process, b in another one */

extern const char *recorder_device; /* that records name from now on: "any0" */

void recorder_open(void); /* the directory has been joined */
void recorder_close(void);
void recorder_begin(void); /* what comes is of the next seed */

/* The record of that kind since recorder_begin(), with these numbers. Return: false: an expectation
 * failed */
bool recorder_find(const struct seed *seed, struct av_flight_record *r);

/* The first record since recorder_begin(), which is a seed of its check. Return: false: there is
 * none */
bool recorder_first(const char *name, struct av_flight_record *r);

/* How many records of that kind and check there are of that object. It is not a seed. */
unsigned int recorder_count(const struct seed *seed, uint32_t number);

/* That check is not seeded, and why not. */
void recorder_except(enum av_check check, const char *why);

/* Every check has been seeded, or excepted; and so many seeds were there at least. */
void recorder_expect_all(unsigned int seeds);

void seed_verbs(void);	  /* verbs that refuse */
void seed_requests(void); /* requests between two processes */
void seed_windows(void);  /* keys changed by requests, and kinds of keys */
void seed_experimental(void);
void seed_named(void);	  /* a device that behaves as another adapter */
void seed_events(void);	  /* what happens by itself, and other services */
void seed_mistakes(void); /* what is told of mistakes of beginners */

#endif
