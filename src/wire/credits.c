/* SPDX-License-Identifier: MIT */
#include "wire/credits.h"

static const uint16_t counts[AV_CREDITS_NONE_CODE] = {
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

uint8_t av_credits_code(uint32_t count)
{
	uint8_t code = AV_CREDITS_NONE_CODE - 1;

	while (counts[code] > count)
		code--;
	return code;
}

uint32_t av_credits_of(uint8_t code)
{
	return code < AV_CREDITS_NONE_CODE ? counts[code] : AV_CREDITS_UNLIMITED;
}
