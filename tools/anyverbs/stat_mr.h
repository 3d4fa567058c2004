/* SPDX-License-Identifier: MIT */
/* "anyverbs stat mr": the regions there are, and what pages each is on. */
#ifndef AV_TOOL_STAT_MR_H
#define AV_TOOL_STAT_MR_H

#include <jansson.h>

#include "hca/device.h"

/* The regions of a device as a table. */
void av_stat_mr_print(const struct av_device *dev);

/* The same as an object, owned by the caller; NULL if there is no memory. */
json_t *av_stat_mr_json(const struct av_device *dev);

#endif
