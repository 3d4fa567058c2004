/* SPDX-License-Identifier: MIT */
/*
 * What the connection manager stands on, for two hosts in one process and one thread: its lock and
 * its alarm, the watcher's thread, each host's addresses and network namespace. Messages go by
 * unit/transport/fake_link.h.
 *
 * Both hosts share the tables of src/cm, which their addresses and the manager's numbers keep
 * apart. link_be() says whose code runs.
 */
#ifndef TEST_FAKE_MANAGER_H
#define TEST_FAKE_MANAGER_H

#include <stdint.h>

#include "unit/transport/fake_link.h"

/* Join a directory of the test's own, in which a second process lives: link_setting.proc. */
int manager_set_up(void **state);
int manager_tear_down(void **state);
extern uint32_t manager_proc[LINK_HOSTS];

/* The second process dies; and another one takes its place. */
void manager_peer_dies(void);
void manager_peer_begins(void);

/* When the manager's thread would wake; UINT64_MAX: never. And what it does then. */
uint64_t manager_due(void);
void manager_look(void);

/* Something about the interfaces of the host whose code runs is news to the manager. */
void manager_host_changes(void);

#endif
