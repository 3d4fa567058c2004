/* SPDX-License-Identifier: MIT */
/*
 * A cable between two hosts (lib/two_hosts.h) that the test itself is: every frame that a host
 * sends goes through it, whole and cut as on a real one, and arrives if the test puts it to the
 * other end.
 */
#ifndef TEST_CABLE_H
#define TEST_CABLE_H

#include <stddef.h>
#include <stdint.h>

#define CABLE_FRAME_MAX 9100

/* For two_hosts_cable: make v0 and v1. Exits with 77 where that is not permitted. */
void cable_lay(void);

/*
 * From now on, a thread hands over what each host sends, and (-1, NULL, 0) if there has been
 * nothing for some ms.
 */
void cable_carry(void (*carry)(int from, const uint8_t *frame, size_t bytes));

/* A frame arrives at that host. */
void cable_put(int host, const uint8_t *frame, size_t bytes);

/* The thread ends. */
void cable_end(void);

#endif
