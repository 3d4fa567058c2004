/* SPDX-License-Identifier: MIT */
/*
 * The kind of queue pair (enum ibv_qp_type) in messages. Pure functions. Sources: IBTA volume 1,
 * 12.7.11 and annex A14 (XRC); Linux, drivers/infiniband/core/cm.c.
 */
#ifndef AV_CM_CM_KIND_H
#define AV_CM_CM_KIND_H

#include <stdint.h>

#include "wire/cm_message.h"

#define AV_CM_ANY_KIND 0 /* of a listener in RDMA_PS_IB that takes all */

/* Say in a REQ that a queue pair of that kind asks. */
void av_cm_kind_put(struct av_cm_message *req, uint8_t qp_type);

/* The kind that has to listen for a REQ or SIDR_REQ. AV_CM_ANY_KIND: there is none */
uint8_t av_cm_kind_wanted(const struct av_cm_message *request);

/* The number of the queue pair that answers, in a REP to one of @asking, or from one of @qp_type.
 */
uint32_t av_cm_kind_qpn(const struct av_cm_message *rep, uint8_t asking);
void av_cm_kind_put_qpn(struct av_cm_message *rep, uint8_t qp_type, uint32_t qpn);

#endif
