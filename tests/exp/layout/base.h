/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/base.h> declares. */

VALUE(IBV_EXP_START_ENUM, 0x40);
VALUE(IBV_EXP_START_FLAG_LOC, 0x20);
VALUE(IBV_EXP_START_FLAG, 0x100000000);
