/* SPDX-License-Identifier: MIT */
/*
 * End-to-end credits in the syndrome of an acknowledgement: how many receive requests the responder
 * has, in five bits. Source: IBTA volume 1, 9.7.5.2.2, table "Credit count".
 */
#ifndef AV_WIRE_CREDITS_H
#define AV_WIRE_CREDITS_H

#include <stdint.h>

#define AV_CREDITS_NONE_CODE 31u	/* the responder does not count */
#define AV_CREDITS_UNLIMITED (1u << 24) /* more than a send queue holds */

/* The code for so many, rounded down. Context of both: any */
uint8_t av_credits_code(uint32_t count);

/* How many a code stands for; AV_CREDITS_UNLIMITED: the responder does not count. */
uint32_t av_credits_of(uint8_t code);

#endif
