/* SPDX-License-Identifier: MIT */
/*
 * The memory used by a context and by connected queue pairs: resident pages of the process as the
 * kernel counts them, and pages of the shared file, touched or not. Each of two processes measures
 * itself. Each measurement uses new processes, because the first context of a process also loads
 * code.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ends.h"
#include "lib/expect.h"
#include "lib/spawn.h"
#include "measure.h"

#define ROLE  "--connected"
#define QPS   10000
#define DEPTH 128
#define PART  4096 /* numbers per message */

/* KiB. */
struct found {
	double context; /* an open device */
	double qp;	/* a connected queue pair and a CQ for all its requests: resident memory, */
	double file;	/* and space in the shared file */
};

struct numbers {
	union ibv_gid gid;
	uint32_t qpn[PART];
};

static int qps(void)
{
	return bench_count(QPS, 4);
}

/* --- one of the two processes ---------------------------------------------------- */

/* Exact, unlike /proc/self/statm. */
static double resident(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kib = -1;

	while (f && kib < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "Rss: %ld", &kib) != 1)
			kib = -1;
	if (f)
		fclose(f);
	if (kib < 0)
		DIE("no Rss in /proc/self/smaps_rollup");
	return (double)kib;
}

static double in_file(const struct end *e)
{
	struct stat st;

	if (fstat(e->ctx->cmd_fd, &st))
		DIE("fstat: errno %d", errno);
	return (double)st.st_blocks * 512 / 1024;
}

/* Allocates memory that must not count as part of the measured objects. */
static void *room_for(size_t count, size_t size)
{
	void *room = malloc(count * size);

	if (!room)
		DIE("no memory");
	return memset(room, 1, count * size);
}

static void add_qps(struct end *e, struct ibv_cq **cq)
{
	for (int i = 0; i < qps(); i++) {
		cq[i] = e->cq = ibv_create_cq(e->ctx, 2 * DEPTH, NULL, NULL, 0);
		if (!cq[i])
			DIE("ibv_create_cq: errno %d", errno);
		end_add_qp(e, DEPTH);
	}
}

/* Connect with the other process's queue pairs of the same indices. */
static void connect_part(struct end *e, int from, int sock)
{
	int end = from + PART < e->qps ? from + PART : e->qps;
	static struct numbers mine, theirs;

	mine.gid = e->gid;
	for (int i = from; i < end; i++)
		mine.qpn[i - from] = e->qp[i]->qp_num;
	spawn_send(sock, &mine, sizeof(mine));
	spawn_receive(sock, &theirs, sizeof(theirs));
	for (int i = from; i < end; i++)
		end_connect(e->qp[i], theirs.qpn[i - from], &theirs.gid);
}

static void end_all(struct end *e, struct ibv_cq **cq, struct ibv_cq *first)
{
	while (e->qps)
		end_drop_qp(e);
	for (int i = 0; i < qps(); i++)
		if (ibv_destroy_cq(cq[i]))
			DIE("ibv_destroy_cq: errno %d", errno);
	e->cq = first;
	end_close(e);
}

static void be_connected(int sock)
{
	struct ibv_cq **cq = room_for((size_t)qps(), sizeof(struct ibv_cq *)), *first;
	struct ibv_qp **qp = room_for((size_t)qps(), sizeof(struct ibv_qp *));
	double before = resident(), file;
	struct found found;
	struct end e;
	char go;

	end_open(&e);
	found.context = resident() - before;
	first = e.cq;
	e.qp = qp;
	e.room = qps();
	before = resident();
	file = in_file(&e);
	add_qps(&e, cq);
	for (int i = 0; i < qps(); i += PART)
		connect_part(&e, i, sock);
	found.qp = (resident() - before) / qps();
	found.file = (in_file(&e) - file) / qps();
	spawn_send(sock, &found, sizeof(found));
	spawn_receive(sock, &go, sizeof(go));
	end_all(&e, cq, first);
	free(cq);
}

/* --- the parent ------------------------------------------------------------------ */

static void exchange_part(const struct spawned side[2])
{
	static struct numbers numbers[2];

	for (int i = 0; i < 2; i++)
		spawn_receive(side[i].sock, &numbers[i], sizeof(numbers[i]));
	for (int i = 0; i < 2; i++)
		spawn_send(side[i].sock, &numbers[!i], sizeof(numbers[i]));
}

static void run(struct found found[2])
{
	struct spawned side[2];

	for (int i = 0; i < 2; i++)
		spawn_self(&side[i], ROLE);
	for (int i = 0; i < qps(); i += PART)
		exchange_part(side);
	for (int i = 0; i < 2; i++)
		spawn_receive(side[i].sock, &found[i], sizeof(found[i]));
	for (int i = 0; i < 2; i++)
		spawn_send(side[i].sock, "", 1);
	for (int i = 0; i < 2; i++)
		spawn_wait(&side[i]);
}

int main(int argc, char **argv)
{
	struct series context[2] = {0}, qp[2] = {0}, file[2] = {0};
	int sock = spawn_role(argc, argv, ROLE);

	time_limit(600);
	if (sock >= 0) {
		be_connected(sock);
		return 0;
	}
	for (int i = 0; i < BENCH_RUNS; i++) {
		struct found found[2];

		run(found);
		for (int side = 0; side < 2; side++) {
			series_add(&context[side], found[side].context);
			series_add(&qp[side], found[side].qp);
			series_add(&file[side], found[side].file);
		}
	}
	for (int side = 0; side < 2; side++) {
		const char *name = side ? "the other" : "one side";

		series_print_most(&context[side], "context_resident_KiB", name, 1024);
		series_print_most(&qp[side], "qp_and_cq_resident_KiB", name, 64);
		series_print_most(&file[side], "qp_and_cq_in_file_KiB", name, 64);
	}
	return 0;
}
