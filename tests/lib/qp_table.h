/* SPDX-License-Identifier: MIT */
/*
 * What may be changed on the way from one state of a queue pair to another: the specification's
 * table of Modify Queue Pair (IBTA volume 1, 11.2.5.2), for tests to compare with. It shares
 * nothing with src/.
 */
#ifndef TEST_QP_TABLE_H
#define TEST_QP_TABLE_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#define QP_TABLE_SERVICES 5
#define QP_TABLE_STATES	  7 /* RESET to ERR */
/* Those of a mask, known or not; bit 0 is IBV_QP_STATE, implied everywhere. */
#define QP_TABLE_BITS 32

struct qp_cell {
	int service, from, to;
	bool valid;
	int required, optional; /* what the table says of the masks, IBV_QP_STATE apart */
	int ignored;		/* what programs written for RC pass to the halves of XRC */
};

/* Services 0 to QP_TABLE_SERVICES - 1 */
enum ibv_qp_type qp_table_type(int service);
const char *qp_table_service(int service);
const char *qp_table_state(int state);

/* Of every pair of states there is a cell, valid or not. A misspelt word of the table ends the
 * program. */
struct qp_cell qp_table_cell(int service, int from, int to);

#endif
