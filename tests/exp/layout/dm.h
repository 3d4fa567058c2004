/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/dm.h> declares. */

OFFSET(ibv_exp_alloc_dm_attr, length, 0);
OFFSET(ibv_exp_alloc_dm_attr, comp_mask, 8);
SIZE(ibv_exp_alloc_dm_attr, 16);
OFFSET(ibv_exp_dm, context, 0);
OFFSET(ibv_exp_dm, handle, 8);
OFFSET(ibv_exp_dm, comp_mask, 12);
SIZE(ibv_exp_dm, 16);
OFFSET(ibv_exp_memcpy_dm_attr, memcpy_dir, 0);
OFFSET(ibv_exp_memcpy_dm_attr, host_addr, 8);
OFFSET(ibv_exp_memcpy_dm_attr, dm_offset, 16);
OFFSET(ibv_exp_memcpy_dm_attr, length, 24);
OFFSET(ibv_exp_memcpy_dm_attr, comp_mask, 32);
SIZE(ibv_exp_memcpy_dm_attr, 40);
VALUE(IBV_EXP_ALLOC_DM_ATTR_RESERVED, 1);
VALUE(IBV_EXP_DM_COMP_MASK_RESERVED, 1);
VALUE(IBV_EXP_DM_CPY_COMP_MASK_RESERVED, 1);
VALUE(IBV_EXP_DM_CPY_TO_DEVICE, 0);
VALUE(IBV_EXP_DM_CPY_TO_HOST, 1);
