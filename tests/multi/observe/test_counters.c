/* SPDX-License-Identifier: MIT */
/*
 * The port's counters as programs find them in the virtual sysfs: what each kind of request adds to
 * each of them, when it goes well and when it does not; and that nothing that was counted is lost
 * or counted twice when queue pairs are destroyed, contexts closed and processes killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/wait.h"

#define PORT	  "/sys/class/infiniband/any0/ports/1/"
#define FILES_MAX 128
#define PATIENCE  20000u
#define LOCAL_AT  0x1000u
#define REMOTE_AT 0x100000u
#define RECV_AT	  0x200000u
#define MTU	  1024u
#define ANY	  UINT64_MAX /* one or more */

static struct side a, b;
static const char *mode;

/* --- reading --------------------------------------------------------------------- */

struct file {
	char path[512];
	const char *name;
	uint64_t value;
};

static struct file files[FILES_MAX];
static unsigned int file_count;

static void find_files(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *e;

	if (!dir)
		DIE("%s: errno %d", folder, errno);
	while ((e = readdir(dir)) && file_count < FILES_MAX) {
		struct file *f = &files[file_count];

		if (e->d_name[0] == '.')
			continue;
		snprintf(f->path, sizeof(f->path), "%s/%s", folder, e->d_name);
		f->name = strrchr(f->path, '/') + 1;
		file_count++;
	}
	closedir(dir);
}

/* --- what is expected ------------------------------------------------------------ */

struct expected {
	const char *name;
	uint64_t added;
};

/* The same under another name, unless that is expected by itself. */
static const struct {
	const char *name, *is;
} aliases[] = {
	{"sent_pkts", "port_xmit_packets"},
	{"rcvd_pkts", "port_rcv_packets"},
	{"unicast_xmit_packets", "port_xmit_packets"},
	{"unicast_rcv_packets", "port_rcv_packets"},
	{"completer_retry_err", "local_ack_timeout_err"},
	{"rcvd_rnr_err", "rnr_nak_retry_err"},
	{"send_rnr_err", "out_of_buffer"},
};

static const struct expected *find(const struct expected *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].name && !strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

static uint64_t wanted(const struct expected *list, size_t count, const char *name)
{
	const struct expected *e = find(list, count, name);

	for (size_t i = 0; i < COUNT_OF(aliases) && !e; i++)
		if (!strcmp(aliases[i].name, name))
			e = find(list, count, aliases[i].is);
	return e ? e->added : 0;
}

static void catch_up(void)
{
	for (unsigned int i = 0; i < file_count; i++)
		files[i].value = sysfs_number(files[i].path);
}

/* Since the last time, these were added, and nothing else. */
static void expect_added(const struct expected *list, size_t count)
{
	for (unsigned int i = 0; i < file_count; i++) {
		uint64_t now = sysfs_number(files[i].path), added = now - files[i].value;
		uint64_t want = wanted(list, count, files[i].name);

		EXPECT(added == want, "%s: %+ld, not %+ld", files[i].name, (long)added, (long)want);
		files[i].value = now;
	}
}

#define EXPECT_ADDED(...)                                    \
	expect_added((const struct expected[]){__VA_ARGS__}, \
		     sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))
#define EXPECT_NOTHING_ADDED() expect_added(NULL, 0)

/* --- requests that go well ------------------------------------------------------- */

/* No packet is sent twice on the wire, since the peer's process has had no core for a while. */
static struct node_link small_mtu(void)
{
	struct node_link link = link_default();

	link.timeout = 19; /* 2 s */
	link.mtu = IBV_MTU_1024;
	return link;
}

static struct node_send request(enum ibv_wr_opcode op, uint32_t bytes)
{
	return (struct node_send){
		.wr_id = 1,
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = bytes ? 1 : 0,
		.sge = {side_sge(&a, KEY_FULL, LOCAL_AT, bytes)},
		.remote_addr = b.info.base[KEY_FULL] + REMOTE_AT,
		.rkey = b.info.key[KEY_FULL],
	};
}

/* From queue pair 0 of a to that of b. */
static void expect_end(const struct node_send *s, enum ibv_wc_status status)
{
	struct ibv_wc wc[2];

	EXPECT(side_post_send(&a, 0, s, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == status, "ends as '%s'",
	       ibv_wc_status_str(wc[0].status));
}

static void connect_pair(const struct node_link *link)
{
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, link, &b, 0, link);
}

struct kind {
	enum ibv_wr_opcode op;
	const char *served; /* the counter of the responder's that counts it, */
	const char *sent;   /* and of the requester's */
	bool receive;	    /* it takes a receive request */
	bool answer;	    /* the payload comes back */
	bool word;	    /* of 8 bytes, there and back */
};

static const struct kind kinds[] = {
	{IBV_WR_SEND, "rdma_recvs", "rdma_sends", true, false, false},
	{IBV_WR_SEND_WITH_IMM, "rdma_recvs", "rdma_sends", true, false, false},
	{IBV_WR_RDMA_WRITE, "rx_write_requests", NULL, false, false, false},
	{IBV_WR_RDMA_WRITE_WITH_IMM, "rx_write_requests", NULL, true, false, false},
	{IBV_WR_RDMA_READ, "rx_read_requests", NULL, false, true, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, "rx_atomic_requests", NULL, false, true, true},
	{IBV_WR_ATOMIC_CMP_AND_SWP, "rx_atomic_requests", NULL, false, true, true},
};

static void success_row(const struct kind *k, uint32_t bytes, unsigned int times)
{
	uint64_t packets = bytes ? (bytes + MTU - 1) / MTU : 1;
	uint64_t data = k->word ? 2 * bytes / 4 : bytes / 4;
	struct node_link link = small_mtu();
	struct node_send s = request(k->op, bytes);
	struct ibv_wc wc[2];

	row("[%s] %u %ss of %u bytes", mode, times, probe_name(k->op), bytes);
	connect_pair(&link);
	for (unsigned int i = 0; i < times; i++) {
		if (k->receive)
			side_recv_one(&b, 0, i, RECV_AT, bytes);
		expect_end(&s, IBV_WC_SUCCESS);
		if (k->receive)
			EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 &&
				       wc[0].status == IBV_WC_SUCCESS,
			       "receive");
	}
	packets = k->answer ? 1 + packets : packets;
	EXPECT_ADDED({"port_xmit_data", times * data}, {"port_rcv_data", times * data},
		     {"port_xmit_packets", times * packets}, {"port_rcv_packets", times * packets},
		     {k->served, times}, {k->sent, times});
	pair_destroy(&a, 0, &b, 0);
	EXPECT_NOTHING_ADDED();
}

static void success_rows(void)
{
	/* On the wire, a longer READ may be asked for in parts. */
	static const uint32_t sizes[] = {0, 8, 1024, 1028, 60000};

	for (size_t k = 0; k < COUNT_OF(kinds); k++)
		for (size_t s = 0; s < COUNT_OF(sizes); s++)
			if (!kinds[k].word || sizes[s] == 8)
				success_row(&kinds[k], sizes[s], s == 1 ? 20 : 2);
}

/* --- requests that do not -------------------------------------------------------- */

static void begin(const char *what, struct node_link link)
{
	row("[%s] %s", mode, what);
	connect_pair(&link);
}

static void end(void)
{
	pair_destroy(&a, 0, &b, 0);
	EXPECT_NOTHING_ADDED();
}

static void refused_rows(void)
{
	struct node_send s = request(IBV_WR_RDMA_WRITE, 64);

	begin("an rkey that is none", small_mtu());
	s.rkey = b.info.key[KEY_WRONG];
	expect_end(&s, IBV_WC_REM_ACCESS_ERR);
	EXPECT_ADDED({"req_cqe_error", 1}, {"req_remote_access_errors", 1},
		     {"resp_remote_access_errors", 1});
	end();

	begin("a local key that is none", small_mtu());
	s = request(IBV_WR_RDMA_WRITE, 64);
	s.sge[0].lkey = a.info.key[KEY_WRONG];
	expect_end(&s, IBV_WC_LOC_PROT_ERR);
	EXPECT_ADDED({"req_cqe_error", 1});
	end();

	begin("a receive request that is too short, and one more behind it", small_mtu());
	s = request(IBV_WR_SEND, 64);
	side_recv_one(&b, 0, 1, RECV_AT, 32);
	side_recv_one(&b, 0, 2, RECV_AT, 64);
	expect_end(&s, IBV_WC_REM_INV_REQ_ERR);
	EXPECT_ADDED({"req_cqe_error", 1}, {"req_remote_invalid_request", 1},
		     {"resp_local_length_error", 1}, {"resp_cqe_error", 2},
		     {"resp_cqe_flush_error", 1});
	end();
}

/* Packets of requests that were sent once more: on one host, none was sent before. */
static uint64_t repeated(uint64_t packets)
{
	return on_the_wire() ? packets : 0;
}

static void waiting_rows(void)
{
	struct node_send s = request(IBV_WR_SEND, 64);
	struct node_link link = small_mtu();

	link.rnr_retry = 0;
	begin("no receive request, no retry", link);
	expect_end(&s, IBV_WC_RNR_RETRY_EXC_ERR);
	EXPECT_ADDED({"req_cqe_error", 1}, {"retry_rnr_exceeded_err", 1}, {"rnr_nak_retry_err", 1},
		     {"out_of_buffer", 1});
	end();

	link.rnr_retry = 2;
	begin("no receive request, two retries", link);
	expect_end(&s, IBV_WC_RNR_RETRY_EXC_ERR);
	EXPECT_ADDED({"req_cqe_error", 1}, {"retry_rnr_exceeded_err", 1}, {"rnr_nak_retry_err", 3},
		     {"out_of_buffer", 1}, {"port_xmit_packets", repeated(2)});
	end();

	link = small_mtu();
	link.timeout = 8;
	link.retry_cnt = 2;
	begin("a peer that does not answer", link);
	EXPECT(side_set_state(&b, 0, IBV_QPS_ERR) == 0, "to ERR");
	expect_end(&s, IBV_WC_RETRY_EXC_ERR);
	EXPECT_ADDED({"req_cqe_error", 1}, {"retry_exceeded_err", 1}, {"local_ack_timeout_err", 3},
		     {"port_xmit_packets", repeated(2)});
	end();
}

static void flush_rows(void)
{
	struct node_send s = request(IBV_WR_SEND, 64);

	begin("requests of either queue in the error state", small_mtu());
	for (unsigned int i = 0; i < 3; i++)
		side_recv_one(&a, 0, i, RECV_AT, 64);
	EXPECT(side_set_state(&a, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT_ADDED({"resp_cqe_error", 3}, {"resp_cqe_flush_error", 3});
	expect_end(&s, IBV_WC_WR_FLUSH_ERR);
	EXPECT_ADDED({"req_cqe_error", 1}, {"req_cqe_flush_error", 1});
	end();
}

/*
 * A message that the receiver has not taken: nothing completes there. On the wire, it arrives after
 * it has been sent.
 */
static void await_refused(void)
{
	for (unsigned int i = 0; i < file_count; i++)
		if (!strcmp(files[i].name, "port_rcv_errors"))
			(void)WAIT_UNTIL(sysfs_number(files[i].path) > files[i].value,
					 on_the_wire() ? PATIENCE : 0);
}

static void lost_row(void)
{
	struct node_send s = request(IBV_WR_SEND, 64);
	struct ibv_qp_init_attr attr = {
		.send_cq = a.node->cq[0],
		.recv_cq = a.node->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UC};

	row("[%s] a message of an unreliable connection that finds no receive request", mode);
	a.node->qp[1] = ibv_create_qp(a.node->pd, &attr);
	if (!a.node->qp[1])
		DIE("ibv_create_qp: errno %d", errno);
	side_connect_uc_to_itself(&a, 1, 0);
	EXPECT(side_post_send(&a, 1, &s, 1).ret == 0, "post_send");
	await_refused();
	EXPECT_ADDED({"port_xmit_data", 16}, {"port_xmit_packets", 1}, {"port_rcv_errors", 1},
		     {"rdma_sends", 1}, {"out_of_buffer", 1});
	EXPECT(side_destroy_qp(&a, 1) == 0, "destroy");
	EXPECT_NOTHING_ADDED();
}

/* --- datagrams ------------------------------------------------------------------- */

#define QKEY 0x11111111u
#define GRH  40u

enum { SENDER, FIRST, SECOND, UD_QPS };
static struct ibv_qp *ud[UD_QPS];

static struct ibv_qp *create_ud(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = a.node->cq[0],
		.recv_cq = a.node->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD};
	struct ibv_qp *qp = ibv_create_qp(a.node->pd, &init);

	if (!qp || connect_qp(qp, (struct ibv_qp_attr){.port_num = 1, .qkey = QKEY}))
		DIE("a UD queue pair: errno %d", errno);
	return qp;
}

static void post_datagram_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, RECV_AT, GRH + 64);
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	EXPECT(ibv_post_recv(qp, &wr, &bad) == 0, "post_recv");
}

/* 64 bytes to that address; @arrives: so many of them have been received. */
static void send_datagram(const union ibv_gid *to, uint32_t qpn, uint32_t qkey, int arrives)
{
	struct ibv_ah_attr address = {
		.port_num = 1, .is_global = 1, .grh = {.dgid = *to, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(a.node->pd, &address);
	struct ibv_sge sge = side_sge(&a, KEY_FULL, LOCAL_AT, 64);
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.ud = {ah, qpn, qkey}};
	struct ibv_wc wc[4];

	EXPECT(ah && ibv_post_send(ud[SENDER], &wr, &bad) == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "sent");
	if (arrives)
		EXPECT(side_poll(&a, 1, arrives, PATIENCE, wc) == arrives, "received");
	EXPECT(ah && ibv_destroy_ah(ah) == 0, "destroy_ah");
}

static void unicast_rows(void)
{
	row("[%s] a datagram", mode);
	post_datagram_receive(ud[FIRST]);
	send_datagram(&a.info.gid, ud[FIRST]->qp_num, QKEY, 1);
	EXPECT_ADDED({"port_xmit_data", 16}, {"port_rcv_data", 16}, {"port_xmit_packets", 1},
		     {"port_rcv_packets", 1}, {"rdma_sends", 1}, {"rdma_recvs", 1});

	row("[%s] a datagram that finds no receive request", mode);
	send_datagram(&a.info.gid, ud[FIRST]->qp_num, QKEY, 0);
	await_refused();
	EXPECT_ADDED({"port_xmit_data", 16}, {"port_xmit_packets", 1}, {"rdma_sends", 1},
		     {"port_rcv_errors", 1}, {"out_of_buffer", 1});

	row("[%s] a datagram with a Q_Key that is another's", mode);
	post_datagram_receive(ud[FIRST]);
	send_datagram(&a.info.gid, ud[FIRST]->qp_num, QKEY + 1, 0);
	await_refused();
	EXPECT_ADDED({"port_xmit_data", 16}, {"port_xmit_packets", 1}, {"rdma_sends", 1},
		     {"port_rcv_errors", 1});
}

/* Of the kind of the sender's address, since packets carry no others. */
static union ibv_gid some_group(void)
{
	union ibv_gid group = a.info.gid;

	if (group.raw[10] == 0xff && group.raw[11] == 0xff) /* an IPv4 address */
		memcpy(group.raw + 12, (const uint8_t[]){239, 0, 0, 0x77}, 4);
	else
		group = (union ibv_gid){.raw = {0xff, 0x0e, [15] = 0x77}};
	return group;
}

static void multicast_row(void)
{
	const union ibv_gid group = some_group();

	row("[%s] a datagram to a group of two, and one to nobody", mode);
	for (int i = FIRST; i <= SECOND; i++)
		EXPECT(ibv_attach_mcast(ud[i], &group, 0) == 0, "attach");
	post_datagram_receive(ud[SECOND]); /* the first one has one left */
	send_datagram(&group, 0xffffff, QKEY, 2);
	EXPECT_ADDED({"port_xmit_data", 16}, {"port_rcv_data", 32}, {"port_xmit_packets", 1},
		     {"port_rcv_packets", 2}, {"multicast_xmit_packets", 1},
		     {"multicast_rcv_packets", 2}, {"unicast_xmit_packets", 0},
		     {"unicast_rcv_packets", 0}, {"rdma_sends", 1}, {"rdma_recvs", 2});
	for (int i = FIRST; i <= SECOND; i++)
		EXPECT(ibv_detach_mcast(ud[i], &group, 0) == 0, "detach");
	send_datagram(&group, 0xffffff, QKEY, 0);
	EXPECT_ADDED({"port_xmit_data", 16}, {"port_xmit_packets", 1},
		     {"multicast_xmit_packets", 1}, {"unicast_xmit_packets", 0}, {"rdma_sends", 1});
}

static void datagram_rows(void)
{
	catch_up();
	for (int i = 0; i < UD_QPS; i++)
		ud[i] = create_ud();
	unicast_rows();
	multicast_row();
	for (int i = 0; i < UD_QPS; i++)
		EXPECT(ibv_destroy_qp(ud[i]) == 0, "destroy");
	EXPECT_NOTHING_ADDED();
}

static void all_rows(void)
{
	catch_up();
	success_rows();
	refused_rows();
	waiting_rows();
	flush_rows();
}

/* --- ends ------------------------------------------------------------------------ */

static void exchange(unsigned int times)
{
	struct node_link link = small_mtu();
	struct node_send s = request(IBV_WR_RDMA_WRITE, 4096);

	connect_pair(&link);
	for (unsigned int i = 0; i < times; i++)
		expect_end(&s, IBV_WC_SUCCESS);
}

#define EXPECT_WRITES(n)                                                            \
	EXPECT_ADDED({"port_xmit_data", (n)*1024ul}, {"port_rcv_data", (n)*1024ul}, \
		     {"port_xmit_packets", (n)*4ul}, {"port_rcv_packets", (n)*4ul}, \
		     {"rx_write_requests", n})

static void killed_row(void)
{
	row("what a process has counted that is killed stays");
	catch_up();
	side_start(&b);
	exchange(10);
	side_kill(&b);
	EXPECT_WRITES(10);
	row("also when it is swept");
	side_start(&b);
	EXPECT_NOTHING_ADDED();
	row("and when its successor in its place counts");
	EXPECT(side_destroy_qp(&a, 0) == 0, "destroy");
	exchange(7);
	EXPECT_WRITES(7);
	row("what a process has counted that ends stays");
	side_stop(&b);
	EXPECT_NOTHING_ADDED();
	EXPECT(side_destroy_qp(&a, 0) == 0, "destroy");
	EXPECT_NOTHING_ADDED();
}

static _Atomic bool reading;
static _Atomic uint64_t falls, looks;

static void *read_on(void *arg)
{
	uint64_t last = 0;

	while (reading) {
		uint64_t now = sysfs_number(PORT "counters/port_rcv_data");

		if (now < last)
			falls++;
		last = now;
		looks++;
	}
	return NULL;
}

static void monotonic_row(void)
{
	pthread_t reader;

	row("who reads all the while never sees a counter fall, and the sum is right in the end");
	catch_up();
	reading = true;
	EXPECT(pthread_create(&reader, NULL, read_on, NULL) == 0, "thread");
	for (int i = 0; i < 12; i++) {
		side_start(&b);
		exchange(3);
		if (i % 2)
			side_kill(&b);
		else
			side_stop(&b);
		EXPECT(side_destroy_qp(&a, 0) == 0, "destroy");
	}
	while (looks <= 12) /* the reader has to get a core first */
		sched_yield();
	reading = false;
	pthread_join(reader, NULL);
	EXPECT(falls == 0, "fell %lu times in %lu looks", (unsigned long)falls,
	       (unsigned long)looks);
	EXPECT_WRITES(36);
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	side_open(&a, NULL);
	find_files(PORT "counters");
	find_files(PORT "hw_counters");
	EXPECT(file_count > 50, "%u files", file_count);
	side_start(&b);
	mode = "two processes";
	all_rows();
	side_stop(&b);
	side_open(&b, a.node->ctx);
	mode = "one context";
	all_rows();
	lost_row();
	datagram_rows();
	side_stop(&b);
	killed_row();
	monotonic_row();
	side_stop(&a);
	return sandbox_end();
}
