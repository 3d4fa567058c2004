/* SPDX-License-Identifier: MIT */
/* Each thread's list of children is read, in /proc: to read all processes would take milliseconds.
 */
#include "pair_kin.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

bool av_pair_kin_has(const struct av_pair_kin *kin, pid_t pid)
{
	for (size_t i = 0; i < kin->count; i++)
		if (kin->row[i].pid == pid)
			return true;
	return false;
}

/* Is it there, and not gone? A number may come a second time. */
static bool is_met(const struct av_pair_kin *kin, pid_t pid)
{
	for (size_t i = 0; i < kin->count; i++)
		if (kin->row[i].pid == pid && !kin->row[i].gone)
			return true;
	return false;
}

static void add(struct av_pair_kin *kin, pid_t pid)
{
	if (is_met(kin, pid))
		return;
	if (kin->count == kin->room) {
		size_t room = kin->room * 2 + 16;
		void *row = reallocarray(kin->row, room, sizeof(*kin->row));

		if (!row)
			return;
		kin->row = row;
		kin->room = room;
	}
	kin->row[kin->count].pid = pid;
	kin->row[kin->count++].gone = false;
}

static void add_children(struct av_pair_kin *kin, pid_t pid, const char *thread)
{
	char path[320];
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, thread);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1)
		add(kin, child);
	if (file)
		fclose(file);
}

/* Return: false: it is gone */
static bool ask(struct av_pair_kin *kin, pid_t pid)
{
	char path[40];
	struct dirent *thread;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	if (!threads)
		return false;
	while ((thread = readdir(threads)))
		if (thread->d_name[0] != '.')
			add_children(kin, pid, thread->d_name);
	closedir(threads);
	return true;
}

void av_pair_kin_meet(struct av_pair_kin *kin, pid_t root)
{
	if (!kin->count)
		add(kin, root);
	/* Those that it adds come behind, and are asked, too. */
	for (size_t i = 0; i < kin->count; i++)
		if (!kin->row[i].gone)
			kin->row[i].gone = !ask(kin, kin->row[i].pid);
}
