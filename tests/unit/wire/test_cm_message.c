/* SPDX-License-Identifier: MIT */
/*
 * Each field of each message of connection management at its place, and nothing anywhere else;
 * there and back; what is no message; the addresses in a request's private data.
 */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

#define AT     24 /* of the message in its datagram */
#define ROUNDS 200

#define M(member) \
	offsetof(struct av_cm_message, member), sizeof(((struct av_cm_message *)0)->member)

/*
 * IBTA volume 1, 12.6, written down again by words of 32 bits: where in the message, which bits of
 * the word, and how many of the member's bits are below those.
 */
static const struct row {
	uint16_t attribute;
	size_t member, member_bytes;
	uint8_t word;
	uint32_t mask;
	uint8_t shift;
} rows[] = {
	{AV_CM_REQ, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_REQ, M(vendor_id), 4, 0x00ffffff, 0},
	{AV_CM_REQ, M(service_id), 8, 0xffffffff, 32},
	{AV_CM_REQ, M(service_id), 12, 0xffffffff, 0},
	{AV_CM_REQ, M(ca_guid), 16, 0xffffffff, 32},
	{AV_CM_REQ, M(ca_guid), 20, 0xffffffff, 0},
	{AV_CM_REQ, M(qkey), 28, 0xffffffff, 0},
	{AV_CM_REQ, M(qpn), 32, 0xffffff00, 0},
	{AV_CM_REQ, M(responder_resources), 32, 0x000000ff, 0},
	{AV_CM_REQ, M(eecn), 36, 0xffffff00, 0},
	{AV_CM_REQ, M(initiator_depth), 36, 0x000000ff, 0},
	{AV_CM_REQ, M(remote_eecn), 40, 0xffffff00, 0},
	{AV_CM_REQ, M(remote_timeout), 40, 0x000000f8, 0},
	{AV_CM_REQ, M(transport), 40, 0x00000006, 0},
	{AV_CM_REQ, M(flow_control), 40, 0x00000001, 0},
	{AV_CM_REQ, M(psn), 44, 0xffffff00, 0},
	{AV_CM_REQ, M(local_timeout), 44, 0x000000f8, 0},
	{AV_CM_REQ, M(retry_count), 44, 0x00000007, 0},
	{AV_CM_REQ, M(pkey), 48, 0xffff0000, 0},
	{AV_CM_REQ, M(path_mtu), 48, 0x0000f000, 0},
	{AV_CM_REQ, M(rdc_exists), 48, 0x00000800, 0},
	{AV_CM_REQ, M(rnr_retry_count), 48, 0x00000700, 0},
	{AV_CM_REQ, M(max_cm_retries), 48, 0x000000f0, 0},
	{AV_CM_REQ, M(srq), 48, 0x00000008, 0},
	{AV_CM_REQ, M(ext_transport), 48, 0x00000007, 0},
	{AV_CM_REQ, M(primary.local_lid), 52, 0xffff0000, 0},
	{AV_CM_REQ, M(primary.remote_lid), 52, 0x0000ffff, 0},
	{AV_CM_REQ, M(primary.flow_label), 88, 0xfffff000, 0},
	{AV_CM_REQ, M(primary.rate), 88, 0x0000003f, 0},
	{AV_CM_REQ, M(primary.traffic_class), 92, 0xff000000, 0},
	{AV_CM_REQ, M(primary.hop_limit), 92, 0x00ff0000, 0},
	{AV_CM_REQ, M(primary.sl), 92, 0x0000f000, 0},
	{AV_CM_REQ, M(primary.subnet_local), 92, 0x00000800, 0},
	{AV_CM_REQ, M(primary.ack_timeout), 92, 0x000000f8, 0},
	{AV_CM_REQ, M(alternate.local_lid), 96, 0xffff0000, 0},
	{AV_CM_REQ, M(alternate.remote_lid), 96, 0x0000ffff, 0},
	{AV_CM_REQ, M(alternate.flow_label), 132, 0xfffff000, 0},
	{AV_CM_REQ, M(alternate.rate), 132, 0x0000003f, 0},
	{AV_CM_REQ, M(alternate.traffic_class), 136, 0xff000000, 0},
	{AV_CM_REQ, M(alternate.hop_limit), 136, 0x00ff0000, 0},
	{AV_CM_REQ, M(alternate.sl), 136, 0x0000f000, 0},
	{AV_CM_REQ, M(alternate.subnet_local), 136, 0x00000800, 0},
	{AV_CM_REQ, M(alternate.ack_timeout), 136, 0x000000f8, 0},
	{AV_CM_REQ, M(sap_supported), 136, 0x00000004, 0},

	{AV_CM_MRA, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_MRA, M(remote_comm_id), 4, 0xffffffff, 0},
	{AV_CM_MRA, M(message_mraed), 8, 0xc0000000, 0},
	{AV_CM_MRA, M(service_timeout), 8, 0x00f80000, 0},

	{AV_CM_REJ, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_REJ, M(remote_comm_id), 4, 0xffffffff, 0},
	{AV_CM_REJ, M(message_rejected), 8, 0xc0000000, 0},
	{AV_CM_REJ, M(info_bytes), 8, 0x00fe0000, 0},
	{AV_CM_REJ, M(reason), 8, 0x0000ffff, 0},

	{AV_CM_REP, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_REP, M(remote_comm_id), 4, 0xffffffff, 0},
	{AV_CM_REP, M(qkey), 8, 0xffffffff, 0},
	{AV_CM_REP, M(qpn), 12, 0xffffff00, 0},
	{AV_CM_REP, M(vendor_id), 12, 0x000000ff, 16},
	{AV_CM_REP, M(eecn), 16, 0xffffff00, 0},
	{AV_CM_REP, M(vendor_id), 16, 0x000000ff, 8},
	{AV_CM_REP, M(psn), 20, 0xffffff00, 0},
	{AV_CM_REP, M(vendor_id), 20, 0x000000ff, 0},
	{AV_CM_REP, M(responder_resources), 24, 0xff000000, 0},
	{AV_CM_REP, M(initiator_depth), 24, 0x00ff0000, 0},
	{AV_CM_REP, M(target_ack_delay), 24, 0x0000f800, 0},
	{AV_CM_REP, M(failover_accepted), 24, 0x00000600, 0},
	{AV_CM_REP, M(flow_control), 24, 0x00000100, 0},
	{AV_CM_REP, M(rnr_retry_count), 24, 0x000000e0, 0},
	{AV_CM_REP, M(srq), 24, 0x00000010, 0},
	{AV_CM_REP, M(ca_guid), 28, 0xffffffff, 32},
	{AV_CM_REP, M(ca_guid), 32, 0xffffffff, 0},

	{AV_CM_RTU, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_RTU, M(remote_comm_id), 4, 0xffffffff, 0},

	{AV_CM_DREQ, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_DREQ, M(remote_comm_id), 4, 0xffffffff, 0},
	{AV_CM_DREQ, M(qpn), 8, 0xffffff00, 0},

	{AV_CM_DREP, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_DREP, M(remote_comm_id), 4, 0xffffffff, 0},

	{AV_CM_SIDR_REQ, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_SIDR_REQ, M(pkey), 4, 0xffff0000, 0},
	{AV_CM_SIDR_REQ, M(service_id), 8, 0xffffffff, 32},
	{AV_CM_SIDR_REQ, M(service_id), 12, 0xffffffff, 0},

	{AV_CM_SIDR_REP, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_SIDR_REP, M(status), 4, 0xff000000, 0},
	{AV_CM_SIDR_REP, M(info_bytes), 4, 0x00ff0000, 0},
	{AV_CM_SIDR_REP, M(vendor_id), 4, 0x0000ffff, 8},
	{AV_CM_SIDR_REP, M(qpn), 8, 0xffffff00, 0},
	{AV_CM_SIDR_REP, M(vendor_id), 8, 0x000000ff, 0},
	{AV_CM_SIDR_REP, M(service_id), 12, 0xffffffff, 32},
	{AV_CM_SIDR_REP, M(service_id), 16, 0xffffffff, 0},
	{AV_CM_SIDR_REP, M(qkey), 20, 0xffffffff, 0},

	{AV_CM_LAP, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_LAP, M(remote_comm_id), 4, 0xffffffff, 0},
	{AV_CM_LAP, M(qpn), 12, 0xffffff00, 0},
	{AV_CM_LAP, M(remote_timeout), 12, 0x000000f8, 0},
	{AV_CM_LAP, M(alternate.local_lid), 20, 0xffff0000, 0},
	{AV_CM_LAP, M(alternate.remote_lid), 20, 0x0000ffff, 0},
	{AV_CM_LAP, M(alternate.flow_label), 56, 0xfffff000, 0},
	{AV_CM_LAP, M(alternate.traffic_class), 56, 0x000000ff, 0},
	{AV_CM_LAP, M(alternate.hop_limit), 60, 0xff000000, 0},
	{AV_CM_LAP, M(alternate.rate), 60, 0x003f0000, 0},
	{AV_CM_LAP, M(alternate.sl), 60, 0x0000f000, 0},
	{AV_CM_LAP, M(alternate.subnet_local), 60, 0x00000800, 0},
	{AV_CM_LAP, M(alternate.ack_timeout), 60, 0x000000f8, 0},

	{AV_CM_APR, M(local_comm_id), 0, 0xffffffff, 0},
	{AV_CM_APR, M(remote_comm_id), 4, 0xffffffff, 0},
	{AV_CM_APR, M(info_bytes), 8, 0xff000000, 0},
	{AV_CM_APR, M(status), 8, 0x00ff0000, 0},
};

/* Those that are bytes, not numbers: where they begin, and how many they are. */
static const struct {
	uint16_t attribute;
	size_t member;
	uint8_t at, bytes;
} arrays[] = {
	{AV_CM_REQ, offsetof(struct av_cm_message, primary.local_gid), 56, 16},
	{AV_CM_REQ, offsetof(struct av_cm_message, primary.remote_gid), 72, 16},
	{AV_CM_REQ, offsetof(struct av_cm_message, alternate.local_gid), 100, 16},
	{AV_CM_REQ, offsetof(struct av_cm_message, alternate.remote_gid), 116, 16},
	{AV_CM_REQ, offsetof(struct av_cm_message, private_data), 140, 92},
	{AV_CM_MRA, offsetof(struct av_cm_message, private_data), 10, 222},
	{AV_CM_REJ, offsetof(struct av_cm_message, info), 12, 72},
	{AV_CM_REJ, offsetof(struct av_cm_message, private_data), 84, 148},
	{AV_CM_REP, offsetof(struct av_cm_message, private_data), 36, 196},
	{AV_CM_RTU, offsetof(struct av_cm_message, private_data), 8, 224},
	{AV_CM_DREQ, offsetof(struct av_cm_message, private_data), 12, 220},
	{AV_CM_DREP, offsetof(struct av_cm_message, private_data), 8, 224},
	{AV_CM_SIDR_REQ, offsetof(struct av_cm_message, private_data), 16, 216},
	{AV_CM_SIDR_REP, offsetof(struct av_cm_message, info), 24, 72},
	{AV_CM_SIDR_REP, offsetof(struct av_cm_message, private_data), 96, 136},
	{AV_CM_LAP, offsetof(struct av_cm_message, alternate.local_gid), 24, 16},
	{AV_CM_LAP, offsetof(struct av_cm_message, alternate.remote_gid), 40, 16},
	{AV_CM_LAP, offsetof(struct av_cm_message, private_data), 64, 168},
	{AV_CM_APR, offsetof(struct av_cm_message, info), 12, 72},
	{AV_CM_APR, offsetof(struct av_cm_message, private_data), 84, 148},
};

static const struct {
	uint16_t attribute;
	const char *name;
	size_t private_bytes;
} kinds[] = {
	{0x10, "REQ", 92},	 {0x11, "MRA", 222},  {0x12, "REJ", 148},  {0x13, "REP", 196},
	{0x14, "RTU", 224},	 {0x15, "DREQ", 220}, {0x16, "DREP", 224}, {0x17, "SIDR_REQ", 216},
	{0x18, "SIDR_REP", 136}, {0x19, "LAP", 168},  {0x1a, "APR", 148},
};

static uint32_t random32(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(state >> 32);
}

static void put_header(uint8_t *to, uint16_t attribute)
{
	memset(to, 0, AV_MAD_BYTES);
	to[0] = 1;
	to[1] = 7;
	to[2] = 2;
	to[3] = 3;
	to[17] = (uint8_t)attribute;
}

static void set_member(struct av_cm_message *m, const struct row *r, uint64_t v)
{
	void *member = (uint8_t *)m + r->member;

	if (r->member_bytes == 1)
		*(uint8_t *)member = (uint8_t)v;
	else if (r->member_bytes == 2)
		*(uint16_t *)member = (uint16_t)v;
	else if (r->member_bytes == 4)
		*(uint32_t *)member = (uint32_t)v;
	else
		*(uint64_t *)member = v;
}

/* The message, written, is these bytes; these bytes, read, are the message. */
static void same(const struct av_cm_message *m, const uint8_t *wanted)
{
	uint8_t bytes[AV_MAD_BYTES];
	struct av_cm_message again;

	memset(bytes, 0xa5, sizeof(bytes));
	memset(&again, 0xa5, sizeof(again));
	assert_true(av_cm_put(m, bytes));
	assert_memory_equal(bytes, wanted, sizeof(bytes));
	assert_true(av_cm_get(&again, bytes, sizeof(bytes)));
	assert_memory_equal(&again, m, sizeof(again));
}

/* @v: of the field, from 0 on */
static void one_field(const struct row *r, uint32_t v)
{
	struct av_cm_message m;
	uint8_t wanted[AV_MAD_BYTES];

	memset(&m, 0, sizeof(m));
	m.attribute = r->attribute;
	set_member(&m, r, (uint64_t)v << r->shift);
	put_header(wanted, r->attribute);
	av_put32(wanted + AT + r->word, v << __builtin_ctz(r->mask));
	same(&m, wanted);
}

TEST(every_field)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		uint32_t most = r->mask >> __builtin_ctz(r->mask);

		if (r->member == offsetof(struct av_cm_message, info_bytes))
			most = 72;
		one_field(r, most);
		for (uint32_t bit = 1; bit && bit <= most; bit <<= 1)
			one_field(r, bit);
	}
}

TEST(every_array)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(arrays); i++) {
		struct av_cm_message m;
		uint8_t wanted[AV_MAD_BYTES];

		memset(&m, 0, sizeof(m));
		m.attribute = arrays[i].attribute;
		put_header(wanted, arrays[i].attribute);
		for (size_t n = 0; n < arrays[i].bytes; n++) {
			((uint8_t *)&m)[arrays[i].member + n] = (uint8_t)(n + 1);
			wanted[AT + arrays[i].at + n] = (uint8_t)(n + 1);
		}
		same(&m, wanted);
	}
}

TEST(header)
{
	struct av_cm_message m;
	uint8_t wanted[AV_MAD_BYTES];

	memset(&m, 0, sizeof(m));
	m.attribute = AV_CM_RTU;
	m.transaction = 0x0102030405060708;
	m.attr_mod = 0xf1f2f3f4;
	put_header(wanted, AV_CM_RTU);
	for (int i = 0; i < 8; i++)
		wanted[8 + i] = (uint8_t)(i + 1);
	for (int i = 0; i < 4; i++)
		wanted[20 + i] = (uint8_t)(0xf1 + i);
	same(&m, wanted);
}

/* The bits of the datagram that mean anything: each of them once. */
static void meant(uint16_t attribute, uint8_t *bits)
{
	put_header(bits, attribute);
	memset(bits, 0xff, 4);
	memset(bits + 8, 0xff, 10);
	memset(bits + 20, 0xff, 4);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint8_t *word = bits + AT + rows[i].word;

		if (rows[i].attribute != attribute)
			continue;
		assert_int_equal(av_get32(word) & rows[i].mask, 0);
		av_put32(word, av_get32(word) | rows[i].mask);
	}
	for (size_t i = 0; i < AV_ARRAY_SIZE(arrays); i++)
		for (size_t n = 0; arrays[i].attribute == attribute && n < arrays[i].bytes; n++) {
			assert_int_equal(bits[AT + arrays[i].at + n], 0);
			bits[AT + arrays[i].at + n] = 0xff;
		}
}

/* Additional information that is longer than there is room for it is tried elsewhere. */
static void shorten_info(uint8_t *bytes, uint16_t attribute)
{
	if (attribute == AV_CM_REJ)
		bytes[AT + 9] = 72 << 1;
	else if (attribute == AV_CM_SIDR_REP)
		bytes[AT + 5] = 71;
	else if (attribute == AV_CM_APR)
		bytes[AT + 8] = 72;
}

/* Any bytes, read and written again, are the same but for what is reserved. */
TEST(reserved_is_zero)
{
	for (unsigned int round = 0; round < ROUNDS * AV_ARRAY_SIZE(kinds); round++) {
		uint16_t attribute = kinds[round % AV_ARRAY_SIZE(kinds)].attribute;
		uint8_t bytes[AV_MAD_BYTES], again[AV_MAD_BYTES], bits[AV_MAD_BYTES];
		struct av_cm_message m;

		put_header(bytes, attribute);
		for (int i = 4; i < AV_MAD_BYTES; i++)
			bytes[i] = i == 16 || i == 17 ? bytes[i] : (uint8_t)random32();
		shorten_info(bytes, attribute);
		meant(attribute, bits);
		assert_true(av_cm_get(&m, bytes, sizeof(bytes)));
		assert_true(av_cm_put(&m, again));
		for (int i = 0; i < AV_MAD_BYTES; i++)
			assert_int_equal(again[i], bytes[i] & bits[i]);
	}
}

/* What a message does not have stays out of it. */
TEST(foreign_members)
{
	for (size_t k = 0; k < AV_ARRAY_SIZE(kinds); k++) {
		struct av_cm_message m, one;
		uint8_t bytes[AV_MAD_BYTES], again[AV_MAD_BYTES], bits[AV_MAD_BYTES];

		memset(&m, 0xff, sizeof(m));
		m.flow_control = m.srq = m.rdc_exists = m.sap_supported = true;
		m.primary.subnet_local = m.alternate.subnet_local = true;
		m.attribute = kinds[k].attribute;
		m.info_bytes = 72;
		assert_true(av_cm_put(&m, bytes));
		assert_true(av_cm_get(&one, bytes, sizeof(bytes)));
		assert_true(av_cm_put(&one, again));
		assert_memory_equal(bytes, again, sizeof(bytes));
		meant(kinds[k].attribute, bits);
		for (int i = 0; i < AV_MAD_BYTES; i++)
			assert_int_equal(bytes[i] & ~bits[i], 0);
	}
}

TEST(too_much_information)
{
	static const struct {
		uint16_t attribute;
		uint8_t at, byte, bytes;
	} told[] = {
		{AV_CM_REJ, 9, 72 << 1, 72}, {AV_CM_REJ, 9, 73 << 1, 72}, {AV_CM_REJ, 9, 0xff, 72},
		{AV_CM_SIDR_REP, 5, 72, 72}, {AV_CM_SIDR_REP, 5, 73, 72}, {AV_CM_APR, 8, 255, 72},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(told); i++) {
		uint8_t bytes[AV_MAD_BYTES];
		struct av_cm_message m;

		put_header(bytes, told[i].attribute);
		bytes[AT + told[i].at] = told[i].byte;
		assert_true(av_cm_get(&m, bytes, sizeof(bytes)));
		assert_int_equal(m.info_bytes, told[i].bytes);
	}
}

static bool get_exactly(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct av_cm_message m;
	bool got;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	got = av_cm_get(&m, copy, size);
	free(copy);
	return got;
}

TEST(no_message)
{
	uint8_t bytes[AV_MAD_BYTES + 1] = {0};

	put_header(bytes, AV_CM_REQ);
	for (size_t size = 0; size <= sizeof(bytes); size++)
		assert_int_equal(get_exactly(bytes, size), size == AV_MAD_BYTES);
	for (int at = 0; at < 4; at++) {
		for (unsigned int v = 0; v < 256; v++) {
			uint8_t right = bytes[at];

			bytes[at] = (uint8_t)v;
			assert_int_equal(get_exactly(bytes, AV_MAD_BYTES), v == right);
			bytes[at] = right;
		}
	}
}

static size_t find_kind(uint16_t attribute)
{
	size_t k = 0;

	while (k < AV_ARRAY_SIZE(kinds) && kinds[k].attribute != attribute)
		k++;
	return k;
}

TEST(every_attribute)
{
	uint8_t bytes[AV_MAD_BYTES], untouched[AV_MAD_BYTES];
	struct av_cm_message m;

	memset(&m, 0, sizeof(m));
	memset(untouched, 0xa5, sizeof(untouched));
	for (unsigned int a = 0; a <= UINT16_MAX; a++) {
		size_t k = find_kind((uint16_t)a);
		bool known = k < AV_ARRAY_SIZE(kinds);

		m.attribute = (uint16_t)a;
		memset(bytes, 0xa5, sizeof(bytes));
		assert_int_equal(av_cm_put(&m, bytes), known);
		assert_int_equal(memcmp(bytes, untouched, sizeof(bytes)) != 0, known);
		put_header(bytes, AV_CM_REQ);
		av_put16(bytes + 16, a);
		assert_int_equal(get_exactly(bytes, sizeof(bytes)), known);
		assert_int_equal(av_cm_private_bytes((uint16_t)a),
				 known ? kinds[k].private_bytes : 0);
		if (known)
			assert_string_equal(av_cm_attribute_name((uint16_t)a), kinds[k].name);
		else
			assert_null(av_cm_attribute_name((uint16_t)a));
	}
}

static const struct {
	struct av_cm_ip ip;
	uint8_t bytes[AV_CM_IP_BYTES];
} addresses[] = {
	{{false, 0xabcd, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x01",
	  "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x02"},
	 "\x00\x40\xab\xcd\0\0\0\0\0\0\0\0\0\0\0\0\xc0\x00\x02\x01"
	 "\0\0\0\0\0\0\0\0\0\0\0\0\xc0\x00\x02\x02"},
	{{true, 0x0102, "\xfe\x80\0\0\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08",
	  "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"},
	 "\x00\x60\x01\x02\xfe\x80\0\0\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08"
	 "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"},
};

TEST(ip_addresses)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(addresses); i++) {
		const struct av_cm_ip *ip = &addresses[i].ip;
		uint8_t bytes[AV_CM_IP_BYTES];
		struct av_cm_ip again;

		memset(bytes, 0xa5, sizeof(bytes));
		av_cm_ip_put(ip, bytes);
		assert_memory_equal(bytes, addresses[i].bytes, sizeof(bytes));
		assert_true(av_cm_ip_get(&again, bytes));
		assert_int_equal(again.v6, ip->v6);
		assert_int_equal(again.src_port, ip->src_port);
		assert_memory_equal(again.src, ip->src, 16);
		assert_memory_equal(again.dst, ip->dst, 16);
	}
}

TEST(ip_versions)
{
	for (unsigned int v = 0; v < 256; v++) {
		uint8_t bytes[AV_CM_IP_BYTES] = {0, (uint8_t)v};
		struct av_cm_ip ip;

		assert_int_equal(av_cm_ip_get(&ip, bytes), v >> 4 == 4 || v >> 4 == 6);
		bytes[0] = (uint8_t)v;
		bytes[1] = 0x40;
		assert_int_equal(av_cm_ip_get(&ip, bytes), v == 0);
	}
}

TEST(service_ids)
{
	assert_int_equal(av_cm_service_id(0x0106, 0x1234), 0x0000000001061234);
	assert_int_equal(av_cm_service_id(0x0111, 0xffff), 0x000000000111ffff);
	assert_int_equal(av_cm_service_id(0x013f, 0), 0x00000000013f0000);
	assert_int_equal(av_cm_service_id(0x0002, 7), 0x0000000001020007);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
