/* SPDX-License-Identifier: MIT */
/*
 * The checks that can fail, one row each: where the rule is written, what is said when it is
 * broken, and what to do about it ("": nothing to say). {field} stands for a field of the record;
 * observe/field.h names them.
 */
#ifndef AV_OBSERVE_CHECK_H
#define AV_OBSERVE_CHECK_H

#include "base/compiler.h"

/* clang-format off */
#define AV_CHECKS(X) \
	/* --- verbs, where nothing more is known than the errno value --------------------- */ \
	X(OBJECT_UNKNOWN,   "ibv_*(3): ENOENT",     "there is no such object: its handle does not lead back to it", "it was destroyed, or belongs to another context, or its structure has been overwritten") \
	X(OBJECT_BUSY,      "ibv_*(3): EBUSY",      "the object is still used by others", "destroy what was created from it first") \
	X(NO_MEMORY,        "ibv_*(3): ENOMEM",     "memory, or what the device has of such objects, is used up", "compare with ibv_query_device(); is /dev/shm full?") \
	X(NOT_PERMITTED,    "ibv_*(3): EPERM",      "the context, or what was named, is not this process' to use", "a child of fork() must open the device itself") \
	X(DEVICE_FAILED,    "ibv_*(3): EIO",        "the device has failed", "close the context and open the device again") \
	X(NOT_SUPPORTED,    "ibv_*(3): EOPNOTSUPP", "this device does not do that", "look at ibv_query_device_ex() first") \
	X(ARGUMENT,         "ibv_*(3): EINVAL",     "an argument is not acceptable", "") \
	X(BAD_ADDRESS,      "ibv_*(3): EFAULT",     "memory that was named is not mapped, or not as it must be", "map it, writable if anybody may write to it, before the call") \
	X(NO_SUCH_VERB,     "ibv_exp_*(3): ENOSYS", "the device has no such verb", "") \
	X(OTHER_ERROR,      "ibv_*(3)",             "it failed", "") \
	/* --- posting --------------------------------------------------------------------- */ \
	X(POST_OBJECT,      "ibv_post_send(3)",     "the queue is not there, or not this process'", "a receive for a queue pair with an SRQ is posted to the SRQ") \
	X(POST_SEND_STATE,  "ibv_post_send(3)",       "the queue pair is in state {state}, in which no send request is taken", "take it to RTS by ibv_modify_qp() first") \
	X(POST_RECV_STATE,  "ibv_post_recv(3)",       "the queue pair is in state {state}, in which no receive request is taken", "take it to INIT by ibv_modify_qp() first") \
	X(POST_SEND_FULL,   "ibv_post_send(3)",     "all {limit} places of the send queue are taken", "poll the completions of signalled requests, which free those before them, too; or ask for more max_send_wr") \
	X(POST_RECV_FULL,   "ibv_post_recv(3)",     "all {limit} places of the receive queue are taken", "poll completions first, or ask for more max_recv_wr") \
	X(POST_OPCODE,      "ibv_post_send(3)",     "there is no opcode {wanted}", "") \
	X(POST_SEND_SGE,    "ibv_post_send(3)",     "{wanted} elements, and a request may have {limit}", "ask for more max_send_sge when the queue pair is created") \
	X(POST_RECV_SGE,    "ibv_post_recv(3)",     "{wanted} elements, and a request may have {limit}", "ask for more max_recv_sge when the queue is created") \
	X(POST_INLINE,      "ibv_post_send(3)",     "{wanted} B inline, and the queue pair takes {limit} B", "ask for more max_inline_data when the queue pair is created") \
	X(POST_INLINE_OP,   "ibv_post_send(3)",     "opcode {wanted} carries no data that could be inline", "IBV_SEND_INLINE is for SEND and RDMA WRITE") \
	X(POST_AH,          "ibv_post_send(3)",     "the datagram's address handle is not one", "create it by ibv_create_ah(), and destroy it after the post") \
	X(POST_OPERANDS,    "ibv_exp_post_send(3)", "operands of {wanted} B, and the queue pair takes {limit} B", "ask for max_atomic_arg when the queue pair is created") \
	/* --- memory regions -------------------------------------------------------------- */ \
	X(MR_NEEDS_LOCAL,   "ibv_reg_mr(3)",        "a remote right to write or for atomics ({access}) needs IBV_ACCESS_LOCAL_WRITE", "add IBV_ACCESS_LOCAL_WRITE") \
	X(MR_PERSISTENT,    "ibv_reg_mr(3)",        "memory of this device cannot be made persistent", "flush with global visibility instead") \
	X(MR_FLAGS,         "ibv_reg_mr(3)",        "access flags {wanted:x} are not known; those known are {limit:x}", "") \
	X(MR_TUNNELED,      "ibv_exp_reg_mr(3)",    "tunneled atomics need the device's switch and IBV_ACCESS_LOCAL_WRITE", "anyverbs config set IBM_TUNNELED_ATOMIC_EN=1, then anyverbs reset") \
	X(MR_LENGTH,        "ibv_reg_mr(3)",        "{wanted} B, and a region may have {limit} B", "") \
	X(MR_WRAPS,         "ibv_reg_mr(3)",        "{length} B from {address} wrap around the end of the address space", "") \
	X(MR_IOVA,          "ibv_reg_mr_iova(3)",   "address and iova lie at different places of a page ({wanted} and {limit})", "they must be equal modulo the page size") \
	X(MR_WINDOWS,       "IBTA 1, 10.6.7.2",   "memory windows are bound to the region", "unbind or deallocate the windows first") \
	X(REREG_INPUT,      "ibv_rereg_mr(3)",      "flags and arguments do not go together, or the region is of a kind that cannot be changed", "a new address needs CHANGE_TRANSLATION, new rights need CHANGE_ACCESS") \
	X(REREG_FLAGS,      "ibv_rereg_mr(3)",      "no change was asked for, or the region is of a kind that cannot be changed", "") \
	X(REREG_PAGING,     "ibv_rereg_mr(3)",      "a region cannot become paged on demand, or cease to be", "register it anew") \
	X(REREG_OVERLAP,    "ibv_rereg_mr(3)",      "the new range lies in the memory that the region came with, which ends with the change", "") \
	X(REREG_PD,         "ibv_rereg_mr(3)",      "the new protection domain is none of this context", "") \
	/* --- queue pairs ----------------------------------------------------------------- */ \
	X(QP_TYPE,          "ibv_create_qp(3)",     "there is no queue pair type {wanted}", "") \
	X(QP_SEND_WR,       "ibv_create_qp(3)",     "max_send_wr {wanted} is above the device's {limit}", "max_qp_wr of ibv_query_device() is the limit") \
	X(QP_RECV_WR,       "ibv_create_qp(3)",     "max_recv_wr {wanted} is above the device's {limit}", "max_qp_wr of ibv_query_device() is the limit") \
	X(QP_SEND_SGE,      "ibv_create_qp(3)",     "max_send_sge {wanted} is above the device's {limit}", "max_sge of ibv_query_device() is the limit") \
	X(QP_RECV_SGE,      "ibv_create_qp(3)",     "max_recv_sge {wanted} is above the device's {limit}", "max_sge of ibv_query_device() is the limit") \
	X(QP_INLINE,        "ibv_create_qp(3)",     "max_inline_data {wanted} is above the device's {limit}", "send longer data from registered memory") \
	X(QP_SEND_CQ,       "ibv_create_qp(3)",     "send_cq is no completion queue of this context", "") \
	X(QP_RECV_CQ,       "ibv_create_qp(3)",     "recv_cq is no completion queue of this context", "") \
	X(QP_SRQ,           "ibv_create_qp(3)",     "srq is no shared receive queue of this context for that type of queue pair", "") \
	X(QP_XRCD,          "ibv_create_qp_ex(3)",  "xrcd is no XRC domain of this context", "") \
	X(QP_MASK,          "ibv_create_qp_ex(3)",  "comp_mask {wanted:x} is not {limit:x}, of which it must have the domain", "") \
	X(QP_CREATE_FLAGS,  "ibv_create_qp_ex(3)",  "create_flags {wanted:x} are not known", "") \
	X(QP_SEND_OPS,      "ibv_create_qp_ex(3)",  "send_ops_flags {wanted:x}, and this type of queue pair has {limit:x}", "") \
	X(ATTR_PORT,        "ibv_modify_qp(3)",     "port_num {wanted}, and the device has {limit}", "ports are counted from 1") \
	X(ATTR_PKEY,        "ibv_modify_qp(3)",     "pkey_index {wanted}, and the last one is {limit}", "") \
	X(ATTR_ALT_PATH,    "ibv_modify_qp(3)",     "the device has no automatic path migration", "leave IBV_QP_ALT_PATH out") \
	X(ATTR_PATH_MIG,    "ibv_modify_qp(3)",     "path_mig_state {wanted}, and only {limit} is possible", "") \
	X(ATTR_MTU,         "ibv_modify_qp(3)",     "path_mtu {wanted}, and the port's is {limit}", "take active_mtu of ibv_query_port()") \
	X(ATTR_TIMEOUT,     "ibv_modify_qp(3)",     "timeout {wanted}, and the last code is {limit}", "") \
	X(ATTR_RETRY_CNT,   "ibv_modify_qp(3)",     "retry_cnt {wanted}, and the most is {limit}", "") \
	X(ATTR_RNR_RETRY,   "ibv_modify_qp(3)",     "rnr_retry {wanted}, and the most is {limit}, which is for ever", "") \
	X(ATTR_RNR_TIMER,   "ibv_modify_qp(3)",     "min_rnr_timer {wanted}, and the last code is {limit}", "") \
	X(ATTR_RD_ATOMIC,   "ibv_modify_qp(3)",     "max_rd_atomic {wanted}, and the device has {limit}", "max_qp_init_rd_atom of ibv_query_device() is the limit") \
	X(ATTR_DEST_RD,     "ibv_modify_qp(3)",     "max_dest_rd_atomic {wanted}, and the device has {limit}", "max_qp_rd_atom of ibv_query_device() is the limit") \
	X(ATTR_ACCESS,      "ibv_modify_qp(3)",     "qp_access_flags {wanted:x}, and those known are {limit:x}", "") \
	X(STATE_CURRENT,    "ibv_modify_qp(3)",       "cur_qp_state {wanted} is none that a program may claim", "") \
	X(STATE_CHANGE,     "ibv_modify_qp(3)",       "there is no way from state {state} to state {wanted:state}", "RESET, INIT, RTR, RTS, in this order") \
	X(STATE_MISSING,    "ibv_modify_qp(3)",     "attributes {wanted:x} of enum ibv_qp_attr_mask are missing for that change, which needs {limit:x}", "") \
	X(STATE_EXTRA,      "ibv_modify_qp(3)",     "attributes {wanted:x} of enum ibv_qp_attr_mask cannot be set in that change, only {limit:x}", "") \
	X(AV_PORT,          "ibv_create_ah(3)",     "port_num {wanted} of the address vector, and the device has {limit}", "ports are counted from 1") \
	X(AV_GLOBAL,        "ibv_create_ah(3)",     "on Ethernet an address vector needs a GRH", "set is_global and grh.dgid") \
	X(AV_SGID,          "ibv_create_ah(3)",     "row {wanted} of the GID table is empty", "anyverbs info shows the table") \
	/* --- completion queues ----------------------------------------------------------- */ \
	X(CQ_SIZE,          "ibv_create_cq(3)",     "{wanted} entries, and a completion queue has 1 to {limit}", "max_cqe of ibv_query_device() is the limit") \
	X(CQ_VECTOR,        "ibv_create_cq(3)",     "comp_vector {wanted}, and there are {limit}", "they are counted from 0") \
	X(CQ_CHANNEL,       "ibv_create_cq(3)",     "the completion channel is another context's", "") \
	X(CQ_MASK,          "ibv_create_cq_ex(3)",  "comp_mask {wanted:x}, and those known are {limit:x}", "") \
	X(CQ_FLAGS,         "ibv_create_cq_ex(3)",  "flags {wanted:x}, and those known are {limit:x}", "") \
	X(CQ_PARENT,        "ibv_create_cq_ex(3)",  "parent_domain is no parent domain of this context", "") \
	X(CQ_WC_FLAGS,      "ibv_create_cq_ex(3)",  "wc_flags {wanted:x}, and those that can be read are {limit:x}", "") \
	X(CQ_MODIFY,        "ibv_modify_cq(3)",     "attr_mask {wanted:x} has bits that are not known", "") \
	/* --- others ---------------------------------------------------------------------- */ \
	X(SRQ_SIZE,         "ibv_create_srq(3)",    "max_wr {wanted}, and a shared receive queue has 1 to {limit}", "max_srq_wr of ibv_query_device() is the limit") \
	X(SRQ_SGE,          "ibv_create_srq(3)",    "max_sge {wanted}, and the most is {limit}", "max_srq_sge of ibv_query_device() is the limit") \
	X(SRQ_MASK,         "ibv_modify_srq(3)",    "mask {wanted:x} has bits that are not known", "") \
	X(SRQ_LIMIT,        "ibv_modify_srq(3)",    "srq_limit {wanted}, and the queue has {limit} places", "") \
	X(MW_TYPE,          "ibv_alloc_mw(3)",      "there is no window type {wanted}", "") \
	X(MW_ZERO_BASED,    "ibv_bind_mw(3)",       "a window of type 1 cannot be zero based", "") \
	X(MW_REGION,        "ibv_bind_mw(3)",       "windows cannot be bound to a region of that kind", "they are for regions of ordinary memory, registered with IBV_ACCESS_MW_BIND") \
	X(MCAST_SERVICE,    "ibv_attach_mcast(3)",  "the queue pair is not of type UD", "") \
	X(MCAST_GID,        "ibv_attach_mcast(3)",  "the GID is no multicast address", "it must begin with ff") \
	X(ADVISE_CALL,      "ibv_advise_mr(3)",     "the protection domain, a flag, or the number of elements ({wanted}) is not acceptable", "") \
	X(ADVISE_ADVICE,    "ibv_advise_mr(3)",     "there is no advice {wanted}", "") \
	X(ADVISE_KEY,       "ibv_advise_mr(3)",     "key {key:x} is not that of a region paged on demand", "register it with IBV_ACCESS_ON_DEMAND") \
	X(ADVISE_PD,        "ibv_advise_mr(3)",     "the region of key {key:x} belongs to another protection domain", "") \
	X(ADVISE_RIGHT,     "ibv_advise_mr(3)",     "the region of key {key:x} is not writable", "advise IBV_ADVISE_MR_ADVICE_PREFETCH instead") \
	X(DM_LENGTH,        "ibv_alloc_dm(3)",      "{wanted} B of device memory, and it has {limit} B", "max_dm_size of ibv_query_device_ex() is the limit") \
	X(DM_ALIGN,         "ibv_alloc_dm(3)",      "log_align_req {wanted}, and the most is {limit}", "") \
	X(DM_RANGE,         "ibv_alloc_dm(3)",      "the range ends {wanted} B behind its beginning of device memory, which has {limit} B", "") \
	X(DM_UNIT,          "ibv_alloc_dm(3)",      "offset and length of a copy must be multiples of {limit}", "") \
	X(DM_ACCESS,        "ibv_reg_dm_mr(3)",     "access flags {wanted:x} do not suit device memory", "it needs IBV_ACCESS_ZERO_BASED") \
	X(XRCD_MASK,        "ibv_open_xrcd(3)",     "comp_mask {wanted:x} is not {limit:x}", "") \
	X(GID_INDEX,        "ibv_query_gid(3)",     "there is no port or row {wanted}", "") \
	/* --- keys: what was found behind the one that a request names -------------------- */ \
	X(KEY_UNKNOWN,      "IBTA 1, 10.6.3",       "there is no such key in that context", "was it sent whole, in the right byte order, and by the process that this queue pair is connected to?") \
	X(KEY_DEAD,         "IBTA 1, 10.6.3",       "the key is no longer one: its region was deregistered, or its window bound anew or unbound", "deregister after the last completion, not before") \
	X(KEY_UNBOUND,      "IBTA 1, 10.6.7.2",     "the memory window is not bound", "wait for the completion of the bind before the key is sent") \
	X(KEY_IS_WINDOW,    "IBTA 1, 10.6.7.2",     "it is the key of a memory window, which is good for remote access only", "") \
	X(KEY_IS_NULL,      "ibv_alloc_null_mr(3)", "it is the key of a null region, which is good for local access only", "") \
	X(KEY_PD,           "IBTA 1, 10.6.3",     "the region belongs to protection domain {region_pd}, and the queue to {pd}", "create the queue pair and register the memory with one protection domain") \
	X(KEY_WINDOW_QP,    "IBTA 1, 10.6.7.2",     "the memory window is bound on QP {region_qp}, and only that one may use it", "") \
	X(KEY_RIGHTS,       "IBTA 1, 10.6.3",     "the region permits {region_access}, and {access} is needed", "register it with {access}") \
	X(KEY_BEFORE,       "IBTA 1, 10.6.3",     "the range begins {wanted} B before the region, which is {region_length} B from {region_address}", "") \
	X(KEY_BEHIND,       "IBTA 1, 10.6.3",     "the range ends {wanted} B behind the region, which is {region_length} B from {region_address}", "") \
	X(KEY_UNMAPPED,     "IBTA 1, 10.6.3",       "memory of the region was unmapped since it was registered", "deregister before munmap()") \
	X(KEY_PIECE,        "UMR",                  "a piece that the key is made of cannot be reached", "") \
	X(KEY_LIST,         "ibv_post_send(3)",     "the elements have fewer bytes than the request", "") \
	X(MEMORY_FAULT,     "IBTA 1, 10.6.3",       "the memory cannot be accessed: it is not mapped, or protected", "") \
	X(MEMORY_FORBIDDEN, "process_vm_readv(2)",  "the kernel keeps the two processes' memory apart", "anyverbs doctor says why") \
	/* --- requests -------------------------------------------------------------------- */ \
	X(REQUEST_SERVICE,  "IBTA 1, 9.4",          "this queue pair's type of service does not have the operation", "RDMA READ and atomics need RC") \
	X(REQUEST_RD,       "IBTA 1, 9.4",          "max_rd_atomic of the queue pair is 0", "set it by ibv_modify_qp() on the way to RTS") \
	X(REQUEST_OPERANDS, "IBTA 1, 9.9",        "the operands of the atomic operation are not of a size that there is", "") \
	X(REQUEST_LENGTH,   "IBTA 1, 9.9",        "{wanted} B, and a message has at most {limit} B", "max_msg_sz of ibv_query_port() is the limit") \
	X(REQUEST_DATAGRAM, "IBTA 1, 9.8.3",        "{wanted} B, and a datagram has at most the {limit} B of the port's MTU", "") \
	X(REQUEST_ATOMIC,   "IBTA 1, 9.9",        "{wanted} B of buffers, and the operation brings {limit} B", "") \
	X(RESPONDER_ACCESS, "IBTA 1, 9.9",    "the responding queue pair permits {limit:access}, and {wanted:access} is needed", "set qp_access_flags of the responder by ibv_modify_qp()") \
	X(RESPONDER_RD,     "IBTA 1, 9.9",      "max_dest_rd_atomic of the responding queue pair is 0", "set it by ibv_modify_qp() on the way to RTR") \
	X(RESPONDER_SRQ,    "IBTA 1, A14",           "there is no shared receive queue {wanted} in the XRC domain", "") \
	X(ATOMIC_ALIGN,     "IBTA 1, 9.9",        "address {address} is not a multiple of {limit}", "") \
	X(TUNNEL_COMMAND,   "ibv_exp_reg_mr(3)",    "the region takes tunneled atomics, and the payload is none", "") \
	X(RECV_SHORT,       "IBTA 1, 9.9",      "a message of {wanted} B met a receive request of {limit} B", "post larger receives") \
	X(RECV_CQ_FULL,     "ibv_create_cq(3)",       "the completion queue of the receive is full: {limit} entries", "create it with an entry for each request, and poll it") \
	X(SEND_CQ_FULL,     "ibv_create_cq(3)",       "the completion queue is full: {limit} entries", "create it with an entry for each request, and poll it") \
	X(INVALIDATE_KEY,   "IBTA 1, 10.6.7.2",       "key {key:x} of the SEND WITH INVALIDATE cannot be invalidated: it is no window of type 2 bound on that queue pair", "") \
	X(RNR_RETRIES,      "IBTA 1, 9.7.5.2.8",    "the receiver had no receive posted: {wanted} RNR NAKs, rnr_retry {limit}", "post receives before the peer sends, or set rnr_retry to 7") \
	X(PEER_GONE,        "IBTA 1, 9.7.6.1",      "nobody answers: there is no QP {peer_qp} at that address, or its process has ended", "is the peer still running? Were number and GID exchanged right?") \
	X(PEER_STATE,       "IBTA 1, 9.7.6.1",      "nobody answers: QP {peer_qp} is in state {state}", "take the peer's queue pair to RTR before this one sends") \
	X(PEER_OTHER,       "IBTA 1, 9.7.6.1",      "nobody answers: QP {peer_qp} is connected to QP {limit}", "dest_qp_num of the two must name each other") \
	X(PEER_TYPE,        "IBTA 1, 9.7.6.1",      "nobody answers: QP {peer_qp} has another type of service", "") \
	X(PEER_PSN,         "IBTA 1, 9.7.6.1",      "nobody answers: this queue pair sends PSN {wanted}, and QP {peer_qp} expects {limit}", "sq_psn of one side is rq_psn of the other") \
	X(FLUSHED,          "ibv_modify_qp(3)",     "requests were flushed, {count} in a row, since the queue pair is in the error state", "the record before says why") \
	/* --- keys changed by requests ---------------------------------------------------- */ \
	X(BIND_WINDOW,      "IBTA 1, 10.6.7.2",     "there is no such memory window, or the new key is not of its index", "") \
	X(BIND_PD,          "IBTA 1, 10.6.7.2",     "the window belongs to protection domain {region_pd}, and the queue pair to {pd}", "") \
	X(BIND_FLAGS,       "ibv_bind_mw(3)",       "access flags {wanted:x} of the window; those known are {limit:x}", "") \
	X(BIND_TYPE,        "IBTA 1, 10.6.7.2",     "a window of type 1 cannot be zero based, and needs a region unless its length is 0", "") \
	X(BIND_LENGTH,      "IBTA 1, 10.6.7.2",     "a window of type 2 needs a region and a length", "unbind it by IBV_WR_LOCAL_INV") \
	X(BIND_BOUND,       "IBTA 1, 10.6.7.2",     "the window of type 2 is bound already", "invalidate it first") \
	X(BIND_REGION,      "IBTA 1, 10.6.7.2",     "key {key:x} is not that of a region that windows can be bound to", "") \
	X(BIND_REGION_PD,   "IBTA 1, 10.6.7.2",     "the region belongs to protection domain {region_pd}, and the queue pair to {pd}", "") \
	X(BIND_REGION_FLAG, "ibv_bind_mw(3)",       "the region permits {region_access}, and must permit windows and not be zero based", "register it with IBV_ACCESS_MW_BIND") \
	X(BIND_RIGHTS,      "IBTA 1, 10.6.7.2",     "a window that may be written needs a region with local write access; it permits {region_access}", "register it with IBV_ACCESS_LOCAL_WRITE") \
	X(BIND_RANGE,       "IBTA 1, 10.6.7.2",     "the window reaches {wanted} B out of the region, which is {region_length} B from {region_address}", "") \
	X(INVALIDATE_UNBOUND, "IBTA 1, 10.6.7.2",     "key {key:x} is not what its window is bound as, on this queue pair", "") \
	X(INVALIDATE_WINDOW, "IBTA 1, 10.6.7.2",      "key {key:x} is no memory window's", "regions are deregistered by ibv_dereg_mr()") \
	X(UMR_FILL,         "UMR",                  "key {key:x} is not made by ibv_exp_create_mr(), or belongs to another protection domain, or has no room for {wanted} elements", "") \
	/* --- events ---------------------------------------------------------------------- */ \
	X(CQ_OVERRUN,       "ibv_create_cq(3)",       "a completion did not fit: {limit} entries, none of them polled in time", "create it with an entry for each request, and poll it") \
	X(FATAL,            "ibv_get_async_event(3)", "the device has failed", "close the context and open the device again") \
	X(PORT_DOWN,        "ibv_get_async_event(3)", "the port is down", "is the host's interface up? anyverbs info says what the port follows") \
	X(EXECUTOR_DIED,    "ibv_modify_qp(3)",     "a process died while it was executing a request of this queue pair", "") \
	X(INJECTED,         "anyverbs_faults(5)",   "rule {wanted} of the faults on demand has struck ({limit:fault}); what follows from it was asked for", "anyverbs faults list shows the rules, and anyverbs faults clear ends them")
/* clang-format on */

enum av_check {
	AV_CHECK_NONE,
#define AV_CHECK_ENUM(id, clause, sentence, advice) AV_CHECK_##id,
	AV_CHECKS(AV_CHECK_ENUM)
#undef AV_CHECK_ENUM
		AV_CHECK_N
};

struct av_check_row {
	const char *name;
	const char *clause, *sentence, *advice;
};

/* The row of a check; that of AV_CHECK_NONE for numbers that are none. */
const struct av_check_row *av_check_row(unsigned int check);

/* The check that an errno value of a verb stands for when nobody has said more. */
enum av_check av_check_of_errno(int err);

#endif
