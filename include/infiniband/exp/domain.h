/* SPDX-License-Identifier: MIT */
/* Resource domains: queues that a program promises to use in a certain way. */
#ifndef INFINIBAND_EXP_DOMAIN_H
#define INFINIBAND_EXP_DOMAIN_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

enum ibv_exp_thread_model {
	IBV_EXP_THREAD_SAFE = 0,
	IBV_EXP_THREAD_UNSAFE = 1,
	IBV_EXP_THREAD_SINGLE = 2,
};

enum ibv_exp_msg_model {
	IBV_EXP_MSG_DEFAULT = 0,
	IBV_EXP_MSG_LOW_LATENCY = 1,
	IBV_EXP_MSG_HIGH_BW = 2,
	IBV_EXP_MSG_FORCE_LOW_LATENCY = 3,
};

enum ibv_exp_res_domain_init_attr_comp_mask {
	IBV_EXP_RES_DOMAIN_THREAD_MODEL = 1 << 0,
	IBV_EXP_RES_DOMAIN_MSG_MODEL = 1 << 1,
	IBV_EXP_RES_DOMAIN_RESERVED = 1 << 2,
};

struct ibv_exp_res_domain_init_attr {
	uint32_t comp_mask;
	enum ibv_exp_thread_model thread_model;
	enum ibv_exp_msg_model msg_model;
};

struct ibv_exp_res_domain {
	struct ibv_context *context;
};

enum ibv_exp_destroy_res_domain_comp_mask {
	IBV_EXP_DESTROY_RES_DOMAIN_RESERVED = 1 << 0,
};

struct ibv_exp_destroy_res_domain_attr {
	uint32_t comp_mask;
};

IBV_EXP_BEGIN_DECLS_
struct ibv_exp_res_domain *ibv_exp_create_res_domain(struct ibv_context *context,
						     struct ibv_exp_res_domain_init_attr *attr);
int ibv_exp_destroy_res_domain(struct ibv_context *context, struct ibv_exp_res_domain *res_dom,
			       struct ibv_exp_destroy_res_domain_attr *attr);
IBV_EXP_END_DECLS_

#endif
