/* SPDX-License-Identifier: MIT */
/* What is at random in a request, put into the order (torture/peer.h). */
#ifndef TORTURE_RANDOM_REQUEST_H
#define TORTURE_RANDOM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

bool is_atomic(enum ibv_wr_opcode op);
/* order.addr and .bytes, for order.opcode: somewhere in [base, base + length), mostly. */
void random_place(uint64_t base, uint64_t length);
/* order.bytes of order.data. */
void random_data(void);

#endif
