/* SPDX-License-Identifier: MIT */
#include "net/steer.h"

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
