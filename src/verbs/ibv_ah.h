/* SPDX-License-Identifier: MIT */
/* Address handles. */
#ifndef AV_VERBS_IBV_AH_H
#define AV_VERBS_IBV_AH_H

#include <infiniband/verbs.h>

#include "base/compiler.h"

struct av_context;

/**
 * av_check_ah_attr() - is that an address vector of this device's port?
 *
 * The host is asked for its addresses only where no row is known to be populated, which takes
 * system calls. Return: 0, EINVAL or ENOMEM
 */
AV_MUST_USE int av_check_ah_attr(const struct av_context *ctx, const struct ibv_ah_attr *attr);

/* The address vector of a handle; NULL if pointer and handle do not belong together, or it is not
 * ours. */
const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah);

#endif
