/* SPDX-License-Identifier: MIT */
/*
 * Nobody answers on another host: the request ends with IBV_WC_RETRY_EXC_ERR, and "anyverbs
 * explain" says why, as far as kernels and firewalls tell. Descriptors are as before.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define PATIENCE 60000u /* ms */
#define BYTES	 8192u
#define FROM	 0x1000u
#define TO	 0x100000u
#define TIMEOUT	 17	 /* 0.5 s: whoever answers may have no core; */
#define LONG	 18	 /* 1.1 s: another process even longer */
#define PORT	 ":12B7" /* in /proc/net/udp */
#define NARROW	 "ip link set v0 mtu 1500"
#define WIDE	 "ip link set v0 mtu 9000"

static struct side a, b;

/* What is done to this host once they are connected, and undone. */
static const struct {
	const char *name, *before, *after; /* commands; NULL: the peer's queue pair is destroyed */
	const char *says;
} rows[] = {
	{"no port there", NULL, NULL, "nobody has UDP port 4791 there"},
	{"no route", "ip route del 192.0.2.0/24 dev v0", "ip route add 192.0.2.0/24 dev v0",
	 "no packets reach it"},
	{"too large", NARROW, WIDE, "larger than the MTU of the way there"},
	{"a firewall here",
	 "nft add table inet t && nft add chain inet t o '{ type filter hook output priority 0; }' "
	 "&& nft add rule inet t o udp dport 4791 drop",
	 "nft delete table inet t", "firewall does not let UDP port 4791 out"},
	{"silence", "ip link set v0 down", "ip link set v0 up", "no answer from another host"},
};

/* Behind the rows: what it says of a peer that is stopped, and of one with another MTU. */
enum { SILENT = COUNT_OF(rows), OTHER_MTU };

static const char *what_it_says(uint64_t i)
{
	return i == SILENT ? "no packet of QP" : i == OTHER_MTU ? "path_mtu" : rows[i].says;
}

/* In the other process: does the last failure's explanation say so? */
static uint64_t is_explained(struct node *n, const struct side_job *job)
{
	FILE *f = popen("'" ANYVERBS_TOOL "' explain -n 1", "re");
	char text[4000] = "";
	bool found;

	(void)n;
	NEED(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	pclose(f);
	found = strstr(text, what_it_says(job->arg[0]));
	if (!found)
		printf("     %s\n", text);
	return found;
}

static unsigned int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int count = 0;

	NEED(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

/* Its address comes and goes with the interface's state. */
static bool has_its_gid(struct node *n)
{
	union ibv_gid gid;

	return ibv_query_gid(n->ctx, 1, 0, &gid) == 0 &&
	       memcmp(&gid, &n->info.gid, sizeof(gid)) == 0;
}

enum question { EXPLAINED, FILES, GID };

/* Job of the other process: the second argument is the question. */
static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum question)job->arg[1]) {
	case EXPLAINED:
		return is_explained(n, job);
	case FILES:
		return open_files();
	case GID:
		return has_its_gid(n);
	}
	return 0;
}

static uint64_t ask(struct side *s, uint64_t row, enum question question)
{
	side_begin(s, &(struct side_job){{row, question}});
	return side_end(s);
}

static void post(enum ibv_wr_opcode op)
{
	struct node_send s = side_rdma_to(op, side_sge(&a, KEY_FULL, FROM, BYTES), &b, TO);

	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
}

static void expect_end(enum ibv_wc_status status)
{
	struct ibv_wc wc[1];

	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == status, "status %d",
	       wc[0].status);
}

static void connect_by(const struct node_link *link)
{
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, link, &b, 0, link);
	post(IBV_WR_RDMA_WRITE);
	expect_end(IBV_WC_SUCCESS); /* and neighbours know each other */
}

/* One retry: a kernel tells a peer of no more than six packets at once that there is no port. */
static void expect_no_answer(enum ibv_wr_opcode op, uint8_t timeout)
{
	side_set_patience(&a, 0, timeout, 1);
	post(op);
	expect_end(IBV_WC_RETRY_EXC_ERR);
}

/*
 * Has b's host a socket of RoCEv2's port? One that is closed while a thread waits for packets lives
 * until that thread has woken up.
 */
static bool has_port(void)
{
	char line[256];
	bool found = false;
	FILE *f;

	two_hosts_be(1);
	f = fopen("/proc/thread-self/net/udp", "re");
	NEED(f);
	while (fgets(line, sizeof(line), f))
		found = found || strstr(line, PORT);
	fclose(f);
	two_hosts_be(0);
	return found;
}

static void unheard(uint64_t i, const struct node_link *link)
{
	uint64_t files;

	row("%s", rows[i].name);
	connect_by(link);
	files = ask(&a, i, FILES);
	if (!rows[i].before) {
		EXPECT(side_destroy_qp(&b, 0) == 0, "ibv_destroy_qp");
		EXPECT(WAIT_UNTIL(!has_port(), PATIENCE), "its socket is there");
	} else if (system(rows[i].before)) {
		printf("not tried: %s\n", rows[i].before);
		pair_destroy(&a, 0, &b, 0);
		return;
	}
	expect_no_answer(IBV_WR_RDMA_WRITE, TIMEOUT);
	if (rows[i].after)
		NEED(system(rows[i].after) == 0);
	EXPECT(ask(&a, i, EXPLAINED), "explained");
	EXPECT(WAIT_UNTIL(ask(&a, i, GID), PATIENCE), "its address");
	EXPECT(WAIT_UNTIL(ask(&a, i, FILES) == files, PATIENCE), "open files");
	EXPECT(side_destroy_qp(&a, 0) == 0, "ibv_destroy_qp");
	if (rows[i].before)
		EXPECT(side_destroy_qp(&b, 0) == 0, "ibv_destroy_qp");
}

/* What this host's kernel has refused is no reason any more when it has arrived since. */
static void refused_long_ago(const struct node_link *link)
{
	row("silence, and too large long before");
	connect_by(link);
	NEED(system(NARROW) == 0);
	post(IBV_WR_RDMA_WRITE);
	NEED(system(WIDE) == 0);
	expect_end(IBV_WC_SUCCESS);
	side_suspend(&b);
	expect_no_answer(IBV_WR_RDMA_WRITE, TIMEOUT);
	kill(b.pid, SIGCONT);
	EXPECT(ask(&a, SILENT, EXPLAINED), "explained");
	pair_destroy(&a, 0, &b, 0);
}

/* READs are answered in packets that this side cannot use. */
static void other_mtu(const struct node_link *link)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_1024, IBV_MTU_2048};

	for (size_t i = 0; i < COUNT_OF(mtus); i++) {
		struct node_link here = *link, there = *link;

		row("path_mtu %d, and another one there", mtus[i]);
		here.mtu = (uint8_t)mtus[i];
		there.mtu = (uint8_t)mtus[1 - i];
		pair_create(&a, 0, &b, 0, NULL);
		pair_connect(&a, 0, &here, &b, 0, &there);
		expect_no_answer(IBV_WR_RDMA_READ, LONG);
		EXPECT(ask(&a, OTHER_MTU, EXPLAINED), "explained");
		pair_destroy(&a, 0, &b, 0);
	}
}

int main(int argc, char **argv)
{
	struct node_link link = link_default();

	side_work = work;
	two_hosts_open(argc, argv);
	link.mtu = IBV_MTU_4096;
	link.timeout = LONG;
	link.retry_cnt = 7;
	two_hosts_start(&a, 0, "");
	two_hosts_start(&b, 1, "");
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		unheard(i, &link);
	refused_long_ago(&link);
	other_mtu(&link);
	side_stop(&b);
	side_stop(&a);
	return summary();
}
