/* SPDX-License-Identifier: MIT */
/* Address handles. */
#ifndef AV_VERBS_IBV_AH_H
#define AV_VERBS_IBV_AH_H

#include <infiniband/verbs.h>

#include "base/compiler.h"

struct av_context;

/**
 * av_check_ah_attr() - is this an address vector of the device's port?
 *
 * Asks the host for its addresses only if the row is not known to be populated, because that takes
 * system calls.
 * Return: 0, EINVAL or ENOMEM
 */
AV_MUST_USE int av_check_ah_attr(const struct av_context *ctx, const struct ibv_ah_attr *attr);

/* The address vector of a handle; NULL if it is not ours, or pointer and handle do not match. */
const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah);

#endif
