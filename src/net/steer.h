/* SPDX-License-Identifier: MIT */
/*
 * The program by which the kernel chooses, among the sockets that share an address, that of the
 * process which owns a packet's queue pair: classic BPF, for SO_ATTACH_REUSEPORT_CBPF. Pure
 * functions. Where the numbers come from: registry/reuseport.h.
 */
#ifndef AV_NET_STEER_H
#define AV_NET_STEER_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_STEER_MAX 4096 /* instructions that the kernel takes: BPF_MAXINSNS */

/* Where the packets for blocks @first .. of the next run - 1 go. */
struct av_steer_run {
	uint32_t first;
	uint32_t place; /* in the kernel's array */
};

/* Runs of a program of that size: two instructions each, and some for long jumps. */
#define AV_STEER_RUNS 2000

/*
 * The runs of a table. Blocks of nobody's (AV_REUSEPORT_NOBODY) need none: they join the run before
 * them. @run: room for AV_STEER_RUNS. Blocks that it does not suffice for are in a last run, of
 * nobody's. Return: how many, 1 at least
 */
unsigned int av_steer_runs(const uint32_t *place, unsigned int blocks, struct av_steer_run *run);

/*
 * @runs: AV_STEER_RUNS at most; the first begins with block 0. What leads to nobody returns a place
 * that is out of range: then the kernel takes any socket. A packet that ends within its queue
 * pair's number goes to place 0. Return: instructions in @program, which has room for AV_STEER_MAX
 */
unsigned int av_steer_program(const struct av_steer_run *run, unsigned int runs,
			      struct sock_filter *program);

#endif
