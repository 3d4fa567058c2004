/* SPDX-License-Identifier: MIT */
/* The processes of the test are this program in different roles. */
#ifndef TEST_CRASH_ROLE_H
#define TEST_CRASH_ROLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Have them run on another host, of two that there are: lib/two_hosts.h. */
extern bool roles_elsewhere;

/* Start it in a role, "--third" or "--victim"; @sock: out, to it. Return: its number */
pid_t role_start(const char *role, uint64_t seed, unsigned int kinds, int *sock);

/* If this process has been started so, does not return. */
void role_main(int argc, char **argv);

#endif
