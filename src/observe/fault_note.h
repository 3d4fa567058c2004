/* SPDX-License-Identifier: MIT */
/* Records every injected fault, so that nobody takes it for a real one. */
#ifndef AV_OBSERVE_FAULT_NOTE_H
#define AV_OBSERVE_FAULT_NOTE_H

#include <stdint.h>

#include "observe/faults_rule.h"

/**
 * av_fault_note() - a rule has struck
 * @nth: number of the occasion
 * @qpn, @wr_id: of the request; 0: no request
 *
 * Appends a record for `anyverbs explain` and logs a line at level "info".
 * Context: any thread; tokens may be held.
 */
void av_fault_note(const char *device, const struct av_faults_rule *rule, uint64_t nth,
		   uint32_t qpn, uint64_t wr_id);

#endif
