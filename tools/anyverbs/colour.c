/* SPDX-License-Identifier: MIT */
#include "colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_colours(FILE *out)
{
	const char *never = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(never && *never) && term && *term && strcmp(term, "dumb") != 0 &&
	       isatty(fileno(out));
}

const char *av_colour(FILE *out, enum av_colour colour)
{
	static const char *const sequence[] = {
		[AV_COLOUR_OFF] = "\033[m",	  [AV_COLOUR_GOOD] = "\033[32m",
		[AV_COLOUR_WARNING] = "\033[33m", [AV_COLOUR_BAD] = "\033[31m",
		[AV_COLOUR_SERVER] = "\033[36m",  [AV_COLOUR_CLIENT] = "\033[35m",
	};

	return has_colours(out) ? sequence[colour] : "";
}
