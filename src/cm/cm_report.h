/* SPDX-License-Identifier: MIT */
/* Flight records (observe/flight.h) of connections that did not come about. Context: any. */
#ifndef AV_CM_CM_REPORT_H
#define AV_CM_CM_REPORT_H

#include "base/compiler.h"
#include "cm/cm_address.h"
#include "cm/cm_mad.h"
#include "observe/diagnosis.h"

/*
 * The peer, or its host, refuses a request for @service_id. @reason: of its REJ, or the status of
 * its SIDR_REP; @unknown: that means that nobody listens
 */
AV_COLD void av_cm_report_refused(const struct av_cm_way *way, uint64_t service_id, uint32_t reason,
				  bool unknown);

/* Nobody has answered. @requests: that were sent */
AV_COLD void av_cm_report_silence(const struct av_cm_way *way, uint64_t service_id,
				  unsigned int requests);

/* No device leads to an address: -ENODEV, which the program gets by an event. */
AV_COLD void av_cm_report_unresolved(const struct av_cm_name *dst);

/* A command about that address is about to fail with @err. Return: -@err */
AV_COLD int av_cm_refuse_name(int err, enum av_check check, const struct av_cm_name *name);

#endif
