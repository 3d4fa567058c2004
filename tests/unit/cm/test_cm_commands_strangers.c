/* SPDX-License-Identifier: MIT */
/*
 * What is answered to messages of connections that are not there, or not with that host, as it
 * comes to the other host's port. Rules: IBTA volume 1, 12.6.7 and 12.9.8.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "cm/cm_address.h"
#include "cm/id.h"
#include "cm_commands_fixture.h"
#include "lib/unit.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

#define HEADERS	    20u /* BTH and DETH */
#define THEIRS	    0xfff00001u
#define OURS	    0xffe00002u /* of no connection */
#define TRANSACTION 0x1234567890ull
#define NOTHING	    0
#define QPN	    77 /* of our end: lib/cm_command.c */

static int fd, host; /* our channel; the other host's port */

static int set_up(void **state)
{
	const struct sockaddr_in any = cm_address("0.0.0.0", 0), at = cm_address("127.0.0.2", 4791);
	const struct timeval patience = {.tv_sec = SOON / 1000};
	uint32_t listener;

	fd = channel(0);
	host = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (setsockopt(host, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    bind(host, (const struct sockaddr *)&at, sizeof(at)))
		return -1;
	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &listener), 0);
	assert_int_equal(cm_bind(fd, listener, &any), 0);
	return cm_listen(fd, listener, 0);
}

static int tear_down(void **state)
{
	return close(fd) || close(host);
}

/* Back to that host of 127.0.0.0/8. */
static struct av_net_path back_to(uint8_t last)
{
	struct av_net_path back = {.dst = {[10] = 0xff, 0xff, 127, 0, 0, last}};
	struct av_cm_where where;

	assert_true(av_cm_where_any(false, &where));
	memcpy(back.src, where.gid, sizeof(where.gid));
	return back;
}

static void arrive(const struct av_cm_message *m)
{
	const struct av_net_path back = back_to(2);

	av_cm_arrived(&back, m);
}

static struct av_cm_message next_message(void)
{
	uint8_t bytes[HEADERS + AV_MAD_BYTES + AV_ICRC_BYTES];
	struct av_cm_message m;

	assert_int_equal(recv(host, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_true(av_cm_get(&m, bytes + HEADERS, AV_MAD_BYTES));
	return m;
}

/* A REP is said again after a while, as long as nobody confirms it. It is none. */
static struct av_cm_message answer(void)
{
	struct av_cm_message m;

	do
		m = next_message();
	while (m.attribute == AV_CM_REP);
	return m;
}

static void forget_messages(void)
{
	char byte;

	while (recv(host, &byte, 1, MSG_DONTWAIT) > 0)
		;
}

static const struct row {
	uint16_t attribute, answer;
	uint8_t about;
	uint16_t reason;
} rows[] = {
	{AV_CM_DREQ, AV_CM_DREP, 0, 0}, {AV_CM_REP, AV_CM_REJ, 1, AV_CM_INVALID_COMM_ID},
	{AV_CM_RTU, NOTHING, 0, 0},	{AV_CM_MRA, NOTHING, 0, 0},
	{AV_CM_REJ, NOTHING, 0, 0},	{AV_CM_DREP, NOTHING, 0, 0},
	{AV_CM_LAP, NOTHING, 0, 0},	{AV_CM_APR, NOTHING, 0, 0},
};

static struct av_cm_message stray(uint16_t attribute)
{
	return (struct av_cm_message){.attribute = attribute,
				      .transaction = TRANSACTION + attribute,
				      .local_comm_id = THEIRS,
				      .remote_comm_id = OURS,
				      .qpn = QPN};
}

/* Where nothing is answered, the next answer is of the message behind it. */
static void one(const struct row *r)
{
	struct av_cm_message m = stray(r->attribute), behind = stray(AV_CM_DREQ), a;

	arrive(&m);
	if (r->answer == NOTHING)
		arrive(&behind);
	a = answer();
	assert_int_equal(a.attribute, r->answer == NOTHING ? AV_CM_DREP : r->answer);
	assert_int_equal(a.transaction,
			 TRANSACTION + (r->answer == NOTHING ? AV_CM_DREQ : r->attribute));
	assert_int_equal(a.local_comm_id, OURS);
	assert_int_equal(a.remote_comm_id, THEIRS);
	assert_int_equal(a.message_rejected, r->about);
	assert_int_equal(a.reason, r->reason);
}

TEST_WITH(no_connection, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		one(&rows[i]);
}

TEST_WITH(no_listener, set_up, tear_down)
{
	static const struct {
		uint16_t attribute, answer, reason;
		uint8_t status;
	} requests[] = {
		{AV_CM_REQ, AV_CM_REJ, AV_CM_INVALID_SERVICE_ID, 0},
		{AV_CM_SIDR_REQ, AV_CM_SIDR_REP, 0, AV_CM_SIDR_UNSUPPORTED},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(requests); i++) {
		struct av_cm_message m = stray(requests[i].attribute), a;

		m.service_id = av_cm_service_id(RDMA_PS_UDP, 1);
		arrive(&m);
		a = answer();
		assert_int_equal(a.attribute, requests[i].answer);
		assert_int_equal(a.transaction, m.transaction);
		assert_int_equal(a.message_rejected, 0);
		assert_int_equal(a.reason, requests[i].reason);
		assert_int_equal(a.status, requests[i].status);
	}
}

/* --- one that is there -------------------------------------------------------------------- */

/* What that host asks for, each time anew: a connection to a listener of ours. */
static struct av_cm_message request(void)
{
	static uint64_t times;
	uint32_t listener;
	struct sockaddr_in at = cm_address("127.0.0.1", 0);
	struct av_cm_message m = stray(AV_CM_REQ);
	const struct av_net_path back = back_to(2);
	struct av_cm_ip ip = {.src_port = 4242};

	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &listener), 0);
	assert_int_equal(cm_bind(fd, listener, &at), 0);
	at = cm_source(fd, listener);
	assert_int_equal(cm_listen(fd, listener, 0), 0);
	memcpy(ip.src, back.dst, sizeof(ip.src));
	memcpy(ip.dst, back.src, sizeof(ip.dst));
	av_cm_ip_put(&ip, m.private_data);
	m.service_id = av_cm_service_id(RDMA_PS_TCP, ntohs(at.sin_port));
	m.transaction += ++times << 32;
	m.remote_comm_id = 0;
	m.path_mtu = IBV_MTU_1024;
	return m;
}

/* Return: the connection's number here */
static uint32_t expect_reply(void)
{
	struct av_cm_message a = next_message();

	assert_int_equal(a.attribute, AV_CM_REP);
	assert_int_equal(a.remote_comm_id, THEIRS);
	return a.local_comm_id;
}

static void confirm(uint32_t comm)
{
	struct av_cm_message m = stray(AV_CM_RTU);

	m.remote_comm_id = comm;
	arrive(&m);
	(void)heard(fd, CM_ESTABLISHED);
}

/* Come to where REP is sent. Return: the connection's number here */
static uint32_t accept_it(uint32_t *id)
{
	const struct av_cm_message m = request();

	arrive(&m);
	*id = heard(fd, CM_CONNECT_REQUEST).id;
	assert_int_equal(cm_accept(fd, *id, 1, "", 0), 0);
	return expect_reply();
}

static uint32_t connect_it(uint32_t *id)
{
	uint32_t comm = accept_it(id);

	confirm(comm);
	return comm;
}

static void part(uint32_t id, uint32_t comm)
{
	struct av_cm_message m = stray(AV_CM_DREQ);

	m.remote_comm_id = comm;
	arrive(&m);
	(void)heard(fd, CM_DISCONNECTED);
	assert_int_equal(cm_disconnect(fd, id), 0);
	assert_int_equal(answer().attribute, AV_CM_DREP);
}

/* Fetch all events, of which one may come with time. Return: was one a request? */
static bool is_asked(void)
{
	struct rdma_ucm_event_resp e;
	bool ret = false;

	while (cm_pending(fd)) {
		assert_int_equal(cm_next(fd, &e), 0);
		ret = ret || e.event == CM_CONNECT_REQUEST;
	}
	return ret;
}

/* A request that comes again: wait, or what was answered before. IBTA volume 1, 12.9.8.3 */
TEST_WITH(requested_again, set_up, tear_down)
{
	const struct av_cm_message m = request();
	struct av_cm_message a;
	uint32_t id, comm;

	arrive(&m);
	id = heard(fd, CM_CONNECT_REQUEST).id;
	arrive(&m);
	a = answer();
	assert_int_equal(a.attribute, AV_CM_MRA);
	assert_int_equal(a.remote_comm_id, THEIRS);
	assert_int_equal(a.message_mraed, 0);
	assert_int_equal(a.service_timeout, 20);
	assert_int_equal(cm_accept(fd, id, 1, "", 0), 0);
	comm = expect_reply();
	arrive(&m);
	assert_int_equal(expect_reply(), comm);
	confirm(comm);
	forget_messages();
	arrive(&m);
	assert_int_equal(expect_reply(), comm);
	part(id, comm);
	arrive(&m); /* too late */
	assert_false(is_asked());
}

/* Programs let peers in by the address that they ask from: it is that of their packets. */
TEST_WITH(from_another_address, set_up, tear_down)
{
	struct av_cm_message m = request(), a;
	struct av_cm_ip ip;

	assert_true(av_cm_ip_get(&ip, m.private_data));
	ip.src[15]++;
	av_cm_ip_put(&ip, m.private_data);
	arrive(&m);
	a = answer();
	assert_int_equal(a.attribute, AV_CM_REJ);
	assert_int_equal(a.reason, AV_CM_NO_RESOURCES);
	assert_false(cm_pending(fd));
}

/* Only this host may call itself by an address that stands for any. */
TEST_WITH(to_loopback, set_up, tear_down)
{
	static const uint8_t any[][16] = {
		{[10] = 0xff, 0xff, 127, 0, 0, 1}, {[10] = 0xff, 0xff, 0, 0, 0, 0}, {[15] = 1}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(any); i++) {
		struct av_cm_message m = request(), a;
		struct av_cm_ip ip;

		assert_true(av_cm_ip_get(&ip, m.private_data));
		ip.v6 = any[i][15] == 1 && any[i][10] == 0;
		memcpy(ip.dst, any[i], sizeof(ip.dst));
		av_cm_ip_put(&ip, m.private_data);
		arrive(&m);
		a = answer();
		assert_int_equal(a.attribute, AV_CM_REJ);
		assert_false(cm_pending(fd));
	}
}

/* Another host, and another number of that host's, have nothing to do with it. */
TEST_WITH(not_theirs, set_up, tear_down)
{
	const struct av_net_path elsewhere = back_to(3);
	struct av_cm_message m = stray(AV_CM_DREQ), a;
	uint32_t id;

	m.remote_comm_id = connect_it(&id);
	av_cm_arrived(&elsewhere, &m);
	assert_false(cm_pending(fd));
	m.local_comm_id = THEIRS + 1;
	arrive(&m);
	a = answer();
	assert_int_equal(a.attribute, AV_CM_DREP);
	assert_int_equal(a.remote_comm_id, THEIRS + 1);
	assert_false(cm_pending(fd));
	part(id, m.remote_comm_id);
}

/* Whoever ends a connection knows our queue pair: IBTA volume 1, 12.6.11. */
TEST_WITH(another_queue_pair, set_up, tear_down)
{
	struct av_cm_message m = stray(AV_CM_DREQ);
	uint32_t id;

	m.remote_comm_id = connect_it(&id);
	m.qpn = QPN + 1;
	arrive(&m);
	assert_false(cm_pending(fd));
	part(id, m.remote_comm_id);
}

/* Who has never heard of this end refuses it without a number of its own, and does nothing else. */
TEST_WITH(without_a_number, set_up, tear_down)
{
	const struct av_cm_message m = request();
	struct av_cm_message without = stray(AV_CM_DREQ);
	uint32_t id;

	arrive(&m);
	id = heard(fd, CM_CONNECT_REQUEST).id;
	assert_int_equal(cm_accept(fd, id, 1, "", 0), 0);
	without.remote_comm_id = expect_reply();
	without.local_comm_id = 0;
	arrive(&without);
	assert_int_equal(answer().attribute, AV_CM_DREP);
	assert_false(cm_pending(fd));
	without.attribute = AV_CM_REJ;
	without.reason = AV_CM_INVALID_COMM_ID;
	arrive(&without);
	assert_int_equal(heard(fd, CM_REJECTED).status, AV_CM_INVALID_COMM_ID);
}

/*
 * A refusal of a request that was sent twice may come when its second copy has been accepted.
 * Source: Linux, cm_acquire_rejected_id().
 */
TEST_WITH(late_refusal, set_up, tear_down)
{
	struct av_cm_message late = stray(AV_CM_REJ);
	uint32_t id;

	late.local_comm_id = 0;
	late.remote_comm_id = connect_it(&id);
	late.reason = AV_CM_INVALID_SERVICE_ID;
	arrive(&late);
	assert_false(cm_pending(fd));
	part(id, late.remote_comm_id);
}

/* There are no other paths: IBTA volume 1, 12.8.2 */
TEST_WITH(another_path, set_up, tear_down)
{
	struct av_cm_message m = stray(AV_CM_LAP), a;
	uint32_t id;

	m.remote_comm_id = connect_it(&id);
	arrive(&m);
	a = answer();
	assert_int_equal(a.attribute, AV_CM_APR);
	assert_int_equal(a.transaction, m.transaction);
	assert_int_equal(a.local_comm_id, m.remote_comm_id);
	assert_int_equal(a.remote_comm_id, THEIRS);
	assert_int_equal(a.status, 2);
	part(id, a.local_comm_id);
}

/* --- ends ---------------------------------------------------------------------------------- */

/* Who is not established takes no DREQ: Linux, cm_destroy_id() in IB_CM_REP_SENT. */
TEST_WITH(destroyed_before_rtu, set_up, tear_down)
{
	struct av_cm_message a;
	uint32_t id, comm = accept_it(&id);

	assert_true(cm_destroy(fd, id) >= 0);
	a = answer();
	assert_int_equal(a.attribute, AV_CM_REJ);
	assert_int_equal(a.local_comm_id, comm);
	assert_int_equal(a.remote_comm_id, THEIRS);
	assert_int_equal(a.message_rejected, 2);
	assert_int_equal(a.reason, AV_CM_CONSUMER);
	assert_int_equal(a.info_bytes, 0);
}

/* Nothing is said, and the connection comes about: Linux, cm_send_dreq_locked(). */
TEST_WITH(disconnected_before_rtu, set_up, tear_down)
{
	uint32_t id, comm = accept_it(&id);

	assert_int_equal(cm_disconnect(fd, id), 0);
	confirm(comm);
	part(id, comm);
}

/*
 * Who gives up its request tells so to a peer that may not have answered: Linux looks for the
 * connection by the GUID of who has begun it, cm_acquire_rejected_id().
 */
TEST_WITH(given_up, set_up, tear_down)
{
	const uint8_t guid[] = {1, 2, 3, 4, 5, 6, 7, 8};
	const struct av_cm_route route = {.path = back_to(2)};
	const struct av_cm_message m = {.attribute = AV_CM_REQ, .ca_guid = 0x0102030405060708};
	struct av_cm_conn *c;
	struct av_cm_message a;

	av_cm_lock();
	c = av_cm_conn_new(NULL, AV_CM_REQ_SENT, &route, NULL);
	assert_non_null(c);
	assert_int_equal(av_cm_conn_send(c, &m), 0);
	av_cm_conn_abandon(c);
	av_cm_unlock();
	assert_int_equal(answer().attribute, AV_CM_REQ);
	a = answer();
	assert_int_equal(a.attribute, AV_CM_REJ);
	assert_int_equal(a.reason, AV_CM_TIMEOUT);
	assert_int_equal(a.info_bytes, sizeof(guid));
	assert_memory_equal(a.info, guid, sizeof(guid));
}

/* It is asked seven times. */
TEST_WITH(unanswered, set_up, tear_down)
{
	struct rdma_ucm_event_resp event;
	uint32_t id;

	(void)connect_it(&id);
	assert_int_equal(cm_disconnect(fd, id), 0);
	assert_int_equal(cm_expect(fd, 6 * SOON, CM_DISCONNECTED, &event), 0);
	assert_int_equal((int)event.status, -ETIMEDOUT);
	assert_int_equal(event.param.conn.private_data_len, 0);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
