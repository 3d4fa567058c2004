/* SPDX-License-Identifier: MIT */
/* Finds libanyverbs.so.1, and commands, relative to this tool. */
#include "library.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "registry/directory.h"

#define LIBRARY "libanyverbs.so.1"
#define HEAP	"anyverbs/anyverbs-heap.so"

/* Folders to search, relative to the tool's own. */
static const char *const places[] = {
	AV_TOOL_LIBDIR, /* where "make install" puts libraries */
	"../src/verbs", /* the build tree */
	".",		/* tool and library copied into one folder */
};

/* The folder of this tool's executable; "" if unknown. */
static void own_folder(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	const char *started_as = (const char *)getauxval(AT_EXECFN);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	if (n <= 0 && (!started_as || !realpath(started_as, path))) /* /proc is not mounted */
		path[0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
}

static bool usable(const char *file, char path[PATH_MAX])
{
	return access(file, R_OK) == 0 && realpath(file, path);
}

bool av_library_find(char path[PATH_MAX])
{
	const char *set = getenv("ANYVERBS_LIBRARY");
	char folder[PATH_MAX], file[2 * PATH_MAX];

	if (set && *set) {
		if (usable(set, path))
			return true;
		snprintf(path, PATH_MAX, "%s", set);
		return false;
	}
	own_folder(folder);
	for (size_t i = 0; i < AV_ARRAY_SIZE(places); i++) {
		snprintf(file, sizeof(file), "%s/%s/" LIBRARY, folder, places[i]);
		if (usable(file, path))
			return true;
	}
	snprintf(path, PATH_MAX, "%.*s/%s/" LIBRARY, PATH_MAX / 2, folder, places[0]);
	return false;
}

/* In its file: to load the library would be to become one of its programs. */
uint32_t av_library_layout(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint32_t layout = 0;
	struct stat st;
	void *file = MAP_FAILED;
	const char *mark;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
		file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (file == MAP_FAILED)
		return 0;
	mark = memmem(file, (size_t)st.st_size, AV_LAYOUT_MARK, strlen(AV_LAYOUT_MARK));
	if (mark)
		layout = (uint32_t)strtoul(mark + strlen(AV_LAYOUT_MARK), NULL, 10);
	munmap(file, (size_t)st.st_size);
	return layout;
}

bool av_library_find_heap(char path[PATH_MAX])
{
	char file[2 * PATH_MAX];
	char *slash = strrchr(path, '/');

	snprintf(file, sizeof(file), "%.*s/" HEAP, slash ? (int)(slash - path) : 0, path);
	if (usable(file, path))
		return true;
	snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, file);
	return false;
}

bool av_library_find_commands(char path[PATH_MAX])
{
	char folder[PATH_MAX], name[2 * PATH_MAX];

	own_folder(folder);
	snprintf(name, sizeof(name), "%s/" AV_TOOL_COMMANDS, folder);
	return usable(name, path) && !strchr(path, ':');
}
