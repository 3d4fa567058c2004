/* SPDX-License-Identifier: MIT */
#include "memory/page_move.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/fork.h"
#include "memory/key.h"
#include "memory/linger.h"
#include "memory/pin.h"

static struct {
	pthread_mutex_t mutex; /* held from av_page_move_begin() to av_page_move_end() */
	LIST_HEAD(, av_seg) list;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child has none of its parent's contexts. */
static void forget_in_child(void)
{
	pthread_mutex_init(&own.mutex, NULL);
	LIST_INIT(&own.list);
}

static const struct av_fork_handlers fork_handlers = {.child = forget_in_child};

void av_page_move_add(struct av_seg *seg)
{
	(void)av_fork_register(AV_FORK_PAGE_MOVE, &fork_handlers);
	pthread_mutex_lock(&own.mutex);
	LIST_INSERT_HEAD(&own.list, seg, movable);
	pthread_mutex_unlock(&own.mutex);
}

void av_page_move_remove(struct av_seg *seg)
{
	pthread_mutex_lock(&own.mutex);
	LIST_REMOVE(seg, movable);
	pthread_mutex_unlock(&own.mutex);
}

/* --- may they? ------------------------------------------------------------------- */

/*
 * Mappings of what may write to this process's memory or keep it pinned, without a processor. Of a
 * socket, a ring is mapped: AF_XDP pins the memory beside it and does not count that in VmPin.
 */
static const char *const foreign_writers[] = {
	"[io_uring]",  "/[aio]",    "/dev/infiniband/", "/dev/vfio/",
	"/dev/nvidia", "/dev/dri/", "/dev/kfd",		"socket:[",
};

static bool no_foreign_writer(const char *line)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(foreign_writers); i++)
		if (strstr(line, foreign_writers[i]))
			return false;
	return true;
}

static bool is_zero(const char *line, const char *name)
{
	return strncmp(line, name, strlen(name)) != 0 ||
	       strtoul(line + strlen(name), NULL, 10) == 0;
}

/* Pinned: the fixed buffers of an io_uring, another adapter's regions. */
static bool nothing_held(const char *line)
{
	return is_zero(line, "VmPin:") && is_zero(line, "VmLck:");
}

/* Could the file be read, and is every line of it fine? */
static bool all_lines(const char *path, bool (*fine)(const char *line))
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	bool ret = f != NULL;

	if (!f)
		return false;
	while (ret && getline(&line, &room, f) > 0)
		ret = fine(line);
	ret = ret && feof(f);
	free(line);
	fclose(f);
	return ret;
}

bool av_page_move_allowed(void)
{
	return all_lines("/proc/self/status", nothing_held) &&
	       all_lines("/proc/self/maps", no_foreign_writer);
}

/* --- moving ---------------------------------------------------------------------- */

static void set(uint32_t moving)
{
	struct av_seg *seg;

	LIST_FOREACH(seg, &own.list, movable)
		atomic_store(&seg->head->moving, moving);
}

struct range {
	uint64_t begin, end;
};

static bool reaches(struct av_seg *seg, uint32_t key, const void *arg)
{
	const struct range *r = arg;

	return !av_linger_has_key(seg, key) && av_key_reaches(seg, key, r->begin, r->end);
}

/* Have all accesses ended? Waits a while. */
static bool nobody_at(const struct range *r)
{
	uint64_t until = 0;
	struct av_seg *seg;
	bool ret = true;

	LIST_FOREACH(seg, &own.list, movable)
		ret = av_pin_try_drain(seg, reaches, r, &until) && ret;
	return ret;
}

bool av_page_move_begin(uint64_t begin, uint64_t end)
{
	const struct range r = {begin, end};

	pthread_mutex_lock(&own.mutex);
	set(1);
	if (nobody_at(&r))
		return true;
	av_page_move_end();
	return false;
}

void av_page_move_end(void)
{
	set(0);
	pthread_mutex_unlock(&own.mutex);
}
