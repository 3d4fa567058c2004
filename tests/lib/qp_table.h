/* SPDX-License-Identifier: MIT */
/*
 * The attributes that each transition of a queue pair allows: the specification's table for Modify
 * Queue Pair (IBTA volume 1, 11.2.5.2), for tests to compare with. Shares nothing with src/.
 */
#ifndef TEST_QP_TABLE_H
#define TEST_QP_TABLE_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#define QP_TABLE_SERVICES 5
#define QP_TABLE_STATES	  7 /* RESET to ERR */
#define QP_TABLE_BITS \
	32 /* number of mask bits, known or not; bit 0 is IBV_QP_STATE, which is always implied */

struct qp_cell {
	int service, from, to;
	bool valid;
	int required, optional; /* masks from the table, without IBV_QP_STATE */
	int ignored;		/* what programs written for RC pass to XRC queue pairs */
};

/* Services 0 to QP_TABLE_SERVICES - 1 */
enum ibv_qp_type qp_table_type(int service);
const char *qp_table_service(int service);
const char *qp_table_state(int state);

/* The cell for any pair of states, valid or not. A misspelt word in the table ends the program. */
struct qp_cell qp_table_cell(int service, int from, int to);

#endif
