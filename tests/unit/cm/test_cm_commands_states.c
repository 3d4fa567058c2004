/* SPDX-License-Identifier: MIT */
/*
 * Which command an id takes in which state. Rules: Linux, drivers/infiniband/core/cma.c and cm.c;
 * the manual's pages rdma_*(3).
 */
#include <errno.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "observe/check.h"
#include "observe/flight.h"

static int do_bind(const struct ends *e, struct end x)
{
	struct sockaddr_in any = device_address(0);

	return cm_bind(x.fd, x.id, &any);
}

static int do_resolve(const struct ends *e, struct end x)
{
	return cm_resolve(x.fd, x.id, &e->at);
}

static int do_route(const struct ends *e, struct end x)
{
	return cm_resolve_route(x.fd, x.id);
}

static int do_listen(const struct ends *e, struct end x)
{
	return cm_listen(x.fd, x.id, 0);
}

static int do_connect(const struct ends *e, struct end x)
{
	return cm_connect(x.fd, x.id, "", 0);
}

static int do_accept(const struct ends *e, struct end x)
{
	return cm_accept(x.fd, x.id, 9, "", 0);
}

static int do_ready(const struct ends *e, struct end x)
{
	return cm_ready(x.fd, x.id);
}

static int do_reject(const struct ends *e, struct end x)
{
	return cm_reject(x.fd, x.id, 0, "", 0);
}

static int do_disconnect(const struct ends *e, struct end x)
{
	return cm_disconnect(x.fd, x.id);
}

static int do_notify(const struct ends *e, struct end x)
{
	struct rdma_ucm_notify c = {.id = x.id, .event = IBV_EVENT_COMM_EST};

	return cm_do(x.fd, RDMA_USER_CM_CMD_NOTIFY, &c, sizeof(c), 0);
}

static int do_query_attr(struct end x, enum ibv_qp_state state)
{
	struct ib_uverbs_qp_attr answer;

	return end_attr(x, state, &answer);
}

static int do_init(const struct ends *e, struct end x)
{
	return do_query_attr(x, IBV_QPS_INIT);
}

static int do_rtr(const struct ends *e, struct end x)
{
	return do_query_attr(x, IBV_QPS_RTR);
}

static int do_rts(const struct ends *e, struct end x)
{
	return do_query_attr(x, IBV_QPS_RTS);
}

static int do_group(const struct ends *e, struct end x)
{
	struct sockaddr_in group = cm_address("239.1.1.1", 0);
	struct rdma_ucm_create_id_resp answer;
	struct rdma_ucm_join_mcast c = {
		.response = (uintptr_t)&answer, .id = x.id, .addr_size = sizeof(group)};

	memcpy(&c.addr, &group, sizeof(group));
	return cm_do(x.fd, RDMA_USER_CM_CMD_JOIN_MCAST, &c, sizeof(c), sizeof(answer));
}

static int do_afonly(const struct ends *e, struct end x)
{
	const int yes = 1;

	return cm_option(x.fd, x.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes));
}

static int do_reuse(struct end x, int reuse)
{
	return cm_option(x.fd, x.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse,
			 sizeof(reuse));
}

static int do_share(const struct ends *e, struct end x)
{
	return do_reuse(x, 1);
}

static int do_unshare(const struct ends *e, struct end x)
{
	return do_reuse(x, 0);
}

static int do_service(const struct ends *e, struct end x)
{
	return cm_resolve_service(x.fd, x.id);
}

static int do_tell(const struct ends *e, struct end x)
{
	return cm_write_event(x.fd, x.id, CM_USER, 0, 0);
}

static int do_destroy(const struct ends *e, struct end x)
{
	int ret = cm_destroy(x.fd, x.id);

	return ret < 0 ? ret : 0;
}

/* The letters of the rows below, in order. */
static int (*const commands[])(const struct ends *e, struct end x) = {
	do_bind,   do_resolve,	  do_route,   do_listen,  do_connect, do_accept,  do_ready,
	do_reject, do_disconnect, do_notify,  do_init,	  do_rtr,     do_rts,	  do_group,
	do_afonly, do_share,	  do_unshare, do_service, do_tell,    do_destroy,
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

/* y: carried out; -: EINVAL; c: EISCONN; o: EOPNOTSUPP; x: ENXIO */
static const struct row {
	enum stage stage;
	const char *name, *takes;
} rows[] = {
	/*                                brolcAardnITSgfsuSed */
	{IDLE, "idle", "yy-y----------yyy-yy"},
	{BOUND, "bound", "-y-y------y---yy-oyy"},
	{RESOLVED, "address resolved", "--y-------y----y--yy"},
	{ROUTED, "route resolved", "----y-----y----y--yy"},
	{LISTENING, "listens", "----------y-------yy"},
	{REQUESTING, "REQ sent", "-------yy-y----y--yy"},
	{REQUESTED, "REQ received", "-----y-yy-yyy--y---y"},
	{ACCEPTED, "REP sent", "-------yyyyyy--y--yy"},
	{ANSWERED, "REP received", "------yyy-yyy--y--yy"},
	{CONNECTED, "established", "--------ycyyy--y--yy"},
	{ESTABLISHED, "established, passive", "--------ycyyy--y--yy"},
	{LEAVING, "DREQ sent", "--------y------y--yy"},
	{LEFT, "DREQ received", "--------y------y--yy"},
	{DISCONNECTED, "DREP received", "--------y------y--yy"},
	{REMOVED, "device gone", "xxxxxxxxxxxxxxxxxxxy"},
};

static int wanted(char letter)
{
	switch (letter) {
	case 'y':
		return 0;
	case 'c':
		return -EISCONN;
	case 'o':
		return -EOPNOTSUPP;
	case 'x':
		return -ENXIO;
	default:
		return -EINVAL;
	}
}

/* The record names other states than the one that the id is in. */
static void is_explained(const struct row *row, size_t command)
{
	const struct av_flight_record r = last_refusal();

	if (r.check != AV_CHECK_CM_STATE || !r.limit)
		fail_msg("%s, command %zu: check %u", row->name, command, r.check);
	assert_true(r.wanted < AV_CM_PHASE_N);
	assert_false(r.limit >> r.wanted & 1);
}

TEST(each_state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (size_t k = 0; k < COMMANDS; k++) {
			const struct row *r = &rows[i];
			struct ends e;
			struct end x;
			int ret;

			ends_open(&e);
			x = ends_come_to(&e, r->stage);
			ret = commands[k](&e, x);
			if (ret != wanted(r->takes[k]))
				print_message("%s, command %zu: %d\n", r->name, k, ret);
			assert_int_equal(ret, wanted(r->takes[k]));
			if (ret == -EINVAL && commands[k] != do_group)
				is_explained(r, k);
			ends_close(&e);
		}
}

static const struct {
	enum stage stage;
	int (*command)(const struct ends *e, struct end x);
	const char *text;
} sentences[] = {
	{RESOLVED, do_resolve, "ADDR_RESOLVED; this needs IDLE or ADDR_BOUND"},
	{RESOLVED, do_bind, "ADDR_RESOLVED; this needs IDLE"},
	{IDLE, do_route, "IDLE; this needs ADDR_RESOLVED"},
	{BOUND, do_connect, "ADDR_BOUND; this needs ROUTE_RESOLVED"},
	{REQUESTED, do_listen, "REQ_RECEIVED; this needs IDLE or ADDR_BOUND"},
	{CONNECTED, do_accept, "ESTABLISHED; this needs REQ_RECEIVED"},
	{LISTENING, do_accept, "LISTEN; this needs REQ_RECEIVED or REP_RECEIVED"},
	{REQUESTED, do_ready, "REQ_RECEIVED; this needs REP_RECEIVED"},
	{DISCONNECTED, do_rtr,
	 "DISCONNECTED; this needs REQ_RECEIVED or REP_SENT or REP_RECEIVED or ESTABLISHED"},
};

/* In words: which state it is in, and which one the command wants. */
TEST(what_is_said)
{
	for (size_t i = 0; i < sizeof(sentences) / sizeof(*sentences); i++) {
		struct av_flight_record r;
		char text[AV_EXPLAIN_MAX];
		struct ends e;
		struct end x;

		ends_open(&e);
		x = ends_come_to(&e, sentences[i].stage);
		assert_int_equal(sentences[i].command(&e, x), -EINVAL);
		r = last_refusal();
		(void)av_explain(&r, text);
		if (!strstr(text, sentences[i].text))
			fail_msg("%s: %s", sentences[i].text, text);
		ends_close(&e);
	}
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
