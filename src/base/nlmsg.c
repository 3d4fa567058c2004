/* SPDX-License-Identifier: MIT */
#include "base/nlmsg.h"

#include <stdlib.h>

/* --- reading ----------------------------------------------------------------------- */

const struct nlmsghdr *av_nl_next(const void *datagram, size_t len, size_t *at)
{
	size_t left = *at < len ? len - *at : 0;
	const struct nlmsghdr *message;

	if (left < NLMSG_HDRLEN)
		return NULL;
	message = (const void *)((const char *)datagram + *at);
	if (message->nlmsg_len < NLMSG_HDRLEN || message->nlmsg_len > left)
		return NULL;
	*at += NLMSG_ALIGN((size_t)message->nlmsg_len);
	return message;
}

void av_nl_attrs(const struct nlmsghdr *message, const struct nlattr **of, unsigned int types)
{
	size_t at = NLMSG_HDRLEN, len = message->nlmsg_len;

	memset(of, 0, types * sizeof(const struct nlattr *));
	while (at < len && len - at >= NLA_HDRLEN) {
		const struct nlattr *attr = (const void *)((const char *)message + at);
		unsigned int type = attr->nla_type & NLA_TYPE_MASK;

		if (attr->nla_len < NLA_HDRLEN || attr->nla_len > len - at)
			return;
		if (type < types)
			of[type] = attr;
		at += NLA_ALIGN((size_t)attr->nla_len);
	}
}

/* --- writing ----------------------------------------------------------------------- */

static bool grow_nl_out(struct av_nl_out *out, size_t len)
{
	size_t room = out->room ? out->room : 1024;
	uint8_t *bytes;

	while (room - out->len < len)
		room *= 2;
	if (room == out->room)
		return true;
	bytes = realloc(out->bytes, room);
	if (!bytes)
		return false;
	out->bytes = bytes;
	out->room = room;
	return true;
}

/* Append @len bytes, and zeros up to the next multiple of 4. NULL: zeros only */
static void append_nl_bytes(struct av_nl_out *out, const void *bytes, size_t len)
{
	size_t whole = NLMSG_ALIGN(len);

	if (out->failed || !grow_nl_out(out, whole)) {
		out->failed = true;
		return;
	}
	memset(out->bytes + out->len, 0, whole);
	if (bytes)
		memcpy(out->bytes + out->len, bytes, len);
	out->len += whole;
}

static struct nlmsghdr *last(const struct av_nl_out *out)
{
	return (void *)(out->bytes + out->message);
}

void av_nl_begin(struct av_nl_out *out, uint16_t type, uint16_t flags)
{
	const struct nlmsghdr header = {
		.nlmsg_type = type,
		.nlmsg_flags = flags,
		.nlmsg_seq = out->seq,
		.nlmsg_pid = out->port,
	};

	out->message = out->len;
	append_nl_bytes(out, &header, sizeof(header));
}

void av_nl_end(struct av_nl_out *out)
{
	if (!out->failed)
		last(out)->nlmsg_len = (uint32_t)av_nl_size(out);
}

void av_nl_put(struct av_nl_out *out, unsigned int type, const void *payload, size_t len)
{
	const struct nlattr attr = {
		.nla_type = (uint16_t)type,
		.nla_len = (uint16_t)(NLA_HDRLEN + len),
	};

	if (len > UINT16_MAX - NLA_HDRLEN) {
		out->failed = true;
		return;
	}
	append_nl_bytes(out, &attr, sizeof(attr));
	append_nl_bytes(out, payload, len);
}

size_t av_nl_nest(struct av_nl_out *out, unsigned int type)
{
	size_t nest = out->len;

	av_nl_put(out, type, NULL, 0);
	return nest;
}

void av_nl_nest_end(struct av_nl_out *out, size_t nest)
{
	size_t len = out->len - nest;

	if (len > UINT16_MAX)
		out->failed = true;
	if (!out->failed)
		((struct nlattr *)(void *)(out->bytes + nest))->nla_len = (uint16_t)len;
}

void av_nl_result(struct av_nl_out *out, const struct nlmsghdr *request, int result)
{
	size_t len = result ? request->nlmsg_len : NLMSG_HDRLEN;
	bool whole = result && len <= AV_NL_DATAGRAM - NLMSG_HDRLEN - sizeof(result);

	av_nl_begin(out, NLMSG_ERROR, whole ? 0 : NLM_F_CAPPED);
	append_nl_bytes(out, &result, sizeof(result));
	append_nl_bytes(out, request, whole ? len : NLMSG_HDRLEN);
	av_nl_end(out);
}

void av_nl_done(struct av_nl_out *out, int result)
{
	av_nl_begin(out, NLMSG_DONE, NLM_F_MULTI);
	append_nl_bytes(out, &result, sizeof(result));
	av_nl_end(out);
}

void av_nl_pass(struct av_nl_out *out, const struct nlmsghdr *message)
{
	out->message = out->len;
	append_nl_bytes(out, message, message->nlmsg_len);
	if (!out->failed)
		last(out)->nlmsg_pid = out->port;
}

size_t av_nl_datagram(const struct av_nl_out *out, size_t at)
{
	const struct nlmsghdr *message;
	size_t end = at, before = at;

	while ((message = av_nl_next(out->bytes, out->len, &end))) {
		if (before > at && end - at > AV_NL_DATAGRAM)
			return before - at;
		if (!(message->nlmsg_flags & NLM_F_MULTI))
			return (before > at ? before : end) - at;
		before = end;
	}
	return before - at;
}
