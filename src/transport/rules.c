/* SPDX-License-Identifier: MIT */
/* The table of outcomes. */
#include "transport/rules.h"

#include "base/compiler.h"

#define OK IBV_WC_SUCCESS

/* clang-format off */
static const struct av_rule table[] = {
	/*                               name                       requester                 NAK                     receive request         fails  event at the responder,   counted there as */
	[AV_FAULT_NONE]             = {"none",                      OK,                       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_LOC_LEN]          = {"local length",              IBV_WC_LOC_LEN_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_LOC_QP_OP]        = {"local operation",           IBV_WC_LOC_QP_OP_ERR,     AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_LOC_PROT]         = {"local protection",          IBV_WC_LOC_PROT_ERR,      AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_MW_BIND]          = {"memory window",             IBV_WC_MW_BIND_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_REM_ACCESS]       = {"remote access",             IBV_WC_REM_ACCESS_ERR,    AV_NAK_REMOTE_ACCESS,   IBV_WC_LOC_ACCESS_ERR,  true,  IBV_EVENT_QP_ACCESS_ERR,  AV_RSP_ACCESS},
	[AV_FAULT_REM_OP_DENIED]    = {"operation denied by QP",    IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_REM_NO_RD_ATOMIC] = {"no responder resources",    IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_REM_MISALIGNED]   = {"misaligned atomic",         IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_REM_NO_COMMAND]   = {"no tunneled atomic",        IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, OK,                     true,  IBV_EVENT_QP_REQ_ERR,     AV_RSP_INVALID},
	[AV_FAULT_RECV_SHORT]       = {"receive buffer too short",  IBV_WC_REM_INV_REQ_ERR,   AV_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR,     true,  AV_EVENT_NONE,            AV_RSP_LENGTH},
	[AV_FAULT_RECV_PROT]        = {"receive buffer protection", IBV_WC_REM_OP_ERR,        AV_NAK_REMOTE_OP,       IBV_WC_LOC_PROT_ERR,    true,  AV_EVENT_NONE,            AV_RSP_OPERATION},
	[AV_FAULT_RECV_CQ]          = {"receive CQ full",           IBV_WC_REM_OP_ERR,        AV_NAK_REMOTE_OP,       OK,                     true,  IBV_EVENT_QP_FATAL,       AV_RSP_OPERATION},
	[AV_FAULT_INVALIDATE]       = {"key cannot be invalidated", OK,                       AV_NAK_NONE,            IBV_WC_LOC_QP_OP_ERR,   true,  AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_FORBIDDEN]        = {"memory out of reach",       IBV_WC_REM_OP_ERR,        AV_NAK_REMOTE_OP,       OK,                     false, AV_EVENT_NONE,            AV_RSP_OPERATION},
	[AV_FAULT_BUSY]             = {"busy",                      IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_TUNNELED]         = {"tunneled atomic",           IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_SRC]              = {"source missing",            IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_DST]              = {"destination missing",       IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_GONE]             = {"process gone",              IBV_WC_GENERAL_ERR,       AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_RNR_EXHAUSTED]    = {"receiver not ready",        IBV_WC_RNR_RETRY_EXC_ERR, AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
	[AV_FAULT_RETRY_EXHAUSTED]  = {"no answer",                 IBV_WC_RETRY_EXC_ERR,     AV_NAK_NONE,            OK,                     false, AV_EVENT_NONE,            AV_RSP_INVALID},
};
/* clang-format on */
_Static_assert(AV_ARRAY_SIZE(table) == AV_FAULT_N, "a row for each fault");

enum av_fault av_fault_of_nak(uint8_t nak)
{
	for (unsigned int i = AV_FAULT_NONE + 1; i < AV_FAULT_N; i++)
		if (table[i].nak == nak && nak != AV_NAK_NONE)
			return (enum av_fault)i;
	return AV_FAULT_NONE;
}

const struct av_rule *av_rule(enum av_fault fault)
{
	return &table[fault];
}
