/* SPDX-License-Identifier: MIT */
/*
 * Queries say what the host has at this moment, though nobody asks the host each time: an address
 * that was added before the query is in the table, and one that was removed is not, whichever
 * thread hears of it first. A forked child that opens the device anew finds the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/sanitized.h"
#include "lib/two_hosts.h"

#define ROUNDS 20

static const union ibv_gid wanted = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 77}};

static void change(const char *verb)
{
	char command[100];

	snprintf(command, sizeof(command), "ip addr %s 192.0.2.77/24 dev v0", verb);
	NEED(system(command) == 0);
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list ? ibv_open_device(list[0]) : NULL;

	NEED(ctx);
	ibv_free_device_list(list);
	return ctx;
}

static bool is_listed(struct ibv_context *ctx)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	NEED(ibv_query_port(ctx, 1, &port) == 0);
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (ibv_query_gid(ctx, 1, i, &gid) == 0 && memcmp(&gid, &wanted, sizeof(gid)) == 0)
			return true;
	return false;
}

static void comes_and_goes(struct ibv_context *ctx)
{
	for (int i = 0; i < ROUNDS; i++) {
		change("add");
		EXPECT(is_listed(ctx), "round %d: the address is missing", i);
		change("del");
		EXPECT(!is_listed(ctx), "round %d: the address is still there", i);
	}
}

static void in_a_child(void)
{
	pid_t child = fork();
	int status;

	NEED(child >= 0);
	if (child == 0) {
		struct ibv_context *ctx = open_device();

		comes_and_goes(ctx);
		ibv_close_device(ctx);
		_exit(failures() ? 1 : 0);
	}
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(status == 0, "status %x", (unsigned int)status);
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx;

	two_hosts_open(argc, argv);
	time_limit(60);
	ctx = open_device();
	row("in this process");
	comes_and_goes(ctx);
	if (!UNDER_TSAN) {
		row("in a forked child");
		in_a_child();
	}
	row("with a second context");
	comes_and_goes(open_device());
	return summary();
}
