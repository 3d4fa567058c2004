/* SPDX-License-Identifier: MIT */
/*
 * What headers newer than rdma-core 44's have, by value: programs that were built with them are served whichever
 * header this library was built with. front/abi_check.c compares with the header where that has them.
 *
 * Sources: <infiniband/verbs.h> of rdma-core 65; the kernel's enum ib_uverbs_device_cap_flags for the bits of
 * device_cap_flags_ex, which no header of libibverbs names.
 */
#ifndef AV_BASE_NEWER_VERBS_H
#define AV_BASE_NEWER_VERBS_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define AV_DEVICE_ATOMIC_WRITE (1ull << 40)

enum {
	AV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

#endif
