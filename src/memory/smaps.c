/* SPDX-License-Identifier: MIT */
#include "memory/smaps.h"

#include <stdio.h>
#include <stdlib.h>

struct reading {
	uint64_t begin, end;	     /* of the range */
	uint64_t vma_begin, vma_end; /* of the mapping whose lines are being read */
	av_smaps_visit *visit;
	void *arg;
};

/* "BEGIN-END rwxp ...", or "Name: ...". Return: false: no later line matters. */
static bool take_line(struct reading *r, const char *line)
{
	char *rest;

	if (*line < 'A' || *line > 'Z') {
		r->vma_begin = strtoull(line, &rest, 16);
		r->vma_end = *rest == '-' ? strtoull(rest + 1, NULL, 16) : 0;
		return r->vma_begin < r->end;
	}
	return r->vma_end <= r->begin || r->visit(r->arg, r->vma_begin, r->vma_end, line);
}

bool av_smaps_read(uint64_t begin, uint64_t end, av_smaps_visit *visit, void *arg)
{
	struct reading r = {.begin = begin, .end = end, .visit = visit, .arg = arg};
	FILE *smaps = fopen("/proc/self/smaps", "re");
	char *line = NULL;
	size_t room = 0;
	bool more = true, ok;

	if (!smaps)
		return false;
	while (more && getline(&line, &room, smaps) > 0)
		more = take_line(&r, line);
	ok = !more || feof(smaps);
	free(line);
	fclose(smaps);
	return ok;
}
