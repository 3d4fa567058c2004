/* SPDX-License-Identifier: MIT */
/*
 * A queue pair and a CQ begin with nothing counted, whoever had their places, or their numbers, and
 * what they count is theirs; as "anyverbs stat qp" and "cq" read it. And what is there of the old
 * ones stays in the sums.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/spawn.h"
#include "lib/two_sides.h"
#include "queue/objects.h"

#define READER	 "--reader"
#define PATIENCE 30000u
#define TURNS	 600 /* more than two chunks of places: they are used again as late as possible */
#define BYTES	 512u

static struct spawned reader;

/* --- reading --------------------------------------------------------------------- */

struct search {
	uint32_t qpn;
	bool found, found_cq;
	struct av_qp_info qp;
	struct av_cq_info cq;	     /* its send CQ */
	uint64_t bytes, completions; /* of the device */
};

static void match_qp(const struct av_qp_info *info, void *arg)
{
	struct search *s = arg;

	if (info->qpn != s->qpn)
		return;
	s->found = true;
	s->qp = *info;
}

static void match_cq(const struct av_cq_info *info, void *arg)
{
	struct search *s = arg;

	if (info->pid != s->qp.pid || info->number != s->qp.send_cq)
		return;
	s->found_cq = true;
	s->cq = *info;
}

static uint64_t value(const char *name, const struct av_counted *counted)
{
	for (unsigned int i = 0; i < av_counter_count; i++)
		if (!strcmp(av_counter_info[i].name, name))
			return av_counter_value(&av_counter_info[i], counted);
	DIE("no counter %s", name);
}

/* In a process of its own: closing the directory's file drops the locks of the process that does.
 */
static void reader_main(int sock)
{
	struct av_counted device;
	struct search s;

	while (spawn_receive_any(sock, &s, sizeof(s)) == sizeof(s)) {
		av_report_qps("any0", match_qp, &s);
		av_report_cqs("any0", match_cq, &s);
		av_report_device("any0", &device);
		s.bytes = value("write_bytes", &device);
		s.completions = value("completions", &device);
		spawn_send(sock, &s, sizeof(s));
	}
	exit(0);
}

static struct search look(uint32_t qpn)
{
	struct search s = {.qpn = qpn};

	spawn_send(reader.sock, &s, sizeof(s));
	spawn_receive(reader.sock, &s, sizeof(s));
	EXPECT(s.found && s.found_cq, "QP %u is not there", qpn);
	return s;
}

/* --- */

static void expect_writes(const struct search *s, const char *which, uint64_t writes)
{
	for (unsigned int i = 0; i < av_counter_count; i++) {
		const struct av_counter_info *c = &av_counter_info[i];
		uint64_t now = av_counter_value(c, &s->qp.counted), want = 0;

		if (!(c->scope & AV_SCOPE_QP) || c->gauge)
			continue;
		if (!strcmp(c->name, "requests") || !strcmp(c->name, "writes") ||
		    !strcmp(c->name, "xmit_packets"))
			want = writes;
		if (!strcmp(c->name, "xmit_bytes") || !strcmp(c->name, "write_bytes"))
			want = writes * BYTES;
		EXPECT(now == want, "%s: %s is %lu, not %lu", which, c->name, (unsigned long)now,
		       (unsigned long)want);
	}
}

/* No packet is sent twice on the wire, since the peer's process has had no core for a while. */
static void connect_patiently(void)
{
	struct node_link link = link_default();

	link.timeout = 19; /* 2 s */
	pair_connect(&a, 0, &link, &b, 0, &link);
}

static void write_to_b(unsigned int times)
{
	struct node_send s = {.wr_id = 1,
			      .opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .sge = {side_sge(&a, KEY_FULL, 0, BYTES)},
			      .remote_addr = b.info.base[KEY_FULL],
			      .rkey = b.info.key[KEY_FULL]};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	for (unsigned int i = 0; i < times; i++) {
		EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
		EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
		       "'%s'", ibv_wc_status_str(wc.status));
	}
}

static void qp_row(void)
{
	uint64_t bytes = 0;

	row("%u queue pairs one after the other", TURNS);
	for (unsigned int i = 0; i < TURNS; i++) {
		unsigned int times = 1 + i % 3;
		struct search s;

		pair_create(&a, 0, &b, 0, NULL);
		connect_patiently();
		s = look(side_qpn(&a, 0));
		expect_writes(&s, "before", 0);
		write_to_b(times);
		bytes += times * BYTES;
		s = look(side_qpn(&a, 0));
		expect_writes(&s, "after", times);
		EXPECT(s.bytes == bytes, "the device has %lu bytes, not %lu",
		       (unsigned long)s.bytes, (unsigned long)bytes);
		pair_destroy(&a, 0, &b, 0);
	}
}

/* Requests that fail count at both ends. */
static void failed_row(void)
{
	row("a queue pair behind one that failed");
	for (unsigned int i = 0; i < TURNS; i++) {
		struct node_send bad = {.opcode = IBV_WR_RDMA_WRITE,
					.num_sge = 1,
					.sge = {side_sge(&a, KEY_FULL, 0, BYTES)},
					.remote_addr = b.info.base[KEY_FULL],
					.rkey = b.info.key[KEY_WRONG]};
		struct ibv_wc wc;
		struct search s;

		pair_create(&a, 0, &b, 0, NULL);
		connect_patiently();
		s = look(side_qpn(&a, 0));
		expect_writes(&s, "requester", 0);
		s = look(side_qpn(&b, 0));
		expect_writes(&s, "responder", 0);
		EXPECT(side_post_send(&a, 0, &bad, 1).ret == 0, "post_send");
		EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1 &&
			       wc.status == IBV_WC_REM_ACCESS_ERR,
		       "fails");
		s = look(side_qpn(&a, 0));
		EXPECT(value("request_errors", &s.qp.counted) == 1, "requester");
		s = look(side_qpn(&b, 0));
		EXPECT(value("refused", &s.qp.counted) == 1, "responder");
		pair_destroy(&a, 0, &b, 0);
	}
}

static void cq_row(void)
{
	struct search s;
	uint64_t all;

	row("%u CQs one after the other", TURNS);
	pair_create(&a, 1, &b, 0, NULL);
	all = look(side_qpn(&a, 1)).completions;
	pair_destroy(&a, 1, &b, 0);
	for (unsigned int i = 0; i < TURNS; i++) {
		EXPECT(side_destroy_cq(&a, 0) == 0 && side_create_cq(&a, 0, 64, false) == 0, "CQ");
		pair_create(&a, 0, &b, 0, NULL);
		connect_patiently();
		s = look(side_qpn(&a, 0));
		EXPECT(value("completions", &s.cq.counted) == 0, "%lu",
		       (unsigned long)value("completions", &s.cq.counted));
		write_to_b(2);
		s = look(side_qpn(&a, 0));
		EXPECT(value("completions", &s.cq.counted) == 2, "%lu",
		       (unsigned long)value("completions", &s.cq.counted));
		all += 2;
		EXPECT(s.completions == all, "the device has %lu, not %lu",
		       (unsigned long)s.completions, (unsigned long)all);
		pair_destroy(&a, 0, &b, 0);
	}
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, READER);

	if (sock >= 0)
		reader_main(sock);
	two_sides_open(argc, argv);
	spawn_self(&reader, READER);
	qp_row();
	failed_row();
	cq_row();
	close(reader.sock);
	spawn_wait(&reader);
	return two_sides_close();
}
