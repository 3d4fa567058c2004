/* SPDX-License-Identifier: MIT */
/*
 * The 40 bytes in front of a datagram, IBTA volume 1, 8.3 and annex A17.4.5.2: each kind of source
 * with each kind of destination, on both link layers, byte by byte; and that the completion's
 * packet type says which form it is.
 */
#include <string.h>

#include "lib/unit.h"
#include "transport/execution.h"

#define PAYLOAD	   1001u
#define BEHIND_UDP (12u + 8u + 1004u + 4u) /* BTH, DETH, payload with padding, ICRC */
#define IMM	   4u
#define LABEL	   0x54321u
#define CLASS	   0x6au /* what UCX asks for */
#define HOPS	   61u

enum kind { V4, V6, LINK_LOCAL, GROUP_V4, GROUP_V6, KINDS };

static const union ibv_gid gid[KINDS] = {
	[V4] = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 77}},
	[V6] = {.raw = {0xfd, 0, [15] = 2}},
	[LINK_LOCAL] = {.raw = {0xfe, 0x80, [8] = 0x50, 0x54, 0, 0xff, 0xfe, 1, 2, 3}},
	[GROUP_V4] = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}},
	[GROUP_V6] = {.raw = {0xff, 0x0e, [14] = 0x12, 0x34}},
};

/* The form on Ethernet by source and destination. */
static const enum av_packet_type type_of[][KINDS] = {
	/*                V4                 V6                 LINK_LOCAL         GROUP_V4 GROUP_V6
	 */
	[V4] = {AV_PACKET_V2_IPV4, AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV4,
		AV_PACKET_V2_IPV6},
	[V6] = {AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6,
		AV_PACKET_V2_IPV6},
	[LINK_LOCAL] = {AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6, AV_PACKET_V2_IPV6,
			AV_PACKET_V2_IPV6},
};

static uint32_t be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static void check_ipv4(const uint8_t *area, const struct av_grh_fields *f)
{
	const uint8_t *ip = area + 20;
	uint32_t sum = 0;

	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], CLASS);
	assert_int_equal(be16(ip + 2), 20 + 8 + BEHIND_UDP + (f->immediate ? IMM : 0));
	assert_int_equal(ip[8], HOPS);
	assert_int_equal(ip[9], 17);
	assert_memory_equal(ip + 12, f->sgid.raw + 12, 4);
	assert_memory_equal(ip + 16, f->dgid.raw + 12, 4);
	for (int i = 0; i < 20; i += 2)
		sum += be16(ip + i);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
}

static void check_ipv6(const uint8_t *area, const struct av_grh_fields *f)
{
	assert_int_equal(be16(area) << 16 | be16(area + 2), 6u << 28 | CLASS << 20 | LABEL);
	assert_int_equal(be16(area + 4), BEHIND_UDP + (f->immediate ? IMM : 0) + (f->iba ? 0 : 8));
	assert_int_equal(area[6], f->iba ? 0x1b : 17);
	assert_int_equal(area[7], HOPS);
	assert_memory_equal(area + 8, f->sgid.raw, 16);
	assert_memory_equal(area + 24, f->dgid.raw, 16);
}

/* What whoever answers needs. An IPv4 header has no flow label, and says nothing of the prefix of a
 * group. */
static void check_read_back(const uint8_t *area, const struct av_grh_fields *f, bool ipv4)
{
	struct av_grh_fields found;

	assert_true(av_grh_read(area, &found));
	assert_memory_equal(found.sgid.raw, f->sgid.raw, 16);
	assert_memory_equal(found.dgid.raw + (ipv4 ? 12 : 0), f->dgid.raw + (ipv4 ? 12 : 0),
			    ipv4 ? 4 : 16);
	assert_int_equal(found.traffic_class, CLASS);
	assert_int_equal(found.hop_limit, HOPS);
	assert_int_equal(found.flow_label, ipv4 ? 0 : LABEL);
	assert_int_equal(found.iba, f->iba);
}

static void check(enum kind from, enum kind to, bool iba, bool immediate)
{
	struct av_grh_fields f = {
		.sgid = gid[from],
		.dgid = gid[to],
		.flow_label = LABEL,
		.traffic_class = CLASS,
		.hop_limit = HOPS,
		.payload = PAYLOAD,
		.immediate = immediate,
		.iba = iba,
	};
	bool ipv4 = !iba && type_of[from][to] == AV_PACKET_V2_IPV4;
	uint8_t area[AV_GRH_BYTES];

	memset(area, 0x66, sizeof(area));
	av_grh_write(area, &f);
	assert_int_equal(av_grh_packet_type(&f), iba ? AV_PACKET_V1 : type_of[from][to]);
	if (ipv4)
		check_ipv4(area, &f);
	else
		check_ipv6(area, &f);
	check_read_back(area, &f, ipv4);
}

TEST(each_cell)
{
	for (enum kind from = V4; from <= LINK_LOCAL; from++)
		for (enum kind to = V4; to < KINDS; to++)
			for (int variant = 0; variant < 4; variant++) {
				print_message("from %d to %d, variant %d\n", from, to, variant);
				check(from, to, variant & 1, variant & 2);
			}
}

/* mlx5's numbers, which programs compare with: bits 0 to 2 are 0 for RoCE v1, 1 for IPv6 and 2 for
 * IPv4, bit 3 is UDP. */
TEST(numbers)
{
	assert_int_equal(AV_PACKET_V1, 0);
	assert_int_equal(AV_PACKET_V2_IPV6, 9);
	assert_int_equal(AV_PACKET_V2_IPV4, 10);
}

/* An area of neither form, and an IPv4 header that one bit is wrong in. */
TEST(no_header)
{
	struct av_grh_fields f = {
		.sgid = gid[V4], .dgid = gid[V4], .traffic_class = CLASS, .hop_limit = HOPS};
	uint8_t area[AV_GRH_BYTES] = {0};
	struct av_grh_fields found;

	assert_false(av_grh_read(area, &found));
	for (int bit = 0; bit < 160; bit++) {
		av_grh_write(area, &f);
		area[20 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(av_grh_read(area, &found));
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
