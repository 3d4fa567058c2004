/* SPDX-License-Identifier: MIT */
/* "anyverbs stat cm": which processes have bound which ports of the connection manager. */
#pragma once

#include <jansson.h>

#include "device/device.h"

/* Those at addresses of the device, and at wildcards. */
void av_stat_cm_print(const struct av_device *dev);

/* The same. The caller owns the result; NULL: out of memory */
json_t *av_stat_cm_json(const struct av_device *dev);
