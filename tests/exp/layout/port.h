/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/port.h> declares. */

OFFSET(ibv_exp_gid_attr, comp_mask, 0);
OFFSET(ibv_exp_gid_attr, type, 4);
OFFSET(ibv_exp_gid_attr, gid, 8);
SIZE(ibv_exp_gid_attr, 24);
VALUE(IBV_EXP_QUERY_GID_ATTR_TYPE, 1);
VALUE(IBV_EXP_QUERY_GID_ATTR_GID, 2);
VALUE(IBV_EXP_QUERY_GID_ATTR_RESERVED, 4);
VALUE(IBV_EXP_IB_ROCE_V1_GID_TYPE, 0);
VALUE(IBV_EXP_ROCE_V2_GID_TYPE, 1);
VALUE(IBV_EXP_ROCE_V1_5_GID_TYPE, 2);
VALUE(IBV_EXP_QUERY_PORT_ATTR_MASK1, 1);
VALUE(IBV_EXP_QUERY_PORT_STATE, 1u << 0);
VALUE(IBV_EXP_QUERY_PORT_MAX_MTU, 1u << 1);
VALUE(IBV_EXP_QUERY_PORT_ACTIVE_MTU, 1u << 2);
VALUE(IBV_EXP_QUERY_PORT_GID_TBL_LEN, 1u << 3);
VALUE(IBV_EXP_QUERY_PORT_CAP_FLAGS, 1u << 4);
VALUE(IBV_EXP_QUERY_PORT_MAX_MSG_SZ, 1u << 5);
VALUE(IBV_EXP_QUERY_PORT_BAD_PKEY_CNTR, 1u << 6);
VALUE(IBV_EXP_QUERY_PORT_QKEY_VIOL_CNTR, 1u << 7);
VALUE(IBV_EXP_QUERY_PORT_PKEY_TBL_LEN, 1u << 8);
VALUE(IBV_EXP_QUERY_PORT_LID, 1u << 9);
VALUE(IBV_EXP_QUERY_PORT_SM_LID, 1u << 10);
VALUE(IBV_EXP_QUERY_PORT_LMC, 1u << 11);
VALUE(IBV_EXP_QUERY_PORT_MAX_VL_NUM, 1u << 12);
VALUE(IBV_EXP_QUERY_PORT_SM_SL, 1u << 13);
VALUE(IBV_EXP_QUERY_PORT_SUBNET_TIMEOUT, 1u << 14);
VALUE(IBV_EXP_QUERY_PORT_INIT_TYPE_REPLY, 1u << 15);
VALUE(IBV_EXP_QUERY_PORT_ACTIVE_WIDTH, 1u << 16);
VALUE(IBV_EXP_QUERY_PORT_ACTIVE_SPEED, 1u << 17);
VALUE(IBV_EXP_QUERY_PORT_PHYS_STATE, 1u << 18);
VALUE(IBV_EXP_QUERY_PORT_LINK_LAYER, 1u << 19);

/* Beginnings that are those of the plain structures. */
ALIKE(ibv_exp_port_attr, ibv_port_attr, state);
ALIKE(ibv_exp_port_attr, ibv_port_attr, max_mtu);
ALIKE(ibv_exp_port_attr, ibv_port_attr, active_mtu);
ALIKE(ibv_exp_port_attr, ibv_port_attr, gid_tbl_len);
ALIKE(ibv_exp_port_attr, ibv_port_attr, port_cap_flags);
ALIKE(ibv_exp_port_attr, ibv_port_attr, max_msg_sz);
ALIKE(ibv_exp_port_attr, ibv_port_attr, bad_pkey_cntr);
ALIKE(ibv_exp_port_attr, ibv_port_attr, qkey_viol_cntr);
ALIKE(ibv_exp_port_attr, ibv_port_attr, pkey_tbl_len);
ALIKE(ibv_exp_port_attr, ibv_port_attr, lid);
ALIKE(ibv_exp_port_attr, ibv_port_attr, sm_lid);
ALIKE(ibv_exp_port_attr, ibv_port_attr, lmc);
ALIKE(ibv_exp_port_attr, ibv_port_attr, max_vl_num);
ALIKE(ibv_exp_port_attr, ibv_port_attr, sm_sl);
ALIKE(ibv_exp_port_attr, ibv_port_attr, subnet_timeout);
ALIKE(ibv_exp_port_attr, ibv_port_attr, init_type_reply);
ALIKE(ibv_exp_port_attr, ibv_port_attr, active_width);
ALIKE(ibv_exp_port_attr, ibv_port_attr, active_speed);
ALIKE(ibv_exp_port_attr, ibv_port_attr, phys_state);
ALIKE(ibv_exp_port_attr, ibv_port_attr, link_layer);
