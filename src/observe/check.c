/* SPDX-License-Identifier: MIT */
#include "observe/check.h"

#include <errno.h>
#include <stddef.h>

/* Names of verbs. */

static const char *const names[AV_VERB_N] = {[AV_VERB_NONE] = "a verb",
#define AV_VERB_NAME(id, name) [AV_VERB_##id] = (name),
					     AV_VERBS(AV_VERB_NAME)
#undef AV_VERB_NAME
};

const char *av_verb_name(unsigned int verb)
{
	return names[verb < AV_VERB_N ? verb : AV_VERB_NONE];
}

/* The table of checks, built from the rows in check.h. */

static const struct av_check_row rows[] = {
	[AV_CHECK_NONE] = {"NONE", "", "the reason is not known", ""},
#define AV_CHECK_ROW(id, clause, sentence, advice) \
	[AV_CHECK_##id] = {#id, clause, sentence, advice},
	AV_CHECKS(AV_CHECK_ROW)
#undef AV_CHECK_ROW
};

const struct av_check_row *av_check_row(unsigned int check)
{
	return &rows[check < AV_CHECK_N ? check : AV_CHECK_NONE];
}

struct of_errno {
	int err;
	enum av_check check;
};

static enum av_check find_errno_check(const struct of_errno *row, size_t count, int err,
				      enum av_check other)
{
	for (size_t i = 0; i < count; i++)
		if (row[i].err == err)
			return row[i].check;
	return other;
}

enum av_check av_check_of_errno(int err)
{
	static const struct of_errno row[] = {
		{ENOENT, AV_CHECK_OBJECT_UNKNOWN}, {EBUSY, AV_CHECK_OBJECT_BUSY},
		{ENOMEM, AV_CHECK_NO_MEMORY},	   {EPERM, AV_CHECK_NOT_PERMITTED},
		{EIO, AV_CHECK_DEVICE_FAILED},	   {EOPNOTSUPP, AV_CHECK_NOT_SUPPORTED},
		{EINVAL, AV_CHECK_ARGUMENT},	   {EFAULT, AV_CHECK_BAD_ADDRESS},
		{ENOSYS, AV_CHECK_NO_SUCH_VERB},   {EMFILE, AV_CHECK_NO_DESCRIPTOR},
		{ENFILE, AV_CHECK_NO_DESCRIPTOR},
	};

	return find_errno_check(row, AV_ARRAY_SIZE(row), err, AV_CHECK_OTHER_ERROR);
}

enum av_check av_check_of_silence(int err)
{
	static const struct of_errno row[] = {
		{ENETUNREACH, AV_CHECK_PEER_NO_WAY},   {EHOSTUNREACH, AV_CHECK_PEER_NO_WAY},
		{ECONNREFUSED, AV_CHECK_PEER_NO_PORT}, {EPERM, AV_CHECK_PEER_FIREWALL},
		{EACCES, AV_CHECK_PEER_FIREWALL},      {EMSGSIZE, AV_CHECK_PEER_MTU},
		{EBADMSG, AV_CHECK_PEER_LENGTH},
	};

	return find_errno_check(row, AV_ARRAY_SIZE(row), err, AV_CHECK_PEER_SILENT);
}
