/* SPDX-License-Identifier: MIT */
/*
 * The path of an id (RDMA_USER_CM_QUERY_PATH). Rules: Linux, drivers/infiniband/core/ucma.c
 * (ucma_query_path()); the record is that of IBTA volume 1, 15.2.5.16.
 */
#include <string.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>

#include "base/compiler.h"
#include "cm_commands_fixture.h"
#include "lib/unit.h"

#define EXACTLY	  (2u << 6) /* that value, not more or less than it */
#define LIFETIME  16u	    /* CMA_IBOE_PACKET_LIFETIME */
#define UNTOUCHED 0xee

/* struct rdma_ucm_query_path_resp with one path. */
struct paths {
	uint32_t num_paths, reserved;
	struct ibv_path_data first;
};
static_assert(offsetof(struct paths, first) == sizeof(struct rdma_ucm_query_path_resp),
	      "its layout");

static int query(struct end x, uint32_t option, struct paths *answer)
{
	struct rdma_ucm_query c = {.response = (uintptr_t)answer, .id = x.id, .option = option};

	memset(answer, UNTOUCHED, sizeof(*answer));
	return cm_do(x.fd, RDMA_USER_CM_CMD_QUERY, &c, sizeof(c), sizeof(*answer));
}

TEST(each_stage)
{
	static const struct {
		enum stage stage;
		uint32_t paths;
	} rows[] = {
		{IDLE, 0},	{BOUND, 0},	{RESOLVED, 0},	   {ROUTED, 1},
		{LISTENING, 0}, {CONNECTED, 1}, {DISCONNECTED, 1},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct ends e;
		struct paths answer;

		ends_open(&e);
		assert_int_equal(
			query(ends_come_to(&e, rows[i].stage), RDMA_USER_CM_QUERY_PATH, &answer),
			0);
		assert_int_equal(answer.num_paths, rows[i].paths);
		if (rows[i].paths == 0) /* nothing is written behind the number */
			assert_int_equal(answer.first.flags, 0xeeeeeeee);
		ends_close(&e);
	}
}

/* An id without a device says so by port 0. */
TEST(the_device)
{
	static const uint32_t options[] = {RDMA_USER_CM_QUERY_ADDR, RDMA_USER_CM_QUERY_GID};
	static const struct {
		enum stage stage;
		uint8_t port;
		uint16_t pkey;
	} rows[] = {{IDLE, 0, 0}, {BOUND, 1, 0xffff}, {ROUTED, 1, 0xffff}, {LISTENING, 1, 0xffff}};

	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(rows); i++) {
		struct rdma_ucm_query_addr_resp a = {0};
		struct rdma_ucm_query c = {.response = (uintptr_t)&a, .option = options[i % 2]};
		struct ends e;
		struct end x;

		ends_open(&e);
		x = ends_come_to(&e, rows[i / 2].stage);
		c.id = x.id;
		assert_int_equal(cm_do(x.fd, RDMA_USER_CM_CMD_QUERY, &c, sizeof(c), sizeof(a)), 0);
		assert_int_equal(a.port_num, rows[i / 2].port);
		assert_int_equal(be16toh(a.pkey), rows[i / 2].pkey);
		assert_int_equal(a.node_guid != 0, rows[i / 2].port);
		ends_close(&e);
	}
}

TEST(the_path)
{
	struct ends e;
	struct end x;
	struct paths answer;
	const struct ibv_path_record *p = &answer.first.path;

	ends_open(&e);
	x = ends_come_to(&e, ROUTED);
	assert_int_equal(query(x, RDMA_USER_CM_QUERY_PATH, &answer), 0);
	assert_int_equal(be32toh(answer.first.flags),
			 IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL);
	assert_memory_equal(&p->sgid, &p->dgid, sizeof(p->sgid)); /* the listener's host */
	assert_int_equal(be32toh(p->flowlabel_hoplimit), 64);
	assert_int_equal(p->reversible_numpath, 0x80 | 1);
	assert_int_equal(be16toh(p->pkey), 0xffff);
	assert_int_equal(p->mtu & 0xc0u, EXACTLY);
	assert_int_equal(p->packetlifetime, EXACTLY | LIFETIME);
	assert_int_equal(query(x, RDMA_USER_CM_QUERY_GID + 1, &answer), -ENOSYS);
	ends_close(&e);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
