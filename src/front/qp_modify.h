/* SPDX-License-Identifier: MIT */
/* Changing the attributes of a queue pair. */
#ifndef AV_FRONT_QP_MODIFY_H
#define AV_FRONT_QP_MODIFY_H

#include "base/compiler.h"
#include "hca/device.h"

/**
 * av_qp_check_values() - are the values of the attributes in @mask acceptable to this device?
 * Return: 0 or EINVAL. ibv_modify_qp(3).
 */
AV_MUST_USE int av_qp_check_values(const struct av_device *dev, const struct ibv_qp_attr *attr, int mask);

#endif
