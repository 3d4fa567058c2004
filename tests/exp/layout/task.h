/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/task.h> declares. */

VALUE(IBV_EXP_TASK_SEND, 0);
VALUE(IBV_EXP_TASK_RECV, 1);
