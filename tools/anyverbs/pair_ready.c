/* SPDX-License-Identifier: MIT */
/* The kernel is asked, in /proc: a connection would be taken for the client's. */
#include "pair_ready.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair_family.h"
#include "registry/tables.h"

/* Does the process have this socket? */
static bool has_socket(pid_t pid, unsigned long inode)
{
	char path[320], wanted[40], target[64];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		found = !strcmp(target, wanted);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* A socket of /proc/PID/net/tcp and its like. */
struct row {
	unsigned long port, state, inode;
};

/* Return: false: it is the heading */
static bool parse_row(char *line, struct row *row)
{
	enum { LOCAL = 1, STATE = 3, INODE = 9, WORDS };
	char *word[WORDS], *colon;

	for (int i = 0; i < WORDS; i++)
		if (!(word[i] = strtok_r(line, " ", &line)))
			return false;
	colon = strrchr(word[LOCAL], ':');
	row->port = colon ? strtoul(colon + 1, NULL, 16) : 0;
	row->state = strtoul(word[STATE], NULL, 16);
	row->inode = strtoul(word[INODE], NULL, 10);
	return colon;
}

/* Has the process a socket of that state? @port: 0: any */
static bool has_row(pid_t pid, const char *table, unsigned long state, unsigned int port)
{
	char path[64], line[512];
	bool found = false;
	struct row row;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = parse_row(line, &row) && row.state == state &&
			(!port || row.port == port) && has_socket(pid, row.inode);
	if (f)
		fclose(f);
	return found;
}

static bool listens(pid_t pid, unsigned int port)
{
	static const struct {
		const char *table;
		unsigned long state; /* of a socket that waits for peers: <netinet/tcp.h> */
		bool any_port;	     /* counts whatever its port is */
	} tables[] = {{"tcp", 0x0a, true},
		      {"tcp6", 0x0a, true},
		      {"udp", 0x07, false},
		      {"udp6", 0x07, false}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(tables); i++)
		if ((port || tables[i].any_port) &&
		    has_row(pid, tables[i].table, tables[i].state, port))
			return true;
	return false;
}

static bool listens_by_cm(pid_t pid, unsigned int port)
{
	struct av_cm_port p;

	for (uint32_t at = 0; av_cm_port_next(&at, &p);)
		if (p.listens && (!port || p.port == port) && p.pid == pid)
			return true;
	return false;
}

static bool is_ready(pid_t pid, void *port)
{
	unsigned int wanted = *(const unsigned int *)port;

	return listens(pid, wanted) || listens_by_cm(pid, wanted);
}

bool av_pair_is_ready(unsigned int port)
{
	return av_family_any(getpid(), is_ready, &port);
}
