/* SPDX-License-Identifier: MIT */
/* A request for which memory runs out is refused once, and with that reason. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cm/cm_address.h"
#include "cm/id.h"
#include "cm_commands_fixture.h"
#include "lib/fail_alloc.h"
#include "lib/unit.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

#define HEADERS 20u /* BTH and DETH */
#define THEIRS	0xfff00001u
#define OURS	0xffe00002u /* of no connection */
#define ENOUGH	100

static int fd, host; /* our channel, where an id listens; the other host's port */
static struct av_net_path back;
static struct av_cm_message m;

static int set_up(void **state)
{
	const struct sockaddr_in any = cm_address("0.0.0.0", 0), at = cm_address("127.0.0.2", 4791);
	const struct timeval patience = {.tv_sec = SOON / 1000};
	struct av_cm_ip ip = {.src_port = 4242};
	struct av_cm_where where;
	uint32_t listener;

	fd = channel(0);
	host = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (setsockopt(host, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    bind(host, (const struct sockaddr *)&at, sizeof(at)) || !av_cm_where_any(false, &where))
		return -1;
	back = (struct av_net_path){.dst = {[10] = 0xff, 0xff, 127, 0, 0, 2}};
	memcpy(back.src, where.gid, sizeof(back.src));
	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &listener), 0);
	assert_int_equal(cm_bind(fd, listener, &any), 0);
	m = (struct av_cm_message){.attribute = AV_CM_REQ, .local_comm_id = THEIRS};
	m.service_id = av_cm_service_id(RDMA_PS_TCP, ntohs(cm_source(fd, listener).sin_port));
	memcpy(ip.src, back.dst, sizeof(ip.src));
	memcpy(ip.dst, back.src, sizeof(ip.dst));
	av_cm_ip_put(&ip, m.private_data);
	return cm_listen(fd, listener, 0);
}

static int tear_down(void **state)
{
	return close(fd) || close(host);
}

/* Reads what has been answered, up to the answer to a message behind. @times: out, of each request
 */
static void count_refusals(unsigned int times[ENOUGH])
{
	const struct av_cm_message behind = {
		.attribute = AV_CM_DREQ, .local_comm_id = THEIRS, .remote_comm_id = OURS};
	uint8_t bytes[HEADERS + AV_MAD_BYTES + AV_ICRC_BYTES];
	struct av_cm_message a;

	av_cm_arrived(&back, &behind);
	for (;;) {
		assert_int_equal(recv(host, bytes, sizeof(bytes), 0), sizeof(bytes));
		assert_true(av_cm_get(&a, bytes + HEADERS, AV_MAD_BYTES));
		if (a.attribute == AV_CM_DREP)
			return;
		assert_int_equal(a.attribute, AV_CM_REJ);
		assert_int_equal(a.reason, AV_CM_NO_RESOURCES);
		assert_in_range(a.transaction, 1, ENOUGH - 1);
		times[a.transaction]++;
	}
}

/* The last allocation is the event's. Without memory for an earlier one there may be no answer. */
TEST_WITH(refused_once, set_up, tear_down)
{
	unsigned int times[ENOUGH] = {0}, nth = 0;
	bool failed;

	do {
		assert_true(++nth < ENOUGH);
		m.transaction = nth;
		fail_alloc_begin(FAIL_ONCE, nth);
		av_cm_arrived(&back, &m);
		failed = fail_alloc_end();
	} while (failed);
	assert_true(cm_pending(fd));
	count_refusals(times);
	for (unsigned int i = 1; i < nth; i++)
		assert_in_range(times[i], 0, 1);
	assert_int_equal(times[nth - 1], 1);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
