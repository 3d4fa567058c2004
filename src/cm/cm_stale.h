/* SPDX-License-Identifier: MIT */
/*
 * Requests whose connections are over, or that were taken back. One of them that comes once more
 * was late on its way: who listens is not asked again. Source: IBTA volume 1, 12.9.8.3 (timewait).
 *
 * They are told apart by their transactions, which are not used again. Context of all: locked
 */
#ifndef AV_CM_CM_STALE_H
#define AV_CM_CM_STALE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Remember one, and forget an old one for it. @from: whose it is, and @comm its number there */
void av_cm_stale_add(const uint8_t from[16], uint32_t comm, uint64_t transaction);

AV_MUST_USE bool av_cm_stale_is(const uint8_t from[16], uint32_t comm, uint64_t transaction);

#endif
