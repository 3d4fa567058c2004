/* SPDX-License-Identifier: MIT */
/* Verbs that refuse: a row names the argument that is wrong, and the function makes the call. */
#ifndef TEST_VERBS_H
#define TEST_VERBS_H

#include <errno.h>

#include "lib/expect.h"
#include "recorder.h"

/* The call; its argument that is wrong is @value. Return: errno value */
struct verb_row {
	const char *name;
	const char *verb;
	enum av_check check;
	int error;
	int (*call)(uint64_t value);
	uint64_t value;
	uint64_t wanted, limit;
	bool of_qp; /* the record names the queue pair */
};

extern struct node *n; /* a's: its queue pair 0 is in RESET, 1 is connected */

/* Make the call, and look at its record. */
void verb_run(const struct verb_row *v);

void verbs_of_memory(void);
void verbs_of_queues(void);
void verbs_of_objects(void);
void verbs_of_arguments(void);
void verbs_of_experiments(void);

/* What a verb that makes an object says. */
static inline int failed(const void *object)
{
	return object ? 0 : errno;
}

/* Attributes that are in order. */
static inline struct ibv_qp_init_attr_ex plain_qp(void)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = n->pd,
	};
}

#endif
