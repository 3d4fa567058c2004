/* SPDX-License-Identifier: MIT */
/*
 * A request that comes again is the same one; one that another process sends under the same number
 * is not, even while the connection of the former is there. IBTA volume 1, 12.9.8.3.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm/cm_address.h"
#include "cm/id.h"
#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "wire/cm_message.h"

#define NUMBER 0xfff00001u /* of the peer's end */

static const struct sockaddr_in any = {.sin_family = AF_INET};

/* To an address where nobody answers. */
static struct av_net_path back_path(void)
{
	struct av_cm_where where;
	struct av_net_path back = {.dst = {[10] = 0xff, 0xff, 127, 0, 0, 2}};

	assert_true(av_cm_where_any(false, &where));
	memcpy(back.src, where.gid, sizeof(where.gid));
	return back;
}

static void request(uint16_t attribute, uint16_t ps, uint16_t port, uint64_t transaction)
{
	const struct av_net_path back = back_path();
	struct av_cm_ip ip = {.src_port = 4242};
	struct av_cm_message m = {
		.attribute = attribute,
		.transaction = transaction,
		.local_comm_id = NUMBER,
		.service_id = av_cm_service_id(ps, port),
		.qpn = 77,
		.path_mtu = IBV_MTU_1024,
	};

	memcpy(ip.src, back.dst, sizeof(ip.src));
	memcpy(ip.dst, back.src, sizeof(ip.dst));
	av_cm_ip_put(&ip, m.private_data);
	av_cm_arrived(&back, &m);
}

/* Return: the port */
static uint16_t listen_at_any(int fd, uint16_t ps)
{
	uint32_t listener;
	uint16_t port;

	assert_int_equal(cm_create(fd, 1, ps, &listener), 0);
	assert_int_equal(cm_bind(fd, listener, &any), 0);
	port = ntohs(cm_source(fd, listener).sin_port);
	assert_int_equal(cm_listen(fd, listener, 0), 0);
	return port;
}

/* Each transaction is one request; @attribute, in the port space @ps. */
static void each_once(uint16_t attribute, uint16_t ps)
{
	int fd = channel(0);
	uint32_t first, second;
	uint16_t port;

	port = listen_at_any(fd, ps);

	request(attribute, ps, port, 100);
	request(attribute, ps, port, 100);
	first = heard(fd, CM_CONNECT_REQUEST).id;
	request(attribute, ps, port, 100);
	assert_false(cm_pending(fd));

	assert_int_equal(cm_accept(fd, first, 1, "", 0), 0);
	request(attribute, ps, port, 100);
	assert_false(cm_pending(fd));
	request(attribute, ps, port, 200);
	second = heard(fd, CM_CONNECT_REQUEST).id;
	assert_int_not_equal(first, second);
	request(attribute, ps, port, 200);
	assert_false(cm_pending(fd));
	assert_int_equal(close(fd), 0);
}

TEST(connections)
{
	each_once(AV_CM_REQ, RDMA_PS_TCP);
}

TEST(datagrams)
{
	each_once(AV_CM_SIDR_REQ, RDMA_PS_UDP);
}

/* What was said of a service cannot be taken back. */
TEST(accepted_and_refused)
{
	int fd = channel(0);
	uint16_t port;
	uint32_t id;

	port = listen_at_any(fd, RDMA_PS_UDP);
	request(AV_CM_SIDR_REQ, RDMA_PS_UDP, port, 500);
	id = heard(fd, CM_CONNECT_REQUEST).id;
	assert_int_equal(cm_accept(fd, id, 1, "", 0), 0);
	assert_int_equal(cm_accept(fd, id, 1, "", 0), -EINVAL);
	assert_int_equal(cm_reject(fd, id, 0, "", 0), -EINVAL);
	assert_int_equal(close(fd), 0);
}

/* Who takes a request back before it was answered means the last one. */
TEST(taken_back)
{
	const struct av_net_path back = back_path();
	struct av_cm_message m = {.attribute = AV_CM_REJ, .local_comm_id = NUMBER, .reason = 4};
	uint32_t first, second;
	int fd = channel(0);
	uint16_t port;

	port = listen_at_any(fd, RDMA_PS_TCP);
	request(AV_CM_REQ, RDMA_PS_TCP, port, 300);
	first = heard(fd, CM_CONNECT_REQUEST).id;
	request(AV_CM_REQ, RDMA_PS_TCP, port, 400);
	second = heard(fd, CM_CONNECT_REQUEST).id;
	av_cm_arrived(&back, &m);
	assert_int_equal(cm_accept(fd, second, 1, "", 0), -EINVAL);
	assert_int_equal(cm_accept(fd, first, 1, "", 0), 0);
	assert_int_equal(close(fd), 0);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
