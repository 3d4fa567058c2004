/* SPDX-License-Identifier: MIT */
/* The kernel's copy between two processes' memory. */
#ifndef AV_MEMORY_VM_H
#define AV_MEMORY_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_vm_call() - one process_vm_readv() or process_vm_writev()
 * @local:  @count pieces of this process' memory; @remote: @remote_count of the memory of @seg's
 * owner
 *
 * The owner's life is asked for first: a process number may belong to a stranger by now.
 * Return: bytes moved (> 0), or -errno
 */
AV_MUST_USE ssize_t av_vm_call(bool write, struct av_seg *seg, const struct iovec *local,
			       size_t count, const struct iovec *remote, size_t remote_count);

#endif
