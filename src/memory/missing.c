/* SPDX-License-Identifier: MIT */
#include "memory/odp.h"

#include <stdio.h>

#include "memory/region.h"

#define NAME_BYTES 52 /* with the rights, what a record has room for */

/* A mapping: a line of proc_pid_maps(5). */
struct mapping {
	uint64_t begin, end;
	char rights[5];
	char name[NAME_BYTES]; /* the end of a longer one */
};

struct search {
	uint64_t at, last; /* what comes before @at is as it should be */
	bool writable;
	enum { GOOD, HOLE, FORBIDDEN } found;
	struct mapping before, there; /* the mapping below @at, and that of @at */
};

/* Records are shown as text: one line, of ASCII. */
static void take_name(char *to, const char *name)
{
	size_t len = strlen(name), room = NAME_BYTES - 1;

	if (len == 0)
		name = "anonymous memory";
	snprintf(to, NAME_BYTES, "%s", len > room ? name + (len - room) : name);
	if (len > room)
		memset(to, '.', 3);
	for (; *to; to++)
		if (*to < ' ' || *to > '~')
			*to = '?';
}

/* "BEGIN-END RIGHTS OFFSET DEVICE INODE NAME": proc(5) */
static bool parse_maps_line(const char *line, struct mapping *m)
{
	char *rest;

	m->begin = strtoull(line, &rest, 16);
	if (*rest != '-')
		return false;
	m->end = strtoull(rest + 1, &rest, 16);
	rest += strspn(rest, " ");
	if (strcspn(rest, " ") + 1 != sizeof(m->rights))
		return false;
	snprintf(m->rights, sizeof(m->rights), "%s", rest);
	for (int field = 0; field < 4; field++) {
		rest += strcspn(rest, " ");
		rest += strspn(rest, " ");
	}
	take_name(m->name, rest);
	return true;
}

/* Lines come in the order of their addresses. Return: false: that is all we want to know */
static bool inspect_mapping(struct search *s, const struct mapping *m)
{
	bool permits = m->rights[0] == 'r' && (m->rights[1] == 'w' || !s->writable);

	if (m->end > s->at) {
		s->there = *m;
		s->found = m->begin > s->at ? HOLE : permits ? GOOD : FORBIDDEN;
		if (s->found != GOOD)
			return false;
		s->at = m->end < s->last ? m->end : s->last;
	}
	s->before = *m;
	return s->at != s->last;
}

/* Read all lines until one tells. Behind the last one is a hole. */
static void search(int maps, struct search *s)
{
	struct av_proc_text text = {.fd = maps};
	char line[PATH_MAX + 128];
	struct mapping m;

	while (av_proc_line(&text, line, sizeof(line)))
		if (parse_maps_line(line, &m) && !inspect_mapping(s, &m))
			return;
	s->found = HOLE;
}

static void note_hole(const struct search *s)
{
	if (s->before.end == 0) {
		(void)av_refuse(EFAULT, AV_CHECK_MEMORY_LOW, s->at, 0);
		return;
	}
	(void)av_refuse(EFAULT, AV_CHECK_MEMORY_HOLE, s->at, s->before.end);
	av_diag_detail("%s %s", s->before.rights, s->before.name);
}

static void note_mapping(enum av_check check, uint64_t at, const struct mapping *there)
{
	(void)av_refuse(EFAULT, check, at, 0);
	av_diag_detail("%s %s", there->rights, there->name);
}

/* The first page that the kernel does not populate. Return: false: it populates all of them */
static bool find_unpopulated(uint64_t *at, uint64_t bytes, bool writable, uint64_t page)
{
	if (av_mapped_populate(*at, bytes, writable) != EFAULT)
		return false;
	while (bytes > page) {
		uint64_t half = bytes / page / 2 * page;

		if (av_mapped_populate(*at, half, writable) == EFAULT) {
			bytes = half;
		} else {
			*at += half;
			bytes -= half;
		}
	}
	return true;
}

/* All is mapped as it should be: one of the pages is behind a file's end, or is no memory. */
static bool note_unpopulated(int maps, uint64_t begin, uint64_t bytes, bool writable, uint64_t page)
{
	struct search s = {.writable = writable};
	uint64_t at = begin;

	if (!find_unpopulated(&at, bytes, writable, page))
		return false;
	s.at = at;
	s.last = at + page;
	search(maps, &s);
	note_mapping(AV_CHECK_MEMORY_UNUSABLE, at, &s.there);
	return true;
}

bool av_missing_note(uint64_t addr, uint64_t bytes, bool writable)
{
	uint64_t page = av_page_bytes(), begin = addr & ~(page - 1);
	uint64_t all = av_round_up(addr - begin + bytes, page);
	struct search s = {.at = begin, .last = begin + all, .writable = writable};
	int maps AV_CLOSED = av_vma_open_own();
	bool noted = true;

	if (maps < 0)
		return false;
	search(maps, &s);
	if (s.found == HOLE)
		note_hole(&s);
	else if (s.found == FORBIDDEN)
		note_mapping(AV_CHECK_MEMORY_FORBIDS, s.at, &s.there);
	else
		noted = note_unpopulated(maps, begin, all, writable, page);
	return noted;
}
