/* SPDX-License-Identifier: MIT */
/*
 * Seeded failures: each check that can fail is made to, once at least, and the record that it
 * leaves is looked at, by fields: the check, by how much, whose key, who is at the other end.
 * Between two processes where the rule is about two sides.
 */
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/switches_in_force.h"
#include "recorder.h"

struct side a, b;

/* Checks that are not seeded here: where they are, or why not. */
static const struct {
	enum av_check check;
	const char *where;
} elsewhere[] = {
	{AV_CHECK_ARGUMENT, "every refusal has a check: style.refusals"},
	{AV_CHECK_POST_DAMAGED, "only of a ring that somebody has damaged"},
	{AV_CHECK_DMABUF_RANGE, "of dma-bufs, which need /dev/udmabuf"},
	{AV_CHECK_DMABUF_MAP, "likewise"},
	{AV_CHECK_REQUEST_OPERANDS, "by packets only: multi/wire"},
	{AV_CHECK_KEY_LIST, "only of a ring that somebody has damaged"},
	{AV_CHECK_MR_CHANGING, "of two threads: regions/test_rereg_threads"},
	{AV_CHECK_MR_LENGTH, "max_mr_size is all of the address space"},
	{AV_CHECK_MEMORY_FORBIDDEN, "by the kernel's configuration only: test_forbidden"},
	{AV_CHECK_EXECUTOR_DIED, "by SIGKILL in the middle of a copy: test_crash"},
	{AV_CHECK_CQ_HELD, "by a process that is stopped: test_link_report_cq"},
	{AV_CHECK_INJECTED, "by programs with faults on demand: tool/test_faults.sh"},
	{AV_CHECK_KEY_IS_LKEY, "of a strict device: multi/strict"},
	{AV_CHECK_KEY_IS_RKEY, "likewise"},
	{AV_CHECK_STRICT_WRITE_ORDER, "likewise"},
	{AV_CHECK_STRICT_READ_ORDER, "likewise"},
	{AV_CHECK_STRICT_LATE_READ, "likewise"},
	{AV_CHECK_STRICT_DATAGRAMS, "likewise"},
	{AV_CHECK_STRICT_UNDEFINED, "likewise"},
	{AV_CHECK_STRICT_EVENTS, "likewise"},
	{AV_CHECK_STRICT_USED_EARLY, "likewise"},
	{AV_CHECK_STRICT_PAGING, "likewise"},
	{AV_CHECK_STRICT_ATOMICS, "likewise"},
	{AV_CHECK_STRICT_RECV_BUFFER, "likewise"},
	{AV_CHECK_STRICT_RECV_FAILED, "likewise"},
	{AV_CHECK_STRICT_LATE_EVENTS, "likewise"},
	{AV_CHECK_STRICT_LEFT_BEHIND, "likewise"},
	{AV_CHECK_STRICT_KEYS, "likewise"},
	{AV_CHECK_STRICT_DOUBLED, "likewise"},
	{AV_CHECK_STRICT_OVERTAKEN, "likewise"},
	{AV_CHECK_STRICT_LOST, "likewise"},
	{AV_CHECK_STRICT_FENCES, "likewise"},
	{AV_CHECK_PEER_SILENT, "of a peer on another host: multi/wire"},
	{AV_CHECK_PEER_NO_WAY, "likewise"},
	{AV_CHECK_PEER_NO_PORT, "likewise"},
	{AV_CHECK_PEER_FIREWALL, "likewise"},
	{AV_CHECK_PEER_MTU, "likewise"},
	{AV_CHECK_PEER_LENGTH, "likewise"},
	{AV_CHECK_PEER_REFUSED, "likewise"},
	{AV_CHECK_PACKET_ORDER, "likewise"},
	{AV_CHECK_PORT_TAKEN, "by whoever has the port: tool/test_doctor_port.sh"},
	{AV_CHECK_CM_NO_LISTENER, "of programs that use librdmacm: tool/test_cm.sh"},
	{AV_CHECK_CM_OTHER_PORTS, "likewise"},
	{AV_CHECK_CM_REFUSED, "likewise"},
	{AV_CHECK_CM_NO_ANSWER, "likewise"},
	{AV_CHECK_CM_NOT_OURS, "likewise"},
	{AV_CHECK_CM_NO_ROUTE, "likewise"},
	{AV_CHECK_CM_PORT_TAKEN, "likewise"},
	{AV_CHECK_CM_STATE, "unit/cm/test_cm_commands_states"},
	{AV_CHECK_CM_INHERITED, "likewise"},
	{AV_CHECK_CM_LINK, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_FAMILY, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_ADDRESS, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_SERVICE, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_PRIVATE, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_PARAMETERS, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_REASON, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_GROUP, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_QP_TYPE, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_CHANNEL, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_NO_CHANNEL, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_OPTION, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_ACK_TIMEOUT, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_EVENT, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_QP_STATE, "by commands: unit/cm/test_cm_commands_checks"},
	{AV_CHECK_CM_REMOVED, "likewise"},
	{AV_CHECK_FOLDER_FULL, "by a small file system: tool/test_mistakes.sh"},
	{AV_CHECK_CONTEXT_MEMORY, "by a limit: tool/test_mistakes.sh"},
	{AV_CHECK_NO_SUCH_VERB, "on devices of other providers"},
};

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	switches_in_force("IBM_TUNNELED_ATOMIC_EN");
	setenv("ANYVERBS_DEVICES", "any0,siw0:as=siw", 1);
	side_open(&a, NULL);
	side_start(&b);
	recorder_open();
	seed_verbs();
	seed_requests();
	seed_windows();
	seed_experimental();
	seed_mistakes();
	seed_events();
	seed_named();
	row("all checks");
	for (size_t i = 0; i < AV_ARRAY_SIZE(elsewhere); i++)
		recorder_except(elsewhere[i].check, elsewhere[i].where);
	recorder_expect_all(150);
	side_stop(&b);
	side_stop(&a);
	recorder_close();
	switches_in_force(NULL);
	return sandbox_end();
}
