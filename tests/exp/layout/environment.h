/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/environment.h> declares. */

VALUE(VERBS_MAX_ENV_VAL, 4096);
