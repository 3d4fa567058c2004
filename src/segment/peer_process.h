/* SPDX-License-Identifier: MIT */
/*
 * Is a PID still that of the process it was when its segment was mapped?
 *
 * The lock that says "alive" (registry/directory.h) lives as long as the last process that holds
 * the open file: a child that was made past the C library's fork() keeps it. The PID does not.
 */
#ifndef AV_SEGMENT_PEER_PROCESS_H
#define AV_SEGMENT_PEER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/own_fd.h"

/*
 * Hold on to the process that has this PID now. The caller has seen it alive before, and looks
 * again afterwards. Without pidfd_open(2), @process is AV_OWN_FD_NONE: nothing is ever known.
 */
void av_peer_process_open(struct av_own_fd *process, pid_t pid);

/* Is its PID free for others? */
bool av_peer_process_gone(const struct av_own_fd *process);

#endif
