/* SPDX-License-Identifier: MIT */
/* Netlink messages: what is read of sound and unsound ones, what is written, and in which parts. */
#include <errno.h>
#include <stdlib.h>

#include "base/nlmsg.h"
#include "lib/unit.h"

#define TYPES 4u
#define KIND  0x1401 /* of a message */

TEST(reading_ends_where_a_length_is_wrong)
{
	/* In units of 4 bytes, since messages are: lengths at words 0 and 5. */
	static const struct {
		const char *what;
		uint32_t first, second;
		size_t datagram;
		unsigned int messages;
	} rows[] = {
		{"two", 20, 16, 36, 2},
		{"the first is not a multiple of 4", 17, 16, 36, 2},
		{"the second has less than a header", 20, 15, 36, 1},
		{"the second is longer than the datagram", 20, 17, 36, 1},
		{"the second is cut in its header", 20, 16, 35, 1},
		{"the first is empty", 0, 16, 36, 0},
		{"the first is huge", UINT32_MAX, 16, 36, 0},
		{"nothing", 20, 16, 0, 0},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t words[9] = {[0] = rows[i].first, [5] = rows[i].second};
		unsigned int n = 0;
		size_t at = 0;

		print_message("%s\n", rows[i].what);
		while (av_nl_next(words, rows[i].datagram, &at))
			n++;
		assert_int_equal(n, rows[i].messages);
	}
}

/* A message of one to three attributes by their lengths and types. */
TEST(attributes_end_where_one_is_too_short)
{
	static const struct {
		const char *what;
		uint32_t len;	     /* of the message */
		uint16_t attr[3][2]; /* lengths and types, 8 bytes apart */
		unsigned int found;  /* bits of types */
	} rows[] = {
		{"three", 40, {{8, 1}, {8, 2}, {8, 3}}, 0xe},
		{"none", 16, {{8, 1}, {8, 2}, {8, 3}}, 0},
		{"an unknown one is left out", 40, {{8, 1}, {8, 9}, {8, 3}}, 0xa},
		{"flags do not belong to the type",
		 40,
		 {{8, NLA_F_NESTED | 1}, {8, 2}, {8, 3}},
		 0xe},
		{"lengths are rounded up", 40, {{5, 1}, {6, 2}, {7, 3}}, 0xe},
		{"one has less than a header", 40, {{8, 1}, {3, 2}, {8, 3}}, 2},
		{"one is empty", 40, {{8, 1}, {0, 2}, {8, 3}}, 2},
		{"one ends behind the message", 40, {{8, 1}, {8, 2}, {9, 3}}, 6},
		{"the message ends in a header", 27, {{8, 1}, {8, 2}, {8, 3}}, 2},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct nlattr *found[TYPES];
		uint32_t words[10] = {rows[i].len};
		unsigned int bits = 0;

		print_message("%s\n", rows[i].what);
		for (unsigned int a = 0; a < 3; a++)
			memcpy(&words[4 + 2 * a], rows[i].attr[a], sizeof(rows[i].attr[a]));
		av_nl_attrs((const void *)words, found, TYPES);
		for (unsigned int type = 0; type < TYPES; type++)
			bits |= found[type] ? 1u << type : 0;
		assert_int_equal(bits, rows[i].found);
	}
}

TEST(the_last_attribute_of_a_type_counts)
{
	struct av_nl_out out = {0};
	const struct nlattr *found[TYPES];

	av_nl_begin(&out, KIND, 0);
	av_nl_put_u32(&out, 1, 10);
	av_nl_put_u32(&out, 1, 11);
	av_nl_end(&out);
	av_nl_attrs((const void *)out.bytes, found, TYPES);
	assert_int_equal(av_nl_u32(found[1]), 11);
	free(out.bytes);
}

TEST(what_is_written_is_read_again)
{
	struct av_nl_out out = {.port = 77, .seq = 5};
	const struct nlattr *found[TYPES];
	const struct nlmsghdr *message;
	size_t nest, at = 0;

	av_nl_begin(&out, KIND, NLM_F_MULTI);
	av_nl_put_text(&out, 1, "any0");
	nest = av_nl_nest(&out, 2);
	av_nl_put_u8(&out, 1, 9);
	av_nl_put_u64(&out, 3, 1ull << 40);
	av_nl_nest_end(&out, nest);
	av_nl_end(&out);
	message = av_nl_next(out.bytes, out.len, &at);
	assert_non_null(message);
	assert_int_equal(message->nlmsg_type, KIND);
	assert_int_equal(message->nlmsg_flags, NLM_F_MULTI);
	assert_int_equal(message->nlmsg_pid, 77);
	assert_int_equal(message->nlmsg_seq, 5);
	assert_int_equal(at, out.len);
	av_nl_attrs(message, found, TYPES);
	assert_int_equal(av_nl_length(found[1]), 5);
	assert_string_equal(av_nl_payload(found[1]), "any0");
	assert_int_equal(av_nl_length(found[2]), 8 + 12);
	assert_null(found[3]);
	free(out.bytes);
}

TEST(an_error_quotes_its_request)
{
	struct av_nl_out out = {.port = 77}, request = {.port = 77, .seq = 5};
	const struct nlmsgerr *error;
	static const char large[AV_NL_DATAGRAM];

	av_nl_begin(&request, KIND, NLM_F_REQUEST);
	av_nl_put_u32(&request, 1, 10);
	av_nl_end(&request);
	av_nl_result(&out, (const void *)request.bytes, -EINVAL);
	error = NLMSG_DATA((struct nlmsghdr *)(void *)out.bytes);
	assert_int_equal(error->error, -EINVAL);
	assert_memory_equal(&error->msg, request.bytes, request.len);
	assert_int_equal(out.len, NLMSG_HDRLEN + 4 + request.len);

	/* One that has no room is cut to its header, and so is that of a success. */
	av_nl_begin(&request, KIND, NLM_F_REQUEST);
	av_nl_put(&request, 1, large, sizeof(large));
	av_nl_end(&request);
	out.len = 0;
	av_nl_result(&out, (const void *)(request.bytes + request.message), -EINVAL);
	assert_int_equal(out.len, 2 * NLMSG_HDRLEN + 4);
	av_nl_result(&out, (const void *)request.bytes, 0);
	assert_int_equal(out.len, 2 * (2 * NLMSG_HDRLEN + 4));
	free(request.bytes);
	free(out.bytes);
}

TEST(parts_of_a_dump_share_datagrams)
{
	struct av_nl_out out = {0};
	static const char payload[AV_NL_DATAGRAM / 2 - 100];
	const size_t part = NLMSG_HDRLEN + NLA_HDRLEN + sizeof(payload);
	size_t at = 0, len;

	for (int i = 0; i < 3; i++) {
		av_nl_begin(&out, KIND, NLM_F_MULTI);
		av_nl_put(&out, 1, payload, sizeof(payload));
		av_nl_end(&out);
	}
	av_nl_done(&out, 0);
	av_nl_begin(&out, KIND, 0);
	av_nl_end(&out);
	av_nl_begin(&out, KIND, 0);
	av_nl_end(&out);

	len = av_nl_datagram(&out, at);
	assert_int_equal(len, 2 * part);
	at += len;
	len = av_nl_datagram(&out, at);
	assert_int_equal(len, part + NLMSG_HDRLEN + 4);
	at += len;
	assert_int_equal(av_nl_datagram(&out, at), NLMSG_HDRLEN);
	at += NLMSG_HDRLEN;
	assert_int_equal(av_nl_datagram(&out, at), NLMSG_HDRLEN);
	at += NLMSG_HDRLEN;
	assert_int_equal(av_nl_datagram(&out, at), 0);
	free(out.bytes);
}

TEST(what_cannot_be_written_fails_once_and_for_all)
{
	struct av_nl_out out = {0};
	char *large = calloc(1, UINT16_MAX);

	assert_non_null(large);
	av_nl_begin(&out, KIND, 0);
	av_nl_put(&out, 1, large, UINT16_MAX - NLA_HDRLEN);
	assert_false(out.failed);
	av_nl_put(&out, 1, large, UINT16_MAX - NLA_HDRLEN + 1);
	assert_true(out.failed);
	av_nl_put_u32(&out, 1, 1);
	av_nl_end(&out);
	assert_true(out.failed);
	free(large);
	free(out.bytes);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
