/* SPDX-License-Identifier: MIT */
/*
 * A process that receives RoCEv2 packets: a directory of its own, loopback addresses of its own, a
 * receiver that keeps what it is given.
 */
#ifndef TESTS_UNIT_NET_FIXTURE_H
#define TESTS_UNIT_NET_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/unit.h"
#include "net/net.h"
#include "wire/packet.h"

#define KEPT_MAX   4096
#define KEPT_BYTES 4096
#define SHOWN_MAX  256
#define LIMIT	   1000 /* of queue pair numbers */

/* A packet that the receiver was given. */
struct kept {
	struct av_net_packet p;
	uint32_t bytes;
	uint8_t payload[KEPT_BYTES]; /* what there is room for */
};

/* A datagram that captures were shown. */
struct shown {
	struct av_net_path path;
	char device[8]; /* "": it has come */
	uint64_t time_ns;
	struct av_net_datagram datagram;
	uint8_t bytes[KEPT_BYTES]; /* its, what there is room for */
};

extern struct kept *kept; /* KEPT_MAX of them, shared with forked children */
extern _Atomic unsigned int kept_count, settled_count;
extern _Atomic unsigned int settled_kept; /* how many were kept when all was settled last */
extern _Atomic uint64_t settle_after_ns;  /* how long that may wait */
extern struct shown shown[SHOWN_MAX];	  /* of this process */
extern _Atomic unsigned int shown_count, damaged_count;
extern _Atomic uint32_t damaged_qpn; /* the last one */

static inline uint64_t av_net_counted(enum av_net_count what)
{
	return atomic_load_explicit(&av_net_counter[what], memory_order_relaxed);
}

int make_folder(void **state);
int remove_folder(void **state);

/* An address of 127.0.0.0/8 that no other test process uses. @n: which, 0 to 3 */
void own_address(uint8_t gid[16], unsigned int n);

/* Join the directory, add a context, receive into @kept. Return: the context */
uint32_t enter(void);
void leave(uint32_t ref);

uint32_t new_qpn(uint32_t ref);

/* A capture of this process. Nothing was shown before. Return: its number, for av_capture_end() */
unsigned int begin_capture(void);

/* Wait until that many packets are kept. */
void wait_kept(unsigned int n);

/* A plain socket at a port of that address, and a datagram of ours to it. */
int plain_socket(const uint8_t gid[16], uint16_t port);
/* One at AV_ROCE_PORT that shares it with others of this user. */
int shared_socket(const uint8_t gid[16]);
void plain_send(int fd, const uint8_t to[16], const void *bytes, size_t n);

/* A SEND_ONLY of UC to that queue pair. */
struct av_packet send_only(uint32_t qpn, uint32_t psn, uint32_t payload_bytes);

/* Put one into a burst. Each byte of its payload is the PSN plus its place. */
void put_one(struct av_net_burst *b, uint32_t qpn, uint32_t psn, uint32_t payload_bytes);

/* Send a burst of such packets with these payloads, with PSNs from 0. */
int send_burst(const struct av_net_path *path, uint32_t qpn, const uint32_t *payload_bytes,
	       unsigned int packets);

/* Did kept packet @i come by that path? */
void assert_path(unsigned int i, const struct av_net_path *path);

/* Was kept packet @i sent so by send_burst()? */
void assert_kept(unsigned int i, uint32_t qpn, uint32_t psn, uint32_t payload_bytes);

#endif
