/* SPDX-License-Identifier: MIT */
/*
 * Netlink messages as bytes: reading those of strangers, and writing answers. Knows no family.
 * Source: netlink(7), linux/netlink.h.
 */
#ifndef AV_BASE_NLMSG_H
#define AV_BASE_NLMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/netlink.h>

#include "base/compiler.h"

/*
 * What a program's buffer has room for, since the kernel's answers are no larger: libraries take a
 * page.
 */
#define AV_NL_DATAGRAM 3584u

/* --- reading ----------------------------------------------------------------------- */

/*
 * The message at *@at (0 at first) of a datagram, aligned to 4 bytes; *@at moves past it. NULL:
 * there is no further one, or its length is wrong, which ends the datagram.
 */
const struct nlmsghdr *av_nl_next(const void *datagram, size_t len, size_t *at);

/*
 * Find the attributes of a message behind its header: of[TYPE] for types below @types, the last
 * one of each; NULL: there is none. As in the kernel, what is too short to be one ends the list.
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

/* Of an attribute of at least that many bytes. */
static inline uint32_t av_nl_u32(const struct nlattr *attr)
{
	uint32_t value;

	memcpy(&value, av_nl_payload(attr), sizeof(value));
	return value;
}

/* --- writing ----------------------------------------------------------------------- */

/* Messages to one port, one after the other. Begins as zeros but for @port. */
struct av_nl_out {
	uint8_t *bytes; /* the caller frees them */
	size_t len, room;
	size_t message; /* where the last one begins */
	uint32_t port;	/* whose these messages are */
	uint32_t seq;	/* of the request that is answered */
	bool failed;	/* memory ran out; what is written afterwards is dropped */
};

/* Begin a message, and end it: its length is known then. */
void av_nl_begin(struct av_nl_out *out, uint16_t type, uint16_t flags);
void av_nl_end(struct av_nl_out *out);

/* Bytes of the message so far. */
static inline size_t av_nl_size(const struct av_nl_out *out)
{
	return out->len - out->message;
}

/* Add an attribute. */
void av_nl_put(struct av_nl_out *out, unsigned int type, const void *payload, size_t len);

static inline void av_nl_put_u8(struct av_nl_out *out, unsigned int type, uint8_t value)
{
	av_nl_put(out, type, &value, sizeof(value));
}

static inline void av_nl_put_u32(struct av_nl_out *out, unsigned int type, uint32_t value)
{
	av_nl_put(out, type, &value, sizeof(value));
}

static inline void av_nl_put_u64(struct av_nl_out *out, unsigned int type, uint64_t value)
{
	av_nl_put(out, type, &value, sizeof(value));
}

static inline void av_nl_put_text(struct av_nl_out *out, unsigned int type, const char *text)
{
	av_nl_put(out, type, text, strlen(text) + 1);
}

/* Begin an attribute that holds others. Return: for av_nl_nest_end() */
AV_MUST_USE size_t av_nl_nest(struct av_nl_out *out, unsigned int type);
void av_nl_nest_end(struct av_nl_out *out, size_t nest);

/* Say what became of a request: 0 or -errno. An error quotes it, as far as a datagram has room. */
void av_nl_result(struct av_nl_out *out, const struct nlmsghdr *request, int result);

/* End a dump: 0 or -errno. */
void av_nl_done(struct av_nl_out *out, int result);

/* Add somebody else's answer to the same request. */
void av_nl_pass(struct av_nl_out *out, const struct nlmsghdr *message);

/*
 * How many bytes from @at on make one datagram: parts of a dump go together as far as they fit,
 * everything else alone. 0: there is nothing left.
 */
size_t av_nl_datagram(const struct av_nl_out *out, size_t at);

#endif
