/* SPDX-License-Identifier: MIT */
/* Two hosts on this one: two network namespaces, with a cable (a pair of veth) between them. */
#ifndef TEST_TWO_HOSTS_H
#define TEST_TWO_HOSTS_H

#include "lib/side.h"

/*
 * main() calls it first, with side_work set. Makes the hosts, and is on host 0; in a side's
 * process, serves it and never returns. A host's sides have one folder of shared files. The program
 * exits with 77 where that is not permitted. Context: the process has one thread
 */
void two_hosts_open(int argc, char **argv);

/* Makes the interfaces v0 and v1 instead, if it is set before two_hosts_open(): lib/cable.h */
extern void (*two_hosts_cable)(void);

/* Be on host 0 or 1: this thread, and the processes that it starts from now on. */
void two_hosts_be(int host);

/* The same, with that host's folder of shared files. */
void two_hosts_live(int host);

/* side_start() on that host, with these faults on demand. SEED in the environment chooses which. */
void two_hosts_start(struct side *s, int host, const char *faults);

#endif
