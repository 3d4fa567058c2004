/* SPDX-License-Identifier: MIT */
/*
 * What the receiver of a datagram is told of where it came from, and that it can answer with that
 * alone: each kind of address on Ethernet, with multicast groups, in rows of RoCE v1 and v2, and
 * each service level on InfiniBand with and without a GRH; between two processes, both ways,
 * whichever way the completion is polled.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"

#define ROLE	  "--datagram"
#define GRH	  40u
#define ROOM	  8192u
#define FROM	  16384u /* of what is sent, in the buffer */
#define QKEY	  0x11111111u
#define CLASS	  0x6au
#define LABEL	  0x12345u
#define HOPS	  63u
#define PATIENCE  30000u
#define TYPE_IPV6 9u /* what mlx5 says of RoCEv2 packets in the place of the service level */
#define TYPE_IPV4 10u
#define TYPE_V1	  0u
#define NEXT_IBA  0x1b /* next header of RoCE v1 */

enum family { V4, V6, LINK_LOCAL, FAMILIES, GROUP_V4 = FAMILIES, GROUP_V6 };
static const char *const family_name[] = {"IPv4", "IPv6", "link-local", "IPv4 group", "IPv6 group"};

enum poll_by { POLL, POLL_EX, POLL_EXP, POLLS };
static const char *const poll_name[] = {"ibv_poll_cq", "ibv_start_poll", "ibv_exp_poll_cq"};

static const uint32_t sizes[] = {0,  8,	   24,
				 64, 1000, 4096}; /* in the completion, staged, at the path's MTU */

static const union ibv_gid group_gid[] = {
	[GROUP_V4] = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}},
	[GROUP_V6] = {.raw = {0xff, 0x0e, [14] = 0x12, 0x34}},
};

/* --- one end: a datagram queue pair on one device -------------------------------- */

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
	uint16_t lid;
	uint32_t mtu;
};

/* What one process asks the other: receive a datagram, and answer it. */
struct order {
	int device;
	enum poll_by by;
	uint32_t bytes;
	uint64_t seed;
};

/* What was received, as the receiver sees it. */
struct seen {
	uint32_t count; /* completions */
	uint32_t status, byte_len, src_qp, imm, flags;
	uint32_t slid, sl;
	uint8_t header[GRH];
	int64_t wrong; /* first wrong byte of the payload, -1: none */
	int init_errno, answer_errno;
	struct ibv_ah_attr attr; /* by ibv_init_ah_from_wc() */
};

static void queue_pair(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ibv_cq_ex_to_cq(e->cq),
		.recv_cq = ibv_cq_ex_to_cq(e->cq),
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};

	e->qp = ibv_create_qp(e->pd, &init);
	if (!e->qp)
		DIE("ibv_create_qp: errno %d", errno);
	if (connect_qp(e->qp, (struct ibv_qp_attr){.port_num = 1, .qkey = QKEY}))
		DIE("to RTS: errno %d", errno);
}

static void open_end(struct end *e, struct ibv_device *device)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_port_attr port;

	e->ctx = ibv_open_device(device);
	if (!e->ctx)
		DIE("ibv_open_device: errno %d", errno);
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq_ex(e->ctx, &attr);
	e->buffer =
		mmap(NULL, 2 * FROM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!e->pd || !e->cq || e->buffer == MAP_FAILED || ibv_query_port(e->ctx, 1, &port))
		DIE("an end cannot be had");
	e->mr = ibv_reg_mr(e->pd, e->buffer, 2 * FROM, IBV_ACCESS_LOCAL_WRITE);
	if (!e->mr)
		DIE("ibv_reg_mr: errno %d", errno);
	e->lid = port.lid;
	e->mtu = 128u << port.active_mtu;
	queue_pair(e);
}

static void close_end(struct end *e)
{
	EXPECT(ibv_destroy_qp(e->qp) == 0, "ibv_destroy_qp");
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(e->cq)) == 0, "ibv_destroy_cq");
	EXPECT(ibv_dereg_mr(e->mr) == 0, "ibv_dereg_mr");
	EXPECT(ibv_dealloc_pd(e->pd) == 0, "ibv_dealloc_pd");
	EXPECT(ibv_close_device(e->ctx) == 0, "ibv_close_device");
	munmap(e->buffer, 2 * FROM);
}

static void post_receive(struct end *e)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, ROOM, e->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	memset(e->buffer, 0xcc, ROOM);
	if (ibv_post_recv(e->qp, &wr, &bad))
		DIE("ibv_post_recv");
}

/* One completion into @wc, by that way. Return: their number */
static int poll_once(struct end *e, enum poll_by by, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_exp_wc exp = {0};
	int n;

	memset(wc, 0, sizeof(*wc));
	if (by == POLL)
		return ibv_poll_cq(ibv_cq_ex_to_cq(e->cq), 1, wc);
	if (by == POLL_EXP) {
		n = ibv_exp_poll_cq(ibv_cq_ex_to_cq(e->cq), 1, &exp, sizeof(exp));
		*wc = (struct ibv_wc){
			.status = exp.status,
			.opcode = (enum ibv_wc_opcode)exp.exp_opcode,
			.byte_len = exp.byte_len,
			.imm_data = exp.imm_data,
			.src_qp = exp.src_qp,
			.wc_flags = (unsigned int)exp.exp_wc_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM),
			.slid = exp.slid,
			.sl = exp.sl,
		};
		return n;
	}
	n = ibv_start_poll(e->cq, &attr);
	if (n)
		return n == ENOENT ? 0 : -1;
	*wc = (struct ibv_wc){
		.status = e->cq->status,
		.opcode = ibv_wc_read_opcode(e->cq),
		.byte_len = ibv_wc_read_byte_len(e->cq),
		.imm_data = ibv_wc_read_imm_data(e->cq),
		.src_qp = ibv_wc_read_src_qp(e->cq),
		.wc_flags = ibv_wc_read_wc_flags(e->cq),
		.slid = (uint16_t)ibv_wc_read_slid(e->cq),
		.sl = ibv_wc_read_sl(e->cq),
	};
	ibv_end_poll(e->cq);
	return 1;
}

static int poll_for(struct end *e, enum poll_by by, struct ibv_wc *wc)
{
	uint64_t end = now_ms() + PATIENCE;
	int n;

	while ((n = poll_once(e, by, wc)) == 0 && now_ms() < end)
		sched_yield();
	return n;
}

/* Send and wait for the completion. Return: 0 or errno value */
static int send_datagram(struct end *e, struct ibv_ah *ah, uint32_t qpn, uint32_t bytes,
			 uint64_t seed)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer + FROM, bytes, e->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND_WITH_IMM,
				       .imm_data = htonl((uint32_t)seed),
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY}};
	struct ibv_wc wc;
	int ret;

	pattern_fill(e->buffer + FROM, bytes, seed, 0);
	ret = ibv_post_send(e->qp, &wr, &bad);
	if (ret)
		return ret;
	return poll_for(e, POLL, &wc) == 1 && wc.status == IBV_WC_SUCCESS ? 0 : EIO;
}

/* Wait for what @order says, and note what there is to see of it. */
static void receive_datagram(struct end *e, const struct order *order, struct ibv_wc *wc,
			     struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	if (poll_for(e, order->by, wc) != 1)
		return;
	*seen = (struct seen){
		.count = 1,
		.status = wc->status,
		.byte_len = wc->byte_len,
		.src_qp = wc->src_qp,
		.imm = ntohl(wc->imm_data),
		.flags = wc->wc_flags,
		.slid = wc->slid,
		.sl = wc->sl,
		.wrong = pattern_check(e->buffer + GRH, order->bytes, order->seed, 0),
	};
	memcpy(seen->header, e->buffer, GRH);
	errno = 0;
	seen->init_errno = ibv_init_ah_from_wc(e->ctx, 1, wc, (void *)e->buffer, &seen->attr);
}

/* --- the other process: answers each datagram to where it came from -------------- */

enum device { ETHERNET, INFINIBAND, PAIRED /* Ethernet with the rows of mlx5 */, DEVICES };

static struct end ends[DEVICES];

static void open_ends(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0] || strcmp(list[0]->name, "any0"))
		DIE("the first device is not any0: is the library under test loaded?");
	for (int i = 0; i < DEVICES; i++)
		open_end(&ends[i], list[i]);
	ibv_free_device_list(list);
}

static int answer(struct end *e, const struct order *order, struct ibv_wc *wc)
{
	struct ibv_ah *ah = ibv_create_ah_from_wc(e->pd, wc, (void *)e->buffer, 1);
	int ret;

	if (!ah)
		return errno;
	ret = send_datagram(e, ah, wc->src_qp, order->bytes, order->seed + 1);
	return ibv_destroy_ah(ah) ? errno : ret;
}

static void serve(int sock)
{
	uint32_t qpn[DEVICES];
	struct order order;
	struct seen seen;
	struct ibv_wc wc;

	open_ends();
	for (int i = 0; i < DEVICES; i++) {
		qpn[i] = ends[i].qp->qp_num;
		for (enum family g = GROUP_V4; g <= GROUP_V6; g++)
			NEED(ibv_attach_mcast(ends[i].qp, &group_gid[g], 0) == 0);
	}
	spawn_send(sock, qpn, sizeof(qpn));
	while (spawn_receive_any(sock, &order, sizeof(order))) {
		struct end *e = &ends[order.device];

		post_receive(e);
		spawn_send(sock, &order, sizeof(order)); /* it can come */
		receive_datagram(e, &order, &wc, &seen);
		spawn_send(sock, &seen, sizeof(seen));
		spawn_receive(sock, &order, sizeof(order)); /* the answer can come */
		if (seen.count && !seen.init_errno)
			seen.answer_errno = answer(e, &order, &wc);
		spawn_send(sock, &seen.answer_errno, sizeof(seen.answer_errno));
	}
	for (int i = 0; i < DEVICES; i++) {
		for (enum family g = GROUP_V4; g <= GROUP_V6; g++)
			EXPECT(ibv_detach_mcast(ends[i].qp, &group_gid[g], 0) == 0,
			       "ibv_detach_mcast");
		close_end(&ends[i]);
	}
	exit(failures() != 0);
}

/* --- what must be seen ----------------------------------------------------------- */

static struct spawned peer;
static uint32_t peer_qpn[DEVICES];
static uint64_t seed = 1000;

struct path {
	union ibv_gid from, to;
	bool global, infiniband;
	bool v1; /* from a row of RoCE v1 */
	uint8_t class, sl;
	uint16_t lid;
};

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, mapped, 12) == 0 ||
	       memcmp(gid->raw, group_gid[GROUP_V4].raw, 12) == 0;
}

/* The 40 bytes are a form the receiver can tell by the completion alone, and say both addresses. */
static void check_header(const struct path *p, const struct seen *s)
{
	bool ipv4 = !p->infiniband && !p->v1 && is_ipv4(&p->from) && is_ipv4(&p->to);
	const uint8_t *h = s->header;

	EXPECT(s->sl == (p->infiniband ? p->sl
			 : p->v1       ? TYPE_V1
			 : ipv4	       ? TYPE_IPV4
				       : TYPE_IPV6),
	       "sl %u", s->sl);
	if (!p->global)
		return;
	if (ipv4) {
		EXPECT(h[20] == 0x45 && h[21] == p->class, "no IPv4 header: 0x%02x%02x", h[20],
		       h[21]);
		EXPECT(!memcmp(h + 32, p->from.raw + 12, 4) && !memcmp(h + 36, p->to.raw + 12, 4),
		       "its addresses");
		return;
	}
	EXPECT(h[0] >> 4 == 6, "no IPv6 header: 0x%02x", h[0]);
	EXPECT((uint8_t)(h[0] << 4 | h[1] >> 4) == p->class, "its class");
	EXPECT((h[6] == NEXT_IBA) == (p->v1 || p->infiniband), "its next header 0x%02x", h[6]);
	EXPECT(!memcmp(h + 8, p->from.raw, 16) && !memcmp(h + 24, p->to.raw, 16), "its addresses");
}

static void check_seen(const struct path *p, const struct order *order, const struct seen *s,
		       uint32_t src_qp)
{
	if (!EXPECT(s->count == 1, "nothing came") ||
	    !EXPECT(s->status == IBV_WC_SUCCESS, "status %u", s->status))
		return;
	EXPECT(s->byte_len == GRH + order->bytes, "%u bytes", s->byte_len);
	EXPECT(s->wrong == -1, "byte %lld of the payload", (long long)s->wrong);
	EXPECT(s->src_qp == src_qp, "src_qp %u", s->src_qp);
	EXPECT(s->imm == (uint32_t)order->seed, "immediate data 0x%x", s->imm);
	EXPECT(s->flags == (IBV_WC_WITH_IMM | (p->global ? IBV_WC_GRH : 0)), "flags 0x%x",
	       s->flags);
	EXPECT(s->slid == p->lid, "slid %u", s->slid);
	check_header(p, s);
	EXPECT(s->init_errno == 0, "ibv_init_ah_from_wc: %d", s->init_errno);
	EXPECT(s->attr.is_global == p->global && s->attr.sl == s->sl && s->attr.dlid == p->lid &&
		       s->attr.port_num == 1,
	       "address attributes");
	if (p->global)
		EXPECT(!memcmp(&s->attr.grh.dgid, &p->from, 16) &&
			       s->attr.grh.traffic_class == p->class,
		       "where to answer to");
}

/* The path that leads back, by what the receiver found. */
static struct path way_back(const struct path *p, const struct end *e,
			    const struct ibv_ah_attr *attr)
{
	struct path back = *p;
	struct ibv_gid_entry entry;

	back.to = p->from;
	if (ibv_query_gid_ex(e->ctx, 1, attr->grh.sgid_index, &entry, 0))
		DIE("row %u of the GID table", attr->grh.sgid_index);
	back.from = entry.gid;
	back.v1 = entry.gid_type == IBV_GID_TYPE_ROCE_V1;
	EXPECT(back.v1 == p->v1, "answered from row %u, another version", attr->grh.sgid_index);
	if (p->global && !(p->to.raw[0] == 0xff))
		EXPECT(!memcmp(&back.from, &p->to, 16), "answered from row %u, another address",
		       attr->grh.sgid_index);
	return back;
}

/* There and back. */
static void exchange(int device, const struct path *p, struct ibv_ah_attr *attr, uint32_t qpn,
		     enum poll_by by, uint32_t bytes)
{
	struct end *e = &ends[device];
	struct order order = {device, by, bytes, seed += 2}, back_order = order;
	struct ibv_ah *ah = ibv_create_ah(e->pd, attr);
	struct path back;
	struct seen seen;
	struct ibv_wc wc;
	int err;

	if (!EXPECT(ah != NULL, "ibv_create_ah: errno %d", errno))
		return;
	spawn_send(peer.sock, &order, sizeof(order));
	spawn_receive(peer.sock, &order, sizeof(order));
	err = send_datagram(e, ah, qpn, bytes, order.seed);
	EXPECT(err == 0, "sending: %d", err);
	spawn_receive(peer.sock, &seen, sizeof(seen));
	check_seen(p, &order, &seen, e->qp->qp_num);

	back = way_back(p, e, &seen.attr);
	back_order.seed++;
	post_receive(e);
	spawn_send(peer.sock, &order, sizeof(order));
	receive_datagram(e, &back_order, &wc, &seen);
	check_seen(&back, &back_order, &seen, peer_qpn[device]);
	spawn_receive(peer.sock, &err, sizeof(err));
	EXPECT(err == 0, "answering: %d", err);
	EXPECT(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
}

/* --- Ethernet -------------------------------------------------------------------- */

/* First row of the GID table of that family and version, -1 if this host has no such address. */
static int row_of(enum device device, enum family family, bool v1, union ibv_gid *gid)
{
	enum ibv_gid_type type = v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	struct ibv_gid_entry rows[64];
	ssize_t count = ibv_query_gid_table(ends[device].ctx, rows, COUNT_OF(rows), 0);

	for (ssize_t i = 0; i < count; i++) {
		bool local = rows[i].gid.raw[0] == 0xfe && rows[i].gid.raw[1] == 0x80;

		*gid = rows[i].gid;
		if (rows[i].gid_type == type && family == (is_ipv4(gid) ? V4
							   : local	? LINK_LOCAL
									: V6))
			return (int)rows[i].gid_index;
	}
	return -1;
}

/* The largest is a datagram's, which the network may not carry. */
static uint32_t size_on(enum device device, size_t i)
{
	return sizes[i] < ends[device].mtu ? sizes[i] : ends[device].mtu;
}

static void ethernet_cell(enum device device, bool v1, enum family from, enum family to)
{
	struct path p = {.global = true, .v1 = v1, .class = CLASS};
	int source = row_of(device, from, v1, &p.from),
	    target = to < FAMILIES ? row_of(device, to, v1, &p.to) : 0;
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	if (source < 0 || target < 0)
		return; /* said by kinds_present() */
	if (to >= FAMILIES)
		p.to = group_gid[to];
	attr.grh = (struct ibv_global_route){.dgid = p.to,
					     .sgid_index = (uint8_t)source,
					     .hop_limit = HOPS,
					     .traffic_class = CLASS,
					     .flow_label = LABEL};
	attr.sl = 3; /* a priority, and nothing the receiver hears of */
	for (enum poll_by by = POLL; by < POLLS; by++)
		for (size_t i = 0; i < COUNT_OF(sizes); i++) {
			row("Ethernet%s, %s to %s, %u bytes, %s",
			    device == PAIRED ? v1 ? ", RoCE v1" : ", RoCE v2" : "",
			    family_name[from], family_name[to], size_on(device, i), poll_name[by]);
			exchange(device, &p, &attr, to < FAMILIES ? peer_qpn[device] : 0xffffff, by,
				 size_on(device, i));
		}
}

static void ethernet_without_grh(void)
{
	struct ibv_ah_attr attr = {.port_num = 1};

	row("Ethernet, no GRH");
	EXPECT_NULL(ibv_create_ah(ends[ETHERNET].pd, &attr), EINVAL);
}

/* --- InfiniBand ------------------------------------------------------------------ */

static void infiniband_cell(uint8_t sl, bool global)
{
	struct path p = {.global = global,
			 .infiniband = true,
			 .sl = sl,
			 .lid = ends[INFINIBAND].lid,
			 .class = CLASS};
	struct ibv_ah_attr attr = {
		.is_global = global, .port_num = 1, .sl = sl, .dlid = ends[INFINIBAND].lid};

	if (ibv_query_gid(ends[INFINIBAND].ctx, 1, 0, &p.from))
		DIE("no GID");
	p.to = p.from;
	attr.grh = (struct ibv_global_route){
		.dgid = p.to, .hop_limit = HOPS, .traffic_class = CLASS, .flow_label = LABEL};
	for (enum poll_by by = POLL; by < POLLS; by++) {
		row("InfiniBand, service level %u, %s GRH, %s", sl, global ? "with" : "without",
		    poll_name[by]);
		exchange(INFINIBAND, &p, &attr, peer_qpn[INFINIBAND], by,
			 size_on(INFINIBAND, sl % COUNT_OF(sizes)));
	}
}

/* --- addresses ------------------------------------------------------------------- */

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("%s: errno %d\n", path, errno);
	close(fd);
}

/* Into a network namespace of its own, in which it is root. */
static bool leave_network(void)
{
	unsigned int uid = geteuid();
	char map[32];

	if (unshare(CLONE_NEWNET) == 0)
		return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	put("/proc/self/uid_map", map);
	return true;
}

/* A network with an address of each kind, if this process may have one; else there are those of the
 * host. */
static void enter_network(void)
{
	static const char script[] =
		"exec 2>/dev/null; ip link set lo up && ip addr add 192.0.2.77/32 dev lo && "
		"ip addr add fd00::77/128 dev lo && ip addr add fe80::77/64 dev lo";

	if (!leave_network() || system(script))
		printf("no network of its own\n");
}

static void kinds_present(void)
{
	union ibv_gid gid;

	for (enum family f = V4; f < FAMILIES; f++)
		if (row_of(ETHERNET, f, false, &gid) < 0)
			printf("this host has no %s address\n", family_name[f]);
}

static void run(void)
{
	open_ends();
	spawn_self(&peer, ROLE);
	spawn_receive(peer.sock, peer_qpn, sizeof(peer_qpn));
	kinds_present();
	for (enum family from = V4; from < FAMILIES; from++)
		for (enum family to = V4; to <= GROUP_V6; to++) {
			ethernet_cell(ETHERNET, false, from, to);
			ethernet_cell(PAIRED, false, from, to);
			ethernet_cell(PAIRED, true, from, to);
		}
	ethernet_without_grh();
	for (uint8_t sl = 0; sl < 16; sl++)
		for (int global = 0; global < 2; global++)
			infiniband_cell(sl, global);
	shutdown(peer.sock, SHUT_WR);
	spawn_wait(&peer);
	for (int i = 0; i < DEVICES; i++)
		close_end(&ends[i]);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, ROLE);

	time_limit(200);
	if (sock >= 0)
		serve(sock);
	enter_network();
	sandbox_enter();
	setenv("ANYVERBS_DEVICES", "any0,ib0:link=infiniband,any1:gid_rows=mlx5", 1);
	run();
	return sandbox_end();
}
