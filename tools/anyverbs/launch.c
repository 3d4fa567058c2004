/* SPDX-License-Identifier: MIT */
#include "launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "command.h"
#include "device/device.h"
#include "library.h"
#include "observe/freedom.h"
#include "unreached.h"

static bool devices_given;
static bool strict;
static uint64_t seed; /* 0: not yet known */

/* Runtimes of sanitizers, which must come before everything else; a list for LD_PRELOAD, or empty.
 */
#ifndef AV_TOOL_PRELOAD_FIRST
#define AV_TOOL_PRELOAD_FIRST ""
#endif

/* @a and @b joined by @separator; only one of them if the other is NULL or empty. Return: NULL if
 * memory is short. */
static char *join(const char *a, const char *b, char separator)
{
	char *text;

	if (!a || !*a)
		return strdup(b ? b : "");
	if (!b || !*b)
		return strdup(a);
	return asprintf(&text, "%s%c%s", a, separator, b) < 0 ? NULL : text;
}

/* Set the variable to @a and @b joined, so that nobody else has to care about memory. */
static bool set_joined(const char *name, const char *a, const char *b, char separator)
{
	char *text = join(a, b, separator);
	bool ok = text && setenv(name, text, 1) == 0;

	if (!ok)
		av_tool_complain("cannot set %s: %s", name, strerror(errno));
	free(text);
	return ok;
}

/*
 * LD_PRELOAD cannot hold a path with a space, LD_LIBRARY_PATH can: the loader finds the file by its
 * name in the folder. Source: ld.so(8).
 */
static bool preload_by_folder(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", (int)(name - path - 1), path);
	return set_joined("LD_LIBRARY_PATH", folder, getenv("LD_LIBRARY_PATH"), ':') &&
	       set_joined("LD_PRELOAD", name, getenv("LD_PRELOAD"), ':');
}

/* @path is absolute. */
static bool preload(const char *path, bool found)
{
	if (!found)
		av_tool_complain("there is no library at %s; set ANYVERBS_LIBRARY to where it is",
				 path);
	else if (strpbrk(path, ":;"))
		av_tool_complain("%s: the loader takes no path with a colon or a semicolon", path);
	else if (strchr(path, ' '))
		return preload_by_folder(path);
	else
		return set_joined("LD_PRELOAD", path, getenv("LD_PRELOAD"), ':');
	return false;
}

static bool shared_heap_is(const char *when)
{
	const char *text = getenv("ANYVERBS_SHARED_HEAP");

	return text && strcmp(text, when) == 0;
}

/* Behind the @library, which can do without it, unless it was asked for. */
static bool preload_heap(const char *library)
{
	char heap[PATH_MAX];
	bool found;

	if (shared_heap_is("never"))
		return true;
	snprintf(heap, sizeof(heap), "%s", library);
	found = av_library_find_heap(heap);
	return (!found && !shared_heap_is("always")) || preload(heap, found);
}

/* Each goes before those that are there. */
static bool preload_libraries(void)
{
	char library[PATH_MAX];
	bool found = av_library_find(library);

	return (!found || preload_heap(library)) && preload(library, found) &&
	       (!*AV_TOOL_PRELOAD_FIRST ||
		set_joined("LD_PRELOAD", AV_TOOL_PRELOAD_FIRST, getenv("LD_PRELOAD"), ':'));
}

/* Is there a command of that name in PATH? */
static bool is_in_path(const char *name, const char *folders)
{
	char file[PATH_MAX];

	for (const char *end; *folders; folders = *end ? end + 1 : end) {
		end = strchrnul(folders, ':');
		snprintf(file, sizeof(file), "%.*s/%s", (int)(end - folders), folders, name);
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* Commands for adapters, where the system has none. Without PATH, the system knows where to look.
 */
static bool add_commands(void)
{
	const char *folders = getenv("PATH");
	char ours[PATH_MAX];

	return !folders || is_in_path("mlxconfig", folders) || !av_library_find_commands(ours) ||
	       set_joined("PATH", folders, ours, ':');
}

/* Say what is wrong with it now, once, rather than in each process of the program. */
static bool check_devices(const char *text)
{
	static struct av_config config; /* 28 KiB */

	av_config_parse(text, &config);
	for (unsigned int i = 0; i < config.complaint_count && i < AV_COMPLAINT_MAX; i++)
		av_tool_complain("--device: %s", config.complaint[i]);
	return config.complaint_count == 0;
}

/* The first --device replaces what was in the environment, further ones add to it. */
static bool take_device(const char *spec, void *to)
{
	const char *before = devices_given ? getenv("ANYVERBS_DEVICES") : NULL;

	(void)to;
	devices_given = true;
	return *spec && set_joined("ANYVERBS_DEVICES", before, spec, ',');
}

const struct av_value av_launch_device = {"a device, such as any0:mtu=1024", take_device};

static bool take_shared_heap(const char *when, void *to)
{
	(void)to;
	return (!strcmp(when, "open") || !strcmp(when, "always") || !strcmp(when, "never")) &&
	       setenv("ANYVERBS_SHARED_HEAP", when, 1) == 0;
}

const struct av_value av_launch_shared_heap = {"open, always or never", take_shared_heap};

static bool take_strict(const char *text, void *to)
{
	(void)to;
	strict = true;
	return av_word_number((struct av_word){text, strlen(text)}, 10, &seed);
}

const struct av_value av_launch_strict = {"a number", take_strict};

#define DRAWN_MAX 100000u /* whoever repeats it has to type it */

uint64_t av_launch_seed(uint64_t otherwise)
{
	if (!strict || seed)
		return seed;
	seed = otherwise ? otherwise : 1 + av_random() % DRAWN_MAX;
	if (!otherwise)
		av_tool_complain("the devices are as with --strict=%" PRIu64, seed);
	return seed;
}

void av_launch_reseed(uint64_t to)
{
	seed = to;
}

/*
 * Write one word of ANYVERBS_DEVICES: a device, which becomes strict unless it is, with the seed;
 * or one more freedom of the device before it. Return: as snprintf()
 */
static int make_strict(char *to, size_t room, const char *item, int bytes)
{
	const struct av_word word = {item, (size_t)bytes};
	const char *own = memmem(item, word.len, ":strict", strlen(":strict"));
	int at = own ? (int)(own - item) : bytes;

	if (av_freedom_by_name(word) != AV_FREEDOM_N)
		return snprintf(to, room, "%.*s", bytes, item);
	return snprintf(to, room, "%.*s%s:seed=%" PRIu64 "%.*s", at, item, own ? "" : ":strict",
			av_launch_seed(0), bytes - at, item + at);
}

static bool make_devices_strict(void)
{
	const char *given = getenv("ANYVERBS_DEVICES");
	char list[4096];
	size_t used = 0;
	int n = 0;

	if (!strict)
		return true;
	for (const char *item = given && *given ? given : "any0"; *item; item += n) {
		int bytes = (int)strcspn(item, ",");

		if (used)
			list[used++] = ',';
		n = make_strict(list + used, sizeof(list) - used, item, bytes);
		if (n < 0 || (size_t)n + 1 >= sizeof(list) - used)
			return av_tool_complain("ANYVERBS_DEVICES is too long"), false;
		used += (size_t)n;
		n = bytes + (item[bytes] == ',');
	}
	return setenv("ANYVERBS_DEVICES", list, 1) == 0;
}

bool av_launch_prepare(void)
{
	return make_devices_strict() &&
	       (!devices_given || check_devices(getenv("ANYVERBS_DEVICES"))) &&
	       preload_libraries() && add_commands();
}

/* It is run all the same: what it starts may be within reach. */
static void warn_if_unreached(const char *program)
{
	char path[PATH_MAX];
	const char *why = av_unreached_why(program, path);

	if (why)
		av_tool_complain("%s %s: the library is not loaded into it, and it sees no device "
				 "of ours; see anyverbs-run(1)",
				 path, why);
}

int av_launch(char **argv)
{
	int err;

	warn_if_unreached(argv[0]);
	execvp(argv[0], argv);
	err = errno;
	av_tool_complain("cannot run %s: %s", argv[0], strerror(err));
	return err == ENOENT ? AV_EXIT_NOT_FOUND : AV_EXIT_CANNOT_EXECUTE;
}
