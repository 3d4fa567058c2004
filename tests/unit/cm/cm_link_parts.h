/* SPDX-License-Identifier: MIT */
/* What the files of cm_link_fixture.h share: a run, and what is known of it so far. */
#ifndef TEST_CM_LINK_PARTS_H
#define TEST_CM_LINK_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "unit/cm/cm_link_fixture.h"

#define CM_LINK_PORT	 4242
#define CM_LINK_LISTENER 100u /* what programs call their ids: uid */
#define CM_LINK_IDS	 8u
#define CM_LINK_QKEY	 0x01234567u
#define REASON		 28  /* the consumer's: IBTA volume 1, 12.6.7.2; */
#define UNKNOWN		 6   /* invalid communication ID */
#define HEADER		 24u /* of a management datagram */

#define MUST(cond)                                                                      \
	do {                                                                            \
		if (!(cond))                                                            \
			cm_link_fail("%s:%d: not true: %s", __func__, __LINE__, #cond); \
	} while (0)
#define MUST_BE(is, wants)                                                                     \
	do {                                                                                   \
		unsigned long long is_ = (unsigned long long)(is), wants_ = (wants);           \
		if (is_ != wants_)                                                             \
			cm_link_fail("%s:%d: %s is %#llx, not %#llx", __func__, __LINE__, #is, \
				     is_, wants_);                                             \
	} while (0)

/*
 * The ids of a run: the first one asks; the others are requests' at host 1, and refused ones too.
 */
struct cm_link_id {
	unsigned int host;
	uint32_t number;
	uint64_t uid;
	bool there, accepted, ready, rejected;
	uint8_t heard[CM_HISTORY];
	unsigned int count;
};

struct cm_link_now {
	const struct cm_link_exchange *exchange;
	unsigned int fault_count;
	struct link_setting setting;
	uint64_t begun_ns;
	bool traces, peer_dead;
	int fd[LINK_HOSTS];
	struct av_cm_channel *channel[LINK_HOSTS]; /* as the manager has it */
	uint32_t listener;			   /* 0: there is none */
	struct cm_link_id ids[CM_LINK_IDS];
	unsigned int id_count;
	/* What has been sent, in cm_link_sent; and its bytes, by whom. */
	unsigned int messages;
	struct cm_link_said {
		unsigned int from;
		uint8_t mad[AV_MAD_BYTES];
	} said[CM_LINK_MESSAGES];
	unsigned int said_count;
};
extern struct cm_link_now cm_link_now;

/* Parameters of both programs. Each end hears what the other one says. */
extern const struct rdma_ucm_conn_param cm_link_parameters[LINK_HOSTS];

uint64_t cm_link_since_begun(void);

/* --- messages: cm_link_messages.c -------------------------------------------------- */

/* A number of @bytes, in the order of the network. */
uint64_t cm_link_get(const uint8_t *from, unsigned int bytes);

/* Private data of a kind of message: write what the program says. Return: its bytes */
uint8_t cm_link_say(uint16_t attribute, uint8_t *to);

/* Those of an event, or of a datagram. */
unsigned int cm_link_private_bytes(uint16_t attribute);

/* Is it that, from an event or a datagram? @own: the program has said it; else nobody */
bool cm_link_is_said(uint16_t attribute, const uint8_t *from, bool own);

/* The first message of that kind that @from has sent. NULL: none */
const uint8_t *cm_link_first_said(unsigned int from, uint16_t attribute);

/* For the link: judge a message; is it lost, as the exchange wants? */
void cm_link_on_sent(const struct link_packet *p);
bool cm_link_loses(const struct link_packet *p);

/* --- programs: cm_link_programs.c -------------------------------------------------- */

uint16_t cm_link_space(void);
bool cm_link_is_datagrams(void);
int cm_link_connect(struct cm_link_id *x);
void cm_link_end_id(struct cm_link_id *x);
void cm_link_listen(void);
void cm_link_end_listen(void);

/*
 * What its queue pair is to be given, once the end is connected: the numbers of both, and what the
 * listener has said of READs, which the asker answers. rdma_accept(3)
 */
void cm_link_judge_queue_pair(const struct cm_link_id *x);

/* A program will do that; when it does something next (UINT64_MAX: never); do what is due. */
void cm_link_plan(unsigned int host, unsigned int id, struct cm_link_do what);
uint64_t cm_link_next_doing(void);
void cm_link_do_due(void);
void cm_link_do_nothing_more(void);

/* --- events: cm_link_events.c ------------------------------------------------------ */

/* Read and judge all events; plan what programs do then. */
void cm_link_hear_all(void);

/* Does that program refuse requests? */
bool cm_link_refuses(unsigned int host);

#endif
