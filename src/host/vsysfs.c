/* SPDX-License-Identifier: MIT */
#include "host/vsysfs.h"

#include <sys/sysmacros.h>

#include "base/random.h"
#include "base/thread.h"
#include "device/port.h"
#include "memory/odp.h"

/* Matches paths with the patterns of the table: which node is at a path, what is in a directory? */

#define NAME_BYTES 64 /* longest name of a placeholder, NUL included: IBV_SYSFS_NAME_MAX */

/* What the matched part of a path refers to, or a name that stands for a placeholder. */
struct binding {
	const struct av_device *dev;
	unsigned int index;
};

/* Called for each name of a placeholder. Return: false: stop */
typedef bool visit_name(void *arg, const char *name, const struct binding *binding);

/* Calls @visit for all names of a placeholder. @which: for placeholders that share a function. */
typedef void visit_all(const struct binding *b, size_t which, visit_name *visit, void *arg);

/* All devices, or the one in the path. @which: the name's offset in struct av_device. */
static void each_device(const struct binding *b, size_t which, visit_name *visit, void *arg)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++) {
		struct binding one = {.dev = list[i]};

		if (b->dev && b->dev != one.dev)
			continue;
		if (!visit(arg, (const char *)one.dev + which, &one))
			return;
	}
}

/* The rows of a table of the port; @which: the P_Keys'? */
static void each_number(const struct binding *b, size_t which, visit_name *visit, void *arg)
{
	unsigned int count =
		which ? b->dev->port.pkey_tbl_len : (unsigned int)b->dev->port.gid_tbl_len;
	char name[16];

	for (unsigned int i = 0; i < count; i++) {
		struct binding one = {.dev = b->dev, .index = i};

		snprintf(name, sizeof(name), "%u", i);
		if (!visit(arg, name, &one))
			return;
	}
}

/* The ODP statistics; @which: those for debugging? The index is that of av_odp_counter_info[]. */
static void each_odp(const struct binding *b, size_t which, visit_name *visit, void *arg)
{
	for (unsigned int i = 0; i < AV_ODP_COUNTER_N; i++) {
		struct binding one = {.dev = b->dev, .index = i};

		if (av_odp_counter_info[i].debug == (bool)which &&
		    !visit(arg, av_odp_counter_info[i].name, &one))
			return;
	}
}

/* The port's counters of one folder, which is @which. The index is that of av_counter_info[]. */
static void each_counter(const struct binding *b, size_t which, visit_name *visit, void *arg)
{
	for (unsigned int i = 0; i < av_counter_count; i++) {
		struct binding one = {.dev = b->dev, .index = i};

		if ((av_counter_info[i].scope & which) &&
		    !visit(arg, av_counter_info[i].name, &one))
			return;
	}
}

static bool is_repeated(const struct av_gid *gids, unsigned int i)
{
	for (unsigned int j = 0; j < i; j++)
		if (!strcmp(gids[j].ifname, gids[i].ifname))
			return true;
	return false;
}

/* The interfaces that provide the GIDs, each once. */
static void each_net(const struct binding *b, size_t which, visit_name *visit, void *arg)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(b->dev, gids);

	for (unsigned int i = 0; i < count; i++)
		if (gids[i].ifname[0] && !is_repeated(gids, i) && !visit(arg, gids[i].ifname, b))
			return;
}

static bool stop_at_first_binding(void *arg, const char *name, const struct binding *binding)
{
	*(bool *)arg = true;
	return false;
}

/* The directory of the interfaces, if there are any: an InfiniBand link has none. */
static void if_nets(const struct binding *b, size_t which, visit_name *visit, void *arg)
{
	bool any = false;

	each_net(b, which, stop_at_first_binding, &any);
	if (any)
		visit(arg, "net", b);
}

static const struct {
	const char *text;
	visit_all *each;
	size_t which;
} placeholders[] = {
	{"<dev>", each_device, offsetof(struct av_device, ibv.name)},
	{"<uverbs>", each_device, offsetof(struct av_device, ibv.dev_name)},
	{"<bus>", each_device, offsetof(struct av_device, pci_name)},
	{"<gid>", each_number, false},
	{"<pkey>", each_number, true},
	{"<net>", each_net, 0},
	{"<nets>", if_nets, 0},
	{"<odp>", each_odp, false},
	{"<odp_debug>", each_odp, true},
	{"<counter>", each_counter, AV_SCOPE_PORT},
	{"<hw_counter>", each_counter, AV_SCOPE_HW},
};

/* A pattern's component: all names of a placeholder, or the text itself. */
static void each_name(const char *component, size_t len, const struct binding *b, visit_name *visit,
		      void *arg)
{
	char name[NAME_BYTES];

	for (size_t i = 0; i < AV_ARRAY_SIZE(placeholders); i++)
		if (strlen(placeholders[i].text) == len &&
		    !memcmp(component, placeholders[i].text, len)) {
			placeholders[i].each(b, placeholders[i].which, visit, arg);
			return;
		}
	memcpy(name, component, len);
	name[len] = '\0';
	visit(arg, name, b);
}

struct search {
	const char *name;
	size_t len;
	bool found;
	struct binding binding;
};

static bool compare_name(void *arg, const char *name, const struct binding *binding)
{
	struct search *search = arg;

	if (strlen(name) != search->len || memcmp(name, search->name, search->len))
		return true;
	search->found = true;
	search->binding = *binding;
	return false;
}

static bool match_component(const char *pattern, size_t pattern_len, const char *name, size_t len,
			    struct binding *b)
{
	struct search search = {.name = name, .len = len};

	if (pattern[0] != '<')
		return pattern_len == len && !memcmp(pattern, name, len);
	each_name(pattern, pattern_len, b, compare_name, &search);
	if (search.found)
		*b = search.binding;
	return search.found;
}

static unsigned int count_slashes(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '/';
	return n;
}

/* Counts slashes first, since looking up a placeholder's names, such as interfaces, takes time. */
static bool match(const char *pattern, const char *path, struct binding *b)
{
	size_t pattern_len, len;

	while (*pattern == '/' && *path == '/') {
		pattern_len = strcspn(++pattern, "/");
		len = strcspn(++path, "/");
		if (*pattern == '<' && count_slashes(pattern) != count_slashes(path))
			return false;
		if (!match_component(pattern, pattern_len, path, len, b))
			return false;
		pattern += pattern_len;
		path += len;
	}
	return !*pattern && !*path;
}

/* @len: of @path, which begins like one of the tree. */
static bool find_vsysfs_node(const char *path, size_t len, struct av_vsysfs_node *node)
{
	AV_UNCANCELLED;

	for (size_t i = 0; i < av_vsysfs_row_count; i++) {
		struct binding b = {0};

		if (!match(av_vsysfs_rows[i].pattern, path, &b))
			continue;
		node->row = &av_vsysfs_rows[i];
		node->kind = av_vsysfs_rows[i].kind;
		node->shared = av_vsysfs_rows[i].shared;
		node->dev = b.dev;
		node->index = b.index;
		memcpy(node->path, path, len + 1);
		return true;
	}
	return false;
}

bool av_vsysfs_lookup(const char *path, struct av_vsysfs_node *node)
{
	size_t len = strlen(path);

	return len < sizeof(node->path) && av_vsysfs_has_prefix(path) &&
	       find_vsysfs_node(path, len, node);
}

ssize_t av_vsysfs_read(const struct av_vsysfs_node *node, char bytes[AV_VSYSFS_CONTENT_BYTES])
{
	AV_UNCANCELLED;

	return node->row->show ? node->row->show(node, bytes) : -EINVAL;
}

struct listing {
	av_vsysfs_visit *visit;
	void *arg;
	enum av_vsysfs_kind kind; /* of the current row */
	bool stopped;
};

static bool list_name(void *arg, const char *name, const struct binding *binding)
{
	struct listing *listing = arg;

	listing->stopped = !listing->visit(listing->arg, name, listing->kind);
	return !listing->stopped;
}

void av_vsysfs_list(const struct av_vsysfs_node *dir, av_vsysfs_visit *visit, void *arg)
{
	AV_UNCANCELLED;
	struct listing listing = {.visit = visit, .arg = arg};
	struct binding b = {.dev = dir->dev, .index = dir->index};
	size_t len = strlen(dir->row->pattern);
	const char *rest;

	for (size_t i = 0; i < av_vsysfs_row_count && !listing.stopped; i++) {
		if (strncmp(av_vsysfs_rows[i].pattern, dir->row->pattern, len) ||
		    av_vsysfs_rows[i].pattern[len] != '/')
			continue;
		rest = av_vsysfs_rows[i].pattern + len + 1;
		if (strchr(rest, '/'))
			continue;
		listing.kind = av_vsysfs_rows[i].kind;
		each_name(rest, strlen(rest), &b, list_name, &listing);
	}
}

uint64_t av_vsysfs_ino(const char *path)
{
	/* Clear the top bit, which some programs print as a sign. */
	return av_fnv1a(AV_FNV1A, path, strlen(path)) >> 1 | 1;
}

dev_t av_vsysfs_rdev(const struct av_device *dev)
{
	return makedev(231, 192 + dev->index); /* rdma: IB_UVERBS_MAJOR, IB_UVERBS_BASE_MINOR */
}

/* Resolves paths in and around the virtual sysfs, as path_resolution(7) describes. */

#define LINKS_MAX 40 /* the kernel's limit */

struct walker {
	struct av_vsysfs_walk *out; /* @path: the current place, @node: its, if @inside */
	bool inside;
	size_t len;	     /* of out->path */
	const char *todo;    /* the rest of the path, within @text */
	unsigned int links;  /* links followed so far */
	char text[PATH_MAX]; /* buffer for the rest of the path */
};

/* Look up the current place after a change of w->len. */
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

/* Replace the current link by its (relative) target. Not inline: its buffer takes stack. */
__attribute__((noinline)) static int follow_vsysfs_link(struct walker *w)
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

/* The path leaves the tree, and the kernel resolves the rest. */
static int exit_vsysfs_tree(struct walker *w)
{
	size_t rest = strlen(w->todo);

	if (w->len + rest >= sizeof(w->out->path))
		return -ENAMETOOLONG;
	memcpy(w->out->path + w->len, w->todo, rest + 1);
	return 0;
}

enum walk { STEP_ON = 1, STEP_LEFT = 2 }; /* or -errno */

static int step_down(struct walker *w, const char *name, size_t len, bool follow)
{
	bool was_inside = w->inside && !w->out->node.shared;
	int err = go_down(w, name, len);

	if (err)
		return err;
	if (w->inside) {
		if (w->out->node.kind == AV_VSYSFS_LINK && (follow || *w->todo == '/'))
			err = follow_vsysfs_link(w);
		return err ? err : STEP_ON;
	}
	if (was_inside) {
		w->out->leaf_missing = !w->todo[strspn(w->todo, "/")];
		return -ENOENT;
	}
	if (av_vsysfs_is_above(w->out->path))
		return STEP_ON;
	err = exit_vsysfs_tree(w);
	return err ? err : STEP_LEFT;
}

static int walk_vsysfs_component(struct walker *w, bool follow)
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
		ret = walk_vsysfs_component(&w, follow);
	if (ret < 0)
		return ret;
	if (ret == STEP_ON && !w.len)
		memcpy(walk->path, "/", 2);
	return ret == STEP_ON && w.inside;
}
