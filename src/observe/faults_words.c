/* SPDX-License-Identifier: MIT */
/* The words of fault rules that name something of the verbs API. */
#include "observe/faults_rule.h"

#include <errno.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "observe/wr_opcode.h"
#include "wire/cm_message.h"

#define NAME(id, name) (name),
const char *const av_faults_name[AV_INJECT_N] = {AV_FAULTS(NAME)};
const char *const av_faults_verb_name[AV_FAIL_N] = {AV_FAILS(NAME)};
#undef NAME

const char *const av_status_name[AV_STATUS_N] = {
	[IBV_WC_SUCCESS] = "SUCCESS",
	[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
	[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
	[IBV_WC_LOC_EEC_OP_ERR] = "LOC_EEC_OP_ERR",
	[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
	[IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
	[IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
	[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
	[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
	[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
	[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "LOC_RDD_VIOL_ERR",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "REM_INV_RD_REQ_ERR",
	[IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
	[IBV_WC_INV_EECN_ERR] = "INV_EECN_ERR",
	[IBV_WC_INV_EEC_STATE_ERR] = "INV_EEC_STATE_ERR",
	[IBV_WC_FATAL_ERR] = "FATAL_ERR",
	[IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
	[IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
};

#define ERRNO_MAX 133 /* the last of Linux */

/* To lower case, in ASCII regardless of the locale; "-" becomes "_". */
static char plain(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' ? '_' : c;
}

/* Does the word begin with @with? */
static bool begins(struct av_word word, const char *with)
{
	size_t i = 0;

	while (with[i] && i < word.len && plain(word.text[i]) == plain(with[i]))
		i++;
	return !with[i];
}

static bool is(struct av_word word, const char *name)
{
	return word.len == strlen(name) && begins(word, name);
}

unsigned int av_faults_find(struct av_word word, const char *prefix, const char *const *names,
			    unsigned int count)
{
	unsigned int i = 0;

	if (begins(word, prefix)) {
		word.text += strlen(prefix);
		word.len -= strlen(prefix);
	}
	while (i < count && (!names[i] || !is(word, names[i])))
		i++;
	return i;
}

int av_faults_status(struct av_word word)
{
	unsigned int i = av_faults_find(word, "ibv_wc_", av_status_name, AV_STATUS_N);

	return i < AV_STATUS_N && i != IBV_WC_SUCCESS ? (int)i : -1;
}

uint64_t av_faults_opcodes(struct av_word word)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < AV_WR_OPCODES; i++)
		if (av_faults_find(word, "ibv_wr_", av_wr_opcodes[i].rule_words, 2) < 2)
			found |= av_faults_opcode(i);
	return found;
}

uint32_t av_faults_messages(struct av_word word)
{
	uint32_t found = 0;

	for (unsigned int attribute = AV_CM_REQ; attribute <= AV_CM_APR; attribute++) {
		const char *name = av_cm_attribute_name(attribute);

		if (is(word, "any") || is(word, name))
			found |= av_faults_message(attribute);
	}
	return found;
}

int av_faults_errno(struct av_word word)
{
	for (int err = 1; err <= ERRNO_MAX; err++) {
		const char *name = strerrorname_np(err);

		if (name && is(word, name))
			return err;
	}
	return -1;
}
