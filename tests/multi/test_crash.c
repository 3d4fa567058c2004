/* SPDX-License-Identifier: MIT */
/*
 * Processes that are killed at any moment harm nobody else.
 *
 * This process, the survivor, connects to a victim in each round and moves data with it; the victim has
 * itself killed at a step and after a delay that the round's seed chooses. All the while the survivor
 * exchanges messages with a third process. After the death the survivor's requests must end, in time; the
 * exchange with the third process must lose nothing; no descriptor and no file may be left.
 *
 * TEST_ROUNDS (or the first argument) and TEST_SEED choose how many rounds and which; both are printed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/sandbox.h"

#define WINDOW	    4u		 /* requests outstanding, of each kind */
#define SLOT	    (128u << 10) /* bytes of a message's buffer */
#define SEND_AT	    0u
#define RECV_AT	    (WINDOW * SLOT)
#define STATIC_AT   (2 * WINDOW * SLOT) /* never written: what the peer reads */
#define TARGET_AT   (STATIC_AT + SLOT)	/* what the peer writes */
#define LANDING_AT  (TARGET_AT + SLOT)	/* where our READs and atomics put their results */
#define FLOW_BYTES  (LANDING_AT + WINDOW * SLOT)
#define BUFFER	    (2 * FLOW_BYTES) /* for two flows */
#define RETRY_MS    140u	     /* (7 + 1) x 4.096 us x 2^12 */
#define KEPT	    16u		     /* descriptors that may be kept for peers that are expected back */
#define SLACK_MS    3000u	     /* for a machine that has other things to do */
#define LATE_MS	    20u		     /* how long a death may go unnoticed */
#define STATIC_SEED 77u

enum step {
	STEP_START,
	STEP_OPEN,
	STEP_QP,
	STEP_INIT,
	STEP_RTR,
	STEP_RTS,
	STEP_TRAFFIC,
	STEP_DESTROY,
	STEP_CLOSE,
	STEP_N
};
enum kind { KIND_SEND = 1, KIND_WRITE = 2, KIND_READ = 4, KIND_ATOMIC = 8 };
enum id { ID_RECV = 1, ID_SEND, ID_RDMA };

struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey, qpn;
};

/* An opened device with one region. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *buffer;
	union ibv_gid gid;
};

/* Traffic of one queue pair. */
struct flow {
	struct end *end;
	uint8_t *buffer; /* its part of the end's memory */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct hello peer;
	uint64_t seed;	    /* of the patterns we send; the peer's is seed ^ 1 */
	unsigned int kinds; /* enum kind: what we post */
	uint64_t sent, sends_done, rdma, rdma_done, receives, received;
	uint64_t messages; /* arrived with success */
	bool failed, stop; /* stop: post nothing more */
	enum ibv_wc_status first_error;
};

/* --- numbers --- */

static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* The same on both sides of a connection. */
static uint32_t message_bytes(uint64_t seed, uint64_t n)
{
	static const uint32_t sizes[] = {8, 8, 64, 65, 1000, 16384, 16385, 100000};
	uint64_t state = (seed & ~1ull) * 31 + n;

	return sizes[mix(&state) % COUNT_OF(sizes)];
}

/* --- objects --- */

static void end_open(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	e->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!e->ctx)
		DIE("no device: errno %d", errno);
	ibv_free_device_list(list);
	e->pd = ibv_alloc_pd(e->ctx);
	e->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!e->pd || e->buffer == MAP_FAILED || ibv_query_gid(e->ctx, 1, 0, &e->gid))
		DIE("PD, memory or GID");
	pattern_fill(e->buffer + STATIC_AT, SLOT, STATIC_SEED, 0);
	pattern_fill(e->buffer + FLOW_BYTES + STATIC_AT, SLOT, STATIC_SEED, 0);
	e->mr = ibv_reg_mr(e->pd, e->buffer, BUFFER,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC);
	if (!e->mr)
		DIE("ibv_reg_mr: errno %d", errno);
}

static void end_close(struct end *e)
{
	EXPECT(ibv_dereg_mr(e->mr) == 0 && ibv_dealloc_pd(e->pd) == 0 && ibv_close_device(e->ctx) == 0,
	       "closing");
	munmap(e->buffer, BUFFER);
}

static struct ibv_qp *create_qp(struct end *e, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 2 * WINDOW + 1,
			.max_recv_wr = WINDOW,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &attr);

	if (!qp)
		DIE("ibv_create_qp: errno %d", errno);
	return qp;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		DIE("to INIT");
}

static void to_rtr(struct ibv_qp *qp, const struct hello *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 5,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 1}},
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		DIE("to RTR");
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 12,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		DIE("to RTS");
}

/* --- traffic --- */

static struct hello hello_of(const struct flow *f)
{
	return (struct hello){.gid = f->end->gid,
			      .addr = (uintptr_t)f->buffer,
			      .rkey = f->end->mr->rkey,
			      .qpn = f->qp->qp_num};
}

static void post_receives(struct flow *f)
{
	while (f->receives - f->received < WINDOW) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)f->buffer + RECV_AT + f->receives % WINDOW * SLOT,
			.length = SLOT,
			.lkey = f->end->mr->lkey,
		};
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)ID_RECV << 56 | f->receives,
					 .sg_list = &sge,
					 .num_sge = 1},
				   *bad;

		if (!EXPECT(ibv_post_recv(f->qp, &wr, &bad) == 0, "ibv_post_recv"))
			return;
		f->receives++;
	}
}

static void post_send(struct flow *f)
{
	uint32_t bytes = message_bytes(f->seed, f->sent);
	uint8_t *at = f->buffer + SEND_AT + f->sent % WINDOW * SLOT;
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = bytes, .lkey = f->end->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)ID_SEND << 56 | f->sent,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND},
			   *bad;

	pattern_fill(at, bytes, f->seed, f->sent * SLOT);
	if (EXPECT(ibv_post_send(f->qp, &wr, &bad) == 0, "ibv_post_send"))
		f->sent++;
}

static enum ibv_wr_opcode rdma_opcode(const struct flow *f, uint64_t n)
{
	static const struct {
		enum kind kind;
		enum ibv_wr_opcode opcode;
	} of[] = {{KIND_WRITE, IBV_WR_RDMA_WRITE},
		  {KIND_READ, IBV_WR_RDMA_READ},
		  {KIND_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};

	while (!(f->kinds & of[n % 3].kind))
		n++;
	return of[n % 3].opcode;
}

static void post_rdma(struct flow *f)
{
	enum ibv_wr_opcode op = rdma_opcode(f, f->rdma);
	struct ibv_sge sge = {
		.addr = (uintptr_t)f->buffer + LANDING_AT + f->rdma % WINDOW * SLOT,
		.length = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : message_bytes(f->seed, f->rdma + 1000),
		.lkey = f->end->mr->lkey,
	};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)ID_RDMA << 56 | f->rdma,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op},
			   *bad;

	wr.wr.rdma.remote_addr = f->peer.addr + (op == IBV_WR_RDMA_READ ? STATIC_AT : TARGET_AT);
	wr.wr.rdma.rkey = f->peer.rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = f->peer.addr + TARGET_AT;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = f->peer.rkey;
	}
	if (EXPECT(ibv_post_send(f->qp, &wr, &bad) == 0, "ibv_post_send"))
		f->rdma++;
}

static uint64_t number_of(const struct ibv_wc *wc)
{
	return wc->wr_id & ((1ull << 56) - 1);
}

/* A message that arrives with success is whole, and the next one of its sender. */
static void received(struct flow *f, const struct ibv_wc *wc)
{
	uint64_t n = f->received++;
	uint32_t bytes = message_bytes(f->seed, n);
	int64_t at;

	EXPECT(number_of(wc) == n, "receive %lu completes as %lu", n, number_of(wc));
	if (wc->status != IBV_WC_SUCCESS)
		return;
	f->messages++;
	EXPECT(wc->byte_len == bytes, "message %lu has %u bytes instead of %u", n, wc->byte_len, bytes);
	at = pattern_check(f->buffer + RECV_AT + n % WINDOW * SLOT, bytes, f->seed ^ 1, n * SLOT);
	EXPECT(at < 0, "message %lu of %u bytes is not what was sent from byte %ld on", n, bytes, (long)at);
}

static void rdma_done(struct flow *f, const struct ibv_wc *wc)
{
	uint64_t n = f->rdma_done++;

	EXPECT(number_of(wc) == n, "request %lu completes as %lu", n, number_of(wc));
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RDMA_READ)
		EXPECT(pattern_check(f->buffer + LANDING_AT + n % WINDOW * SLOT, wc->byte_len, STATIC_SEED,
				     0) == -1,
		       "READ %lu brought something else", n);
}

static void completed(struct flow *f, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS && !f->failed) {
		f->failed = true;
		f->first_error = wc->status;
	}
	switch (wc->wr_id >> 56) {
	case ID_RECV:
		received(f, wc);
		break;
	case ID_SEND:
		EXPECT(number_of(wc) == f->sends_done, "send %lu completes as %lu", f->sends_done,
		       number_of(wc));
		f->sends_done++;
		break;
	default:
		rdma_done(f, wc);
	}
}

/* Take what is in the CQ, which several flows may share. */
static int flows_poll(struct ibv_cq *cq, struct flow **flows, int count)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(cq, 8, wc);

	EXPECT(n >= 0, "ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++) {
		struct flow *f = NULL;

		for (int k = 0; k < count; k++)
			if (flows[k] && flows[k]->qp && flows[k]->qp->qp_num == wc[i].qp_num)
				f = flows[k];
		if (EXPECT(f, "a completion of unknown QP 0x%x", wc[i].qp_num))
			completed(f, &wc[i]);
	}
	return n;
}

static void flow_post(struct flow *f)
{
	if (f->failed || f->stop)
		return;
	post_receives(f);
	if ((f->kinds & KIND_SEND) && f->sent - f->sends_done < WINDOW)
		post_send(f);
	if ((f->kinds & ~(unsigned int)KIND_SEND) && f->rdma - f->rdma_done < WINDOW)
		post_rdma(f);
}

static bool flow_idle(const struct flow *f)
{
	return f->sent == f->sends_done && f->rdma == f->rdma_done;
}

/* --- the third process: sends every message back --- */

static void echo(struct flow *f, uint64_t from)
{
	while (from < f->messages && f->sent - f->sends_done < WINDOW) {
		post_send(f);
		from = f->sent;
	}
}

static void third_main(int sock)
{
	struct end e;
	struct flow f = {.end = &e, .seed = 3};
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct hello me;
	void *context;

	end_open(&e);
	f.buffer = e.buffer;
	channel = ibv_create_comp_channel(e.ctx);
	f.cq = ibv_create_cq(e.ctx, 64, NULL, channel, 0);
	f.qp = create_qp(&e, f.cq);
	me = hello_of(&f);
	if (write(sock, &me, sizeof(me)) != sizeof(me) ||
	    read(sock, &f.peer, sizeof(f.peer)) != sizeof(f.peer))
		DIE("hello");
	to_init(f.qp);
	post_receives(&f);
	to_rtr(f.qp, &f.peer);
	to_rts(f.qp);
	ibv_req_notify_cq(f.cq, 0);
	if (write(sock, "", 1) != 1)
		DIE("ready");
	for (;;) {
		struct pollfd p[2] = {{.fd = channel->fd, .events = POLLIN}, {.fd = sock, .events = POLLIN}};

		if (flows_poll(f.cq, (struct flow *[]){&f}, 1)) {
			EXPECT(!f.failed, "status '%s'", ibv_wc_status_str(f.first_error));
			post_receives(&f);
			echo(&f, f.sent);
			continue;
		}
		poll(p, 2, -1);
		if (p[1].revents)
			break;
		if (ibv_get_cq_event(channel, &cq, &context))
			DIE("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
	}
	EXPECT(ibv_destroy_qp(f.qp) == 0 && ibv_destroy_cq(f.cq) == 0 &&
		       ibv_destroy_comp_channel(channel) == 0,
	       "destroying");
	end_close(&e);
	exit(failures() ? 1 : 0);
}

/* --- the victim --- */

static struct {
	enum step at;
	uint64_t delay_ns;
	unsigned int turns; /* of traffic before a death in STEP_TRAFFIC */
} fate;

static void arm_death(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	struct itimerspec when = {.it_value = {.tv_nsec = (long)fate.delay_ns}};
	timer_t timer;

	if (fate.delay_ns == 0)
		kill(getpid(), SIGKILL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL))
		DIE("timer");
}

static void reach(enum step step)
{
	if (fate.at == step)
		arm_death();
}

static void choose_fate(uint64_t seed)
{
	static const uint64_t scale[] = {0, 20000, 200000, 3000000};

	fate.at = mix(&seed) % 2 ? STEP_TRAFFIC : (enum step)(mix(&seed) % STEP_N);
	fate.delay_ns = scale[mix(&seed) % COUNT_OF(scale)];
	if (fate.delay_ns)
		fate.delay_ns = 1 + mix(&seed) % fate.delay_ns;
	if (fate.at == STEP_START)
		fate.delay_ns += mix(&seed) % 8000000;
	fate.turns = (unsigned int)(mix(&seed) % 80);
}

static void victim_traffic(struct flow *f)
{
	for (unsigned int turn = 0; turn < 100 && !f->failed; turn++) {
		if (turn == fate.turns)
			reach(STEP_TRAFFIC);
		flow_post(f);
		if (!flows_poll(f->cq, &f, 1))
			sched_yield();
	}
}

static void victim_main(int sock, uint64_t seed, unsigned int kinds)
{
	struct end e;
	struct flow f = {.end = &e, .seed = seed | 1, .kinds = kinds};
	struct hello me;

	choose_fate(seed);
	reach(STEP_START);
	end_open(&e);
	f.buffer = e.buffer;
	reach(STEP_OPEN);
	f.cq = ibv_create_cq(e.ctx, 64, NULL, NULL, 0);
	f.qp = create_qp(&e, f.cq);
	reach(STEP_QP);
	me = hello_of(&f);
	if (write(sock, &me, sizeof(me)) != sizeof(me) ||
	    read(sock, &f.peer, sizeof(f.peer)) != sizeof(f.peer))
		exit(1);
	to_init(f.qp);
	post_receives(&f);
	reach(STEP_INIT);
	to_rtr(f.qp, &f.peer);
	reach(STEP_RTR);
	to_rts(f.qp);
	reach(STEP_RTS);
	victim_traffic(&f);
	reach(STEP_DESTROY);
	ibv_destroy_qp(f.qp);
	ibv_destroy_cq(f.cq);
	reach(STEP_CLOSE);
	end_close(&e);
	exit(failures() ? 1 : 0);
}

/* --- the survivor --- */

static struct end here;
static struct flow third = {.end = &here, .seed = 2};
static int third_sock;
static pid_t third_pid;
static uint64_t slowest_ms, late_successes;

static pid_t start(const char *role, uint64_t seed, unsigned int kinds, int *sock)
{
	char exe[] = "/proc/self/exe", word[16], number[16], seed_text[32], kind_text[16];
	char *argv[] = {exe, word, number, seed_text, kind_text, NULL};
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		DIE("socketpair");
	fcntl(pair[0], F_SETFD, FD_CLOEXEC);
	snprintf(word, sizeof(word), "%s", role);
	snprintf(number, sizeof(number), "%d", pair[1]);
	snprintf(seed_text, sizeof(seed_text), "%lu", seed);
	snprintf(kind_text, sizeof(kind_text), "%u", kinds);
	if (posix_spawn(&pid, exe, NULL, NULL, argv, environ))
		DIE("posix_spawn");
	close(pair[1]);
	*sock = pair[0];
	return pid;
}

/* One message to the third process and back; more than one is never under way. */
static void third_turn(void)
{
	if (third.sent == third.messages && third.sent == third.sends_done)
		post_send(&third);
	post_receives(&third);
	EXPECT(!third.failed, "the bystander's queue pair failed: '%s'",
	       ibv_wc_status_str(third.first_error));
	if (third.failed)
		DIE("going on makes no sense");
}

/* A little of everything. */
static void turn(struct flow *victim)
{
	struct flow *flows[] = {&third, victim};

	third_turn();
	if (victim && victim->qp)
		flow_post(victim);
	if (victim && victim->cq != third.cq)
		(void)flows_poll(victim->cq, flows, 2);
	if (!flows_poll(third.cq, flows, 2))
		usleep(20);
}

static void third_start(void)
{
	struct hello me;
	char ready;

	row("the third process starts");
	third_pid = start("--third", 0, 0, &third_sock);
	third.cq = ibv_create_cq(here.ctx, 256, NULL, NULL, 0);
	third.qp = create_qp(&here, third.cq);
	me = hello_of(&third);
	if (read(third_sock, &third.peer, sizeof(third.peer)) != sizeof(third.peer) ||
	    write(third_sock, &me, sizeof(me)) != sizeof(me))
		DIE("hello");
	to_init(third.qp);
	post_receives(&third);
	to_rtr(third.qp, &third.peer);
	to_rts(third.qp);
	if (read(third_sock, &ready, 1) != 1)
		DIE("the third process is not ready");
}

static void third_stop(void)
{
	int status = 0;

	row("the third process has seen nothing of it");
	EXPECT(write(third_sock, "", 1) == 1, "write");
	waitpid(third_pid, &status, 0);
	EXPECT(status == 0, "it ended with status 0x%x", (unsigned int)status);
	close(third_sock);
	EXPECT(ibv_destroy_qp(third.qp) == 0 && ibv_destroy_cq(third.cq) == 0, "destroying");
}

/* Bytes from the victim, while the exchange with the third goes on. Return: false if it is dead instead */
static bool read_from(int sock, void *to, size_t bytes, struct flow *victim)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	while (poll(&p, 1, 0) == 0)
		turn(victim);
	return read(sock, to, bytes) == (ssize_t)bytes;
}

static bool dead(int sock)
{
	char c;

	return recv(sock, &c, 1, MSG_DONTWAIT) == 0;
}

/*
 * The victim is dead: every request ends, and one posted now ends with an error. What is posted within a few
 * milliseconds may still have been left in memory that both mapped, and end with success.
 */
static void expect_end(struct flow *f)
{
	uint64_t begin = now_ms(), limit = begin + RETRY_MS + SLACK_MS, posted;

	f->stop = true;
	do {
		posted = now_ms();
		if (!f->failed && f->sent - f->sends_done < WINDOW)
			post_send(f);
		while (!flow_idle(f) && now_ms() < limit)
			turn(f);
		late_successes += !f->failed;
	} while (!f->failed && posted < begin + LATE_MS);
	if (now_ms() - begin > slowest_ms)
		slowest_ms = now_ms() - begin;
	EXPECT(flow_idle(f), "%lu sends and %lu other requests never end", f->sent - f->sends_done,
	       f->rdma - f->rdma_done);
	EXPECT(f->failed, "a request posted %lu ms after the peer's death ends with success", posted - begin);
}

/* In the error state all receives have been flushed. */
static void expect_flushed(struct flow *f)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(ibv_query_qp(f->qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR,
	       "state %d", (int)attr.qp_state);
	for (uint64_t end = now_ms() + SLACK_MS; f->received < f->receives && now_ms() < end;)
		turn(f);
	EXPECT(f->received == f->receives, "%lu receives were not flushed", f->receives - f->received);
}

static void expect_third_goes_on(struct flow *victim)
{
	uint64_t messages = third.messages + 2, end = now_ms() + RETRY_MS + SLACK_MS;

	while (third.messages < messages && now_ms() < end)
		turn(victim);
	EXPECT(third.messages >= messages, "the exchange with the third process stands still");
}

static bool connect_to_victim(struct flow *f, int sock)
{
	struct hello me = hello_of(f);

	if (!read_from(sock, &f->peer, sizeof(f->peer), NULL))
		return false;
	to_init(f->qp);
	post_receives(f);
	to_rtr(f->qp, &f->peer);
	to_rts(f->qp);
	(void)!send(sock, &me, sizeof(me), MSG_NOSIGNAL);
	return true;
}

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void show_descriptors(void)
{
	char path[64], target[256];

	for (int fd = 0; fd < 64; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0)
			printf("     %d: %.*s\n", fd, (int)n, target);
	}
}

static void one_round(uint64_t seed)
{
	struct flow f = {.end = &here, .seed = seed & ~1ull};
	unsigned int victims_kinds;
	int sock, status;
	pid_t pid;

	f.buffer = here.buffer + FLOW_BYTES;
	f.kinds = (unsigned int)(mix(&seed) % 16);
	victims_kinds = (unsigned int)(mix(&seed) % 16);
	f.cq = mix(&seed) % 2 ? third.cq : ibv_create_cq(here.ctx, 64, NULL, NULL, 0);
	f.qp = create_qp(&here, f.cq);
	pid = start("--victim", f.seed, victims_kinds, &sock);
	if (connect_to_victim(&f, sock)) {
		while (!dead(sock))
			turn(&f);
		waitpid(pid, &status, 0);
		expect_end(&f);
		expect_flushed(&f);
	} else {
		f.stop = true;
		waitpid(pid, &status, 0);
	}
	EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0,
	       "the victim ended with status 0x%x", (unsigned int)status);
	expect_third_goes_on(&f);
	close(sock);
	EXPECT(ibv_destroy_qp(f.qp) == 0, "ibv_destroy_qp");
	f.qp = NULL;
	if (f.cq != third.cq)
		EXPECT(ibv_destroy_cq(f.cq) == 0, "ibv_destroy_cq");
}

static uint64_t number(const char *name, const char *arg, uint64_t otherwise)
{
	const char *text = arg ? arg : getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void roles(int argc, char **argv)
{
	if (argc != 5)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	time_limit(600);
	row("(%s, seed %s)", argv[1] + 2, argv[3]);
	if (!strcmp(argv[1], "--third"))
		third_main(atoi(argv[2]));
	victim_main(atoi(argv[2]), strtoull(argv[3], NULL, 0), (unsigned int)atoi(argv[4]));
}

int main(int argc, char **argv)
{
	uint64_t rounds, seed;
	unsigned int before = 0;

	roles(argc, argv);
	rounds = number("TEST_ROUNDS", argc > 1 ? argv[1] : NULL, TEST_SANITIZED ? 30 : 60);
	seed = number("TEST_SEED", NULL, (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid());
	printf("%lu rounds, TEST_SEED=%lu\n", rounds, seed);
	fflush(stdout);
	time_limit(120 + (unsigned int)rounds);
	sandbox_enter();
	end_open(&here);
	third.buffer = here.buffer;
	third_start();
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t state = seed + i;

		row("round %lu: TEST_ROUNDS=1 TEST_SEED=%lu", i, seed + i);
		one_round(mix(&state));
		if (i == 2)
			before = descriptors();
		if (i > 2 && descriptors() > before + KEPT) {
			fail_at(__FILE__, __LINE__, "%u descriptors instead of %u", descriptors(), before);
			show_descriptors();
			break;
		}
	}
	third_stop();
	end_close(&here);
	printf("longest wait after a death: %lu ms; %lu requests to the dead succeeded; %lu messages to the "
	       "third and back\n",
	       slowest_ms, late_successes, third.messages);
	sandbox_leave();
	return summary();
}
