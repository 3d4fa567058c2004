/* SPDX-License-Identifier: MIT */
/*
 * CQs are destroyed with events unread in a completion channel that others use, too. Only the
 * ended CQ's events vanish: another thread that is told of an event gets one, and a full channel
 * loses none.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"

#define ROUNDS (TEST_SANITIZED ? 1000u : 5000u)
#define MANY   70000u /* more events than a channel holds, however much it is enlarged */

static struct node *n;
static struct ibv_comp_channel *channel;

/* A CQ, and a queue pair connected with itself that completes there. */
struct source {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct source source_open(void)
{
	struct source s = {.cq = ibv_create_cq(n->ctx, 16, NULL, channel, 0)};
	struct ibv_qp_init_attr init = {
		.send_cq = s.cq,
		.recv_cq = s.cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UC,
		.sq_sig_all = 1,
	};

	NEED(s.cq);
	s.qp = ibv_create_qp(n->pd, &init);
	NEED(s.qp && connect_qp(s.qp, connect_attr(s.qp->qp_num, &n->info.gid)) == 0);
	return s;
}

/* Also polls the completion of the event before. */
static void make_event(const struct source *s)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, 8, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {(uintptr_t)n->arena + 64, n->mr[KEY_FULL]->rkey}},
			   *bad;
	struct ibv_wc wc;

	while (ibv_poll_cq(s->cq, 1, &wc) == 1)
		;
	NEED(ibv_req_notify_cq(s->cq, 0) == 0);
	NEED(ibv_post_send(s->qp, &wr, &bad) == 0);
}

static void source_close(const struct source *s)
{
	EXPECT(ibv_destroy_qp(s->qp) == 0 && ibv_destroy_cq(s->cq) == 0, "destroying a source");
}

static bool is_readable(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Return: the CQ; NULL and errno */
static struct ibv_cq *next_event(void)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context))
		return NULL;
	ibv_ack_cq_events(cq, 1);
	return cq;
}

static void make_nonblocking(void)
{
	NEED(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
}

/* --- another thread ------------------------------------------------------------------ */

static _Atomic bool ended;
static struct source lasting;

/* That one always has an event. Return: how often there was none though poll() said so */
static void *read_events(void *arg)
{
	uintptr_t in_vain = 0;

	(void)arg;
	while (!atomic_load(&ended)) {
		struct ibv_cq *cq;

		if (!is_readable())
			continue;
		cq = next_event();
		in_vain += !cq;
		if (cq == lasting.cq)
			make_event(&lasting);
	}
	return (void *)in_vain;
}

static void another_thread_gets_its_events(void)
{
	pthread_t reader;
	void *in_vain;

	make_nonblocking();
	lasting = source_open();
	make_event(&lasting);
	NEED(pthread_create(&reader, NULL, read_events, NULL) == 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct source s = source_open();

		make_event(&s);
		source_close(&s);
	}
	atomic_store(&ended, true);
	NEED(pthread_join(reader, &in_vain) == 0);
	EXPECT(in_vain == NULL, "%lu times no event though poll() said so",
	       (unsigned long)(uintptr_t)in_vain);
	source_close(&lasting);
	EXPECT(!is_readable() && !next_event() && errno == EAGAIN, "an event of an ended CQ");
}

/* --- a full channel -------------------------------------------------------------------- */

static unsigned int count_events(const struct ibv_cq *of)
{
	unsigned int count = 0;
	struct ibv_cq *cq;

	while ((cq = next_event())) {
		EXPECT(cq == of, "an event of another CQ");
		count++;
	}
	EXPECT(errno == EAGAIN, "errno %d", errno);
	return count;
}

static int unread_bytes(void)
{
	int bytes;

	NEED(ioctl(channel->fd, FIONREAD, &bytes) == 0);
	return bytes;
}

static void a_full_channel_loses_none(void)
{
	struct source first = source_open(), s = source_open();
	int of_one, bytes;
	unsigned int count;

	make_nonblocking();
	make_event(&first);
	of_one = unread_bytes();
	for (unsigned int i = 0; i < MANY; i++)
		make_event(&s);
	bytes = unread_bytes();
	EXPECT(bytes > 1000 * of_one && bytes < (int)MANY * of_one, "%d bytes", bytes);
	source_close(&first);
	EXPECT(is_readable(), "it is full");
	count = count_events(s.cq);
	EXPECT((int)count == bytes / of_one - 1, "%u of %d events", count, bytes / of_one - 1);
	EXPECT(!is_readable(), "it is empty");
	source_close(&s);
}

/* The last thing in the channel goes with its CQ: nobody is told of an event that is not there. */
static void its_own_events_vanish(void)
{
	struct source s = source_open();

	make_nonblocking();
	make_event(&s);
	EXPECT(is_readable(), "an event");
	source_close(&s);
	EXPECT(!is_readable(), "an event of nobody");
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
	{"the ended CQ's own events vanish", its_own_events_vanish},
	{"another thread gets its events", another_thread_gets_its_events},
	{"a full channel loses none", a_full_channel_loses_none},
};

int main(void)
{
	struct side a = {0};

	sandbox_begin(120);
	side_open(&a, NULL);
	n = a.node;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row("%s", rows[i].name);
		channel = ibv_create_comp_channel(n->ctx);
		NEED(channel);
		rows[i].run();
		EXPECT(ibv_destroy_comp_channel(channel) == 0, "ibv_destroy_comp_channel");
	}
	side_stop(&a);
	return sandbox_end();
}
