/* SPDX-License-Identifier: MIT */
/* Names of verbs. */
#include "observe/verb.h"

static const char *const names[AV_VERB_N] = {[AV_VERB_NONE] = "a verb",
#define AV_VERB_NAME(id, name) [AV_VERB_##id] = (name),
					     AV_VERBS(AV_VERB_NAME)
#undef AV_VERB_NAME
};

const char *av_verb_name(unsigned int verb)
{
	return names[verb < AV_VERB_N ? verb : AV_VERB_NONE];
}
