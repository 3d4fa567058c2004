/* SPDX-License-Identifier: MIT */
/* Records injected faults. */
#include "observe/fault_note.h"

#include <inttypes.h>
#include <stdio.h>

#include "observe/diagnosis.h"
#include "observe/log.h"

/* A record of its own, so the thread's pending record stays as it is. */
static void record(const char *device, const struct av_faults_rule *rule, uint32_t qpn)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = AV_CHECK_INJECTED,
		.has = AV_HAS_MEASURE | (qpn ? AV_HAS_OBJECT : 0),
		.wanted = rule->number,
		.limit = rule->what,
		.object = qpn ? AV_OBJECT_QP : AV_OBJECT_NONE,
		.number = qpn,
	};

	snprintf(r.device, sizeof(r.device), "%s", device);
	av_report_beside(&r);
}

void av_fault_note(const char *device, const struct av_faults_rule *rule, uint64_t nth,
		   uint32_t qpn, uint64_t wr_id)
{
	const char *name = av_faults_name[rule->what];

	record(device, rule, qpn);
	if (rule->what == AV_INJECT_FAIL)
		av_log(AV_LOG_INFO, "%s: injected: rule %u, fail %s, occasion %" PRIu64, device,
		       rule->number, av_faults_verb_name[rule->verb], nth);
	else if (qpn)
		av_log(AV_LOG_INFO,
		       "%s: injected: rule %u, %s, occasion %" PRIu64 ": QP %u, wr_id %" PRIu64,
		       device, rule->number, name, nth, qpn, wr_id);
	else
		av_log(AV_LOG_INFO, "%s: injected: rule %u, %s, occasion %" PRIu64, device,
		       rule->number, name, nth);
}
