/* SPDX-License-Identifier: MIT */
/* Address handles. */
#ifndef AV_FRONT_AH_H
#define AV_FRONT_AH_H

#include <infiniband/verbs.h>

/* The address vector of a handle; NULL if pointer and handle do not belong together, or it is not ours. */
const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah);

#endif
