/* SPDX-License-Identifier: MIT */
#include "lib/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/expect.h"

#define SEGMENT "/memfd:anyverbs-c"

static char path[64];
static pid_t owner;
static bool telling;

static int remove_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	if (telling)
		printf("     left behind: %s\n", name);
	return remove(name);
}

/* Also cleans up after a test that ends early. */
static void remove_quietly(void)
{
	if (getpid() == owner && path[0])
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void sandbox_enter(void)
{
	snprintf(path, sizeof(path), "%s/anyverbs-test-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(path))
		DIE("no folder for shared files: %s", path);
	setenv("ANYVERBS_DIR", path, 1);
	owner = getpid();
	atexit(remove_quietly);
}

void sandbox_begin(unsigned int seconds)
{
	time_limit(seconds);
	sandbox_enter();
}

/* What outlives its programs: the record of failures, and what devices have counted. Hosts have
 * folders of their own (lib/two_hosts.h). */
static bool may_stay(const char *folder);

static bool may_stay_in(const char *parent, const char *folder)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/%s", parent, folder);
	return may_stay(name);
}

static bool may_stay(const char *folder)
{
	bool only = true;
	struct dirent *e;
	DIR *d = opendir(folder);

	if (!d)
		return false;
	while ((e = readdir(d)))
		only = only && (e->d_name[0] == '.' || !strcmp(e->d_name, "flight") ||
				!strcmp(e->d_name, "totals") || may_stay_in(folder, e->d_name));
	closedir(d);
	return only;
}

unsigned int sandbox_entries(void)
{
	DIR *d = opendir(path);
	unsigned int n = 0;
	struct dirent *e;

	if (!d)
		return 0;
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		     !may_stay_in(path, e->d_name);
	closedir(d);
	return n;
}

static size_t total;

static int add_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	total += type == FTW_F ? (size_t)st->st_blocks * 512 / st->st_nlink
			       : 0; /* each name counts its share */
	return 0;
}

size_t sandbox_bytes(void)
{
	total = 0;
	nftw(path, add_one, 16, FTW_PHYS);
	return total;
}

size_t segment_bytes(pid_t pid)
{
	char name[64], to[64];
	struct dirent *e;
	struct stat st;
	size_t sum = 0;
	DIR *d;

	snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
	d = opendir(name);
	if (!d)
		DIE("%s", name);
	while ((e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);

		to[n > 0 ? n : 0] = '\0';
		if (!strncmp(to, SEGMENT, strlen(SEGMENT)) &&
		    fstatat(dirfd(d), e->d_name, &st, 0) == 0)
			sum += (size_t)st.st_blocks * 512;
	}
	closedir(d);
	if (sum == 0)
		DIE("%s has no segment", name);
	return sum;
}

unsigned int open_descriptors(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

void sandbox_leave(void)
{
	row("the last process to leave removes every shared file");
	telling = !EXPECT(sandbox_entries() == 0, "%u entries left", sandbox_entries());
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	path[0] = '\0';
}

int sandbox_end(void)
{
	sandbox_leave();
	return summary();
}
