/* SPDX-License-Identifier: MIT */
/* Are whole ranges mapped in this process, and can they be populated? May change errno. */
#ifndef AV_MEMORY_MAPPED_H
#define AV_MEMORY_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Is the range mapped without holes, readable, and with @writable writable? 0 or EFAULT. */
AV_MUST_USE int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable);

/*
 * Populate whole pages. Return: 0, EFAULT, ENOMEM, or EINVAL: the range is mapped with these
 * rights, but the kernel cannot populate it (Linux before 5.14, a device mapping).
 */
AV_MUST_USE int av_mapped_populate(uint64_t begin, uint64_t bytes, bool writable);

#endif
