/* SPDX-License-Identifier: MIT */
/* The call of src/memory/vm.c that tests of plain memory never need. Each replaces av_vm_call(). */
#include <errno.h>

#include "lib/unit.h"
#include "memory/region.h"

ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
			size_t pin_count, const struct iovec *local, size_t count,
			const struct iovec *remote, size_t remote_count)
{
	fail_msg("there is no UMR key");
	return -ENOSYS;
}
