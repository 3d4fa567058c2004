/* SPDX-License-Identifier: MIT */
/*
 * The freedoms of a strict device: what the specification and the manual pages leave to a device,
 * used against the program, to find the promises that it relies on and nobody gave.
 *
 * The device's seed decides each use: the same seed and the same calls give the same behaviour.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/text.h"

/*
 * X(id, name, what the device does, what allows it, what programs of the public did). New rows come
 * last: a row's place is part of what its random numbers are drawn from
 */
/* clang-format off */
#define AV_FREEDOMS(X) \
	X(LATE_READ, "late-read", \
	  "the bytes of a request are read as late as its completion allows", \
	  "ibv_post_send(3); IBTA 1, 10.8.3", \
	  "buffers that are filled again before their request is complete") \
	X(WRITE_ORDER, "write-order", \
	  "the last bytes of an RDMA WRITE land before the others", \
	  "IBTA 1, 9.5, o9-20", \
	  "a receiver that polls the last byte of a buffer for a peer's WRITE") \
	X(READ_ORDER, "read-order", \
	  "the last bytes of an RDMA READ land before the others", \
	  "IBTA 1, 9.5, o9-20", \
	  "a reader that polls its buffer instead of its completion queue") \
	X(KEYS, "keys", \
	  "an rkey is no lkey; a dead key's number is soon another region's", \
	  "ibv_reg_mr(3); IBTA 1, 10.6.3", \
	  "lkeys for rkeys (rdma-example#4), dead keys (openucx/ucx#8061)") \
	X(UNDEFINED, "undefined", \
	  "fields of a completion that are undefined for its status are garbage", \
	  "ibv_poll_cq(3)", \
	  "a failed completion's opcode (libfabric#4848), a send's byte_len") \
	X(EVENTS, "events", \
	  "an event comes, and its completion has been polled before", \
	  "ibv_get_cq_event(3)", \
	  "a poll after an event that must find a completion") \
	X(DATAGRAMS, "datagrams", \
	  "messages of UD and UC are lost, those of UD doubled and overtaken, too", \
	  "IBTA 1, 9.8.2, 9.8.3; RFC 768", \
	  "UD and UC messages that are never sent again, or have no number") \
	X(LIMITS, "limits", \
	  "queues hold what was asked for; limits are the least of known adapters'", \
	  "ibv_create_qp(3), ibv_query_device(3)", \
	  "queues larger than asked for; max_rd_atomic 16 (perftest#114)") \
	X(RECV_BUFFER, "recv-buffer", \
	  "a receive buffer is garbage until its completion, and after an error", \
	  "ibv_post_recv(3), ibv_poll_cq(3)", \
	  "a receiver that polls its buffer, or reads a flushed one") \
	X(LEFT_BEHIND, "left-behind", \
	  "completions of a destroyed queue pair's sends stay until they are polled", \
	  "ibv_destroy_qp(3); so do rxe and EFA", \
	  "completions of dead queue pairs (libfabric#11151, spdk#3859)") \
	X(LATE_EVENTS, "late-events", \
	  "an asynchronous event of a queue pair comes 5 ms late", \
	  "ibv_get_async_event(3)", \
	  "an event that must be there with its completion") \
	X(ATOMICS, "atomics", \
	  "an atomic is one among those of the device, not among the processor's", \
	  "IBTA 1, 9.4.5; atomic_cap of ibv_query_device(3)", \
	  "a word that the device and the processor both change") \
	X(PAGING, "paging", \
	  "a responder whose memory is on demand is not ready at first", \
	  "IBTA 1, 9.7.5.2.8; so do mlx5's", \
	  "rnr_retry 0 with memory on demand (zrlio/disni#39)") \
	X(FENCES, "fences", \
	  "a WRITE behind a READ is executed before it", \
	  "IBTA 1, 10.8.3.3; IBV_SEND_FENCE of ibv_post_send(3)", \
	  "a WRITE of what the READ in front of it fetches") \
	X(RETRIES, "retries", \
	  "one of a queue pair's first requests is lost, and sent again", \
	  "IBTA 1, 9.7.6.1", \
	  "retry_cnt 0, or no timeout, on a network that loses nothing") \
	X(GIDS, "gids", \
	  "the first two rows of the GID table are empty; only if you name it", \
	  "ibv_query_gid(3)", \
	  "index 0, which is the right one on one adapter")
/* clang-format on */

enum av_freedom {
#define AV_FREEDOM_ID(id, name, does, clause, bitten) AV_FREEDOM_##id,
	AV_FREEDOMS(AV_FREEDOM_ID)
#undef AV_FREEDOM_ID
		AV_FREEDOM_N
};

/* A set of freedoms consists of these bits. */
#define AV_FREEDOM_BIT(which) (1u << (which))
/*
 * Those of "strict": all but the one that breaks each command line with a GID index, which the user
 * of a correct program chose.
 */
#define AV_FREEDOM_ALL (((1u << AV_FREEDOM_N) - 1) & ~AV_FREEDOM_BIT(AV_FREEDOM_GIDS))

struct av_freedom_info {
	const char *name;
	const char *does;   /* one line, no full stop */
	const char *clause; /* that allows it */
	const char *bitten; /* programs that rely on more */
};

/* By enum av_freedom. */
extern const struct av_freedom_info av_freedom_info[AV_FREEDOM_N];

/* The freedom of that name, or AV_FREEDOM_N. */
enum av_freedom av_freedom_by_name(struct av_word name);

/*
 * The random number that decides use @nth of a freedom on object @object of a context. A pure
 * function: threads do not change each other's numbers
 */
uint64_t av_freedom_draw(uint64_t seed, enum av_freedom which, uint32_t object, uint64_t nth);
