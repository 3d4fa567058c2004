/* SPDX-License-Identifier: MIT */
/* The device file of the connection manager, as libc's functions see it. */
#ifndef AV_CM_CM_FILE_H
#define AV_CM_CM_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * open(2) of the device, but no cancellation point. @flags: as there.
 * Return: the program's descriptor, or -1 and errno
 */
int av_cm_open(int flags);

/*
 * Is that descriptor a channel's, of this process or of one that forked it? @number: which one's.
 * Async-signal-safe; makes system calls; keeps errno
 */
bool av_cm_is_channel(int fd, uint32_t *number);

/*
 * write(2) to the device: carry out a command of <rdma/rdma_user_cm.h>.
 * Context: a descriptor that av_cm_is_channel() knows; no lock; waits for an event if asked to. A
 * thread may be cancelled where it begins, as in write(2), and in that wait
 */
ssize_t av_cm_write(int fd, uint32_t number, const void *bytes, size_t count);

#endif
