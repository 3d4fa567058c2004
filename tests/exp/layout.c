/* SPDX-License-Identifier: MIT */
/*
 * Offsets, sizes and values of <infiniband/verbs_exp.h> as programs were compiled with them, for 64-bit
 * machines: each row that is not so does not compile. For C99 and C++11, too; compile.sh does so, and chooses
 * what is included.
 */
#include INCLUDE_FIRST
#ifdef INCLUDE_SECOND
#include INCLUDE_SECOND
#endif
#include <stddef.h>

#define PASTE_(a, b)		   a##b
#define PASTE(a, b)		   PASTE_(a, b)
#define HOLDS(cond)		   extern char PASTE(row_, __COUNTER__)[(cond) ? 1 : -1]
#define OFFSET(type, member, at)   HOLDS(offsetof(struct type, member) == (at))
#define SIZE(type, bytes)	   HOLDS(sizeof(struct type) == (bytes))
#define VALUE(name, value)	   HOLDS((unsigned long long)(name) == (unsigned long long)(value))
#define ALIKE(type, plain, member) HOLDS(offsetof(struct type, member) == offsetof(struct plain, member))

/* Types that C++ programs rely on: fields that enumerators are assigned to. */
void assign(struct ibv_exp_device_attr *device, struct ibv_exp_send_wr *wr, struct ibv_exp_wc *wc,
	    struct ibv_exp_qp_init_attr *qp, struct ibv_exp_res_domain_init_attr *domain,
	    struct ibv_exp_memcpy_dm_attr *copy, struct ibv_exp_gid_attr *gid);
void assign(struct ibv_exp_device_attr *device, struct ibv_exp_send_wr *wr, struct ibv_exp_wc *wc,
	    struct ibv_exp_qp_init_attr *qp, struct ibv_exp_res_domain_init_attr *domain,
	    struct ibv_exp_memcpy_dm_attr *copy, struct ibv_exp_gid_attr *gid)
{
	device->exp_atomic_cap = IBV_EXP_ATOMIC_HCA;
	device->comp_mask = (uint32_t)(IBV_EXP_DEVICE_ATTR_RESERVED - 1);
	wr->exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr->op.calc.calc_op = IBV_EXP_CALC_OP_BOR;
	wc->exp_opcode = IBV_EXP_WC_UMR;
	qp->qp_type = IBV_EXP_QPT_DC_INI;
	qp->qp_type = IBV_QPT_XRC;
	domain->thread_model = IBV_EXP_THREAD_SINGLE;
	domain->msg_model = IBV_EXP_MSG_HIGH_BW;
	copy->memcpy_dir = IBV_EXP_DM_CPY_TO_HOST;
	gid->type = IBV_EXP_ROCE_V2_GID_TYPE;
}

OFFSET(ibv_exp_device_attr, fw_ver, 0);
OFFSET(ibv_exp_device_attr, node_guid, 64);
OFFSET(ibv_exp_device_attr, sys_image_guid, 72);
OFFSET(ibv_exp_device_attr, max_mr_size, 80);
OFFSET(ibv_exp_device_attr, page_size_cap, 88);
OFFSET(ibv_exp_device_attr, vendor_id, 96);
OFFSET(ibv_exp_device_attr, vendor_part_id, 100);
OFFSET(ibv_exp_device_attr, hw_ver, 104);
OFFSET(ibv_exp_device_attr, max_qp, 108);
OFFSET(ibv_exp_device_attr, max_qp_wr, 112);
OFFSET(ibv_exp_device_attr, reserved, 116);
OFFSET(ibv_exp_device_attr, max_sge, 120);
OFFSET(ibv_exp_device_attr, max_sge_rd, 124);
OFFSET(ibv_exp_device_attr, max_cq, 128);
OFFSET(ibv_exp_device_attr, max_cqe, 132);
OFFSET(ibv_exp_device_attr, max_mr, 136);
OFFSET(ibv_exp_device_attr, max_pd, 140);
OFFSET(ibv_exp_device_attr, max_qp_rd_atom, 144);
OFFSET(ibv_exp_device_attr, max_ee_rd_atom, 148);
OFFSET(ibv_exp_device_attr, max_res_rd_atom, 152);
OFFSET(ibv_exp_device_attr, max_qp_init_rd_atom, 156);
OFFSET(ibv_exp_device_attr, max_ee_init_rd_atom, 160);
OFFSET(ibv_exp_device_attr, exp_atomic_cap, 164);
OFFSET(ibv_exp_device_attr, max_ee, 168);
OFFSET(ibv_exp_device_attr, max_rdd, 172);
OFFSET(ibv_exp_device_attr, max_mw, 176);
OFFSET(ibv_exp_device_attr, max_raw_ipv6_qp, 180);
OFFSET(ibv_exp_device_attr, max_raw_ethy_qp, 184);
OFFSET(ibv_exp_device_attr, max_mcast_grp, 188);
OFFSET(ibv_exp_device_attr, max_mcast_qp_attach, 192);
OFFSET(ibv_exp_device_attr, max_total_mcast_qp_attach, 196);
OFFSET(ibv_exp_device_attr, max_ah, 200);
OFFSET(ibv_exp_device_attr, max_fmr, 204);
OFFSET(ibv_exp_device_attr, max_map_per_fmr, 208);
OFFSET(ibv_exp_device_attr, max_srq, 212);
OFFSET(ibv_exp_device_attr, max_srq_wr, 216);
OFFSET(ibv_exp_device_attr, max_srq_sge, 220);
OFFSET(ibv_exp_device_attr, max_pkeys, 224);
OFFSET(ibv_exp_device_attr, local_ca_ack_delay, 226);
OFFSET(ibv_exp_device_attr, phys_port_cnt, 227);
OFFSET(ibv_exp_device_attr, comp_mask, 228);
OFFSET(ibv_exp_device_attr, calc_cap, 232);
OFFSET(ibv_exp_device_attr, timestamp_mask, 272);
OFFSET(ibv_exp_device_attr, hca_core_clock, 280);
OFFSET(ibv_exp_device_attr, exp_device_cap_flags, 288);
OFFSET(ibv_exp_device_attr, max_dc_req_rd_atom, 296);
OFFSET(ibv_exp_device_attr, max_dc_res_rd_atom, 300);
OFFSET(ibv_exp_device_attr, inline_recv_sz, 304);
OFFSET(ibv_exp_device_attr, max_rss_tbl_sz, 308);
OFFSET(ibv_exp_device_attr, ext_atom, 312);
OFFSET(ibv_exp_device_attr, umr_caps, 328);
OFFSET(ibv_exp_device_attr, odp_caps, 344);
OFFSET(ibv_exp_device_attr, max_dct, 376);
OFFSET(ibv_exp_device_attr, max_ctx_res_domain, 380);
OFFSET(ibv_exp_device_attr, rx_hash_caps, 384);
OFFSET(ibv_exp_device_attr, max_wq_type_rq, 416);
OFFSET(ibv_exp_device_attr, max_device_ctx, 420);
OFFSET(ibv_exp_device_attr, mp_rq_caps, 424);
OFFSET(ibv_exp_device_attr, wq_vlan_offloads_cap, 436);
OFFSET(ibv_exp_device_attr, ec_caps, 440);
OFFSET(ibv_exp_device_attr, masked_atomic, 448);
OFFSET(ibv_exp_device_attr, rx_pad_end_addr_align, 472);
OFFSET(ibv_exp_device_attr, tso_caps, 476);
OFFSET(ibv_exp_device_attr, packet_pacing_caps, 484);
OFFSET(ibv_exp_device_attr, ec_w_mask, 500);
OFFSET(ibv_exp_device_attr, ooo_caps, 504);
OFFSET(ibv_exp_device_attr, sw_parsing_caps, 520);
OFFSET(ibv_exp_device_attr, odp_mr_max_size, 528);
OFFSET(ibv_exp_device_attr, tm_caps, 536);
OFFSET(ibv_exp_device_attr, tunnel_offloads_caps, 556);
OFFSET(ibv_exp_device_attr, max_dm_size, 560);
OFFSET(ibv_exp_device_attr, tunneled_atomic_caps, 568);
OFFSET(ibv_exp_device_attr, comp_mask_2, 576);
OFFSET(ibv_exp_device_attr, umr_fixed_size_caps, 584);
OFFSET(ibv_exp_device_attr, pci_atomic_caps, 592);
SIZE(ibv_exp_device_attr, 600);

OFFSET(ibv_exp_device_calc_cap, data_types, 0);
OFFSET(ibv_exp_device_calc_cap, data_sizes, 8);
OFFSET(ibv_exp_device_calc_cap, int_ops, 16);
OFFSET(ibv_exp_device_calc_cap, uint_ops, 24);
OFFSET(ibv_exp_device_calc_cap, fp_ops, 32);
SIZE(ibv_exp_device_calc_cap, 40);

OFFSET(ibv_exp_ext_atomics_params, log_atomic_arg_sizes, 0);
OFFSET(ibv_exp_ext_atomics_params, max_fa_bit_boundary, 8);
OFFSET(ibv_exp_ext_atomics_params, log_max_atomic_inline, 12);
SIZE(ibv_exp_ext_atomics_params, 16);

OFFSET(ibv_exp_masked_atomic_params, max_fa_bit_boundary, 0);
OFFSET(ibv_exp_masked_atomic_params, log_max_atomic_inline, 4);
OFFSET(ibv_exp_masked_atomic_params, masked_log_atomic_arg_sizes, 8);
OFFSET(ibv_exp_masked_atomic_params, masked_log_atomic_arg_sizes_network_endianness, 16);
SIZE(ibv_exp_masked_atomic_params, 24);

OFFSET(ibv_exp_umr_caps, max_klm_list_size, 0);
OFFSET(ibv_exp_umr_caps, max_send_wqe_inline_klms, 4);
OFFSET(ibv_exp_umr_caps, max_umr_recursion_depth, 8);
OFFSET(ibv_exp_umr_caps, max_umr_stride_dimension, 12);
SIZE(ibv_exp_umr_caps, 16);

OFFSET(ibv_exp_umr_fixed_size_caps, max_entity_size, 0);
SIZE(ibv_exp_umr_fixed_size_caps, 8);

OFFSET(ibv_exp_odp_caps, general_odp_caps, 0);
OFFSET(ibv_exp_odp_caps, per_transport_caps.rc_odp_caps, 8);
OFFSET(ibv_exp_odp_caps, per_transport_caps.uc_odp_caps, 12);
OFFSET(ibv_exp_odp_caps, per_transport_caps.ud_odp_caps, 16);
OFFSET(ibv_exp_odp_caps, per_transport_caps.dc_odp_caps, 20);
OFFSET(ibv_exp_odp_caps, per_transport_caps.xrc_odp_caps, 24);
OFFSET(ibv_exp_odp_caps, per_transport_caps.raw_eth_odp_caps, 28);
SIZE(ibv_exp_odp_caps, 32);

OFFSET(ibv_exp_pci_atomic_caps, fetch_add, 0);
OFFSET(ibv_exp_pci_atomic_caps, swap, 2);
OFFSET(ibv_exp_pci_atomic_caps, compare_swap, 4);
SIZE(ibv_exp_pci_atomic_caps, 6);

OFFSET(ibv_exp_rx_hash_caps, max_rwq_indirection_tables, 0);
OFFSET(ibv_exp_rx_hash_caps, max_rwq_indirection_table_size, 4);
OFFSET(ibv_exp_rx_hash_caps, supported_hash_functions, 8);
OFFSET(ibv_exp_rx_hash_caps, supported_packet_fields, 16);
OFFSET(ibv_exp_rx_hash_caps, supported_qps, 24);
SIZE(ibv_exp_rx_hash_caps, 32);

OFFSET(ibv_exp_mp_rq_caps, supported_qps, 0);
OFFSET(ibv_exp_mp_rq_caps, allowed_shifts, 4);
OFFSET(ibv_exp_mp_rq_caps, min_single_wqe_log_num_of_strides, 8);
OFFSET(ibv_exp_mp_rq_caps, max_single_wqe_log_num_of_strides, 9);
OFFSET(ibv_exp_mp_rq_caps, min_single_stride_log_num_of_bytes, 10);
OFFSET(ibv_exp_mp_rq_caps, max_single_stride_log_num_of_bytes, 11);
SIZE(ibv_exp_mp_rq_caps, 12);

SIZE(ibv_exp_ec_caps, 8);

OFFSET(ibv_exp_tso_caps, max_tso, 0);
OFFSET(ibv_exp_tso_caps, supported_qpts, 4);
SIZE(ibv_exp_tso_caps, 8);

OFFSET(ibv_exp_packet_pacing_caps, qp_rate_limit_min, 0);
OFFSET(ibv_exp_packet_pacing_caps, qp_rate_limit_max, 4);
OFFSET(ibv_exp_packet_pacing_caps, supported_qpts, 8);
OFFSET(ibv_exp_packet_pacing_caps, cap_flags, 12);
SIZE(ibv_exp_packet_pacing_caps, 16);

OFFSET(ibv_exp_ooo_caps, rc_caps, 0);
OFFSET(ibv_exp_ooo_caps, xrc_caps, 4);
OFFSET(ibv_exp_ooo_caps, dc_caps, 8);
OFFSET(ibv_exp_ooo_caps, ud_caps, 12);
SIZE(ibv_exp_ooo_caps, 16);

SIZE(ibv_exp_sw_parsing_caps, 8);

OFFSET(ibv_exp_tm_caps, max_rndv_hdr_size, 0);
OFFSET(ibv_exp_tm_caps, max_num_tags, 4);
OFFSET(ibv_exp_tm_caps, capability_flags, 8);
OFFSET(ibv_exp_tm_caps, max_ops, 12);
OFFSET(ibv_exp_tm_caps, max_sge, 16);
SIZE(ibv_exp_tm_caps, 20);

OFFSET(ibv_exp_reg_mr_in, pd, 0);
OFFSET(ibv_exp_reg_mr_in, addr, 8);
OFFSET(ibv_exp_reg_mr_in, length, 16);
OFFSET(ibv_exp_reg_mr_in, exp_access, 24);
OFFSET(ibv_exp_reg_mr_in, comp_mask, 32);
OFFSET(ibv_exp_reg_mr_in, create_flags, 36);
OFFSET(ibv_exp_reg_mr_in, dm, 40);
SIZE(ibv_exp_reg_mr_in, 48);

OFFSET(ibv_exp_reg_shared_mr_in, mr_handle, 0);
OFFSET(ibv_exp_reg_shared_mr_in, pd, 8);
OFFSET(ibv_exp_reg_shared_mr_in, addr, 16);
OFFSET(ibv_exp_reg_shared_mr_in, exp_access, 24);
OFFSET(ibv_exp_reg_shared_mr_in, comp_mask, 32);
SIZE(ibv_exp_reg_shared_mr_in, 40);

OFFSET(ibv_exp_rereg_mr_attr, comp_mask, 0);
SIZE(ibv_exp_rereg_mr_attr, 4);

OFFSET(ibv_exp_prefetch_attr, flags, 0);
OFFSET(ibv_exp_prefetch_attr, addr, 8);
OFFSET(ibv_exp_prefetch_attr, length, 16);
OFFSET(ibv_exp_prefetch_attr, comp_mask, 24);
SIZE(ibv_exp_prefetch_attr, 32);

OFFSET(ibv_exp_mr_init_attr, max_klm_list_size, 0);
OFFSET(ibv_exp_mr_init_attr, create_flags, 4);
OFFSET(ibv_exp_mr_init_attr, exp_access_flags, 8);
SIZE(ibv_exp_mr_init_attr, 16);

OFFSET(ibv_exp_create_mr_in, pd, 0);
OFFSET(ibv_exp_create_mr_in, attr, 8);
OFFSET(ibv_exp_create_mr_in, comp_mask, 24);
SIZE(ibv_exp_create_mr_in, 32);

OFFSET(ibv_exp_mkey_attr, max_klm_list_size, 0);
OFFSET(ibv_exp_mkey_attr, comp_mask, 4);
SIZE(ibv_exp_mkey_attr, 8);

OFFSET(ibv_exp_mkey_list_container, max_klm_list_size, 0);
OFFSET(ibv_exp_mkey_list_container, context, 8);
SIZE(ibv_exp_mkey_list_container, 16);

OFFSET(ibv_exp_mkey_list_container_attr, pd, 0);
OFFSET(ibv_exp_mkey_list_container_attr, mkey_list_type, 8);
OFFSET(ibv_exp_mkey_list_container_attr, max_klm_list_size, 12);
OFFSET(ibv_exp_mkey_list_container_attr, comp_mask, 16);
SIZE(ibv_exp_mkey_list_container_attr, 24);

OFFSET(ibv_exp_mem_region, base_addr, 0);
OFFSET(ibv_exp_mem_region, mr, 8);
OFFSET(ibv_exp_mem_region, length, 16);
SIZE(ibv_exp_mem_region, 24);

OFFSET(ibv_exp_mem_repeat_block, base_addr, 0);
OFFSET(ibv_exp_mem_repeat_block, mr, 8);
OFFSET(ibv_exp_mem_repeat_block, byte_count, 16);
OFFSET(ibv_exp_mem_repeat_block, stride, 24);
SIZE(ibv_exp_mem_repeat_block, 32);

OFFSET(ibv_exp_mw_bind_info, mr, 0);
OFFSET(ibv_exp_mw_bind_info, addr, 8);
OFFSET(ibv_exp_mw_bind_info, length, 16);
OFFSET(ibv_exp_mw_bind_info, exp_mw_access_flags, 24);
SIZE(ibv_exp_mw_bind_info, 32);

OFFSET(ibv_exp_mw_bind, qp, 0);
OFFSET(ibv_exp_mw_bind, mw, 8);
OFFSET(ibv_exp_mw_bind, wr_id, 16);
OFFSET(ibv_exp_mw_bind, exp_send_flags, 24);
OFFSET(ibv_exp_mw_bind, bind_info, 32);
OFFSET(ibv_exp_mw_bind, comp_mask, 64);
SIZE(ibv_exp_mw_bind, 72);

OFFSET(ibv_exp_send_wr, wr_id, 0);
OFFSET(ibv_exp_send_wr, next, 8);
OFFSET(ibv_exp_send_wr, sg_list, 16);
OFFSET(ibv_exp_send_wr, num_sge, 24);
OFFSET(ibv_exp_send_wr, exp_opcode, 28);
OFFSET(ibv_exp_send_wr, reserved, 32);
OFFSET(ibv_exp_send_wr, ex.imm_data, 36);
OFFSET(ibv_exp_send_wr, ex.invalidate_rkey, 36);
OFFSET(ibv_exp_send_wr, wr.rdma.remote_addr, 40);
OFFSET(ibv_exp_send_wr, wr.rdma.rkey, 48);
OFFSET(ibv_exp_send_wr, wr.atomic.remote_addr, 40);
OFFSET(ibv_exp_send_wr, wr.atomic.compare_add, 48);
OFFSET(ibv_exp_send_wr, wr.atomic.swap, 56);
OFFSET(ibv_exp_send_wr, wr.atomic.rkey, 64);
OFFSET(ibv_exp_send_wr, wr.ud.ah, 40);
OFFSET(ibv_exp_send_wr, wr.ud.remote_qpn, 48);
OFFSET(ibv_exp_send_wr, wr.ud.remote_qkey, 52);
OFFSET(ibv_exp_send_wr, qp_type.xrc.remote_srqn, 72);
OFFSET(ibv_exp_send_wr, xrc_remote_srq_num, 72);
OFFSET(ibv_exp_send_wr, task.rdma.rkey, 88);
OFFSET(ibv_exp_send_wr, task.atomic.rkey, 104);
OFFSET(ibv_exp_send_wr, task.cqe_wait.cq, 80);
OFFSET(ibv_exp_send_wr, task.cqe_wait.cq_count, 88);
OFFSET(ibv_exp_send_wr, task.wqe_enable.qp, 80);
OFFSET(ibv_exp_send_wr, task.wqe_enable.wqe_count, 88);
OFFSET(ibv_exp_send_wr, op.calc.calc_op, 112);
OFFSET(ibv_exp_send_wr, op.calc.data_type, 116);
OFFSET(ibv_exp_send_wr, op.calc.data_size, 120);
OFFSET(ibv_exp_send_wr, dc.ah, 128);
OFFSET(ibv_exp_send_wr, dc.dct_access_key, 136);
OFFSET(ibv_exp_send_wr, dc.dct_number, 144);
OFFSET(ibv_exp_send_wr, bind_mw.mw, 152);
OFFSET(ibv_exp_send_wr, bind_mw.rkey, 160);
OFFSET(ibv_exp_send_wr, bind_mw.bind_info, 168);
OFFSET(ibv_exp_send_wr, tso.hdr, 152);
OFFSET(ibv_exp_send_wr, tso.hdr_sz, 160);
OFFSET(ibv_exp_send_wr, tso.mss, 162);
OFFSET(ibv_exp_send_wr, exp_send_flags, 200);
OFFSET(ibv_exp_send_wr, comp_mask, 208);
OFFSET(ibv_exp_send_wr, ext_op.umr.umr_type, 216);
OFFSET(ibv_exp_send_wr, ext_op.umr.memory_objects, 224);
OFFSET(ibv_exp_send_wr, ext_op.umr.exp_access, 232);
OFFSET(ibv_exp_send_wr, ext_op.umr.modified_mr, 240);
OFFSET(ibv_exp_send_wr, ext_op.umr.base_addr, 248);
OFFSET(ibv_exp_send_wr, ext_op.umr.num_mrs, 256);
OFFSET(ibv_exp_send_wr, ext_op.umr.mem_list, 264);
OFFSET(ibv_exp_send_wr, ext_op.umr.mem_list.mem_reg_list, 264);
OFFSET(ibv_exp_send_wr, ext_op.umr.mem_list.rb.mem_repeat_block_list, 264);
OFFSET(ibv_exp_send_wr, ext_op.umr.mem_list.rb.repeat_count, 272);
OFFSET(ibv_exp_send_wr, ext_op.umr.mem_list.rb.stride_dim, 280);
OFFSET(ibv_exp_send_wr, ext_op.masked_atomics.log_arg_sz, 216);
OFFSET(ibv_exp_send_wr, ext_op.masked_atomics.remote_addr, 224);
OFFSET(ibv_exp_send_wr, ext_op.masked_atomics.rkey, 232);
OFFSET(ibv_exp_send_wr, ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap, 240);
OFFSET(ibv_exp_send_wr, ext_op.masked_atomics.wr_data.inline_data.op.fetch_add, 240);
SIZE(ibv_exp_send_wr, 288);

OFFSET(ibv_exp_cmp_swap, compare_mask, 0);
OFFSET(ibv_exp_cmp_swap, compare_val, 8);
OFFSET(ibv_exp_cmp_swap, swap_val, 16);
OFFSET(ibv_exp_cmp_swap, swap_mask, 24);
SIZE(ibv_exp_cmp_swap, 32);

OFFSET(ibv_exp_fetch_add, add_val, 0);
OFFSET(ibv_exp_fetch_add, field_boundary, 8);
SIZE(ibv_exp_fetch_add, 16);

OFFSET(ibv_exp_qp_init_attr, qp_context, 0);
OFFSET(ibv_exp_qp_init_attr, send_cq, 8);
OFFSET(ibv_exp_qp_init_attr, recv_cq, 16);
OFFSET(ibv_exp_qp_init_attr, srq, 24);
OFFSET(ibv_exp_qp_init_attr, cap, 32);
OFFSET(ibv_exp_qp_init_attr, qp_type, 52);
OFFSET(ibv_exp_qp_init_attr, sq_sig_all, 56);
OFFSET(ibv_exp_qp_init_attr, comp_mask, 60);
OFFSET(ibv_exp_qp_init_attr, pd, 64);
OFFSET(ibv_exp_qp_init_attr, xrcd, 72);
OFFSET(ibv_exp_qp_init_attr, exp_create_flags, 80);
OFFSET(ibv_exp_qp_init_attr, max_inl_recv, 84);
OFFSET(ibv_exp_qp_init_attr, qpg, 88);
OFFSET(ibv_exp_qp_init_attr, qpg.qpg_parent, 96);
OFFSET(ibv_exp_qp_init_attr, qpg.parent_attrib.tss_child_count, 96);
OFFSET(ibv_exp_qp_init_attr, qpg.parent_attrib.rss_child_count, 100);
OFFSET(ibv_exp_qp_init_attr, max_atomic_arg, 104);
OFFSET(ibv_exp_qp_init_attr, max_inl_send_klms, 108);
OFFSET(ibv_exp_qp_init_attr, res_domain, 112);
OFFSET(ibv_exp_qp_init_attr, rx_hash_conf, 120);
OFFSET(ibv_exp_qp_init_attr, port_num, 128);
OFFSET(ibv_exp_qp_init_attr, peer_direct_attrs, 136);
OFFSET(ibv_exp_qp_init_attr, max_tso_header, 144);
OFFSET(ibv_exp_qp_init_attr, associated_qpn, 148);
SIZE(ibv_exp_qp_init_attr, 152);

OFFSET(ibv_exp_qp_attr, dct_key, 136);
OFFSET(ibv_exp_qp_attr, comp_mask, 144);
OFFSET(ibv_exp_qp_attr, flow_entropy, 148);
OFFSET(ibv_exp_qp_attr, rate_limit, 152);
OFFSET(ibv_exp_qp_attr, burst_info.max_burst_sz, 156);
OFFSET(ibv_exp_qp_attr, burst_info.typical_pkt_sz, 160);
SIZE(ibv_exp_qp_attr, 168);

OFFSET(ibv_exp_cq_init_attr, comp_mask, 0);
OFFSET(ibv_exp_cq_init_attr, flags, 4);
OFFSET(ibv_exp_cq_init_attr, res_domain, 8);
OFFSET(ibv_exp_cq_init_attr, peer_direct_attrs, 16);
SIZE(ibv_exp_cq_init_attr, 24);

OFFSET(ibv_exp_cq_attr, comp_mask, 0);
OFFSET(ibv_exp_cq_attr, moderation.cq_count, 4);
OFFSET(ibv_exp_cq_attr, moderation.cq_period, 6);
OFFSET(ibv_exp_cq_attr, cq_cap_flags, 8);
SIZE(ibv_exp_cq_attr, 12);

OFFSET(ibv_exp_wc, wr_id, 0);
OFFSET(ibv_exp_wc, status, 8);
OFFSET(ibv_exp_wc, exp_opcode, 12);
OFFSET(ibv_exp_wc, vendor_err, 16);
OFFSET(ibv_exp_wc, byte_len, 20);
OFFSET(ibv_exp_wc, mp_wr.strides_offset, 20);
OFFSET(ibv_exp_wc, mp_wr.byte_len, 22);
OFFSET(ibv_exp_wc, imm_data, 24);
OFFSET(ibv_exp_wc, qp_num, 28);
OFFSET(ibv_exp_wc, src_qp, 32);
OFFSET(ibv_exp_wc, reserved, 36);
OFFSET(ibv_exp_wc, pkey_index, 40);
OFFSET(ibv_exp_wc, slid, 42);
OFFSET(ibv_exp_wc, sl, 44);
OFFSET(ibv_exp_wc, dlid_path_bits, 45);
OFFSET(ibv_exp_wc, timestamp, 48);
OFFSET(ibv_exp_wc, qp, 56);
OFFSET(ibv_exp_wc, srq, 64);
OFFSET(ibv_exp_wc, dct, 72);
OFFSET(ibv_exp_wc, exp_wc_flags, 80);
OFFSET(ibv_exp_wc, tm_info.tag, 88);
OFFSET(ibv_exp_wc, tm_info.priv, 96);
SIZE(ibv_exp_wc, 104);

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

OFFSET(ibv_exp_values, comp_mask, 0);
OFFSET(ibv_exp_values, hwclock_ns, 8);
OFFSET(ibv_exp_values, hwclock, 16);
OFFSET(ibv_exp_values, clock_info, 24);
SIZE(ibv_exp_values, 72);

OFFSET(ibv_exp_clock_info, cycles, 0);
OFFSET(ibv_exp_clock_info, nsec, 8);
OFFSET(ibv_exp_clock_info, frac, 16);
OFFSET(ibv_exp_clock_info, mask, 24);
OFFSET(ibv_exp_clock_info, shift, 32);
OFFSET(ibv_exp_clock_info, mult, 36);
OFFSET(ibv_exp_clock_info, comp_mask, 40);
SIZE(ibv_exp_clock_info, 48);

OFFSET(ibv_exp_res_domain_init_attr, comp_mask, 0);
OFFSET(ibv_exp_res_domain_init_attr, thread_model, 4);
OFFSET(ibv_exp_res_domain_init_attr, msg_model, 8);
SIZE(ibv_exp_res_domain_init_attr, 12);

OFFSET(ibv_exp_gid_attr, comp_mask, 0);
OFFSET(ibv_exp_gid_attr, type, 4);
OFFSET(ibv_exp_gid_attr, gid, 8);
SIZE(ibv_exp_gid_attr, 24);

VALUE(IBV_EXP_START_ENUM, 0x40);
VALUE(IBV_EXP_START_FLAG_LOC, 0x20);
VALUE(IBV_EXP_START_FLAG, 0x100000000);
VALUE(IBV_EXP_IMPLICIT_MR_SIZE, 0xffffffffffffffff);
VALUE(IBV_EXP_ACCESS_FLAGS_SHIFT, 0x0F);
VALUE(VERBS_MAX_ENV_VAL, 4096);
VALUE(ETHERNET_LL_SIZE, 6);

VALUE(IBV_EXP_QPT_DC_INI, 32);
VALUE(IBV_EXP_QP_TYPE_START, 32);
VALUE(IBV_QPT_XRC, 5);
VALUE(IBV_QPT_RAW_ETH, 8);
VALUE(IBV_EXP_EVENT_DCT_KEY_VIOLATION, 32);
VALUE(IBV_EXP_EVENT_DCT_ACCESS_ERR, 33);
VALUE(IBV_EXP_EVENT_DCT_REQ_ERR, 34);
VALUE(IBV_EXP_NODE_MIC, 32);
VALUE(IBV_EXP_TRANSPORT_SCIF, 32);
VALUE(IBV_EXP_LINK_LAYER_SCIF, 32);
VALUE(IBV_REREG_MR_KEEP_VALID, 8);

VALUE(IBV_EXP_DEVICE_ATTR_CALC_CAP, 1u << 0);
VALUE(IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK, 1u << 1);
VALUE(IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK, 1u << 2);
VALUE(IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS, 1u << 3);
VALUE(IBV_EXP_DEVICE_DC_RD_REQ, 1u << 4);
VALUE(IBV_EXP_DEVICE_DC_RD_RES, 1u << 5);
VALUE(IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ, 1u << 6);
VALUE(IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ, 1u << 7);
VALUE(IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS, 1u << 8);
VALUE(IBV_EXP_DEVICE_ATTR_UMR, 1u << 9);
VALUE(IBV_EXP_DEVICE_ATTR_ODP, 1u << 10);
VALUE(IBV_EXP_DEVICE_ATTR_MAX_DCT, 1u << 11);
VALUE(IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN, 1u << 12);
VALUE(IBV_EXP_DEVICE_ATTR_RX_HASH, 1u << 13);
VALUE(IBV_EXP_DEVICE_ATTR_MAX_WQ_TYPE_RQ, 1u << 14);
VALUE(IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX, 1u << 15);
VALUE(IBV_EXP_DEVICE_ATTR_MP_RQ, 1u << 16);
VALUE(IBV_EXP_DEVICE_ATTR_VLAN_OFFLOADS, 1u << 17);
VALUE(IBV_EXP_DEVICE_ATTR_EC_CAPS, 1u << 18);
VALUE(IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS, 1u << 19);
VALUE(IBV_EXP_DEVICE_ATTR_RX_PAD_END_ALIGN, 1u << 20);
VALUE(IBV_EXP_DEVICE_ATTR_TSO_CAPS, 1u << 21);
VALUE(IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS, 1u << 22);
VALUE(IBV_EXP_DEVICE_ATTR_EC_GF_BASE, 1u << 23);
VALUE(IBV_EXP_DEVICE_ATTR_OOO_CAPS, 1u << 24);
VALUE(IBV_EXP_DEVICE_ATTR_SW_PARSING_CAPS, 1u << 25);
VALUE(IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE, 1u << 26);
VALUE(IBV_EXP_DEVICE_ATTR_TM_CAPS, 1u << 27);
VALUE(IBV_EXP_DEVICE_ATTR_TUNNEL_OFFLOADS_CAPS, 1u << 28);
VALUE(IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE, 1u << 29);
VALUE(IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC, 1u << 30);

VALUE(IBV_EXP_DEVICE_ATTR_COMP_MASK_2, 0xffffffff80000000);
VALUE(IBV_EXP_DEVICE_ATTR_RESERVED, 0x100000000);
VALUE(IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS, 1);
VALUE(IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS, 2);
VALUE(IBV_EXP_DEVICE_ATTR_RESERVED_2, 4);

VALUE(IBV_EXP_DEVICE_DC_TRANSPORT, 0x100000000ULL << 0);
VALUE(IBV_EXP_DEVICE_QPG, 0x100000000ULL << 1);
VALUE(IBV_EXP_DEVICE_UD_RSS, 0x100000000ULL << 2);
VALUE(IBV_EXP_DEVICE_UD_TSS, 0x100000000ULL << 3);
VALUE(IBV_EXP_DEVICE_EXT_ATOMICS, 0x100000000ULL << 4);
VALUE(IBV_EXP_DEVICE_NOP, 0x100000000ULL << 5);
VALUE(IBV_EXP_DEVICE_UMR, 0x100000000ULL << 6);
VALUE(IBV_EXP_DEVICE_ODP, 0x100000000ULL << 7);
VALUE(IBV_EXP_DEVICE_VXLAN_SUPPORT, 0x100000000ULL << 10);
VALUE(IBV_EXP_DEVICE_RX_CSUM_TCP_UDP_PKT, 0x100000000ULL << 11);
VALUE(IBV_EXP_DEVICE_RX_CSUM_IP_PKT, 0x100000000ULL << 12);
VALUE(IBV_EXP_DEVICE_EC_OFFLOAD, 0x100000000ULL << 13);
VALUE(IBV_EXP_DEVICE_EXT_MASKED_ATOMICS, 0x100000000ULL << 14);
VALUE(IBV_EXP_DEVICE_RX_TCP_UDP_PKT_TYPE, 0x100000000ULL << 15);
VALUE(IBV_EXP_DEVICE_SCATTER_FCS, 0x100000000ULL << 16);
VALUE(IBV_EXP_DEVICE_MEM_WINDOW, 0x100000000ULL << 17);
VALUE(IBV_EXP_DEVICE_WQ_DELAY_DROP, 0x100000000ULL << 18);
VALUE(IBV_EXP_DEVICE_PHYSICAL_RANGE_MR, 0x100000000ULL << 19);
VALUE(IBV_EXP_DEVICE_CAPI, 0x100000000ULL << 20);
VALUE(IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS, 0x100000000ULL << 21);
VALUE(IBV_EXP_DEVICE_DC_INFO, 0x100000000ULL << 22);
VALUE(IBV_EXP_DEVICE_MW_TYPE_2A, 0x100000000ULL << 23);
VALUE(IBV_EXP_DEVICE_MW_TYPE_2B, 0x100000000ULL << 24);
VALUE(IBV_EXP_DEVICE_UMR_FIXED_SIZE, 0x100000000ULL << 25);
VALUE(IBV_EXP_DEVICE_PACKET_BASED_CREDIT_MODE, 0x100000000ULL << 26);
VALUE(IBV_EXP_DEVICE_CROSS_CHANNEL, 0x100000000ULL << 28);
VALUE(IBV_EXP_DEVICE_MANAGED_FLOW_STEERING, 0x100000000ULL << 29);
VALUE(IBV_EXP_DEVICE_MR_ALLOCATE, 0x100000000ULL << 30);
VALUE(IBV_EXP_DEVICE_SHARED_MR, 0x100000000ULL << 31);

VALUE(IBV_EXP_DEVICE_RESIZE_MAX_WR, IBV_DEVICE_RESIZE_MAX_WR);
VALUE(IBV_EXP_DEVICE_BAD_PKEY_CNTR, IBV_DEVICE_BAD_PKEY_CNTR);
VALUE(IBV_EXP_DEVICE_BAD_QKEY_CNTR, IBV_DEVICE_BAD_QKEY_CNTR);
VALUE(IBV_EXP_DEVICE_RAW_MULTI, IBV_DEVICE_RAW_MULTI);
VALUE(IBV_EXP_DEVICE_AUTO_PATH_MIG, IBV_DEVICE_AUTO_PATH_MIG);
VALUE(IBV_EXP_DEVICE_CHANGE_PHY_PORT, IBV_DEVICE_CHANGE_PHY_PORT);
VALUE(IBV_EXP_DEVICE_UD_AV_PORT_ENFORCE, IBV_DEVICE_UD_AV_PORT_ENFORCE);
VALUE(IBV_EXP_DEVICE_CURR_QP_STATE_MOD, IBV_DEVICE_CURR_QP_STATE_MOD);
VALUE(IBV_EXP_DEVICE_SHUTDOWN_PORT, IBV_DEVICE_SHUTDOWN_PORT);
VALUE(IBV_EXP_DEVICE_INIT_TYPE, IBV_DEVICE_INIT_TYPE);
VALUE(IBV_EXP_DEVICE_PORT_ACTIVE_EVENT, IBV_DEVICE_PORT_ACTIVE_EVENT);
VALUE(IBV_EXP_DEVICE_SYS_IMAGE_GUID, IBV_DEVICE_SYS_IMAGE_GUID);
VALUE(IBV_EXP_DEVICE_RC_RNR_NAK_GEN, IBV_DEVICE_RC_RNR_NAK_GEN);
VALUE(IBV_EXP_DEVICE_SRQ_RESIZE, IBV_DEVICE_SRQ_RESIZE);
VALUE(IBV_EXP_DEVICE_N_NOTIFY_CQ, IBV_DEVICE_N_NOTIFY_CQ);
VALUE(IBV_EXP_DEVICE_XRC, IBV_DEVICE_XRC);

VALUE(IBV_EXP_ATOMIC_NONE, 0);
VALUE(IBV_EXP_ATOMIC_HCA, 1);
VALUE(IBV_EXP_ATOMIC_GLOB, 2);
VALUE(IBV_EXP_ATOMIC_HCA_REPLY_BE, 0x40);
VALUE(IBV_EXP_TUNNELED_ATOMIC_SUPPORTED, 1);
VALUE(IBV_EXP_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN, 1);
VALUE(IBV_EXP_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE, 2);
VALUE(IBV_EXP_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE, 4);
VALUE(IBV_EXP_QPT_RC, 1);
VALUE(IBV_EXP_QPT_UC, 2);
VALUE(IBV_EXP_QPT_UD, 4);
VALUE(IBV_EXP_QPT_XRC_INIT, 8);
VALUE(IBV_EXP_QPT_XRC_TGT, 16);
VALUE(IBV_EXP_QPT_RAW_PACKET, 32);
VALUE(IBV_EXP_QPT_RESERVED, 64);
VALUE(IBV_EXP_MP_RQ_NO_SHIFT, 0);
VALUE(IBV_EXP_MP_RQ_2BYTES_SHIFT, 1);
VALUE(IBV_EXP_MP_RQ_SUP_TYPE_SRQ_TM, 1);
VALUE(IBV_EXP_MP_RQ_SUP_TYPE_WQ_RQ, 32);
VALUE(IBV_EXP_PCI_ATOMIC_OP_SIZE_SUP_4_BYTES, 1);
VALUE(IBV_EXP_PCI_ATOMIC_OP_SIZE_SUP_8_BYTES, 2);
VALUE(IBV_EXP_PCI_ATOMIC_OP_SIZE_SUP_16_BYTES, 4);
VALUE(IBV_EXP_QP_SUPPORT_BURST, 1);
VALUE(IBV_EXP_OOO_SUPPORT_RW_DATA_PLACEMENT, 1);
VALUE(IBV_EXP_SW_PARSING, 1);
VALUE(IBV_EXP_SW_PARSING_CSUM, 2);
VALUE(IBV_EXP_SW_PARSING_LSO, 4);
VALUE(IBV_EXP_TM_CAP_RC, 1);
VALUE(IBV_EXP_TM_CAP_DC, 2);
VALUE(IBV_EXP_SET_ATTR_PEER_INFO, 1);

VALUE(IBV_EXP_ACCESS_LOCAL_WRITE, 1);
VALUE(IBV_EXP_ACCESS_REMOTE_WRITE, 2);
VALUE(IBV_EXP_ACCESS_REMOTE_READ, 4);
VALUE(IBV_EXP_ACCESS_REMOTE_ATOMIC, 8);
VALUE(IBV_EXP_ACCESS_MW_BIND, 16);

VALUE(IBV_EXP_ACCESS_ALLOCATE_MR, 0x100000000ULL << 5);
VALUE(IBV_EXP_ACCESS_SHARED_MR_USER_READ, 0x100000000ULL << 6);
VALUE(IBV_EXP_ACCESS_SHARED_MR_USER_WRITE, 0x100000000ULL << 7);
VALUE(IBV_EXP_ACCESS_SHARED_MR_GROUP_READ, 0x100000000ULL << 8);
VALUE(IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE, 0x100000000ULL << 9);
VALUE(IBV_EXP_ACCESS_SHARED_MR_OTHER_READ, 0x100000000ULL << 10);
VALUE(IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE, 0x100000000ULL << 11);
VALUE(IBV_EXP_ACCESS_NO_RDMA, 0x100000000ULL << 12);
VALUE(IBV_EXP_ACCESS_MW_ZERO_BASED, 0x100000000ULL << 13);
VALUE(IBV_EXP_ACCESS_ON_DEMAND, 0x100000000ULL << 14);
VALUE(IBV_EXP_ACCESS_RELAXED, 0x100000000ULL << 15);
VALUE(IBV_EXP_ACCESS_PHYSICAL_ADDR, 0x100000000ULL << 16);
VALUE(IBV_EXP_ACCESS_TUNNELED_ATOMIC, 0x100000000ULL << 17);
VALUE(IBV_EXP_ACCESS_RELAXED_ORDERING, 0x100000000ULL << 18);
VALUE(IBV_EXP_ACCESS_RESERVED, 0x100000000ULL << 19);

VALUE(IBV_EXP_REG_MR_CREATE_FLAGS, 1);
VALUE(IBV_EXP_REG_MR_DM, 2);
VALUE(IBV_EXP_REG_MR_RESERVED, 4);
VALUE(IBV_EXP_REG_MR_CREATE_CONTIG, 1);
VALUE(IBV_EXP_REG_SHARED_MR_RESERVED, 1);
VALUE(IBV_EXP_REREG_MR_CHANGE_TRANSLATION, 1);
VALUE(IBV_EXP_REREG_MR_CHANGE_PD, 2);
VALUE(IBV_EXP_REREG_MR_CHANGE_ACCESS, 4);
VALUE(IBV_EXP_REREG_MR_KEEP_VALID, 8);
VALUE(IBV_EXP_REREG_MR_FLAGS_SUPPORTED, 15);
VALUE(IBV_EXP_REREG_MR_ATTR_RESERVED, 1);
VALUE(IBV_EXP_PREFETCH_WRITE_ACCESS, 1);
VALUE(IBV_EXP_PREFETCH_MR_RESERVED, 1);
VALUE(IBV_EXP_MR_SIGNATURE_EN, 1);
VALUE(IBV_EXP_MR_INDIRECT_KLMS, 2);
VALUE(IBV_EXP_MR_FIXED_BUFFER_SIZE, 4);
VALUE(IBV_EXP_CREATE_MR_IN_RESERVED, 1);
VALUE(IBV_EXP_MKEY_ATTR_RESERVED, 1);
VALUE(IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR, 0);
VALUE(IBV_EXP_MKEY_LIST_CONTAINER_RESERVED, 1);
VALUE(IBV_EXP_UMR_MR_LIST, 0);
VALUE(IBV_EXP_UMR_REPEAT, 1);
VALUE(IBV_EXP_UMR_MR_LIST_FIXED_SIZE, 2);
VALUE(IBV_EXP_BIND_MW_RESERVED, 1);
VALUE(IBV_EXP_SEND_WR_ATTR_RESERVED, 1);

VALUE(IBV_EXP_WR_RDMA_WRITE, 0);
VALUE(IBV_EXP_WR_RDMA_WRITE_WITH_IMM, 1);
VALUE(IBV_EXP_WR_SEND, 2);
VALUE(IBV_EXP_WR_SEND_WITH_IMM, 3);
VALUE(IBV_EXP_WR_RDMA_READ, 4);
VALUE(IBV_EXP_WR_ATOMIC_CMP_AND_SWP, 5);
VALUE(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, 6);
VALUE(IBV_EXP_WR_LOCAL_INV, 7);
VALUE(IBV_EXP_WR_BIND_MW, 8);
VALUE(IBV_EXP_WR_SEND_WITH_INV, 9);
VALUE(IBV_EXP_WR_TSO, 79);
VALUE(IBV_EXP_WR_SEND_ENABLE, 96);
VALUE(IBV_EXP_WR_RECV_ENABLE, 97);
VALUE(IBV_EXP_WR_CQE_WAIT, 98);
VALUE(IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, 99);
VALUE(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 100);
VALUE(IBV_EXP_WR_NOP, 101);
VALUE(IBV_EXP_WR_UMR_FILL, 102);
VALUE(IBV_EXP_WR_UMR_INVALIDATE, 103);

VALUE(IBV_EXP_SEND_FENCE, 1);
VALUE(IBV_EXP_SEND_SIGNALED, 2);
VALUE(IBV_EXP_SEND_SOLICITED, 4);
VALUE(IBV_EXP_SEND_INLINE, 8);

VALUE(IBV_EXP_SEND_IP_CSUM, 0x100000000ULL << 0);
VALUE(IBV_EXP_SEND_WITH_CALC, 0x100000000ULL << 1);
VALUE(IBV_EXP_SEND_WAIT_EN_LAST, 0x100000000ULL << 2);
VALUE(IBV_EXP_SEND_EXT_ATOMIC_INLINE, 0x100000000ULL << 3);

VALUE(IBV_EXP_CALC_OP_ADD, 0);
VALUE(IBV_EXP_CALC_OP_MAXLOC, 1);
VALUE(IBV_EXP_CALC_OP_BAND, 2);
VALUE(IBV_EXP_CALC_OP_BXOR, 3);
VALUE(IBV_EXP_CALC_OP_BOR, 4);
VALUE(IBV_EXP_CALC_OP_NUMBER, 5);
VALUE(IBV_EXP_CALC_DATA_TYPE_INT, 0);
VALUE(IBV_EXP_CALC_DATA_TYPE_UINT, 1);
VALUE(IBV_EXP_CALC_DATA_TYPE_FLOAT, 2);
VALUE(IBV_EXP_CALC_DATA_TYPE_NUMBER, 3);
VALUE(IBV_EXP_CALC_DATA_SIZE_64_BIT, 0);
VALUE(IBV_EXP_CALC_DATA_SIZE_NUMBER, 1);

VALUE(IBV_EXP_QP_INIT_ATTR_PD, 1u << 0);
VALUE(IBV_EXP_QP_INIT_ATTR_XRCD, 1u << 1);
VALUE(IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, 1u << 2);
VALUE(IBV_EXP_QP_INIT_ATTR_INL_RECV, 1u << 3);
VALUE(IBV_EXP_QP_INIT_ATTR_QPG, 1u << 4);
VALUE(IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, 1u << 5);
VALUE(IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS, 1u << 6);
VALUE(IBV_EXP_QP_INIT_ATTR_RES_DOMAIN, 1u << 7);
VALUE(IBV_EXP_QP_INIT_ATTR_RX_HASH, 1u << 8);
VALUE(IBV_EXP_QP_INIT_ATTR_PORT, 1u << 9);
VALUE(IBV_EXP_QP_INIT_ATTR_PEER_DIRECT, 1u << 10);
VALUE(IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER, 1u << 11);
VALUE(IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN, 1u << 12);
VALUE(IBV_EXP_QP_INIT_ATTR_RESERVED1, 1u << 13);

VALUE(IBV_EXP_QP_INIT_ATTR_RESERVED, 0x80);

VALUE(IBV_EXP_QP_CREATE_CROSS_CHANNEL, 1u << 2);
VALUE(IBV_EXP_QP_CREATE_MANAGED_SEND, 1u << 3);
VALUE(IBV_EXP_QP_CREATE_MANAGED_RECV, 1u << 4);
VALUE(IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW, 1u << 6);
VALUE(IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW, 1u << 7);
VALUE(IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY, 1u << 8);
VALUE(IBV_EXP_QP_CREATE_UMR, 1u << 9);
VALUE(IBV_EXP_QP_CREATE_EC_PARITY_EN, 1u << 10);
VALUE(IBV_EXP_QP_CREATE_RX_END_PADDING, 1u << 11);
VALUE(IBV_EXP_QP_CREATE_SCATTER_FCS, 1u << 12);
VALUE(IBV_EXP_QP_CREATE_TUNNEL_OFFLOADS, 1u << 13);
VALUE(IBV_EXP_QP_CREATE_INTERNAL_USE, 1u << 15);
VALUE(IBV_EXP_QP_CREATE_PACKET_BASED_CREDIT_MODE, 1u << 16);

VALUE(IBV_EXP_QP_CREATE_MASK, 0x00013FDC);
VALUE(IBV_EXP_QPG_NONE, 0);
VALUE(IBV_EXP_QPG_PARENT, 1);
VALUE(IBV_EXP_QPG_CHILD_RX, 2);
VALUE(IBV_EXP_QPG_CHILD_TX, 4);
VALUE(IBV_EXP_QP_ATTR_FLOW_ENTROPY, 1);
VALUE(IBV_EXP_QP_ATTR_BURST_INFO, 2);
VALUE(IBV_EXP_QP_ATTR_RESERVED, 4);

VALUE(IBV_EXP_QP_STATE, IBV_QP_STATE);
VALUE(IBV_EXP_QP_CUR_STATE, IBV_QP_CUR_STATE);
VALUE(IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY);
VALUE(IBV_EXP_QP_ACCESS_FLAGS, IBV_QP_ACCESS_FLAGS);
VALUE(IBV_EXP_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX);
VALUE(IBV_EXP_QP_PORT, IBV_QP_PORT);
VALUE(IBV_EXP_QP_QKEY, IBV_QP_QKEY);
VALUE(IBV_EXP_QP_AV, IBV_QP_AV);
VALUE(IBV_EXP_QP_PATH_MTU, IBV_QP_PATH_MTU);
VALUE(IBV_EXP_QP_TIMEOUT, IBV_QP_TIMEOUT);
VALUE(IBV_EXP_QP_RETRY_CNT, IBV_QP_RETRY_CNT);
VALUE(IBV_EXP_QP_RNR_RETRY, IBV_QP_RNR_RETRY);
VALUE(IBV_EXP_QP_RQ_PSN, IBV_QP_RQ_PSN);
VALUE(IBV_EXP_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
VALUE(IBV_EXP_QP_ALT_PATH, IBV_QP_ALT_PATH);
VALUE(IBV_EXP_QP_MIN_RNR_TIMER, IBV_QP_MIN_RNR_TIMER);
VALUE(IBV_EXP_QP_SQ_PSN, IBV_QP_SQ_PSN);
VALUE(IBV_EXP_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
VALUE(IBV_EXP_QP_PATH_MIG_STATE, IBV_QP_PATH_MIG_STATE);
VALUE(IBV_EXP_QP_CAP, IBV_QP_CAP);
VALUE(IBV_EXP_QP_DEST_QPN, IBV_QP_DEST_QPN);
VALUE(IBV_EXP_QP_GROUP_RSS, 0x100000000ULL << 21);
VALUE(IBV_EXP_QP_DC_KEY, 0x100000000ULL << 22);
VALUE(IBV_EXP_QP_FLOW_ENTROPY, 0x100000000ULL << 23);
VALUE(IBV_EXP_QP_OOO_RW_DATA_PLACEMENT, 0x100000000ULL << 24);
VALUE(IBV_EXP_QP_RATE_LIMIT, 0x100000000ULL << 25);

VALUE(IBV_EXP_CQ_INIT_ATTR_FLAGS, 1);
VALUE(IBV_EXP_CQ_INIT_ATTR_RESERVED, 2);
VALUE(IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN, 2);
VALUE(IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT, 4);
VALUE(IBV_EXP_CQ_INIT_ATTR_RESERVED1, 8);
VALUE(IBV_EXP_CQ_CREATE_CROSS_CHANNEL, 1);
VALUE(IBV_EXP_CQ_TIMESTAMP, 2);
VALUE(IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME, 4);
VALUE(IBV_EXP_CQ_COMPRESSED_CQE, 8);
VALUE(IBV_EXP_CQ_AS_NOTIFY, 16);
VALUE(IBV_EXP_CQ_CREATE_FLAGS_MASK, 31);
VALUE(IBV_EXP_CQ_MODERATION, 1);
VALUE(IBV_EXP_CQ_CAP_FLAGS, 2);
VALUE(IBV_EXP_CQ_IGNORE_OVERRUN, 1);
VALUE(IBV_EXP_CQ_CAP_MASK, 1);
VALUE(IBV_EXP_CQ_ATTR_MODERATION, 1);
VALUE(IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS, 2);
VALUE(IBV_EXP_CQ_ATTR_RESERVED, 4);

VALUE(IBV_EXP_WC_SEND, 0);
VALUE(IBV_EXP_WC_RDMA_WRITE, 1);
VALUE(IBV_EXP_WC_RDMA_READ, 2);
VALUE(IBV_EXP_WC_COMP_SWAP, 3);
VALUE(IBV_EXP_WC_FETCH_ADD, 4);
VALUE(IBV_EXP_WC_BIND_MW, 5);
VALUE(IBV_EXP_WC_LOCAL_INV, 6);
VALUE(IBV_EXP_WC_MASKED_COMP_SWAP, 9);
VALUE(IBV_EXP_WC_MASKED_FETCH_ADD, 10);
VALUE(IBV_EXP_WC_TSO, 11);
VALUE(IBV_EXP_WC_RECV, 128);
VALUE(IBV_EXP_WC_RECV_RDMA_WITH_IMM, 129);
VALUE(IBV_EXP_WC_TM_ADD, 192);
VALUE(IBV_EXP_WC_TM_DEL, 193);
VALUE(IBV_EXP_WC_TM_SYNC, 194);
VALUE(IBV_EXP_WC_TM_RECV, 195);
VALUE(IBV_EXP_WC_TM_NO_TAG, 196);
VALUE(IBV_EXP_WC_RECV_NOP, 197);
VALUE(IBV_EXP_WC_UMR, 0x100);
VALUE(IBV_EXP_WC_GRH, 1);
VALUE(IBV_EXP_WC_WITH_IMM, 2);
VALUE(IBV_EXP_WC_WITH_INV, 8);

VALUE(IBV_EXP_WC_WITH_SL, 0x100000000ULL << 4);
VALUE(IBV_EXP_WC_WITH_SLID, 0x100000000ULL << 5);
VALUE(IBV_EXP_WC_WITH_TIMESTAMP, 0x100000000ULL << 6);
VALUE(IBV_EXP_WC_QP, 0x100000000ULL << 7);
VALUE(IBV_EXP_WC_SRQ, 0x100000000ULL << 8);
VALUE(IBV_EXP_WC_DCT, 0x100000000ULL << 9);
VALUE(IBV_EXP_WC_RX_IP_CSUM_OK, 0x100000000ULL << 10);
VALUE(IBV_EXP_WC_RX_TCP_UDP_CSUM_OK, 0x100000000ULL << 11);
VALUE(IBV_EXP_WC_RX_IPV4_PACKET, 0x100000000ULL << 12);
VALUE(IBV_EXP_WC_RX_IPV6_PACKET, 0x100000000ULL << 13);
VALUE(IBV_EXP_WC_RX_TUNNEL_PACKET, 0x100000000ULL << 14);
VALUE(IBV_EXP_WC_RX_OUTER_IP_CSUM_OK, 0x100000000ULL << 15);
VALUE(IBV_EXP_WC_RX_OUTER_TCP_UDP_CSUM_OK, 0x100000000ULL << 16);
VALUE(IBV_EXP_WC_RX_OUTER_IPV4_PACKET, 0x100000000ULL << 17);
VALUE(IBV_EXP_WC_RX_OUTER_IPV6_PACKET, 0x100000000ULL << 18);
VALUE(IBV_EXP_WC_TM_SYNC_REQ, 0x100000000ULL << 19);
VALUE(IBV_EXP_WC_TM_DEL_FAILED, 0x100000000ULL << 20);
VALUE(IBV_EXP_WC_TM_MATCH, 0x100000000ULL << 21);
VALUE(IBV_EXP_WC_TM_DATA_VALID, 0x100000000ULL << 22);
VALUE(IBV_EXP_WC_TM_RNDV_INCOMPLETE, 0x100000000ULL << 23);
VALUE(IBV_EXP_WC_MP_WR_MORE_IN_MSG, 0x100000000ULL << 24);
VALUE(IBV_EXP_WC_MP_WR_CONSUMED, 0x100000000ULL << 25);

VALUE(IBV_EXP_ODP_SUPPORT, 1);
VALUE(IBV_EXP_ODP_SUPPORT_IMPLICIT, 2);
VALUE(IBV_EXP_ODP_SUPPORT_SEND, 1);
VALUE(IBV_EXP_ODP_SUPPORT_RECV, 2);
VALUE(IBV_EXP_ODP_SUPPORT_WRITE, 4);
VALUE(IBV_EXP_ODP_SUPPORT_READ, 8);
VALUE(IBV_EXP_ODP_SUPPORT_ATOMIC, 16);
VALUE(IBV_EXP_ODP_SUPPORT_SRQ_RECV, 32);
VALUE(IBV_EXP_ALLOC_DM_ATTR_RESERVED, 1);
VALUE(IBV_EXP_DM_COMP_MASK_RESERVED, 1);
VALUE(IBV_EXP_DM_CPY_COMP_MASK_RESERVED, 1);
VALUE(IBV_EXP_DM_CPY_TO_DEVICE, 0);
VALUE(IBV_EXP_DM_CPY_TO_HOST, 1);
VALUE(IBV_EXP_POST_SEND_FUNC, 0);
VALUE(IBV_EXP_POLL_CQ_FUNC, 1);
VALUE(IBV_EXP_VALUES_HW_CLOCK_NS, 1);
VALUE(IBV_EXP_VALUES_HW_CLOCK, 2);
VALUE(IBV_EXP_VALUES_CLOCK_INFO, 4);
VALUE(IBV_EXP_VALUES_RESERVED, 8);
VALUE(IBV_EXP_RES_DOMAIN_THREAD_MODEL, 1);
VALUE(IBV_EXP_RES_DOMAIN_MSG_MODEL, 2);
VALUE(IBV_EXP_RES_DOMAIN_RESERVED, 4);
VALUE(IBV_EXP_THREAD_SAFE, 0);
VALUE(IBV_EXP_THREAD_UNSAFE, 1);
VALUE(IBV_EXP_THREAD_SINGLE, 2);
VALUE(IBV_EXP_MSG_DEFAULT, 0);
VALUE(IBV_EXP_MSG_LOW_LATENCY, 1);
VALUE(IBV_EXP_MSG_HIGH_BW, 2);
VALUE(IBV_EXP_MSG_FORCE_LOW_LATENCY, 3);
VALUE(IBV_EXP_QUERY_GID_ATTR_TYPE, 1);
VALUE(IBV_EXP_QUERY_GID_ATTR_GID, 2);
VALUE(IBV_EXP_QUERY_GID_ATTR_RESERVED, 4);
VALUE(IBV_EXP_IB_ROCE_V1_GID_TYPE, 0);
VALUE(IBV_EXP_ROCE_V2_GID_TYPE, 1);
VALUE(IBV_EXP_ROCE_V1_5_GID_TYPE, 2);
VALUE(IBV_EXP_QUERY_PORT_ATTR_MASK1, 1);
VALUE(IBV_EXP_TASK_SEND, 0);
VALUE(IBV_EXP_TASK_RECV, 1);
VALUE(IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT, 1);
VALUE(IBV_EXP_DCT_CREATE_FLAGS_MASK, 1);
VALUE(IBV_EXP_DCT_STATE_ACTIVE, 0);
VALUE(IBV_EXP_DCT_STATE_DRAINING, 1);
VALUE(IBV_EXP_DCT_STATE_DRAINED, 2);

VALUE(IBV_POST_SEND_FUNC, 2);
VALUE(IBV_POLL_CQ_FUNC, 3);
VALUE(IBV_POST_RECV_FUNC, 4);

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
ALIKE(ibv_exp_device_attr, ibv_device_attr, fw_ver);
ALIKE(ibv_exp_device_attr, ibv_device_attr, max_qp);
ALIKE(ibv_exp_device_attr, ibv_device_attr, max_mr_size);
ALIKE(ibv_exp_device_attr, ibv_device_attr, max_sge);
ALIKE(ibv_exp_device_attr, ibv_device_attr, max_mw);
ALIKE(ibv_exp_device_attr, ibv_device_attr, max_srq_sge);
ALIKE(ibv_exp_device_attr, ibv_device_attr, max_pkeys);
ALIKE(ibv_exp_device_attr, ibv_device_attr, phys_port_cnt);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, qp_context);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, send_cq);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, recv_cq);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, srq);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, cap);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, qp_type);
ALIKE(ibv_exp_qp_init_attr, ibv_qp_init_attr, sq_sig_all);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, qp_state);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, cur_qp_state);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, path_mtu);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, path_mig_state);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, qkey);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, rq_psn);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, sq_psn);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, dest_qp_num);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, qp_access_flags);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, cap);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, ah_attr);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, alt_ah_attr);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, pkey_index);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, alt_pkey_index);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, en_sqd_async_notify);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, sq_draining);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, max_rd_atomic);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, max_dest_rd_atomic);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, min_rnr_timer);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, port_num);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, timeout);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, retry_cnt);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, rnr_retry);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, alt_port_num);
ALIKE(ibv_exp_qp_attr, ibv_qp_attr, alt_timeout);
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
ALIKE(ibv_exp_send_wr, ibv_send_wr, wr_id);
ALIKE(ibv_exp_send_wr, ibv_send_wr, next);
ALIKE(ibv_exp_send_wr, ibv_send_wr, sg_list);
ALIKE(ibv_exp_send_wr, ibv_send_wr, num_sge);
ALIKE(ibv_exp_send_wr, ibv_send_wr, wr.rdma.remote_addr);
ALIKE(ibv_exp_send_wr, ibv_send_wr, wr.rdma.rkey);
ALIKE(ibv_exp_send_wr, ibv_send_wr, wr.atomic.rkey);
ALIKE(ibv_exp_send_wr, ibv_send_wr, wr.ud.ah);
ALIKE(ibv_exp_send_wr, ibv_send_wr, wr.ud.remote_qpn);
