/* SPDX-License-Identifier: MIT */
/* The third process. */
#include "crash/third.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/role.h"
#include "lib/expect.h"

/* --- there: it sends every message back ------------------------------------------ */

static void echo(struct flow *f, uint64_t from)
{
	while (from < f->messages && f->sent - f->sends_done < WINDOW) {
		post_send(f);
		from = f->sent;
	}
}

void third_main(int sock)
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
	to_rts(f.qp, PATIENT);
	ibv_req_notify_cq(f.cq, 0);
	if (write(sock, "", 1) != 1)
		DIE("ready");
	for (;;) {
		struct pollfd p[2] = {{.fd = channel->fd, .events = POLLIN},
				      {.fd = sock, .events = POLLIN}};

		if (flows_poll(f.cq, (struct flow *[]){&f}, 1)) {
			EXPECT(!f.failed, "status '%s'", ibv_wc_status_str(f.first_error));
			post_receives(&f);
			echo(&f, f.sent);
			continue;
		}
		poll(p, 2, -1);
		if (p[1].revents)
			break;
		NEED(ibv_get_cq_event(channel, &cq, &context) == 0);
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
	}
	EXPECT(ibv_destroy_qp(f.qp) == 0 && ibv_destroy_cq(f.cq) == 0 &&
		       ibv_destroy_comp_channel(channel) == 0,
	       "destroying");
	end_close(&e);
	exit(failures() ? 1 : 0);
}

/* --- here ------------------------------------------------------------------------ */

struct flow third = {.seed = 2};
static int third_sock;
static pid_t third_pid;

void third_turn(void)
{
	if (third.sent == third.messages && third.sent == third.sends_done)
		post_send(&third);
	post_receives(&third);
	EXPECT(!third.failed, "the bystander's queue pair failed: '%s'",
	       ibv_wc_status_str(third.first_error));
	if (third.failed)
		DIE("going on makes no sense");
}

void third_start(void)
{
	struct hello me;
	char ready;

	row("the third process starts");
	third_pid = role_start("--third", 0, 0, &third_sock);
	third.cq = ibv_create_cq(third.end->ctx, 256, NULL, NULL, 0);
	third.qp = create_qp(third.end, third.cq);
	me = hello_of(&third);
	if (read(third_sock, &third.peer, sizeof(third.peer)) != sizeof(third.peer) ||
	    write(third_sock, &me, sizeof(me)) != sizeof(me))
		DIE("hello");
	to_init(third.qp);
	post_receives(&third);
	to_rtr(third.qp, &third.peer);
	to_rts(third.qp, PATIENT);
	if (read(third_sock, &ready, 1) != 1)
		DIE("the third process is not ready");
}

void third_stop(void)
{
	int status = 0;

	row("the third process has seen nothing of it");
	EXPECT(write(third_sock, "", 1) == 1, "write");
	waitpid(third_pid, &status, 0);
	EXPECT(status == 0, "it ended with status 0x%x", (unsigned int)status);
	close(third_sock);
	EXPECT(ibv_destroy_qp(third.qp) == 0 && ibv_destroy_cq(third.cq) == 0, "destroying");
}
