/* SPDX-License-Identifier: MIT */
/* Colours, on terminals that have them, unless NO_COLOR is set: https://no-color.org. */
#pragma once

#include <stdio.h>

enum av_colour {
	AV_COLOUR_OFF,
	AV_COLOUR_GOOD,
	AV_COLOUR_WARNING,
	AV_COLOUR_BAD,
	AV_COLOUR_SERVER,
	AV_COLOUR_CLIENT,
};

/* The text that switches @out to the colour; "" where there are none. Never NULL. */
const char *av_colour(FILE *out, enum av_colour colour);
