/* SPDX-License-Identifier: MIT */
/* Copies between two processes' memory, by the kernel. */
#ifndef AV_MEMORY_VM_H
#define AV_MEMORY_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* One end of a copy: memory of @seg's owner, behind a key that @pin keeps. */
struct av_vm_remote {
	struct av_seg *seg;
	struct av_pin *pin;
	uint64_t addr, bytes;
};

/**
 * av_vm_call() - one process_vm_readv() or process_vm_writev()
 * @local, @count: pieces of this process's memory
 *
 * Checks first that the owner is alive: its pid may belong to another process by now.
 * Return: bytes moved (> 0), or -errno; -EAGAIN: the owner has taken the key back, or seemed to;
 * put all keys, and start again
 */
AV_MUST_USE ssize_t av_vm_call(bool write, const struct av_vm_remote *remote,
			       const struct iovec *local, size_t count);

/*
 * The same for several pieces @remote of the owner's memory, behind the keys that @pins keep. An
 * owner that takes a key back during the call waits for its end.
 */
AV_MUST_USE ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
				    size_t pin_count, const struct iovec *local, size_t count,
				    const struct iovec *remote, size_t remote_count);

#endif
