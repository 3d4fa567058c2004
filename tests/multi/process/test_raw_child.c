/* SPDX-License-Identifier: MIT */
/*
 * A process makes a child past the C library's fork(), which inherits whatever says that it lives,
 * and is killed. Peers see that it has ended all the same.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define LIFE 30u /* s, at most */

static struct side here, there;

/* In the peer. Return: its child */
static uint64_t make_child(struct node *n, const struct side_job *job)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0) {
		alarm(LIFE);
		for (;;)
			pause();
	}
	return (uint64_t)pid;
}

static enum ibv_wc_status write_there(void)
{
	struct node_send s =
		side_rdma_to(IBV_WR_RDMA_WRITE, side_sge(&here, KEY_FULL, PROBE_AT, 8), &there, 0);
	struct ibv_wc wc;

	NEED(side_post_send(&here, 0, &s, 1).ret == 0 &&
	     side_poll(&here, 0, 1, PROBE_PATIENCE, &wc) == 1);
	return wc.status;
}

/* The child has no parent that would wait for it: a pidfd tells when all it had open is closed */
static void end_child(int pidfd)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};

	NEED(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0);
	NEED(poll(&ended, 1, (int)LIFE * 1000) == 1);
	close(pidfd);
}

static void the_dead_takes_no_more(void)
{
	pid_t child;
	int pidfd;

	row("its child is alive");
	probe_open(&here, &there, 0);
	EXPECT(write_there() == IBV_WC_SUCCESS, "a WRITE before");
	side_begin(&there, &(struct side_job){{0}});
	child = (pid_t)side_end(&there);
	NEED(child > 0);
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	NEED(pidfd >= 0);
	side_kill(&there);
	EXPECT(kill(child, 0) == 0, "the child has ended, too");
	EXPECT(write_there() == IBV_WC_RETRY_EXC_ERR, "a WRITE to the dead");
	end_child(pidfd);
	EXPECT(side_destroy_qp(&here, 0) == 0, "ibv_destroy_qp");
}

int main(int argc, char **argv)
{
	side_work = make_child;
	side_agent_main(argc, argv);
	time_limit(60);
	sides_open(&here, &there);
	the_dead_takes_no_more();
	side_stop(&here);
	return sandbox_end();
}
