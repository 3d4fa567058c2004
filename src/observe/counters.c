/* SPDX-License-Identifier: MIT */
#include "observe/counters.h"

#define WORD(member) \
	(1 + offsetof(struct av_counted, total) / 8 + offsetof(struct av_qp_counters, member) / 8)
#define REQ(kind, what)	 WORD(req.traffic.what[AV_TRAFFIC_##kind])
#define RSP(kind, what)	 WORD(rsp.traffic.what[AV_TRAFFIC_##kind])
#define REQ_MORE(kind)	 WORD(req.traffic.more_packets[AV_TRAFFIC_##kind])
#define RSP_MORE(kind)	 WORD(rsp.traffic.more_packets[AV_TRAFFIC_##kind])
#define REQ_EVENT(which) WORD(req.event[AV_REQ_##which])
#define RSP_EVENT(which) WORD(rsp.event[AV_RSP_##which])
#define CQ(member) \
	(1 + (offsetof(struct av_counted, total.cq) + offsetof(struct av_cq_counters, member)) / 8)
#define GAUGE(which) (1 + offsetof(struct av_counted, gauge[AV_GAUGE_##which]) / 8)
#define MR(which)    (1 + offsetof(struct av_counted, mr[AV_MR_##which]) / 8)
#define LINK_DOWNED  (1 + offsetof(struct av_counted, link_downed) / 8)

_Static_assert(AV_COUNTED_WORDS < UINT8_MAX, "words have numbers of a byte");

/* Of our own requests, and of our answers to the requests of others. */
#define XMIT_BYTES                                                                 \
	REQ(SEND, bytes), REQ(WRITE, bytes), REQ(ATOMIC, bytes), RSP(READ, bytes), \
		RSP(ATOMIC, bytes)
#define RCV_BYTES                                                                  \
	RSP(SEND, bytes), RSP(WRITE, bytes), RSP(ATOMIC, bytes), REQ(READ, bytes), \
		REQ(ATOMIC, bytes)
#define XMIT_PACKETS                                                                              \
	REQ(SEND, messages), REQ_MORE(SEND), REQ(WRITE, messages), REQ_MORE(WRITE),               \
		REQ(READ, messages), REQ(ATOMIC, messages), REQ(FLUSH, messages),                 \
		RSP(READ, messages), RSP_MORE(READ), RSP(ATOMIC, messages), RSP(FLUSH, messages), \
		REQ_EVENT(REPEATED)
#define RCV_PACKETS                                                                 \
	RSP(SEND, messages), RSP_MORE(SEND), RSP(WRITE, messages), RSP_MORE(WRITE), \
		RSP(READ, messages), RSP(ATOMIC, messages), RSP(FLUSH, messages),   \
		REQ(READ, messages), REQ_MORE(READ), REQ(ATOMIC, messages), REQ(FLUSH, messages)
#define REQ_MESSAGES                                                                           \
	REQ(SEND, messages), REQ(WRITE, messages), REQ(READ, messages), REQ(ATOMIC, messages), \
		REQ(FLUSH, messages)
#define RSP_MESSAGES                                                                           \
	RSP(SEND, messages), RSP(WRITE, messages), RSP(READ, messages), RSP(ATOMIC, messages), \
		RSP(FLUSH, messages)
#define REQ_FAILED                                                                 \
	REQ_EVENT(RNR_EXCEEDED), REQ_EVENT(RETRY_EXCEEDED), REQ_EVENT(REM_ACCESS), \
		REQ_EVENT(REM_INVALID), REQ_EVENT(REM_OP), REQ_EVENT(LOCAL)
#define RSP_FAILED RSP_EVENT(ACCESS), RSP_EVENT(INVALID), RSP_EVENT(LENGTH), RSP_EVENT(OPERATION)

#define DPQ  (AV_SCOPE_DEVICE | AV_SCOPE_PROCESS | AV_SCOPE_QP)
#define DPC  (AV_SCOPE_DEVICE | AV_SCOPE_PROCESS | AV_SCOPE_CQ)
#define DP   (AV_SCOPE_DEVICE | AV_SCOPE_PROCESS)
#define D    AV_SCOPE_DEVICE
#define PORT AV_SCOPE_PORT
#define HW   AV_SCOPE_HW

/* clang-format off */

/* A counter row and a gauge row. */
#define C(name, unit, scope, help, ...) {name, unit, help, scope, false, 0, 0, {__VA_ARGS__}}
#define G(name, unit, scope, help, ...) {name, unit, help, scope, true, 0, 0, {__VA_ARGS__}}
/* A counter of the sysfs interface that a software port never increments. */
#define NEVER(name, scope) C(name, "events", scope, "Always 0: there is no such thing here", 0)

const struct av_counter_info av_counter_info[] = {
	C("xmit_bytes",            "bytes",    DPQ, "Payload sent: SENDs, WRITEs, and answers to READs and atomics", XMIT_BYTES),
	C("rcv_bytes",             "bytes",    DPQ, "Payload received: SENDs, WRITEs, and answers to READs and atomics", RCV_BYTES),
	C("xmit_packets",          "packets",  DPQ, "Packets of requests and their answers sent, at the path's MTU", XMIT_PACKETS),
	C("rcv_packets",           "packets",  DPQ, "Packets of requests and their answers received, at the path's MTU", RCV_PACKETS),
	C("requests",              "messages", DPQ, "Requests carried out", REQ_MESSAGES),
	C("sends",                 "messages", DPQ, "SENDs carried out", REQ(SEND, messages)),
	C("send_bytes",            "bytes",    DPQ, "Payload of SENDs", REQ(SEND, bytes)),
	C("writes",                "messages", DPQ, "RDMA WRITEs carried out", REQ(WRITE, messages)),
	C("write_bytes",           "bytes",    DPQ, "Payload of RDMA WRITEs", REQ(WRITE, bytes)),
	C("reads",                 "messages", DPQ, "RDMA READs carried out", REQ(READ, messages)),
	C("read_bytes",            "bytes",    DPQ, "What RDMA READs brought", REQ(READ, bytes)),
	C("atomics",               "messages", DPQ, "Atomic operations carried out", REQ(ATOMIC, messages)),
	C("flushes",               "messages", DPQ, "FLUSHes carried out", REQ(FLUSH, messages)),
	C("served",                "messages", DPQ, "Requests of others carried out here", RSP_MESSAGES),
	C("served_sends",          "messages", DPQ, "SENDs of others: messages received", RSP(SEND, messages)),
	C("served_send_bytes",     "bytes",    DPQ, "Payload of messages received", RSP(SEND, bytes)),
	C("served_writes",         "messages", DPQ, "RDMA WRITEs of others carried out here", RSP(WRITE, messages)),
	C("served_write_bytes",    "bytes",    DPQ, "Payload of RDMA WRITEs of others", RSP(WRITE, bytes)),
	C("served_reads",          "messages", DPQ, "RDMA READs of others carried out here", RSP(READ, messages)),
	C("served_read_bytes",     "bytes",    DPQ, "What RDMA READs of others took away", RSP(READ, bytes)),
	C("served_atomics",        "messages", DPQ, "Atomic operations of others carried out here", RSP(ATOMIC, messages)),
	C("served_flushes",        "messages", DPQ, "FLUSHes of others carried out here", RSP(FLUSH, messages)),
	C("rnr_naks_received",     "events",   DPQ, "Requests that found the receiver not ready, once for each time", REQ_EVENT(RNR)),
	C("out_of_buffer",         "messages", DPQ, "Messages of others that found no receive request", RSP_EVENT(RNR)),
	C("timeouts",              "events",   DPQ, "Requests that nobody answered in time, once for each time", REQ_EVENT(TIMEOUT)),
	C("repeated_packets",      "packets",  DPQ, "Packets of requests sent once more", REQ_EVENT(REPEATED)),
	C("duplicate_packets",     "packets",  DPQ, "Packets of requests that had come before", RSP_EVENT(DUPLICATE)),
	C("packets_ahead",         "packets",  DPQ, "Packets ahead of the one that was expected", RSP_EVENT(AHEAD)),
	C("damaged_packets",       "packets",  DPQ, "Packets dropped for their invariant CRC", RSP_EVENT(DAMAGED)),
	C("request_errors",        "requests", DPQ, "Requests completed in error, those that were flushed excepted", REQ_FAILED),
	C("request_flushes",       "requests", DPQ, "Requests completed as flushed", REQ_EVENT(FLUSHED)),
	C("refused",               "requests", DPQ, "Requests of others that were refused", RSP_FAILED),
	C("receive_errors",        "requests", DPQ, "Receive requests completed in error, those that were flushed excepted", RSP_EVENT(RECV_FAILED)),
	C("receive_flushes",       "requests", DPQ, "Receive requests completed as flushed", RSP_EVENT(FLUSHED)),
	C("dropped",               "messages", DPQ, "Messages of unreliable services that were lost here", RSP_EVENT(DROPPED)),
	C("completions",           "entries",  DPC, "Entries appended to completion queues", CQ(completions)),
	C("completions_lost",      "entries",  DPC, "Entries that found a completion queue full", CQ(lost)),
	G("processes",             "processes", D,  "Processes that have the device open", GAUGE(PROCESSES)),
	G("contexts",              "contexts", DP,  "Times it is open", GAUGE(CONTEXTS)),
	G("qps",                   "objects",  DP,  "Queue pairs", GAUGE(QPS)),
	G("cqs",                   "objects",  DP,  "Completion queues", GAUGE(CQS)),
	G("mrs",                   "objects",  DP,  "Memory regions", GAUGE(MRS)),
	G("registered_bytes",      "bytes",    DP,  "Sum of the lengths of memory regions", GAUGE(MR_BYTES)),
	G("posted",                "requests", AV_SCOPE_QP, "Send requests that wait to be carried out", GAUGE(POSTED)),
	G("capacity",              "entries",  AV_SCOPE_CQ, "Entries it can hold", GAUGE(CAPACITY)),
	G("waiting",               "entries",  AV_SCOPE_CQ, "Entries it holds", GAUGE(WAITING)),
	G("peak",                  "entries",  AV_SCOPE_CQ, "The most entries it held; at 64 and below, found by samples", GAUGE(PEAK)),

	C("page_faults",           "events",   AV_SCOPE_MR, "Page fault events in it", MR(FAULTS)),
	C("page_fault_pages",      "pages",    AV_SCOPE_MR, "Pages that became valid by page faults, of 4 KiB", MR(FAULT_PAGES)),
	C("invalidations",         "events",   AV_SCOPE_MR, "Events that took valid pages of it away", MR(INVALIDATIONS)),
	C("invalidation_pages",    "pages",    AV_SCOPE_MR, "Pages that became invalid by invalidations, of 4 KiB", MR(INVALIDATION_PAGES)),
	C("prefetch_pages",        "pages",    AV_SCOPE_MR, "Pages that became valid by prefetching, of 4 KiB", MR(PREFETCH_PAGES)),
	C("refused",               "requests", AV_SCOPE_MR, "Requests that were refused for its rights, range or domain, or its memory", MR(REFUSED)),
	C("reregistrations",       "events",   AV_SCOPE_MR, "Times it was re-registered", MR(REREGISTERED)),
	G("valid_pages",           "pages",    AV_SCOPE_MR, "Pages of it that are valid, of 4 KiB", MR(VALID_PAGES)),
	G("shared_bytes",          "bytes",    AV_SCOPE_MR, "Its memory that other processes reach by plain copies", MR(SHARED_BYTES)),
	G("windows",               "objects",  AV_SCOPE_MR, "Memory windows bound to it", MR(WINDOWS)),

	/* As in InfiniBand's PortCounters and the kernel's sysfs-class-infiniband. */
	{"port_xmit_data", "words", "Payload sent, in words of 4 bytes",     PORT, false, 4, 0, {XMIT_BYTES}},
	{"port_rcv_data",  "words", "Payload received, in words of 4 bytes", PORT, false, 4, 0, {RCV_BYTES}},
	C("port_xmit_packets",     "packets",  PORT, "Packets sent", XMIT_PACKETS),
	C("port_rcv_packets",      "packets",  PORT, "Packets received", RCV_PACKETS),
	{"unicast_xmit_packets", "packets", "Packets sent, but for multicast",     PORT, false, 0, REQ_EVENT(MULTICAST), {XMIT_PACKETS}},
	{"unicast_rcv_packets",  "packets", "Packets received, but for multicast", PORT, false, 0, RSP_EVENT(MULTICAST), {RCV_PACKETS}},
	C("multicast_xmit_packets", "packets", PORT, "Packets sent to groups", REQ_EVENT(MULTICAST)),
	C("multicast_rcv_packets", "packets",  PORT, "Packets received as member of a group", RSP_EVENT(MULTICAST)),
	C("port_rcv_errors",       "packets",  PORT, "Messages of unreliable services that were lost here", RSP_EVENT(DROPPED)),
	C("link_downed",           "events",   PORT | HW, "Times the port went down", LINK_DOWNED),
	NEVER("symbol_error",                    PORT),
	NEVER("link_error_recovery",             PORT),
	NEVER("local_link_integrity_errors",     PORT),
	NEVER("excessive_buffer_overrun_errors", PORT),
	NEVER("port_rcv_remote_physical_errors", PORT),
	NEVER("port_rcv_switch_relay_errors",    PORT),
	NEVER("port_rcv_constraint_errors",      PORT),
	NEVER("port_xmit_constraint_errors",     PORT),
	NEVER("port_xmit_discards",              PORT),
	NEVER("port_xmit_wait",                  PORT),
	NEVER("VL15_dropped",                    PORT),

	/* Hardware counters under the names that mlx5 uses. */
	C("local_ack_timeout_err",     "events",   HW, "Requests that nobody answered in time", REQ_EVENT(TIMEOUT)),
	C("out_of_buffer",             "messages", HW, "Messages that found no receive request", RSP_EVENT(RNR)),
	C("req_cqe_error",             "requests", HW, "Requests completed in error", REQ_FAILED, REQ_EVENT(FLUSHED)),
	C("req_cqe_flush_error",       "requests", HW, "Requests completed as flushed", REQ_EVENT(FLUSHED)),
	C("req_remote_access_errors",  "requests", HW, "Requests that the responder refused for their rkey", REQ_EVENT(REM_ACCESS)),
	C("req_remote_invalid_request", "requests", HW, "Requests that the responder refused as invalid", REQ_EVENT(REM_INVALID)),
	C("resp_cqe_error",            "requests", HW, "Receive requests completed in error", RSP_EVENT(RECV_FAILED), RSP_EVENT(FLUSHED)),
	C("resp_cqe_flush_error",      "requests", HW, "Receive requests completed as flushed", RSP_EVENT(FLUSHED)),
	C("resp_local_length_error",   "requests", HW, "Messages longer than the receive request", RSP_EVENT(LENGTH)),
	C("resp_remote_access_errors", "requests", HW, "Requests refused for their rkey", RSP_EVENT(ACCESS)),
	C("rnr_nak_retry_err",         "events",   HW, "RNR NAKs received", REQ_EVENT(RNR)),
	C("rx_atomic_requests",        "messages", HW, "Atomic operations of others", RSP(ATOMIC, messages)),
	C("rx_read_requests",          "messages", HW, "RDMA READs of others", RSP(READ, messages)),
	C("rx_write_requests",         "messages", HW, "RDMA WRITEs of others", RSP(WRITE, messages)),
	C("duplicate_request",         "packets",  HW, "Packets of requests that had come before", RSP_EVENT(DUPLICATE)),
	C("implied_nak_seq_err",       "events",   HW, "Answers behind one that is missing", REQ_EVENT(ANSWER_LOST)),
	C("out_of_sequence",           "packets",  HW, "Packets ahead of the one that was expected", RSP_EVENT(AHEAD)),
	C("packet_seq_err",            "events",   HW, "NAKs for a packet that is missing, received", REQ_EVENT(SEQUENCE_NAK)),
	C("np_cnp_sent",               "packets",  HW, "Congestion notifications sent", RSP_EVENT(NOTIFIES)),
	C("np_ecn_marked_roce_packets", "packets", HW, "Packets received that had met congestion", RSP_EVENT(MARKED)),
	C("rp_cnp_handled",            "packets",  HW, "Congestion notifications received", REQ_EVENT(NOTIFIED)),
	C("rx_icrc_encapsulated",      "packets",  HW, "Packets dropped for their invariant CRC", RSP_EVENT(DAMAGED)),
	NEVER("rp_cnp_ignored",             HW),

	/* Hardware counters under the names that rxe uses. */
	C("sent_pkts",              "packets",  HW, "Packets sent", XMIT_PACKETS),
	C("rcvd_pkts",              "packets",  HW, "Packets received", RCV_PACKETS),
	C("rcvd_rnr_err",           "events",   HW, "RNR NAKs received", REQ_EVENT(RNR)),
	C("send_rnr_err",           "events",   HW, "RNR NAKs sent", RSP_EVENT(RNR)),
	C("retry_exceeded_err",     "requests", HW, "Requests that failed after their retries", REQ_EVENT(RETRY_EXCEEDED)),
	C("retry_rnr_exceeded_err", "requests", HW, "Requests that failed after their RNR retries", REQ_EVENT(RNR_EXCEEDED)),
	C("completer_retry_err",    "events",   HW, "Requests that nobody answered in time", REQ_EVENT(TIMEOUT)),
	C("rdma_sends",             "messages", HW, "SENDs carried out", REQ(SEND, messages)),
	C("rdma_recvs",             "messages", HW, "Messages received", RSP(SEND, messages)),
	C("out_of_seq_request",     "packets",  HW, "Packets ahead of the one that was expected", RSP_EVENT(AHEAD)),
	C("rcvd_seq_err",           "events",   HW, "NAKs for a packet that is missing, received", REQ_EVENT(SEQUENCE_NAK)),
	NEVER("ack_deferred",       HW),
	NEVER("send_err",           HW),
};
/* clang-format on */
const unsigned int av_counter_count = AV_ARRAY_SIZE(av_counter_info);

uint64_t av_counter_value(const struct av_counter_info *info, const struct av_counted *counted)
{
	const uint64_t *word = (const uint64_t *)counted;
	uint64_t sum = 0;

	for (int i = 0; i < AV_COUNTER_TERMS && info->of[i]; i++)
		sum += word[info->of[i] - 1];
	if (info->less) /* the two words were read at different moments */
		sum = sum > word[info->less - 1] ? sum - word[info->less - 1] : 0;
	return info->divide ? sum / info->divide : sum;
}
