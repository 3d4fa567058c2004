/* SPDX-License-Identifier: MIT */
/* Queries of a device and its port that are reached only through the dispatch tables. */
#ifndef AV_VERBS_QUERY_H
#define AV_VERBS_QUERY_H

#include <infiniband/verbs.h>

int av_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		  size_t size);
int av_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size);

#endif
