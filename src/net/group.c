/* SPDX-License-Identifier: MIT */
#include "net/group.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/raw_socket.h"
#include "net/socket.h"
#include "observe/log.h"
#include "registry/directory.h"
#include "registry/reuseport.h"

#define QPN_WORD 4    /* in the BTH, where the payload of the datagram begins: wire/packet.h */
#define FAR	 255u /* the longest conditional jump */

unsigned int av_steer_runs(const uint32_t *place, unsigned int blocks, struct av_steer_run *run)
{
	unsigned int runs = 0;

	for (unsigned int i = 0; i < blocks; i++) {
		if (place[i] == AV_REUSEPORT_NOBODY ||
		    (runs > 0 && run[runs - 1].place == place[i]))
			continue;
		if (runs == AV_STEER_RUNS - 1) {
			run[runs++] = (struct av_steer_run){i, AV_REUSEPORT_NOBODY};
			break;
		}
		run[runs] = (struct av_steer_run){runs > 0 ? i : 0, place[i]};
		runs++;
	}
	if (runs == 0)
		run[runs++] = (struct av_steer_run){0, AV_REUSEPORT_NOBODY};
	return runs;
}

/* Instructions for a search among so many runs. */
static unsigned int search_size(unsigned int runs)
{
	unsigned int left;

	if (runs == 1)
		return 1;
	left = search_size(runs / 2);
	return 1 + (left > FAR) + left + search_size(runs - runs / 2);
}

/* The lower half follows, then the upper one. Return: behind what was written */
static struct sock_filter *put_search(const struct av_steer_run *run, unsigned int runs,
				      struct sock_filter *to)
{
	unsigned int half = runs / 2, left;
	uint32_t middle;

	if (runs == 1) {
		*to++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, run->place);
		return to;
	}
	left = search_size(half);
	middle = run[half].first << AV_QPN_BLOCK_BITS;
	if (left > FAR) {
		*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, middle, 0, 1);
		*to++ = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, left);
	} else {
		*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, middle,
						     (uint8_t)left, 0);
	}
	to = put_search(run, half, to);
	return put_search(run + half, runs - half, to);
}

unsigned int av_steer_program(const struct av_steer_run *run, unsigned int runs,
			      struct sock_filter *program)
{
	struct sock_filter *to = program;

	*to++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_WORD);
	*to++ = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, AV_QPN_INDEX(~0u));
	to = put_search(run, runs, to);
	return (unsigned int)(to - program);
}

#define REPAIR_NS    10000000u	  /* between two looks for why packets go astray */
#define DYING_NS     200000000u	  /* until the kernel has closed what a dead process had open */
#define DYING_MS     5		  /* between two looks for that */
#define IMPATIENT_NS 10000000000u /* it has been waited for in vain */

/* Guarded by the change lock: too much for a thread's stack. */
static uint32_t place[AV_QPN_BLOCKS];
static struct av_steer_run run[AV_STEER_RUNS];
static struct sock_filter program[AV_STEER_MAX];

/* Within a change. With one socket there is nothing to tell. Who refuses is asked again. */
static void attach_steer_program(const struct av_endpoint *e, int group)
{
	struct sock_fprog prog = {.filter = program};
	int fd = av_own_fd(&e->socket), ret = 0;

	if (av_reuseport_members(group) > 1) {
		av_reuseport_places(group, place);
		prog.len = (unsigned short)av_steer_program(
			run, av_steer_runs(place, AV_QPN_BLOCKS, run), program);
		ret = av_raw_setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog,
					sizeof(prog));
	}
	if (ret == 0)
		av_reuseport_tell(group);
}

/*
 * Within a change. In the table before it is in the kernel's: who dies in between was the last. The
 * first of this directory must be the first of all: the kernel would give strangers' processes of
 * the same user its packets, and it theirs.
 */
static int join_reuseport_group(struct av_endpoint *e)
{
	int group = av_reuseport_join(av_net_socket_namespace(&e->socket), e->address), ret = 0;

	if (group < 0)
		return group;
	if (av_reuseport_members(group) == 1)
		ret = av_net_socket_alone(e->address, e->ifindex);
	if (ret == 0)
		ret = av_net_socket_bind(&e->socket, e->address, e->ifindex, false);
	if (ret) {
		av_reuseport_leave(group);
		return ret;
	}
	attach_steer_program(e, group);
	e->group = group;
	return 0;
}

/* A handler of the program's may end it early. */
static bool nap(void)
{
	(void)av_raw_poll(NULL, 0, DYING_MS);
	return true;
}

/*
 * Whoever had the port may be dead, and its socket not closed yet. But a process that makes many
 * queue pairs beside one that lives does not wait for each.
 */
int av_group_enter(struct av_endpoint *e)
{
	static uint64_t impatient_until; /* guarded by the mutex of net/open.c */
	uint64_t now = av_now_ns(), until = now < impatient_until ? now : now + DYING_NS;
	int ret;

	do {
		ret = av_dir_change_begin();
		if (ret)
			return ret;
		ret = join_reuseport_group(e);
		av_dir_change_end();
	} while (ret == -EADDRINUSE && av_now_ns() < until && nap());
	if (ret == -EADDRINUSE)
		impatient_until = av_now_ns() + IMPATIENT_NS;
	return ret;
}

/*
 * The kernel is told how it will be, by the last one who can: packets that come between that and
 * the close are lost, as on any network.
 */
void av_group_leave(struct av_endpoint *e)
{
	bool changing = av_dir_change_soon();
	int group = e->group;

	if (changing && group >= 0) {
		av_reuseport_leave(group);
		attach_steer_program(e, group);
	} else if (group >= 0) {
		av_reuseport_gone(group);
	}
	av_own_fd_close(&e->socket);
	if (changing)
		av_dir_change_end();
}

void av_group_lost(struct av_endpoint *e)
{
	int group = e->group;

	if (group < 0)
		return;
	e->group = -1;
	av_reuseport_gone(group);
	av_warn_once("the program has closed sockets of this library: no packets from other hosts");
}

int av_group_own(uint32_t qpn, struct av_endpoint *const *e, unsigned int count)
{
	int ret = av_dir_change_begin();

	if (ret)
		return ret;
	ret = av_reuseport_own(av_lock_self, qpn) ? 0 : -ENOSPC;
	for (unsigned int i = 0; i < count; i++) {
		int group = e[i]->group;

		if (group >= 0 && !av_reuseport_told(group))
			attach_steer_program(e[i], group);
	}
	av_dir_change_end();
	return ret;
}

/* --- packets that go astray ------------------------------------------------------- */

struct av_group_look av_group_look(const struct av_endpoint *e)
{
	int group = e->group;
	uint32_t told = group < 0 ? 0 : av_reuseport_told(group);

	return (struct av_group_look){told, told != 0 && told == e->drained};
}

void av_group_drained(struct av_endpoint *e, const struct av_group_look *look)
{
	e->drained = look->told;
}

/*
 * The kernel was told to give the packet to who has that place in its array, and gave it to this
 * process: so this process has that place. Every such lesson puts one process right for good, since
 * none that had its right place loses it.
 */
static void learn(int group, uint32_t owner)
{
	uint32_t index = av_reuseport_place(group, owner);

	if (index != AV_REUSEPORT_NOBODY)
		av_reuseport_learn(group, index);
}

/* A process has died, or was about to tell the kernel; or has numbers that it could not tell of. */
static void repair(const struct av_endpoint *e, int group, uint32_t owner, uint32_t qpn,
		   const struct av_group_look *look)
{
	av_reuseport_sweep(group);
	if (av_reuseport_own(owner, qpn) && look && look->sure &&
	    look->told == av_reuseport_told(group))
		learn(group, owner);
	if (!av_reuseport_told(group))
		attach_steer_program(e, group);
}

void av_group_astray(struct av_endpoint *e, uint32_t owner, uint32_t qpn,
		     const struct av_group_look *look)
{
	uint64_t now = av_now_coarse_ns();
	int group = e->group;

	if (group < 0 || now < e->repair_after || !av_dir_change_soon())
		return;
	e->repair_after = now + REPAIR_NS;
	repair(e, group, owner, qpn, look);
	av_dir_change_end();
}
