/* SPDX-License-Identifier: MIT */
/*
 * Processes that may not read and write each other's memory: what still works through memory that
 * both map (messages and device memory), that the rest takes the wire, how it ends where there is
 * none, and that it is said once.
 */
#include <errno.h>
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/refuse_call.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define BARRIER	     "TEST_FORBIDDEN" /* what a process does to itself before it opens one, */
#define ERRORS	     "TEST_ERRORS"    /* and the descriptor of its standard error */
#define FROM	     0x3u
#define INTO	     0x400000u
#define PATIENCE     20000u
#define RESUME_LIMIT 250u   /* ms; the RNR timer alone would take 492 */
#define ATTEMPTS     8	    /* a busy host only makes it longer, so the best counts */
#define SOMEBODY     54321u /* a user without privileges */
#define QKEY	     0x1234u
#define DM_BYTES     4096u
#define BIG	     (4u << 20)
#define LOG_ROOM     65536u

enum service { RC, UC, UD, SERVICES };
static const char *const service_name[] = {"RC", "UC", "UD"};

static struct side a, b;
static const char *variant;
static uint64_t seed;

/* --- barriers -------------------------------------------------------------------- */

static void deny_calls(void)
{
	refuse_memory_of_others();
	if (!refuse_call(SYS_pidfd_getfd, EPERM))
		DIE("no filter: errno %d", errno);
}

/* To a user whose processes the kernel keeps apart if they ask for it. */
static void drop_privileges(bool reachable)
{
	if (setgroups(0, NULL) || setresgid(SOMEBODY, SOMEBODY, SOMEBODY) ||
	    setresuid(SOMEBODY, SOMEBODY, SOMEBODY))
		DIE("no other user: errno %d", errno);
	prctl(PR_SET_DUMPABLE, reachable);
}

static void raise_barrier(void)
{
	const char *what = getenv(BARRIER), *errors = getenv(ERRORS);

	if (!what || !errors)
		return;
	dup2(atoi(errors), STDERR_FILENO);
	if (strcmp(what, "filter") == 0)
		deny_calls();
	else if (strcmp(what, "reachable") == 0)
		drop_privileges(true);
	else if (strcmp(what, "unreachable") == 0)
		drop_privileges(false);
}

/* --- what a side does in its own process ----------------------------------------- */

enum job { MAKE_QP, CONNECT_QP, SEND_UD, OPEN_DM, CHECK_DM, CLOSE_DM, BE_REACHABLE };

static struct ibv_dm *dm;
static struct ibv_mr *dm_mr;

static uint64_t make_qp(struct node *n, int qp, enum service service)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
		.qp_type = service == UC ? IBV_QPT_UC : IBV_QPT_UD,
	};

	n->qp[qp] = ibv_create_qp(n->pd, &attr);
	return n->qp[qp] ? n->qp[qp]->qp_num : 0;
}

static struct ibv_ah_attr address(const uint64_t gid[2])
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	memcpy(&ah.grh.dgid, gid, sizeof(ah.grh.dgid));
	return ah;
}

static uint64_t connect_to(struct ibv_qp *qp, uint32_t dest, const uint64_t gid[2])
{
	struct ibv_qp_attr attr = connect_attr(dest, (const union ibv_gid *)gid);

	attr.qkey = QKEY;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	return (uint64_t)connect_qp(qp, attr);
}

static uint64_t send_ud(struct node *n, int qp, uint64_t to, const uint64_t gid[2])
{
	struct ibv_ah_attr attr = address(gid);
	struct ibv_ah *ah = ibv_create_ah(n->pd, &attr);
	struct ibv_sge sge = {(uintptr_t)n->arena + FROM, (uint32_t)(to >> 32),
			      n->info.lkey[KEY_FULL]};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_SEND,
		      .send_flags = IBV_SEND_SIGNALED,
		      .wr.ud = {.ah = ah, .remote_qpn = (uint32_t)to, .remote_qkey = QKEY}};
	int ret = ah ? ibv_post_send(n->qp[qp], &wr, &bad) : errno;

	if (ah)
		EXPECT(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
	return (uint64_t)ret;
}

static uint64_t open_dm(struct node *n)
{
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	uint64_t word = 7;

	dm = ibv_alloc_dm(n->ctx, &attr);
	dm_mr = dm ? ibv_reg_dm_mr(n->pd, dm, 0, DM_BYTES, PROBE_ALL | IBV_ACCESS_ZERO_BASED)
		   : NULL;
	if (!dm_mr || ibv_memcpy_to_dm(dm, 0, &word, sizeof(word)))
		DIE("device memory: errno %d", errno);
	return dm_mr->rkey;
}

static uint64_t check_dm(uint64_t offset, uint64_t bytes)
{
	static uint8_t copy[DM_BYTES];

	if (ibv_memcpy_from_dm(copy, dm, offset, bytes))
		return 1;
	return pattern_check(copy, bytes, PROBE_SEED, 0) != -1;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	int qp = (int)(job->arg[0] >> 8);

	switch ((enum job)(job->arg[0] & 0xff)) {
	case MAKE_QP:
		return make_qp(n, qp, (enum service)job->arg[1]);
	case CONNECT_QP:
		return connect_to(n->qp[qp], (uint32_t)job->arg[1], job->arg + 2);
	case SEND_UD:
		return send_ud(n, qp, job->arg[1], job->arg + 2);
	case OPEN_DM:
		return open_dm(n);
	case CHECK_DM:
		return check_dm(job->arg[1], job->arg[2]);
	case CLOSE_DM:
		return (uint64_t)(ibv_dereg_mr(dm_mr) | ibv_free_dm(dm));
	case BE_REACHABLE:
		return (uint64_t)prctl(PR_SET_DUMPABLE, 1);
	}
	return 1;
}

static uint64_t ask(struct side *s, enum job what, int qp, uint64_t x, const union ibv_gid *gid)
{
	struct side_job job = {.arg = {(uint64_t)qp << 8 | what, x}};

	if (gid)
		memcpy(job.arg + 2, gid, sizeof(*gid));
	side_begin(s, &job);
	return side_end(s);
}

/* --- messages; queue pair number is that of the service -------------------------- */

static void open_pairs(void)
{
	struct node_link patient = link_default();
	uint32_t number[2];

	patient.rnr_retry = 6;
	patient.min_rnr_timer = 31; /* 492 ms */
	patient.timeout = 18;	    /* a second, for what takes the wire */
	pair_create(&a, RC, &b, RC, NULL);
	pair_connect(&a, RC, &patient, &b, RC, &patient);
	for (enum service s = UC; s <= UD; s++) {
		number[0] = (uint32_t)ask(&a, MAKE_QP, (int)s, s, NULL);
		number[1] = (uint32_t)ask(&b, MAKE_QP, (int)s, s, NULL);
		if (!number[0] || !number[1] ||
		    ask(&a, CONNECT_QP, (int)s, number[1], &b.info.gid) ||
		    ask(&b, CONNECT_QP, (int)s, number[0], &a.info.gid))
			DIE("a pair of %s", service_name[s]);
	}
}

/* Of a connected service, the message being at that place. */
static void post_at(struct side *from, enum service s, uint32_t at, uint32_t bytes)
{
	struct node_send wr = side_message(side_sge(from, KEY_FULL, at, bytes));

	side_fill(from, at, bytes, ++seed, 0);
	EXPECT(side_post_send(from, (int)s, &wr, 1).ret == 0, "ibv_post_send");
}

static void post(struct side *from, struct side *to, enum service s, uint32_t bytes)
{
	uint64_t ret;

	if (s != UD) {
		post_at(from, s, FROM, bytes);
		return;
	}
	side_fill(from, FROM, bytes, ++seed, 0);
	ret = ask(from, SEND_UD, UD, (uint64_t)bytes << 32 | side_qpn(to, UD), &to->info.gid);
	EXPECT(ret == 0, "ibv_post_send: %lu", ret);
}

static void expect_sent(struct side *from)
{
	struct ibv_wc wc[1] = {{.status = IBV_WC_SUCCESS}};

	EXPECT(side_poll(from, 0, 1, PATIENCE, wc) == 1, "no completion");
	EXPECT(wc[0].status == IBV_WC_SUCCESS, "send: '%s'", ibv_wc_status_str(wc[0].status));
}

static void expect_received(struct side *to, enum service s, uint32_t bytes)
{
	uint32_t header = s == UD ? 40 : 0;
	struct ibv_wc wc[1] = {{.status = IBV_WC_SUCCESS}};

	if (side_poll(to, 1, 1, PATIENCE, wc) != 1)
		DIE("nothing received");
	EXPECT(wc[0].status == IBV_WC_SUCCESS && wc[0].byte_len == bytes + header,
	       "receive: '%s', %u bytes", ibv_wc_status_str(wc[0].status), wc[0].byte_len);
	EXPECT(side_check(to, INTO + header, bytes, seed, 0) == -1, "bytes differ from %ld on",
	       side_check(to, INTO + header, bytes, seed, 0));
}

static const char *way(const struct side *from)
{
	return from == &a ? "there" : "back";
}

static void message_row(struct side *from, struct side *to, enum service s, uint32_t bytes)
{
	row("[%s] %s: %u bytes %s", variant, service_name[s], bytes, way(from));
	side_recv_one(to, (int)s, 1, INTO, bytes + (s == UD ? 40 : 0));
	post(from, to, s, bytes);
	expect_sent(from);
	expect_received(to, s, bytes);
}

/*
 * Several messages before the first is taken: each has its own way through shared memory. And its
 * own place at the sender, where it may be still when the next one is posted.
 */
static void burst_row(struct side *from, struct side *to)
{
	const uint32_t bytes = 40000, first = (uint32_t)seed;
	struct ibv_wc wc[8];

	row("[%s] RC: 8 messages on their way at once, %s", variant, way(from));
	for (uint32_t i = 0; i < 8; i++)
		side_recv_one(to, RC, i, INTO + i * bytes, bytes);
	for (uint32_t i = 0; i < 8; i++)
		post_at(from, RC, FROM + i * bytes, bytes);
	EXPECT(side_poll(from, 0, 8, PATIENCE, wc) == 8, "completions");
	EXPECT(side_poll(to, 1, 8, PATIENCE, wc) == 8, "receives");
	for (uint32_t i = 0; i < 8; i++)
		EXPECT(side_check(to, INTO + i * bytes, bytes, first + 1 + i, 0) == -1,
		       "message %u", i);
}

/* No receive is posted at first, and the sender waits for its event. */
static void resume_row(struct side *from, struct side *to, uint32_t bytes)
{
	uint64_t begin, took = UINT64_MAX;

	row("[%s] RC: %u bytes %s, posted before the receive, the sender asleep", variant, bytes,
	    way(from));
	for (int i = 0; i < ATTEMPTS && took > RESUME_LIMIT; i++) {
		EXPECT(side_arm(from, 0, 0) == 0, "ibv_req_notify_cq");
		post(from, to, RC, bytes);
		side_later(to, 60);
		side_recv_one(to, RC, 1, INTO, bytes);
		begin = now_ms();
		EXPECT(side_comp_event(from, PATIENCE) == 0, "no event");
		took = now_ms() - begin;
		expect_sent(from);
		expect_received(to, RC, bytes);
	}
	EXPECT(took <= RESUME_LIMIT, "%lu ms at best", took);
}

static void message_rows(struct side *from, struct side *to)
{
	static const uint32_t sizes[] = {1,	64,    65,	 4096,	   16384,
					 16385, 65537, 1u << 20, BIG - 64, BIG};
	static const uint32_t datagrams[] = {1, 24, 25, 1000, 1024};

	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		/* The largest has no room for an odd beginning. */
		message_row(from, to, RC, sizes[i] == BIG ? BIG - 3 : sizes[i]);
		message_row(from, to, UC, sizes[i] == BIG ? BIG - 3 : sizes[i]);
		resume_row(from, to, sizes[i] == BIG ? BIG - 3 : sizes[i]);
	}
	for (size_t i = 0; i < COUNT_OF(datagrams); i++)
		message_row(from, to, UD, datagrams[i]);
	burst_row(from, to);
}

/* --- accesses to the other's memory ---------------------------------------------- */

static void access_rows(struct side *from, struct side *to, bool refused)
{
	static const struct {
		enum ibv_wr_opcode op;
		uint32_t bytes;
	} rows[] = {{IBV_WR_RDMA_WRITE, 1},
		    {IBV_WR_RDMA_WRITE, 1 << 20},
		    {IBV_WR_RDMA_READ, 8},
		    {IBV_WR_RDMA_READ, 1 << 20},
		    {IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
		    {IBV_WR_ATOMIC_CMP_AND_SWP, 8}};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("[%s] %s of %u bytes %s: %s", variant, probe_name(rows[i].op), rows[i].bytes,
		    way(from), refused ? "refused" : "done");
		EXPECT_PROBE(from, to, RC, rows[i].op, to->info.base[KEY_FULL] + INTO,
			     to->info.key[KEY_FULL], rows[i].bytes,
			     refused ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
		row("[%s] ... and others go on", variant);
		message_row(from, to, UC, 50000);
		message_row(to, from, RC, 50000);
	}
}

static void dm_rows(struct side *from, struct side *to)
{
	uint32_t rkey = (uint32_t)ask(to, OPEN_DM, 0, 0, NULL);
	struct side_job check = {.arg = {CHECK_DM, 64, 3000}};

	row("[%s] device memory, %s: atomics", variant, way(from));
	EXPECT_PROBE(from, to, RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, rkey, 8, IBV_WC_SUCCESS);
	EXPECT(side_peek(from, PROBE_AT) == 7, "old value %lu", side_peek(from, PROBE_AT));
	EXPECT_PROBE(from, to, RC, IBV_WR_RDMA_READ, 0, rkey, 8, IBV_WC_SUCCESS);
	EXPECT(side_peek(from, PROBE_AT) == 8, "value %lu", side_peek(from, PROBE_AT));
	row("[%s] device memory, %s: WRITE and READ", variant, way(from));
	EXPECT_PROBE(from, to, RC, IBV_WR_RDMA_WRITE, 64, rkey, 3000, IBV_WC_SUCCESS);
	side_begin(to, &check);
	EXPECT(side_end(to) == 0, "bytes of the WRITE");
	side_fill(from, PROBE_AT, 3000, 1, 0);
	EXPECT_PROBE(from, to, RC, IBV_WR_RDMA_READ, 64, rkey, 3000, IBV_WC_SUCCESS);
	EXPECT(side_check(from, PROBE_AT, 3000, PROBE_SEED, 0) == -1, "bytes of the READ");
	EXPECT(ask(to, CLOSE_DM, 0, 0, NULL) == 0, "closing");
}

/* --- what is said ---------------------------------------------------------------- */

/* Lines of process @from that name @pid and the remedy; *other: lines that do not. */
static unsigned int warnings(int log, pid_t from, pid_t pid, unsigned int *other)
{
	static char text[LOG_ROOM];
	char begin[40], process[40];
	unsigned int count = 0;
	ssize_t n = pread(log, text, sizeof(text) - 1, 0);

	*other = 0;
	text[n > 0 ? n : 0] = '\0';
	snprintf(begin, sizeof(begin), "anyverbs[%d]: warn: ", (int)from);
	snprintf(process, sizeof(process), "process %d ", (int)pid);
	for (char *at = text, *line; (line = strsep(&at, "\n")) && at;) {
		if (strncmp(line, begin, strlen(begin)) == 0 && strstr(line, process) &&
		    strstr(line, "anyverbs doctor"))
			count++;
		else if (++*other <= 5)
			printf("     also said: %s\n", line);
	}
	return count;
}

static void expect_said(struct side *who, int log, struct side *about, bool refused)
{
	unsigned int other, count;

	row("[%s] one warning by the process that is refused, %s", variant, way(who));
	count = warnings(log, who->pid, about->pid, &other);
	EXPECT(count == (refused ? 1 : 0), "%u warnings", count);
	EXPECT(other == 0, "%u other lines", other);
}

/* --- variants -------------------------------------------------------------------- */

static const struct row {
	const char *name, *a, *b;
	bool a_refused, b_refused; /* may not enter the other's memory */
	bool as_root;
	const char *transport;
} variants[] = {
	{"filter in one", "filter", "none", true, false, false, "auto"},
	{"filter in both", "filter", "filter", true, true, false, "auto"},
	{"filter in both, no wire", "filter", "filter", true, true, false, "direct"},
	{"one not dumpable", "reachable", "unreachable", true, false, true, "auto"},
	{"one not dumpable, no wire", "reachable", "unreachable", true, false, true, "direct"},
	{"both not dumpable", "unreachable", "unreachable", true, true, true, "auto"},
};

static int start(struct side *s, const char *barrier)
{
	int log = memfd_create("errors", 0); /* inherited */
	char number[16];

	snprintf(number, sizeof(number), "%d", log);
	if (log < 0 || setenv(BARRIER, barrier, 1) || setenv(ERRORS, number, 1))
		DIE("memfd_create");
	side_start(s);
	return log;
}

static void run(const struct row *v)
{
	bool no_wire = strcmp(v->transport, "direct") == 0;
	int log_a, log_b;

	setenv("ANYVERBS_TRANSPORT", v->transport, 1);
	log_a = start(&a, v->a);
	log_b = start(&b, v->b);
	variant = v->name;
	open_pairs();
	message_rows(&a, &b);
	message_rows(&b, &a);
	access_rows(&a, &b, v->a_refused && no_wire);
	access_rows(&b, &a, v->b_refused && no_wire);
	dm_rows(&a, &b);
	dm_rows(&b, &a);
	expect_said(&a, log_a, &b, v->a_refused);
	expect_said(&b, log_b, &a, v->b_refused);
	row("[%s] everything closes", variant);
	if (v->as_root) { /* the leak checker has to read its own process */
		ask(&a, BE_REACHABLE, 0, 0, NULL);
		ask(&b, BE_REACHABLE, 0, 0, NULL);
	}
	side_stop(&b);
	side_stop(&a);
	close(log_a);
	close(log_b);
}

int main(int argc, char **argv)
{
	raise_barrier();
	side_work = work;
	side_agent_main(argc, argv);
	time_limit(200);
	for (size_t i = 0; i < COUNT_OF(variants); i++) {
		if (variants[i].as_root && geteuid() != 0) {
			printf("SKIPPED [%s]: only root can become another user\n",
			       variants[i].name);
			continue;
		}
		sandbox_enter();
		if (variants[i].as_root && chown(getenv("ANYVERBS_DIR"), SOMEBODY, SOMEBODY))
			DIE("chown: errno %d", errno);
		run(&variants[i]);
		sandbox_leave();
	}
	return summary();
}
