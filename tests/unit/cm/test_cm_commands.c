/* SPDX-License-Identifier: MIT */
/*
 * The form of each command of <rdma/rdma_user_cm.h>: its lengths, where its answer goes, whose id
 * it names, and how much private data it brings. Rules: Linux, drivers/infiniband/core/ucma.c.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

#define NOBODY	  60000u /* an id that there is not */
#define NONE	  SIZE_MAX
#define UID	  5
#define BODY_MAX  800
#define WANTED(e) (sizeof(e) - sizeof((e).reserved) - sizeof((e).ece))

enum { PLAIN, OF_GROUP, OF_CHANNEL };

static const struct form {
	const char *name;
	uint32_t command;
	size_t least, out, response_at, id_at;
	int kind;
} forms[] = {
#define FORM(cmd, type, least, out, response, id, kind)                      \
	{                                                                    \
#cmd, RDMA_USER_CM_CMD_##cmd, least, out, response, id, kind \
	}
#define AT(type, member) offsetof(struct rdma_ucm_##type, member)
#define SILENT(cmd, type) \
	FORM(cmd, type, sizeof(struct rdma_ucm_##type), 0, NONE, AT(type, id), PLAIN)
#define ANSWERED_BY(cmd, type, out, kind) \
	FORM(cmd, type, sizeof(struct rdma_ucm_##type), out, AT(type, response), AT(type, id), kind)
	FORM(CREATE_ID, create_id, sizeof(struct rdma_ucm_create_id), 4, AT(create_id, response),
	     NONE, PLAIN),
	ANSWERED_BY(DESTROY_ID, destroy_id, 4, PLAIN),
	SILENT(BIND_IP, bind_ip),
	SILENT(RESOLVE_IP, resolve_ip),
	SILENT(RESOLVE_ROUTE, resolve_route),
	ANSWERED_BY(QUERY_ROUTE, query, AT(query_route_resp, ibdev_index), PLAIN),
	FORM(CONNECT, connect, AT(connect, ece), 0, NONE, AT(connect, id), PLAIN),
	SILENT(LISTEN, listen),
	FORM(ACCEPT, accept, AT(accept, ece), 0, NONE, AT(accept, id), PLAIN),
	SILENT(REJECT, reject),
	SILENT(DISCONNECT, disconnect),
	ANSWERED_BY(INIT_QP_ATTR, init_qp_attr, sizeof(struct ib_uverbs_qp_attr), PLAIN),
	FORM(GET_EVENT, get_event, sizeof(struct rdma_ucm_get_event),
	     WANTED((struct rdma_ucm_event_resp){0}), AT(get_event, response), NONE, PLAIN),
	SILENT(SET_OPTION, set_option),
	SILENT(NOTIFY, notify),
	ANSWERED_BY(JOIN_IP_MCAST, join_ip_mcast, 4, PLAIN),
	ANSWERED_BY(LEAVE_MCAST, destroy_id, 4, OF_GROUP),
	ANSWERED_BY(MIGRATE_ID, migrate_id, 4, OF_CHANNEL),
	ANSWERED_BY(QUERY, query, AT(query_addr_resp, ibdev_index), PLAIN),
	SILENT(BIND, bind),
	SILENT(RESOLVE_ADDR, resolve_addr),
	ANSWERED_BY(JOIN_MCAST, join_mcast, 4, PLAIN),
	{"RESOLVE_IB_SERVICE", CM_CMD_RESOLVE_IB_SERVICE, CM_RESOLVE_SERVICE_BYTES, 0, NONE, 0,
	 PLAIN},
	{"WRITE_CM_EVENT", CM_CMD_WRITE_EVENT, CM_WRITE_EVENT_BYTES, 0, NONE, 0, PLAIN},
};
#define FORMS (sizeof(forms) / sizeof(*forms))

/* A body in which nothing is wrong. */
struct body {
	_Alignas(8) uint8_t bytes[BODY_MAX], answer[BODY_MAX];
};

static void fill_addresses(const struct form *f, struct body *b)
{
	const struct sockaddr_in own = device_address(0), group = cm_address("239.1.1.1", 0);

	switch (f->command) {
	case RDMA_USER_CM_CMD_BIND:
		memcpy(b->bytes + AT(bind, addr_size), &(uint16_t){sizeof(own)}, 2);
		memcpy(b->bytes + AT(bind, addr), &own, sizeof(own));
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		memcpy(b->bytes + AT(resolve_addr, dst_size), &(uint16_t){sizeof(own)}, 2);
		memcpy(b->bytes + AT(resolve_addr, dst_addr), &own, sizeof(own));
		break;
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		memcpy(b->bytes + AT(join_ip_mcast, addr), &group, sizeof(group));
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		memcpy(b->bytes + AT(join_mcast, addr_size), &(uint16_t){sizeof(group)}, 2);
		memcpy(b->bytes + AT(join_mcast, addr), &group, sizeof(group));
		break;
	case RDMA_USER_CM_CMD_CREATE_ID:
		memcpy(b->bytes + AT(create_id, ps), &(uint16_t){RDMA_PS_TCP}, 2);
		break;
	case CM_CMD_WRITE_EVENT:
		memcpy(b->bytes + CM_WRITE_EVENT_KIND_AT, &(uint32_t){CM_USER}, 4);
		break;
	default:
		break;
	}
}

static void fill(const struct form *f, struct body *b, int fd, uint32_t id)
{
	const uint64_t answer = (uintptr_t)b->answer;

	memset(b, 0, sizeof(*b));
	fill_addresses(f, b);
	if (f->response_at != NONE)
		memcpy(b->bytes + f->response_at, &answer, sizeof(answer));
	if (f->id_at != NONE)
		memcpy(b->bytes + f->id_at, &id, sizeof(id));
	if (f->kind == OF_CHANNEL)
		memcpy(b->bytes + AT(migrate_id, fd), &fd, sizeof(fd));
}

/* --- lengths ----------------------------------------------------------------------------- */

/* @in: as the header says; @count: as write(2) does */
static int say(int fd, uint32_t command, size_t in, size_t count)
{
	struct {
		struct rdma_ucm_cmd_hdr header;
		uint8_t body[BODY_MAX];
	} m = {{.cmd = command, .in = (uint16_t)in, .out = BODY_MAX}, {0}};

	return cm_put(fd, &m, count) < 0 ? -errno : 0;
}

TEST(too_short)
{
	const size_t header = sizeof(struct rdma_ucm_cmd_hdr);
	int fd = channel(0);

	for (size_t i = 0; i < FORMS; i++) {
		const struct form *f = &forms[i];

		for (size_t count = 0; count < header; count++)
			assert_int_equal(say(fd, f->command, f->least, count), -EINVAL);
		for (size_t in = 0; in < f->least; in++)
			assert_int_equal(say(fd, f->command, in, header + in), -EINVAL);
		assert_int_equal(say(fd, f->command, f->least, header + f->least - 1), -EINVAL);
	}
	close(fd);
}

TEST(unknown_command)
{
	const size_t most = sizeof(struct rdma_ucm_cmd_hdr) + BODY_MAX;
	int fd = channel(0);

	assert_int_equal(say(fd, CM_CMD_WRITE_EVENT + 1, BODY_MAX, most), -EINVAL);
	assert_int_equal(say(fd, UINT32_MAX, BODY_MAX, most), -EINVAL);
	assert_int_equal(say(fd, RDMA_USER_CM_CMD_GET_OPTION, BODY_MAX, most), -ENOSYS);
	assert_int_equal(cm_put(fd, NULL, most), -1);
	assert_int_equal(errno, EFAULT);
	close(fd);
}

/* --- answers ------------------------------------------------------------------------------ */

/* An id of datagrams that is bound, has joined a group, and has not heard of that. */
static uint32_t joined(int fd, uint32_t *group)
{
	const struct sockaddr_in own = device_address(0), address = cm_address("239.1.1.1", 0);
	struct rdma_ucm_create_id_resp answer = {0};
	struct rdma_ucm_join_mcast c = {
		.response = (uintptr_t)&answer, .uid = UID, .addr_size = sizeof(address)};

	memcpy(&c.addr, &address, sizeof(address));
	assert_int_equal(cm_create(fd, UID, RDMA_PS_UDP, &c.id), 0);
	assert_int_equal(cm_bind(fd, c.id, &own), 0);
	assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &c, sizeof(c), sizeof(answer)), 0);
	*group = answer.id;
	return c.id;
}

/* Each gets @out bytes of room, and an answer at @response. */
static void each_answer(size_t out, uintptr_t response, int want)
{
	for (size_t i = 0; i < FORMS; i++) {
		const struct form *f = &forms[i];
		uint32_t group, id;
		struct body b;
		int fd, ret;

		if (f->response_at == NONE)
			continue;
		fd = channel(0);
		id = joined(fd, &group);
		fill(f, &b, fd, f->kind == OF_GROUP ? group : id);
		if (!out)
			memcpy(b.bytes + f->response_at, &response, sizeof(response));
		ret = cm_do(fd, f->command, b.bytes, f->least, out ? f->out - 1 : f->out);
		if (ret != want)
			print_message("%s: %d\n", f->name, ret);
		assert_int_equal(ret, want);
		if (f->command == RDMA_USER_CM_CMD_GET_EVENT)
			assert_int_equal(heard(fd, CM_MULTICAST_JOIN).id, group);
		close(fd);
	}
}

TEST(no_room)
{
	each_answer(1, 0, -ENOSPC);
}

TEST(bad_pointer)
{
	each_answer(0, 0, -EFAULT);
	each_answer(0, 8, -EFAULT);
}

/* There are 65536 numbers of ids: one that nobody has heard of is free again. */
TEST(no_id_is_lost)
{
	struct rdma_ucm_create_id c = {.ps = RDMA_PS_TCP};
	int fd = channel(0);
	uint32_t id;

	for (uint32_t i = 0; i < 66000; i++)
		assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof(c), 4), -EFAULT);
	assert_int_equal(cm_create(fd, UID, RDMA_PS_TCP, &id), 0);
	close(fd);
}

/* A newer library's structures may be longer than ours. */
TEST(longer)
{
	struct rdma_ucm_event_resp event[2];
	struct rdma_ucm_get_event c[60] = {{.response = (uintptr_t)event}};
	uint32_t group;
	int fd = channel(0);

	memset(event, 0xee, sizeof(event));
	(void)joined(fd, &group);
	assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_GET_EVENT, c, sizeof(c), sizeof(event)), 0);
	assert_int_equal(event[0].id, group);
	assert_int_equal(event[1].id, 0xeeeeeeeeu);
	close(fd);
}

/* An older one's are shorter: librdmacm before ECE. */
TEST(shorter)
{
	struct rdma_ucm_event_resp event;
	struct rdma_ucm_get_event c = {.response = (uintptr_t)&event};
	uint32_t group;
	int fd = channel(0);

	memset(&event, 0xee, sizeof(event));
	(void)joined(fd, &group);
	assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_GET_EVENT, &c, sizeof(c), WANTED(event)), 0);
	assert_int_equal(event.id, group);
	assert_int_equal(event.ece.vendor_id, 0xeeeeeeeeu);
	close(fd);
}

/* --- ids ---------------------------------------------------------------------------------- */

static void each_id(int fd, int owner, uint32_t id, int want, bool groups)
{
	for (size_t i = 0; i < FORMS; i++) {
		const struct form *f = &forms[i];
		struct body b;
		int ret;

		if (f->id_at == NONE || (f->kind == OF_GROUP && !groups) ||
		    (f->kind == OF_CHANNEL && fd != owner))
			continue;
		fill(f, &b, owner, id);
		ret = cm_do(fd, f->command, b.bytes, f->least, BODY_MAX);
		if (ret != want)
			print_message("%s: %d\n", f->name, ret);
		assert_int_equal(ret, want);
	}
}

TEST(unknown_id)
{
	int fd = channel(0);

	each_id(fd, fd, NOBODY, -ENOENT, true);
	each_id(fd, fd, UINT32_MAX, -ENOENT, true);
	close(fd);
}

TEST(others_id)
{
	int owner = channel(0), other = channel(0);
	struct rdma_ucm_destroy_id_resp answer;
	struct rdma_ucm_destroy_id c = {.response = (uintptr_t)&answer};
	uint32_t id, group;

	id = joined(owner, &group);
	each_id(other, owner, id, -EINVAL, false);
	c.id = group;
	assert_int_equal(cm_do(other, RDMA_USER_CM_CMD_LEAVE_MCAST, &c, sizeof(c), 4), -EINVAL);
	assert_int_equal(heard(owner, CM_MULTICAST_JOIN).id, group);
	assert_int_equal(cm_destroy(owner, id), 1);
	close(owner);
	close(other);
}

/* An id can only come from a channel of this process. */
TEST(no_channel)
{
	int fd = channel(0);
	uint32_t id;

	assert_int_equal(cm_create(fd, UID, RDMA_PS_TCP, &id), 0);
	assert_int_equal(cm_migrate(fd, id, STDIN_FILENO), -EINVAL);
	assert_int_equal(cm_migrate(fd, id, -1), -EINVAL);
	close(fd);
}

TEST(port_spaces)
{
	static const uint16_t known[] = {RDMA_PS_IPOIB, RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP};
	int fd = channel(0);
	uint32_t id;

	for (uint32_t ps = 0; ps < 0x200; ps++) {
		bool there = false;

		for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
			there = there || known[i] == ps;
		assert_int_equal(cm_create(fd, UID, (uint16_t)ps, &id), there ? 0 : -EINVAL);
	}
	close(fd);
}

/* --- private data -------------------------------------------------------------------------- */

TEST(private_data)
{
	static const uint8_t data[256];
	static const struct {
		enum stage stage;
		int most;
	} rows[] = {{ROUTED, 92 - 36}, {REQUESTED, 196}, {ANSWERED, 148}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (size_t bytes = 0; bytes < 256; bytes++) {
			int want = (int)bytes <= rows[i].most ? 0 : -EINVAL, ret;
			struct ends e;
			struct end x;

			ends_open(&e);
			x = ends_come_to(&e, rows[i].stage);
			ret = rows[i].stage == ROUTED	   ? cm_connect(x.fd, x.id, data, bytes)
			      : rows[i].stage == REQUESTED ? cm_accept(x.fd, x.id, UID, data, bytes)
							   : cm_reject(x.fd, x.id, 0, data, bytes);
			assert_int_equal(ret, want);
			ends_close(&e);
		}
}

/* As librdmacm, and the kernel, have them: the program's own, and no vendor option. */
TEST(reasons)
{
	for (unsigned int reason = 0; reason < 256; reason++) {
		bool known = reason == 0 || reason == 28 || reason == 35;
		struct ends e;
		struct end x;

		ends_open(&e);
		x = ends_come_to(&e, REQUESTED);
		assert_int_equal(cm_reject(x.fd, x.id, (uint8_t)reason, "", 0),
				 known ? 0 : -EINVAL);
		if (known)
			assert_int_equal(heard(e.active_fd, CM_REJECTED).status,
					 reason ? reason : 28);
		ends_close(&e);
	}
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
