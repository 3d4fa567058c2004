/* SPDX-License-Identifier: MIT */
/*
 * The third process, which sends every message back, and this process' exchange with it: at most
 * one message is under way.
 */
#ifndef TEST_CRASH_THIRD_H
#define TEST_CRASH_THIRD_H

#include "crash/flow.h"

/* Its life. Does not return. */
void third_main(int sock);

/* --- of the survivor ------------------------------------------------------------- */

extern struct flow third; /* its end and buffer are to be set before */

void third_start(void);
void third_stop(void);

/* One message to the third process and back. */
void third_turn(void);

#endif
