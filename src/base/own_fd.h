/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of ours in a program that may close any, replace it by dup2(2), or closefrom(3). They
 * live at high numbers, which programs rarely touch, and each use first sees whether the number
 * still is our file. So the library never reads, writes, locks or closes a file of the program's.
 * What the program does to the number between the look and the use cannot be noticed.
 */
#ifndef AV_BASE_OWN_FD_H
#define AV_BASE_OWN_FD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

struct av_own_fd {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
};

#define AV_OWN_FD_NONE ((struct av_own_fd){.fd = -1})

/*
 * Keep @fd, which was just opened close-on-exec: it may move to another number. Return: false: @fd
 * is -1, or cannot be asked for its file; it is closed then, and errno says why
 */
AV_MUST_USE bool av_own_fd_keep(struct av_own_fd *own, int fd);

/* The descriptor; -1, with errno EBADF: there is none, or it is the program's by now. */
int av_own_fd(const struct av_own_fd *own);

/* Close it if it is ours still. Keeps errno. */
void av_own_fd_close(struct av_own_fd *own);

#endif
