/* SPDX-License-Identifier: MIT */
/*
 * A table of commands. What names a device of ours is answered here, and what names another one by
 * the kernel; a dump of all devices has ours first, then the kernel's. What cannot be understood
 * gets the kernel's errors. Source: drivers/infiniband/core/netlink.c and nldev.c as they behave.
 */
#include "preload/netlink_answer.h"

#include <errno.h>

#include "preload/netlink_hooks.h"
#include "preload/netlink_resource.h"

enum needs {
	NEEDS_PORT = 1,
	ALL_DEVICES = 2, /* its dump is of all devices, whatever it names */
};

typedef int writer(const struct av_nldev_request *r, struct av_nl_out *out);

/* Those of a port, or of an object of the kind that it names. */
static int statistics(const struct av_nldev_request *r, struct av_nl_out *out)
{
	return r->attr[RDMA_NLDEV_ATTR_STAT_RES] ? av_nldev_object_counters(r, out)
						 : av_nldev_counters(r, out);
}

/* A request for one thing, or for a dump. NULL: there is no such request */
static const struct command {
	writer *one, *dump;
	unsigned int needs; /* bits of enum needs */
} commands[RDMA_NLDEV_NUM_OPS] = {
	[RDMA_NLDEV_CMD_GET] = {av_nldev_device, av_nldev_devices, ALL_DEVICES},
	[RDMA_NLDEV_CMD_PORT_GET] = {av_nldev_port, av_nldev_ports, NEEDS_PORT},
	[RDMA_NLDEV_CMD_SYS_GET] = {av_nldev_system, NULL, 0},
	[RDMA_NLDEV_CMD_GET_CHARDEV] = {av_nldev_chardev, NULL, 0},
	[RDMA_NLDEV_CMD_RES_GET] = {av_nldev_summary, av_nldev_summaries, ALL_DEVICES},
	[RDMA_NLDEV_CMD_RES_QP_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_CQ_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_MR_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_PD_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_CTX_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = {av_nldev_resource, av_nldev_resources, 0},
	[RDMA_NLDEV_CMD_STAT_GET] = {statistics, av_nldev_object_counters, 0},
};

/* --- understanding ----------------------------------------------------------------- */

static const struct command *command_of(const struct av_nldev_request *r)
{
	const struct command *c = r->command < RDMA_NLDEV_NUM_OPS ? &commands[r->command] : NULL;

	return c && (av_nldev_is_dump(r) ? c->dump : c->one) ? c : NULL;
}

/* --- answering --------------------------------------------------------------------- */

/* Add the result of a request that is carried out, as the kernel does for all kinds of netlink. */
static void say(const struct nlmsghdr *request, int result, struct av_nl_out *out)
{
	if (result || (request->nlmsg_flags & NLM_F_ACK))
		av_nl_result(out, request, result);
}

static int check_nldev_port(const struct av_nldev_request *r, const struct command *c)
{
	const struct nlattr *port = r->attr[RDMA_NLDEV_ATTR_PORT_INDEX];

	if (port ? !r->dev || !av_nl_u32(port) || av_nl_u32(port) > r->dev->attr.phys_port_cnt
		 : (c->needs & NEEDS_PORT) && !av_nldev_is_dump(r))
		return -EINVAL;
	return 0;
}

/* A dump reports its errors at its end. */
static void dump_ours(const struct av_nldev_request *r, const struct command *c,
		      struct av_nl_out *out)
{
	int result = check_nldev_port(r, c);

	av_nl_done(out, result ? result : c->dump(r, out));
}

static void answer_ours(const struct av_nldev_request *r, const struct command *c,
			struct av_nl_out *out)
{
	int result = c ? check_nldev_port(r, c) : -EOPNOTSUPP;

	if (c && av_nldev_is_dump(r))
		dump_ours(r, c, out);
	else
		say(r->header, result || !c ? result : c->one(r, out), out);
}

/* The connection manager's node is ours, whatever devices the kernel has. */
static bool is_of_cm(const struct av_nldev_request *r, const struct command *c,
		     struct av_nl_out *out)
{
	if (!c || c->one != av_nldev_chardev || av_nldev_is_dump(r) || c->one(r, out))
		return false;
	say(r->header, 0, out);
	return true;
}

/* A request that names no device of ours. */
static void answer_others(const struct av_nldev_request *r, const struct command *c,
			  struct av_nl_out *out)
{
	if (c && av_nldev_is_dump(r) && (c->needs & ALL_DEVICES)) {
		(void)c->dump(r, out);
		if (!av_netlink_ask_kernel(r->header, out))
			av_nl_done(out, 0);
		return;
	}
	if (is_of_cm(r, c, out) || av_netlink_ask_kernel(r->header, out))
		return;
	if (c && av_nldev_is_dump(r))
		av_nl_done(out, -EINVAL);
	else if (c && (c->one == av_nldev_system || c->one == av_nldev_chardev))
		say(r->header, c->one(r, out), out);
	else
		say(r->header, c ? -EINVAL : -EOPNOTSUPP, out); /* of nobody's device, or none */
}

static void answer_nldev(const struct nlmsghdr *request, struct av_nl_out *out)
{
	struct av_nldev_request r;
	const struct command *c;
	int result = av_nldev_parse(request, &r);

	if (result) {
		say(request, result, out);
		return;
	}
	c = command_of(&r);
	if (r.dev && !(c && av_nldev_is_dump(&r) && (c->needs & ALL_DEVICES)))
		answer_ours(&r, c, out);
	else
		answer_others(&r, c, out);
}

static void answer_one(const struct nlmsghdr *request, struct av_nl_out *out)
{
	out->seq = request->nlmsg_seq;
	if (!(request->nlmsg_flags & NLM_F_REQUEST) || request->nlmsg_type < NLMSG_MIN_TYPE)
		say(request, 0, out);
	else if (RDMA_NL_GET_CLIENT(request->nlmsg_type) == RDMA_NL_NLDEV)
		answer_nldev(request, out);
	else if (!av_netlink_ask_kernel(request, out))
		say(request, -EINVAL, out);
}

void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out)
{
	const struct nlmsghdr *request;
	size_t at = 0;

	while ((request = av_nl_next(datagram, len, &at)))
		answer_one(request, out);
}
