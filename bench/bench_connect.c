/* SPDX-License-Identifier: MIT */
/*
 * Connecting a queue pair, from RESET to RTS: the first one to a process maps that process's
 * segment, each further one finds it mapped. Measured by a process that connects to many in a row,
 * and by ones that have just started, where the first call of everything is in it, too.
 */
#include <errno.h>

#include "ends.h"
#include "lib/expect.h"
#include "lib/spawn.h"
#include "measure.h"

#define ROLE  "--peer"
#define PEERS 9 /* in a run; all runs together have fewer than segments are kept idle */
#define DEPTH 16

enum order { FIRST, FURTHER, ORDERS };

struct hello {
	union ibv_gid gid;
	uint32_t qpn[ORDERS];
};

struct found {
	double us[ORDERS];
};

static struct hello add_qps(struct end *e)
{
	struct hello hello = {.gid = e->gid};

	for (int i = 0; i < ORDERS; i++)
		hello.qpn[i] = end_add_qp(e, DEPTH)->qp_num;
	return hello;
}

/* Connect the queue pairs from @from on with those that @to names. */
static void connect_all(struct end *e, int from, const struct hello *to, struct found *found)
{
	for (int i = 0; i < ORDERS; i++) {
		uint64_t begin = now_ns();

		end_connect(e->qp[from + i], to->qpn[i], &to->gid);
		found->us[i] = us_each(begin, 1);
	}
}

/* A peer lives until it is told to end. */
static void be_peer(int sock)
{
	struct hello mine, theirs;
	struct found found;
	struct end e;
	char go;

	end_open(&e);
	mine = add_qps(&e);
	spawn_send(sock, &mine, sizeof(mine));
	spawn_receive(sock, &theirs, sizeof(theirs));
	connect_all(&e, 0, &theirs, &found);
	spawn_send(sock, &found, sizeof(found));
	spawn_receive(sock, &go, sizeof(go));
	end_close(&e);
}

static void add_median(struct series *s, const struct found *found, enum order order, int count)
{
	double us[PEERS];

	for (int i = 0; i < count; i++)
		us[i] = found[i].us[order];
	series_add(s, median_of(us, count));
}

/* The peers stay until all runs are over, so that no memory of dead ones is cleared away here. */
static void run(struct end *e, struct spawned *peer, struct series here[ORDERS],
		struct series there[ORDERS])
{
	const int peers = bench_count(PEERS, 1), from = e->qps;
	struct found by_us[PEERS], by_peer[PEERS];
	struct hello mine[PEERS], theirs[PEERS];

	for (int i = 0; i < peers; i++) {
		mine[i] = add_qps(e);
		spawn_self(&peer[i], ROLE);
		spawn_receive(peer[i].sock, &theirs[i], sizeof(theirs[i]));
	}
	for (int i = 0; i < peers; i++)
		connect_all(e, from + i * ORDERS, &theirs[i], &by_us[i]);
	for (int i = 0; i < peers; i++) {
		spawn_send(peer[i].sock, &mine[i], sizeof(mine[i]));
		spawn_receive(peer[i].sock, &by_peer[i], sizeof(by_peer[i]));
	}
	for (int i = 0; i < ORDERS; i++) {
		add_median(&here[i], by_us, (enum order)i, peers);
		add_median(&there[i], by_peer, (enum order)i, peers);
	}
}

static void end_peers(struct spawned *peer, int count)
{
	for (int i = 0; i < count; i++)
		spawn_send(peer[i].sock, "", 1);
	for (int i = 0; i < count; i++)
		spawn_wait(&peer[i]);
}

int main(int argc, char **argv)
{
	static const char *const name[ORDERS] = {"connect_first_us", "connect_further_us"};
	struct series here[ORDERS] = {0}, there[ORDERS] = {0};
	int sock = spawn_role(argc, argv, ROLE);
	static struct spawned peer[BENCH_RUNS][PEERS];
	struct end e;

	time_limit(600);
	if (sock >= 0) {
		be_peer(sock);
		return 0;
	}
	end_open(&e);
	for (int i = 0; i < BENCH_RUNS; i++)
		run(&e, peer[i], here, there);
	for (int i = 0; i < BENCH_RUNS; i++)
		end_peers(peer[i], bench_count(PEERS, 1));
	for (int i = 0; i < ORDERS; i++) {
		series_print(&here[i], name[i], "many");
		series_print(&there[i], name[i], "new");
	}
	end_close(&e);
	return failures() ? 1 : 0;
}
