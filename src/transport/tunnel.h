/* SPDX-License-Identifier: MIT */
/*
 * The commands in the payload of an RDMA WRITE to a region of tunneled atomics:
 * include/anyverbs/tunneled_atomic.h has their encoding and what it promises.
 */
#ifndef AV_TRANSPORT_TUNNEL_H
#define AV_TRANSPORT_TUNNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <anyverbs/tunneled_atomic.h>

#include "base/compiler.h"
#include "memory/atomic_op.h"

/* May a payload be that long? Return: the number of commands in it, or 0. */
unsigned int av_tunnel_count(uint64_t bytes);

/* What a command says. Return: false if it is none. */
AV_MUST_USE bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *command,
				  struct av_atomic *atomic);

#endif
