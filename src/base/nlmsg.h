/* SPDX-License-Identifier: MIT */
/* Netlink messages of any family: parsing and building. Source: netlink(7), linux/netlink.h. */
#pragma once

#include <string.h>
#include <linux/netlink.h>

#include "base/compiler.h"

/* The longest datagram. The kernel's are no longer, so libraries' buffers have a page. */
#define AV_NL_DATAGRAM 3584u

/* --- reading ----------------------------------------------------------------------- */

/* The message at *@at (first 0) of a 4-byte aligned datagram; *@at moves on. NULL: the end */
const struct nlmsghdr *av_nl_next(const void *datagram, size_t len, size_t *at);

/*
 * The attributes of a message: of[TYPE] is the last one of that type, for types below @types; NULL:
 * none. As in the kernel, an attribute with a wrong length ends the list.
 */
void av_nl_attrs(const struct nlmsghdr *message, const struct nlattr **of, unsigned int types);

static inline size_t av_nl_length(const struct nlattr *attr)
{
	return attr->nla_len - NLA_HDRLEN;
}

static inline const void *av_nl_payload(const struct nlattr *attr)
{
	return (const char *)attr + NLA_HDRLEN;
}

/* @attr: at least 4 bytes */
static inline uint32_t av_nl_u32(const struct nlattr *attr)
{
	uint32_t value;

	memcpy(&value, av_nl_payload(attr), sizeof(value));
	return value;
}

/* --- writing ----------------------------------------------------------------------- */

/* A sequence of messages to one port. All zero at first, but for @port. */
struct av_nl_out {
	uint8_t *bytes; /* the caller frees them */
	size_t len, room;
	size_t message; /* offset of the last one */
	uint32_t port;
	uint32_t seq; /* of the request that is answered */
	bool failed;  /* out of memory, or too long; everything after that is dropped */
};

/* Begin a message; end it, which sets its length. */
void av_nl_begin(struct av_nl_out *out, uint16_t type, uint16_t flags);
void av_nl_end(struct av_nl_out *out);

static inline size_t av_nl_size(const struct av_nl_out *out)
{
	return out->len - out->message;
}

void av_nl_put(struct av_nl_out *out, unsigned int type, const void *payload, size_t len);

/* Defines av_nl_put_NAME(), for a number of that type. */
#define AV_NL_PUT(name, number)                                                       \
	static inline void av_nl_put_##name(struct av_nl_out *out, unsigned int type, \
					    number value)                             \
	{                                                                             \
		av_nl_put(out, type, &value, sizeof(value));                          \
	}

AV_NL_PUT(u8, uint8_t)
AV_NL_PUT(u32, uint32_t)
AV_NL_PUT(u64, uint64_t)

static inline void av_nl_put_text(struct av_nl_out *out, unsigned int type, const char *text)
{
	av_nl_put(out, type, text, strlen(text) + 1);
}

/* Begin an attribute that contains others. Return: for av_nl_nest_end() */
AV_MUST_USE size_t av_nl_nest(struct av_nl_out *out, unsigned int type);
void av_nl_nest_end(struct av_nl_out *out, size_t nest);

/* Append a request's result, 0 or -errno. An error quotes it; for lack of room, only its header. */
void av_nl_result(struct av_nl_out *out, const struct nlmsghdr *request, int result);

/* End a dump with its result: 0 or -errno. */
void av_nl_done(struct av_nl_out *out, int result);

/* Append another answer to the same request. */
void av_nl_pass(struct av_nl_out *out, const struct nlmsghdr *message);

/* The length of the datagram at @at: the parts of a dump that fit, or one other message; 0: none */
size_t av_nl_datagram(const struct av_nl_out *out, size_t at);
