/* SPDX-License-Identifier: MIT */
/* Resolves paths in and around the virtual sysfs, as path_resolution(7) describes. */
#include "preload/vsysfs.h"

#include <errno.h>
#include <string.h>

#define LINKS_MAX 40 /* the kernel's limit */

struct walker {
	struct av_vsysfs_walk *out; /* @path: the current place, @node: its, if @inside */
	bool inside;
	size_t len;	     /* of out->path */
	const char *todo;    /* the rest of the path, within @text */
	unsigned int links;  /* links followed so far */
	char text[PATH_MAX]; /* buffer for the rest of the path */
};

bool av_vsysfs_is_above(const char *path)
{
	static const char *const above[] = {
		"",
		"/sys",
		"/sys/class",
		"/sys/class/misc",
		"/sys/devices",
		"/sys/devices/platform",
		"/sys/devices/virtual",
		"/sys/devices/virtual/misc",
		"/sys/kernel",
		"/sys/kernel/debug",
		"/dev",
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(above); i++)
		if (!strcmp(path, above[i]))
			return true;
	return false;
}

/* Look up the current place after w->len changed. */
static void arrive(struct walker *w)
{
	w->out->path[w->len] = '\0';
	w->inside = av_vsysfs_lookup(w->out->path, &w->out->node);
}

static void go_up(struct walker *w)
{
	while (w->len && w->out->path[--w->len] != '/')
		;
	arrive(w);
}

static int go_down(struct walker *w, const char *name, size_t len)
{
	if (w->len + 1 + len >= sizeof(w->out->path))
		return -ENAMETOOLONG;
	w->out->path[w->len] = '/';
	memcpy(w->out->path + w->len + 1, name, len);
	w->len += 1 + len;
	arrive(w);
	return 0;
}

/*
 * Replace the current link by its target. All our links are relative. Its buffer is no part of the
 * walk's frame: lookups come after it, and threads may have small stacks.
 */
__attribute__((noinline)) static int follow_link(struct walker *w)
{
	char target[AV_VSYSFS_CONTENT_BYTES];
	ssize_t len = av_vsysfs_read(&w->out->node, target);
	size_t rest = strlen(w->todo);

	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (len < 0)
		return -ENOENT;
	if ((size_t)len + rest >= sizeof(w->text))
		return -ENAMETOOLONG;
	memmove(w->text + len, w->todo, rest + 1);
	memcpy(w->text, target, (size_t)len);
	w->todo = w->text;
	go_up(w);
	return 0;
}

/* Leave the tree for good: the kernel resolves the rest. */
static int leave(struct walker *w)
{
	size_t rest = strlen(w->todo);

	if (w->len + rest >= sizeof(w->out->path))
		return -ENAMETOOLONG;
	memcpy(w->out->path + w->len, w->todo, rest + 1);
	return 0;
}

enum step { STEP_ON = 1, STEP_LEFT = 2 }; /* or -errno */

static int step_down(struct walker *w, const char *name, size_t len, bool follow)
{
	bool was_inside = w->inside && !w->out->node.shared;
	int err = go_down(w, name, len);

	if (err)
		return err;
	if (w->inside) {
		if (w->out->node.kind == AV_VSYSFS_LINK && (follow || *w->todo == '/'))
			err = follow_link(w);
		return err ? err : STEP_ON;
	}
	if (was_inside) {
		w->out->leaf_missing = !w->todo[strspn(w->todo, "/")];
		return -ENOENT;
	}
	if (av_vsysfs_is_above(w->out->path))
		return STEP_ON;
	err = leave(w);
	return err ? err : STEP_LEFT;
}

static int step(struct walker *w, bool follow)
{
	const char *name = w->todo + strspn(w->todo, "/");
	size_t len = strcspn(name, "/");

	/* A slash, even with nothing after it, requires a directory before it. */
	if (w->inside && name != w->todo && w->out->node.kind != AV_VSYSFS_DIR)
		return -ENOTDIR;
	w->todo = name + len;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	if (!len || (len == 1 && name[0] == '.'))
		return STEP_ON;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		go_up(w);
		return STEP_ON;
	}
	return step_down(w, name, len, follow);
}

int av_vsysfs_walk(const char *path, bool follow, struct av_vsysfs_walk *walk)
{
	struct walker w = {.out = walk};
	size_t len = strlen(path);
	int ret = STEP_ON;

	if (len >= sizeof(w.text))
		return -ENAMETOOLONG;
	memcpy(w.text, path, len + 1);
	w.todo = w.text;
	walk->leaf_missing = false;
	arrive(&w);
	while (*w.todo && ret == STEP_ON)
		ret = step(&w, follow);
	if (ret < 0)
		return ret;
	if (ret == STEP_ON && !w.len)
		memcpy(walk->path, "/", 2);
	return ret == STEP_ON && w.inside;
}
