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
#include "lib/wait.h"

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
	if (setns(hosts[host], CLONE_NEWNET))
		DIE("setns");
}

/* Link-local addresses do not stay tentative for a second. */
#define NO_DAD "for i in all default; do echo 0 >/proc/sys/net/ipv6/conf/$i/accept_dad; done"

/* Where there are any, they come some time after the link. */
#define HAS_LINK_LOCAL(device)                                                               \
	"[ \"$(cat /proc/sys/net/ipv6/conf/" device "/disable_ipv6 2>/dev/null)\" != 0 ] ||" \
	"ip -6 addr show dev " device " scope link | grep -q inet6"

#define PATIENCE 30000u /* ms */

/* So that the tables of GIDs do not change in the middle of a test. */
static void await_addresses(void)
{
	(void)WAIT_UNTIL(system(HAS_LINK_LOCAL("v0")) == 0, PATIENCE);
	two_hosts_be(1);
	(void)WAIT_UNTIL(system(HAS_LINK_LOCAL("v1")) == 0, PATIENCE);
	two_hosts_be(0);
}

static void make(void)
{
	char command[200];

	if (system("ip -V >/dev/null 2>&1"))
		skip("no ip(8) here");
	enter_users();
	hosts[1] = new_host();
	(void)!system("(" NO_DAD ") 2>/dev/null");
	hosts[0] = new_host();
	(void)!system("(" NO_DAD ") 2>/dev/null");
	if (two_hosts_cable)
		two_hosts_cable();
	snprintf(command, sizeof(command), "ip link %s netns /proc/%d/fd/%d",
		 two_hosts_cable ? "set v1" : "add v0 type veth peer name v1", (int)getpid(),
		 hosts[1]);
	if (system(command))
		skip("no veth interfaces here");
	run("ip link set lo up && ip addr add 192.0.2.1/24 dev v0 && ip link set v0 mtu 9000 up");
	two_hosts_be(1);
	run("ip link set lo up && ip addr add 192.0.2.2/24 dev v1 && ip link set v1 mtu 9000 up");
	two_hosts_be(0);
	await_addresses();
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
