/* SPDX-License-Identifier: MIT */
#include "observe/freedom.h"

#include "observe/faults.h"

const struct av_freedom_info av_freedom_info[AV_FREEDOM_N] = {
#define AV_FREEDOM_INFO(id, name, does, clause, bitten) \
	[AV_FREEDOM_##id] = {name, does, clause, bitten},
	AV_FREEDOMS(AV_FREEDOM_INFO)
#undef AV_FREEDOM_INFO
};

enum av_freedom av_freedom_by_name(struct av_word name)
{
	int i = 0;

	while (i < AV_FREEDOM_N && !av_word_is(name, av_freedom_info[i].name))
		i++;
	return (enum av_freedom)i;
}

uint64_t av_freedom_draw(uint64_t seed, enum av_freedom which, uint32_t object, uint64_t nth)
{
	return av_faults_draw(seed ^ (uint64_t)object << 32, (uint32_t)which, nth);
}
