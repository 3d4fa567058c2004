/* SPDX-License-Identifier: MIT */
/* The variables that choose pages, and what they mean for a buffer. */
#include "segment/page_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LOG2_MIN  12
#define LOG2_MAX  23
#define VALUE_MAX 64 /* longer values are neither type nor number */

static const char *const names[AV_ALLOC_N] = {
	[AV_ALLOC_ANON] = "ANON",
	[AV_ALLOC_HUGE] = "HUGE",
	[AV_ALLOC_CONTIG] = "CONTIG",
	[AV_ALLOC_PREFER_CONTIG] = "PREFER_CONTIG",
	[AV_ALLOC_PREFER_HUGE] = "PREFER_HUGE",
	[AV_ALLOC_ALL] = "ALL",
};

const char *av_alloc_type_name(unsigned int type)
{
	return type < AV_ALLOC_N ? names[type] : "";
}

/* How to read the variables. */
struct source {
	const struct av_page_object *object;
	av_page_variable *get;
	const void *where;
	void (*complain)(const char *name, const char *value);
};

static enum av_alloc_type read_type(const struct source *s)
{
	char variable[VALUE_MAX], value[VALUE_MAX];
	enum av_alloc_type type = s->object->fallback;

	if (s->object->huge_variable &&
	    s->get(s->where, s->object->huge_variable, value, sizeof(value)) && !strcmp(value, "y"))
		type = AV_ALLOC_HUGE;
	snprintf(variable, sizeof(variable), "MLX_%s_ALLOC_TYPE", s->object->name);
	if (!s->get(s->where, variable, value, sizeof(value)))
		return type;
	for (unsigned int i = 0; i < AV_ALLOC_N; i++)
		if (!strcasecmp(value, names[i]))
			return (enum av_alloc_type)i;
	return type;
}

static uint8_t read_log2(const struct source *s, const char *which, uint8_t max, uint8_t fallback)
{
	char variable[VALUE_MAX], value[VALUE_MAX], *end;
	long number;

	snprintf(variable, sizeof(variable), "MLX_%s_%s_LOG2_CONTIG_BSIZE", s->object->name, which);
	if (!s->get(s->where, variable, value, sizeof(value)))
		return fallback;
	number = strtol(value, &end, 10);
	if (end != value && !*end && number >= LOG2_MIN && number <= max)
		return (uint8_t)number;
	s->complain(variable, value);
	return fallback;
}

struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value))
{
	const struct source s = {object, get, where, complain};
	struct av_page_policy policy = {.type = read_type(&s)};

	policy.max_log2 = read_log2(&s, "MAX", LOG2_MAX, LOG2_MAX);
	policy.min_log2 = read_log2(&s, "MIN", policy.max_log2, LOG2_MIN);
	return policy;
}

static struct av_page_plan contiguous(const struct av_page_policy *policy, bool or_fail)
{
	struct av_page_plan plan = {.pages = true, .or_fail = or_fail, .wish = AV_PAGES_SMALL};

	if (policy->min_log2 > AV_HUGE_LOG2)
		plan.never = true;
	else if (policy->min_log2 > LOG2_MIN)
		plan.wish = AV_PAGES_HUGE;
	else if (policy->max_log2 > LOG2_MIN)
		plan.wish = AV_PAGES_TRY;
	return plan;
}

struct av_page_plan av_page_plan(const struct av_page_policy *policy)
{
	switch (policy->type) {
	case AV_ALLOC_HUGE:
		return (struct av_page_plan){.pages = true, .wish = AV_PAGES_HUGE, .or_fail = true};
	case AV_ALLOC_PREFER_HUGE:
		return (struct av_page_plan){.pages = true, .wish = AV_PAGES_HUGE};
	case AV_ALLOC_CONTIG:
		return contiguous(policy, true);
	case AV_ALLOC_PREFER_CONTIG:
	case AV_ALLOC_ALL:
		return contiguous(policy, false);
	case AV_ALLOC_ANON:
	case AV_ALLOC_N:
		break;
	}
	return (struct av_page_plan){.pages = false};
}
