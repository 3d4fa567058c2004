/* SPDX-License-Identifier: MIT */
#include "lib/two_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"

void (*two_hosts_cable)(void);
static int hosts[2];
static const char *folders; /* one of shared files for each */

static void skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

static void write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		DIE("%s", name);
	close(fd);
}

/* Without privileges, as root of a user namespace. */
static void enter_users(void)
{
	char ids[40];
	unsigned int uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWNET) == 0) /* it may make more */
		return;
	if (unshare(CLONE_NEWUSER))
		skip("no permission to create a user namespace");
	write_file("/proc/self/setgroups", "deny");
	snprintf(ids, sizeof(ids), "0 %u 1", uid);
	write_file("/proc/self/uid_map", ids);
	snprintf(ids, sizeof(ids), "0 %u 1", gid);
	write_file("/proc/self/gid_map", ids);
}

static int new_host(void)
{
	int fd;

	if (unshare(CLONE_NEWNET))
		skip("no permission to create a network namespace");
	fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		DIE("/proc/thread-self/ns/net");
	return fd;
}

static void run(const char *command)
{
	if (system(command) != 0)
		DIE("%s", command);
}

void two_hosts_be(int host)
{
	NEED(setns(hosts[host], CLONE_NEWNET) == 0);
}

/*
 * The interface of this host, with an address, and with one of its link if there is IPv6. The
 * kernel's own would come two seconds later, in the middle of a test, with an event for each
 * program.
 */
static void set_up(const char *name, int number)
{
	char command[200];

	snprintf(command, sizeof(command),
		 "ip link set %s addrgenmode none && ip addr add fe80::%d/64 dev %s nodad "
		 "2>/dev/null",
		 name, number, name);
	(void)!system(command);
	snprintf(command, sizeof(command),
		 "ip link set lo up && ip addr add 192.0.2.%d/24 dev %s && "
		 "ip link set %s mtu 9000 up",
		 number, name, name);
	run(command);
}

static void make(void)
{
	char command[200];

	if (system("ip -V >/dev/null 2>&1"))
		skip("no ip(8) here");
	enter_users();
	hosts[1] = new_host();
	hosts[0] = new_host();
	if (two_hosts_cable)
		two_hosts_cable();
	snprintf(command, sizeof(command), "ip link %s netns /proc/%d/fd/%d",
		 two_hosts_cable ? "set v1" : "add v0 type veth peer name v1", (int)getpid(),
		 hosts[1]);
	if (system(command))
		skip("no veth interfaces here");
	set_up("v0", 1);
	two_hosts_be(1);
	set_up("v1", 2);
	two_hosts_be(0);
}

void two_hosts_open(int argc, char **argv)
{
	side_agent_main(argc, argv);
	make();
	sandbox_enter();
	folders = strdup(getenv("ANYVERBS_DIR"));
	NEED(folders);
}

void two_hosts_live(int host)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/%d", folders, host);
	NEED(mkdir(path, 0700) == 0 || errno == EEXIST);
	setenv("ANYVERBS_DIR", path, 1);
	two_hosts_be(host);
}

void two_hosts_start(struct side *s, int host, const char *faults)
{
	const char *seed = getenv("SEED");
	char text[300];

	snprintf(text, sizeof(text), "seed %s; %s", seed ? seed : "0", faults);
	setenv("ANYVERBS_FAULTS", text, 1);
	two_hosts_live(host);
	side_start(s);
	two_hosts_be(0);
}
