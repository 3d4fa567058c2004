/* SPDX-License-Identifier: MIT */
/* Copies between two processes' memory, by the kernel. */
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
 * @local: @count pieces of this process's memory
 * @remote: @remote_count pieces of the memory of @seg's owner
 *
 * Checks first that the owner is alive, because its pid may belong to another process by now.
 * Return: bytes moved (> 0), or -errno
 */
AV_MUST_USE ssize_t av_vm_call(bool write, struct av_seg *seg, const struct iovec *local,
			       size_t count, const struct iovec *remote, size_t remote_count);

#endif
