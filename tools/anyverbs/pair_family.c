/* SPDX-License-Identifier: MIT */
/* The kernel knows only of each process who its parent is: all of them are read, in /proc. */
#include "pair_family.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

#define END_MS	   10
#define END_ROUNDS 100 /* a process may start others meanwhile, or not heed SIGKILL */

struct process {
	pid_t pid, parent;
	bool below;
};

struct table {
	struct process *row;
	size_t count, room;
};

static struct table strangers; /* children that are none of the family */

static int by_pid(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct process *find(const struct table *t, pid_t pid)
{
	struct process key = {.pid = pid};

	return t->count ? bsearch(&key, t->row, t->count, sizeof(key), by_pid) : NULL;
}

/* "PID (NAME) STATE PARENT ...". Return: 0: it is gone, or only waits for its parent to see that */
static pid_t parent_of(pid_t pid)
{
	char path[40], line[256];
	const char *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	end = strrchr(av_read_line(path, line, sizeof(line)), ')');
	if (!end || strlen(end) < sizeof(") S 1") - 1 || end[2] == 'Z' || end[2] == 'X')
		return 0;
	return (pid_t)strtol(end + sizeof(") S ") - 1, NULL, 10);
}

static void add(struct table *t, pid_t pid, pid_t parent)
{
	if (t->count == t->room) {
		size_t room = t->room * 2 + 64;
		struct process *row = reallocarray(t->row, room, sizeof(*row));

		if (!row)
			return;
		t->row = row;
		t->room = room;
	}
	t->row[t->count++] = (struct process){.pid = pid, .parent = parent};
}

/* @parent: 0: whoever it is */
static struct table read_all(pid_t parent)
{
	DIR *proc = opendir("/proc");
	struct table t = {NULL, 0, 0};
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		pid_t its = pid > 0 ? parent_of(pid) : 0;

		if (its && (!parent || its == parent))
			add(&t, pid, its);
	}
	if (proc)
		closedir(proc);
	if (t.count)
		qsort(t.row, t.count, sizeof(*t.row), by_pid);
	return t;
}

/* A generation at a time. */
static void mark_below(struct table *t, pid_t root)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < t->count; i++) {
			struct process *p = &t->row[i], *parent = find(t, p->parent);

			if (p->below || (p->parent != root && !(parent && parent->below)) ||
			    find(&strangers, p->pid))
				continue;
			p->below = more = true;
		}
	}
}

bool av_family_any(pid_t root, bool (*is)(pid_t pid, void *arg), void *arg)
{
	struct table t = read_all(0);
	bool found = false;

	mark_below(&t, root);
	for (size_t i = 0; i < t.count && !found; i++)
		found = t.row[i].below && is(t.row[i].pid, arg);
	free(t.row);
	return found;
}

void av_family_begin(void)
{
	strangers = read_all(getpid());
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void av_family_reap(const pid_t two[2])
{
	siginfo_t ended = {.si_pid = 0};

	while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid &&
	       ended.si_pid != two[0] && ended.si_pid != two[1]) {
		waitpid(ended.si_pid, NULL, 0);
		ended.si_pid = 0;
	}
}

static bool kill_it(pid_t pid, void *killed)
{
	if (kill(pid, SIGKILL) == 0)
		*(bool *)killed = true;
	return false;
}

void av_family_end(void)
{
	bool killed = true;

	for (int round = 0; killed && round < END_ROUNDS; round++) {
		killed = false;
		av_family_any(getpid(), kill_it, &killed);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (killed)
			poll(NULL, 0, END_MS);
	}
}
