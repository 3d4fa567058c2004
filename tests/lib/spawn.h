/* SPDX-License-Identifier: MIT */
/* This program, executed afresh as another process with a role of its own, at the other end of a
 * socket. */
#ifndef TEST_SPAWN_H
#define TEST_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct spawned {
	int sock; /* SOCK_SEQPACKET: messages arrive whole */
	pid_t pid;
};

/* Start it; main() of the new process finds @word as its first argument. It dies with this one. */
void spawn_self(struct spawned *s, const char *word);

/* In the new process: is that its role? Return: the socket, or -1. */
int spawn_role(int argc, char **argv, const char *word);

void spawn_send(int sock, const void *message, size_t bytes);
/* Wait for a message of that size; ends the program if none comes in time. */
void spawn_receive(int sock, void *message, size_t bytes);
/* The same for messages of any size up to @room. Return: its size; 0: the other end is gone. */
size_t spawn_receive_any(int sock, void *message, size_t room);
/* Is there a message? Does not wait. */
bool spawn_pending(int sock);

void spawn_kill(struct spawned *s); /* SIGKILL, and wait */
void spawn_wait(struct spawned *s); /* for its end, which must be a success */

#endif
