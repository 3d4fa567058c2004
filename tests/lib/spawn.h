/* SPDX-License-Identifier: MIT */
/* Runs this program again as another process with a role of its own, connected by a socket. */
#ifndef TEST_SPAWN_H
#define TEST_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct spawned {
	int sock; /* SOCK_SEQPACKET: messages arrive whole */
	pid_t pid;
};

/* Start the process; its main() gets @word as first argument. It dies with this process. */
void spawn_self(struct spawned *s, const char *word);

/* In the new process: does it have this role? Return: the socket, or -1. */
int spawn_role(int argc, char **argv, const char *word);

void spawn_send(int sock, const void *message, size_t bytes);
/* Wait for a message of this size; ends the program if none arrives in time. */
void spawn_receive(int sock, void *message, size_t bytes);
/* The same for messages of any size up to @room. Return: the size; 0: the other end is gone. */
size_t spawn_receive_any(int sock, void *message, size_t room);
/* Has a message arrived? Does not wait. */
bool spawn_pending(int sock);

void spawn_kill(struct spawned *s); /* SIGKILL, and wait */
void spawn_wait(struct spawned *s); /* for its end, which must be a success */

#endif
