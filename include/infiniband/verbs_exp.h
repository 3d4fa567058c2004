/* SPDX-License-Identifier: MIT */
/*
 * The experimental verbs of MLNX_OFED 4.x on an anyverbs device: ibv_exp_*(). Each subject has a
 * header in exp/.
 *
 * For C99 and C++11 and later, with the <infiniband/verbs.h> of rdma-core, which may be included
 * before or after. Every verb is a function of libanyverbs.so.1. On a device of another provider it
 * answers like a library without experimental verbs (NULL or ENOSYS). anyverbs does not have what
 * is not declared here. See anyverbs-exp(7).
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <stdio.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

#include <infiniband/exp/base.h>
#include <infiniband/exp/plain.h>
#include <infiniband/exp/device.h>
#include <infiniband/exp/port.h>
#include <infiniband/exp/clock.h>
#include <infiniband/exp/mr.h>
#include <infiniband/exp/dm.h>
#include <infiniband/exp/mw.h>
#include <infiniband/exp/umr.h>
#include <infiniband/exp/domain.h>
#include <infiniband/exp/cq.h>
#include <infiniband/exp/srq.h>
#include <infiniband/exp/qp.h>
#include <infiniband/exp/send.h>
#include <infiniband/exp/task.h>
#include <infiniband/exp/dct.h>
#include <infiniband/exp/interface.h>
#include <infiniband/exp/environment.h>
#include <infiniband/exp/provider.h>

#endif
