/* SPDX-License-Identifier: MIT */
/*
 * Captures at both ends of a cable that loses, doubles, delays, spoils and marks packets, against
 * what was in the cable: each packet that a host sent, and each that came to it, is in its capture
 * as often as in the cable and with the same bytes; what came is in its order, too. And what was
 * spoiled has been counted.
 */
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/cable.h"
#include "lib/capture_reader.h"
#include "lib/expect.h"
#include "lib/frame_get.h"
#include "lib/odp_sysfs.h"
#include "lib/request.h"
#include "lib/two_hosts.h"
#include "wire/packet.h"

#define PATIENCE    60000u /* ms */
#define QUIET_MS    1500u
#define LOG_MAX	    8192
#define BYTES	    4500u /* five packets */
#define FROM	    0x1000u
#define TO	    0x100000u
#define ROUNDS	    12
#define IP_AT	    14
#define UDP_AT	    34
#define BTH_AT	    42
#define CONGESTED   3
#define NOBODYS_QPN 5u
#define SENT	    2 /* directions of captured frames */
#define CAME	    1

static struct side side[2];
static char path[2][64];

/* --- the cable ------------------------------------------------------------------- */

struct logged {
	uint8_t bytes[CABLE_FRAME_MAX];
	size_t count;
	bool damaged, is_nobodys;
};

struct log {
	struct logged frame[LOG_MAX];
	size_t count;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards these */
static struct log sent[2], came[2];			  /* by host */
static unsigned int packets[2], lost, doubled, spoiled, marked;
static struct logged held[2];

static void put(int host, const struct logged *f)
{
	struct log *log = &came[host];

	if (log->count < LOG_MAX)
		log->frame[log->count++] = *f;
	cable_put(host, f->bytes, f->count);
}

static void let_go(int host)
{
	if (held[host].count)
		put(host, &held[host]);
	held[host].count = 0;
}

static bool is_packet(const uint8_t *frame, size_t bytes)
{
	return bytes > BTH_AT && frame[12] == (ETH_P_IP >> 8) && frame[13] == (ETH_P_IP & 0xff) &&
	       frame[IP_AT + 9] == IPPROTO_UDP &&
	       (frame[UDP_AT + 2] << 8 | frame[UDP_AT + 3]) == AV_ROCE_PORT;
}

/* One bit of what the ICRC covers. Without a checksum of UDP, nobody else finds out. */
static void spoil(struct logged *f)
{
	f->bytes[f->count - 1 - packets[0] % 8] ^= 0x10;
	f->bytes[UDP_AT + 6] = f->bytes[UDP_AT + 7] = 0;
	f->damaged = true;
	spoiled++;
}

/* As a router does that has a queue: the header's checksum is mended. */
static void mark(struct logged *f)
{
	uint8_t *ip = f->bytes + IP_AT;
	uint32_t sum = 0;

	ip[1] |= CONGESTED;
	ip[10] = ip[11] = 0;
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	marked++;
}

/* The @n-th packet of a direction. */
static void strike(int to, struct logged *f, unsigned int n)
{
	if (n % 23 == 11) {
		lost++;
		return;
	}
	if (n % 19 == 4)
		mark(f);
	if (n % 29 == 9)
		spoil(f);
	if (n % 13 == 8 && !held[to].count) { /* the next one overtakes it */
		held[to] = *f;
		return;
	}
	put(to, f);
	if (n % 7 == 3) {
		doubled++;
		put(to, f);
	}
	let_go(to);
}

static void carry(int from, const uint8_t *frame, size_t bytes)
{
	static struct logged f;

	pthread_mutex_lock(&mutex);
	if (from < 0) {
		let_go(0);
		let_go(1);
	} else if (!is_packet(frame, bytes)) {
		cable_put(!from, frame, bytes);
	} else {
		struct log *log = &sent[from];

		f = (struct logged){.count = bytes};
		memcpy(f.bytes, frame, bytes);
		if (log->count < LOG_MAX)
			log->frame[log->count++] = f;
		strike(!from, &f, packets[from]++);
	}
	pthread_mutex_unlock(&mutex);
}

/* A packet that host 0 sent comes to host 1 once more, from elsewhere or for nobody. */
static void stranger(const uint8_t *address, uint32_t qpn)
{
	static struct logged f;
	struct av_packet p;
	struct av_frame h;

	pthread_mutex_lock(&mutex);
	if (EXPECT(frame_get(&h, &p, sent[0].frame[0].bytes, sent[0].frame[0].count) == FRAME_OK,
		   "the first packet")) {
		f = (struct logged){.is_nobodys = qpn != 0};
		memcpy(h.path.src + 12, address, 4);
		h.path.identification = 0xabcd; /* as the kernel's rdma_rxe, which numbers them */
		p.dest_qpn = qpn ? qpn : p.dest_qpn;
		f.count = av_frame_put(&h, &p, f.bytes, sizeof(f.bytes));
		put(1, &f);
	}
	pthread_mutex_unlock(&mutex);
}

/* --- the comparison -------------------------------------------------------------- */

/* What a UDP socket hides of what comes is not compared. */
static void mask(uint8_t *frame, const struct logged *wanted, uint32_t direction)
{
	if (direction == CAME)
		frame[UDP_AT + 6] = frame[UDP_AT + 7] = 0;
	if (wanted->damaged) {
		memset(frame + IP_AT + 4, 0, 2);
		memset(frame + IP_AT + 10, 0, 2);
	}
}

/* From the IP header to the end. */
static bool is_same(const struct captured *c, const struct logged *wanted)
{
	uint8_t a[CABLE_FRAME_MAX], b[CABLE_FRAME_MAX];

	if (c->captured != wanted->count || c->length != wanted->count)
		return false;
	memcpy(a, c->frame, c->captured);
	memcpy(b, wanted->bytes, wanted->count);
	mask(a, wanted, c->direction);
	mask(b, wanted, c->direction);
	return memcmp(a + IP_AT, b + IP_AT, wanted->count - IP_AT) == 0;
}

static void check_came(const struct captured *c, const struct logged *wanted, size_t i)
{
	enum frame_error fault;
	struct av_packet p;
	struct av_frame f;

	EXPECT(is_same(c, wanted), "packet %zu is not what came", i);
	fault = frame_get(&f, &p, c->frame, c->captured);
	EXPECT(fault == (wanted->damaged ? FRAME_CRC : FRAME_OK), "packet %zu: fault %d", i,
	       (int)fault);
	EXPECT(c->commented == (wanted->damaged || wanted->is_nobodys), "comment of packet %zu", i);
}

/* Several threads send, so they may be written in another order. */
static void check_sent(const struct captured *c, const struct log *log, bool *found)
{
	size_t i = 0;

	while (i < log->count && (found[i] || !is_same(c, &log->frame[i])))
		i++;
	if (EXPECT(i < log->count, "a packet that was not sent, opcode 0x%02x", c->frame[BTH_AT]))
		found[i] = true;
	EXPECT(!c->commented, "a comment");
}

static size_t count_frames(int host, uint32_t direction)
{
	struct capture_reader r;
	struct captured c;
	size_t n = 0;

	capture_load(&r, path[host], CAPTURE_PROLOGUE);
	while (capture_next(&r, &c))
		n += c.direction == direction;
	capture_unload(&r);
	return n;
}

static void check_capture(int host)
{
	static bool found[LOG_MAX];
	uint64_t time_ns = 0;
	struct capture_reader r;
	struct captured c;
	size_t in = 0, out = 0;

	row("the capture of host %d", host);
	memset(found, 0, sizeof(found));
	capture_load(&r, path[host], CAPTURE_PROLOGUE);
	while (capture_next(&r, &c)) {
		if (c.direction == SENT) {
			check_sent(&c, &sent[host], found);
			out++;
			continue;
		}
		EXPECT(c.direction == CAME, "made up");
		EXPECT(c.time_ns >= time_ns, "packet %zu came before the one before it", in);
		time_ns = c.time_ns;
		if (EXPECT(in < came[host].count, "a packet that did not come"))
			check_came(&c, &came[host].frame[in], in);
		in++;
	}
	EXPECT(in == came[host].count, "%zu came, not %zu", in, came[host].count);
	EXPECT(out == sent[host].count, "%zu were sent, not %zu", out, sent[host].count);
	capture_unload(&r);
}

/* A judge of its own, where it is installed. */
static void dissect(int host)
{
	char command[400], line[200];
	FILE *f;

	row("tshark at the capture of host %d", host);
	if (system("tshark -v >/dev/null 2>&1")) {
		printf("%s: not asked: there is no tshark here\n", row_name());
		return;
	}
	snprintf(command, sizeof(command),
		 "tshark -n -r %s --disable-protocol rpcordma -o ip.check_checksum:TRUE "
		 "-o udp.check_checksum:TRUE -Y '_ws.malformed || !infiniband || "
		 "ip.checksum.status == 0 || udp.checksum.status == 0' 2>/dev/null",
		 path[host]);
	f = popen(command, "re");
	if (!f)
		DIE("popen");
	while (fgets(line, sizeof(line), f))
		EXPECT(false, "%s", line);
	EXPECT(pclose(f) == 0, "tshark fails");
}

/* --- traffic --------------------------------------------------------------------- */

static void request(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_send s =
		side_rdma_to(op, side_sge(&side[0], KEY_FULL, FROM, bytes), &side[1], TO);
	struct ibv_wc wc[1];

	EXPECT(side_post_send(&side[0], 0, &s, 1).ret == 0, "post_send");
	if (op == SEND) /* it is not ready at first */
		side_recv_one(&side[1], 0, 0, TO, bytes);
	EXPECT(side_poll(&side[0], 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "status");
	if (op == SEND)
		EXPECT(side_poll(&side[1], 1, 1, PATIENCE, wc) == 1 &&
			       wc[0].status == IBV_WC_SUCCESS,
		       "receive");
}

static void traffic(void)
{
	static const uint8_t elsewhere[] = {192, 0, 2, 77}, own[] = {192, 0, 2, 1};

	row("traffic");
	for (unsigned int i = 0; i < ROUNDS; i++) {
		request(WRITE, BYTES);
		request(SEND, BYTES);
		request(READ, BYTES);
		request(FAA, 8);
		if (i == 0) {
			stranger(elsewhere, 0);
			stranger(own, NOBODYS_QPN);
		}
	}
}

/*
 * Wait until nothing is in the cable any more, nor in the hands of a thread that has no core. What
 * is missing then is found by comparison.
 */
static void settle(void)
{
	for (unsigned int ms = 0, quiet = 0; ms < PATIENCE && quiet < QUIET_MS; ms += 20) {
		bool all = true;

		for (int host = 0; host < 2; host++) {
			size_t out, in;

			pthread_mutex_lock(&mutex);
			out = sent[host].count;
			in = came[host].count;
			all &= !held[host].count;
			pthread_mutex_unlock(&mutex);
			all &= count_frames(host, SENT) == out && count_frames(host, CAME) == in;
		}
		quiet = all ? quiet + 20 : 0;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
}

/* In the other process. */
static uint64_t damaged_packets(struct node *n, const struct side_job *job)
{
	(void)n;
	(void)job;
	return sysfs_number("/sys/class/infiniband/any0/ports/1/hw_counters/rx_icrc_encapsulated");
}

/* The port's counter knows of each. */
static void expect_damaged(int host)
{
	uint64_t want = 0, counted;

	for (size_t i = 0; i < came[host].count; i++)
		want += came[host].frame[i].damaged;
	side_begin(&side[host], &(struct side_job){{0}});
	counted = side_end(&side[host]);
	EXPECT(counted == want, "host %d has counted %lu damaged packets, not %lu", host, counted,
	       want);
}

static bool has_opcode(const struct log *log, uint8_t opcode)
{
	for (size_t i = 0; i < log->count; i++)
		if (log->frame[i].bytes[BTH_AT] == opcode)
			return true;
	return false;
}

static void run(char *folder)
{
	struct node_link link = link_default();

	for (int host = 0; host < 2; host++) {
		snprintf(path[host], sizeof(path[host]), "%s/%d.pcapng", folder, host);
		setenv("ANYVERBS_CAPTURE", path[host], 1);
		two_hosts_start(&side[host], host, "");
	}
	link.mtu = IBV_MTU_1024;
	link.timeout = 16; /* 268 ms, and 2 s with all retries */
	link.retry_cnt = link.rnr_retry = 7;
	pair_create(&side[0], 0, &side[1], 0, NULL);
	pair_connect(&side[0], 0, &link, &side[1], 0, &link);
	traffic();
	settle();
	cable_end();
	expect_damaged(0);
	expect_damaged(1);
	pair_destroy(&side[0], 0, &side[1], 0);
	side_stop(&side[1]);
	side_stop(&side[0]);
	EXPECT(lost > 5 && doubled > 5 && spoiled > 5 && marked > 5, "the cable was too good");
	EXPECT(has_opcode(&sent[1], AV_OPCODE_CNP), "no notification of congestion");
	for (int host = 0; host < 2; host++) {
		check_capture(host);
		dissect(host);
		unlink(path[host]);
	}
	printf("%zu and %zu packets sent, %zu and %zu came: %u lost, %u doubled, %u spoiled, "
	       "%u marked\n",
	       sent[0].count, sent[1].count, came[0].count, came[1].count, lost, doubled, spoiled,
	       marked);
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/anyverbs-test-XXXXXX";

	side_work = damaged_packets;
	two_hosts_cable = cable_lay;
	two_hosts_open(argc, argv);
	if (!mkdtemp(folder))
		DIE("no folder");
	cable_carry(carry);
	run(folder);
	rmdir(folder);
	return summary();
}
