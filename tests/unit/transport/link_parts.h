/* SPDX-License-Identifier: MIT */
/* What the files of link_fixture.h share: an exchange, and what is known of it so far. */
#ifndef TEST_LINK_PARTS_H
#define TEST_LINK_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "unit/transport/link_fixture.h"

#define ARENA	  (512ul << 10)
#define UNTOUCHED 0xee
#define WORD	  ((uint32_t)sizeof(uint64_t))
#define DEPTH	  32u
#define ELEMENTS  3u
#define SPARE	  6u /* receive requests more than messages, where those may come twice */
#define GRH	  40u
#define QKEY	  0x11111111u
#define PSNS	  256u

#define MUST(cond)                                                                   \
	do {                                                                         \
		if (!(cond))                                                         \
			link_fail("%s:%d: not true: %s", __func__, __LINE__, #cond); \
	} while (0)
#define MUST_BE(is, wants)                                                                       \
	do {                                                                                     \
		unsigned long long is_ = (unsigned long long)(is), wants_ = (wants);             \
		if (is_ != wants_)                                                               \
			link_fail("%s:%d: %s is %#llx, not %#llx", __func__, __LINE__, #is, is_, \
				  wants_);                                                       \
	} while (0)

/* A buffer in an arena. */
struct link_room {
	uint32_t at, bytes;
};

/* What is known of a request. */
struct link_known {
	struct link_room own;	/* source of what it sends, or result */
	struct link_room there; /* what it writes or reads */
	uint32_t packets;
	bool complete;		   /* its sender's completion has come, */
	enum ibv_wc_status status; /* and says this */
	bool begun;		   /* its first packet has been sent */
	bool answered;		   /* the last packet of its own answer has arrived */
	bool taken;		   /* its message is in the peer's memory */
};

/* What one host sends, by PSN. */
struct link_flow {
	uint32_t first, psns, sent;
	struct {
		unsigned int request;
		uint32_t index; /* of the packet */
		bool ends;	/* a message: a READ may be asked for in several */
	} at[PSNS];
	struct link_room receive[LINK_REQUESTS + SPARE]; /* at the other host */
	unsigned int receives;
	/* Messages that will be received, in this order. */
	unsigned int order[LINK_REQUESTS + SPARE + 1], due;
	/* Of a connection that moves: has it sent a packet, and how many PSNs before that? */
	bool moved;
	uint32_t before;
	/* The receiver of an unreliable connection. */
	uint32_t expected;
	bool coming;
};

extern const struct link_exchange *link_now;
extern unsigned int link_count; /* requests of it */
extern struct link_known link_known[LINK_REQUESTS];
extern struct link_flow link_flow[LINK_HOSTS];
extern uint8_t *link_want[LINK_HOSTS]; /* what the arenas hold in the end, */
extern uint32_t link_used[LINK_HOSTS]; /* so many bytes of it */

/* --- link_exchange.c: what is posted, and which bytes that is ----------------------- */

bool link_receives(uint32_t opcode); /* it takes a receive request */
bool link_is_write(uint32_t opcode);
bool link_is_atomic(uint32_t opcode);
bool link_wants_read_response(uint32_t opcode);
bool link_sends(uint32_t opcode); /* its payload travels to the peer */
enum av_operation link_operation_of(uint32_t opcode);
enum av_tail link_tail_of(uint32_t opcode);
enum av_place link_place_of(uint32_t index, uint32_t packets);

uint32_t link_mtu_code(void);
uint32_t link_mtu(void); /* bytes */
bool link_is_reliable(void);

/* Of request @r. */
uint32_t link_bytes_of(unsigned int r); /* at its responder */
uint32_t link_immediate(unsigned int r);
uint32_t link_key_of(unsigned int r); /* the key that it names at its responder */
uint64_t link_word_before(unsigned int r);
uint64_t link_operand(unsigned int r);
uint64_t link_comparison(unsigned int r);
uint64_t link_word_after(unsigned int r);
bool link_is_quiet(unsigned int r); /* its sender does not hear of it, unless it fails */

uint8_t link_pattern(unsigned int r, uint32_t at);
uint64_t link_address_of(unsigned int host, uint32_t at);

/* @room is to hold the bytes of request @r in the end. */
void link_fill(unsigned int host, struct link_room room, unsigned int r);

/* Decide where everything is and what it holds before, other than in the run before. */
void link_lay_out(void);
void link_post_receives(void);

/* --- link_packets.c: struct link_setting -------------------------------------------- */

void link_judge_sent(const struct link_packet *p);
void link_judge_arrival(const struct link_arrival *a);

/* The requests of so many PSNs have been executed without packets. */
void link_no_packets(struct link_flow *f, uint32_t psns);

/*
 * Message @r of an unreliable service has come as a whole, and finds a receive request if it needs
 * one.
 */
void link_delivered(struct link_flow *f, unsigned int r);

/* Messages of @f whose last packet is before PSN @psn. */
uint32_t link_messages_before(const struct link_flow *f, uint32_t psn);

/* --- link_outcome.c: memory, completions, and what is left -------------------------- */

void link_check_side(unsigned int host);
void link_check_memory(void);

/* --- link_pairs.c: hosts and their queue pairs -------------------------------------- */

void link_set_up_side(unsigned int host);
void link_make_side(unsigned int host);
void link_connect_side(unsigned int host);
void link_destroy_side(unsigned int host);
void link_narrow(void); /* the windows, down to the least */

/* A window of type 2 at each host, for SEND with invalidation. */
void link_bind_windows(void);
void link_unbind_windows(void);

/* --- link_fixture.c ----------------------------------------------------------------- */

/* LINK_TRACE: print the packet. */
void link_trace(const struct link_packet *p);

#endif
