/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a program's datagram on a NETLINK_RDMA socket. Whatever is asked, the answers are
 * sound messages to the program's port, each small enough for a page, in datagrams that cover them
 * all; and what wants a result gets one.
 */
#include <stdlib.h>
#include <string.h>

#include "host/hooks.h"
#include "lib/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PORT 4711u

/* The kernel has no devices here. */
bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out)
{
	return false;
}

/* Return: how many messages */
static unsigned int check_messages(const struct av_nl_out *out)
{
	const struct nlmsghdr *message;
	unsigned int count = 0;
	size_t at = 0;

	while ((message = av_nl_next(out->bytes, out->len, &at))) {
		CHECK(message->nlmsg_pid == PORT && message->nlmsg_len <= AV_NL_DATAGRAM);
		count++;
	}
	CHECK(at == out->len);
	return count;
}

static void check_datagrams(const struct av_nl_out *out)
{
	size_t at = 0, len;

	while ((len = av_nl_datagram(out, at))) {
		CHECK(len <= AV_NL_DATAGRAM);
		at += len;
	}
	CHECK(at == out->len);
}

/* Requests that want a result, or are a dump, which has an end. */
static unsigned int count_wanted(const void *datagram, size_t size)
{
	const struct nlmsghdr *request;
	unsigned int count = 0;
	size_t at = 0;

	while ((request = av_nl_next(datagram, size, &at)))
		count += (request->nlmsg_flags & NLM_F_ACK) != 0;
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct av_nl_out out = {.port = PORT};
	void *datagram = malloc(size + 1); /* aligned, and no byte longer than it is */

	CHECK(datagram != NULL);
	memcpy(datagram, data, size);
	av_netlink_answer(datagram, size, &out);
	CHECK(!out.failed);
	CHECK(check_messages(&out) >= count_wanted(datagram, size));
	check_datagrams(&out);
	free(datagram);
	free(out.bytes);
	return 0;
}
