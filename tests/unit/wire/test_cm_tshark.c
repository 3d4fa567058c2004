/* SPDX-License-Identifier: MIT */
/*
 * A judge of its own, where it is installed: tshark reads messages of connection management in
 * frames to queue pair 1, with IPv4 and with IPv6, and sees in each field what was put there.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

#define UD_SEND_ONLY 0x64
#define PORT	     7471
#define LINE	     8192
#define PACKETS	     (2 * (AV_CM_APR - AV_CM_REQ + 1))

static char path[] = "/tmp/anyverbs-test-XXXXXX"; /* of the capture */

enum look { NUMBER, BYTES, ADDRESS4, ADDRESS6 };

#define M(member) \
	offsetof(struct av_cm_message, member), sizeof(((struct av_cm_message *)0)->member)

/*
 * Wireshark's name of a field, and the member that it should show. Flow labels and rates are not
 * among them: Wireshark 4.0 reads 3 and 1 of the 4 bytes in which they are.
 */
static const struct shown {
	uint16_t attribute; /* 0: each */
	const char *field;
	size_t member, bytes;
	enum look look;
} shown[] = {
	{0, "mad.attributeid", M(attribute), NUMBER},
	{0, "mad.transactionid", M(transaction), NUMBER},
	{0, "mad.attributemodifier", M(attr_mod), NUMBER},

	{AV_CM_REQ, "cm.req", M(local_comm_id), NUMBER},
	{AV_CM_REQ, "cm.req.localcaguid", M(ca_guid), NUMBER},
	{AV_CM_REQ, "cm.req.localqkey", M(qkey), NUMBER},
	{AV_CM_REQ, "cm.req.localqpn", M(qpn), NUMBER},
	{AV_CM_REQ, "cm.req.responderres", M(responder_resources), NUMBER},
	{AV_CM_REQ, "cm.req.localeecn", M(eecn), NUMBER},
	{AV_CM_REQ, "cm.req.initdepth", M(initiator_depth), NUMBER},
	{AV_CM_REQ, "cm.req.remoteeecn", M(remote_eecn), NUMBER},
	{AV_CM_REQ, "cm.req.remoteresptout", M(remote_timeout), NUMBER},
	{AV_CM_REQ, "cm.req.transpsvctype", M(transport), NUMBER},
	{AV_CM_REQ, "cm.req.e2eflowctrl", M(flow_control), NUMBER},
	{AV_CM_REQ, "cm.req.startpsn", M(psn), NUMBER},
	{AV_CM_REQ, "cm.req.localresptout", M(local_timeout), NUMBER},
	{AV_CM_REQ, "cm.req.retrcount", M(retry_count), NUMBER},
	{AV_CM_REQ, "cm.req.pkey", M(pkey), NUMBER},
	{AV_CM_REQ, "cm.req.pppmtu", M(path_mtu), NUMBER},
	{AV_CM_REQ, "cm.req.rdcexist", M(rdc_exists), NUMBER},
	{AV_CM_REQ, "cm.req.rnrretrcount", M(rnr_retry_count), NUMBER},
	{AV_CM_REQ, "cm.req.maxcmretr", M(max_cm_retries), NUMBER},
	{AV_CM_REQ, "cm.req.srq", M(srq), NUMBER},
	{AV_CM_REQ, "cm.req.ext_transport", M(ext_transport), NUMBER},
	{AV_CM_REQ, "cm.req.prim_locallid", M(primary.local_lid), NUMBER},
	{AV_CM_REQ, "cm.req.prim_remotelid", M(primary.remote_lid), NUMBER},
	{AV_CM_REQ, "cm.req.prim_localgid_ipv4", M(primary.local_gid), ADDRESS4},
	{AV_CM_REQ, "cm.req.prim_remotegid_ipv4", M(primary.remote_gid), ADDRESS4},
	{AV_CM_REQ, "cm.req.prim_localgid", M(primary.local_gid), ADDRESS6},
	{AV_CM_REQ, "cm.req.prim_remotegid", M(primary.remote_gid), ADDRESS6},
	{AV_CM_REQ, "cm.req.prim_tfcclass", M(primary.traffic_class), NUMBER},
	{AV_CM_REQ, "cm.req.prim_hoplim", M(primary.hop_limit), NUMBER},
	{AV_CM_REQ, "cm.req.prim_sl", M(primary.sl), NUMBER},
	{AV_CM_REQ, "cm.req.prim_subnetlocal", M(primary.subnet_local), NUMBER},
	{AV_CM_REQ, "cm.req.prim_localacktout", M(primary.ack_timeout), NUMBER},
	{AV_CM_REQ, "cm.req.alt_locallid", M(alternate.local_lid), NUMBER},
	{AV_CM_REQ, "cm.req.alt_remotelid", M(alternate.remote_lid), NUMBER},
	{AV_CM_REQ, "cm.req.alt_localgid", M(alternate.local_gid), BYTES},
	{AV_CM_REQ, "cm.req.alt_remotegid", M(alternate.remote_gid), BYTES},
	{AV_CM_REQ, "cm.req.alt_tfcclass", M(alternate.traffic_class), NUMBER},
	{AV_CM_REQ, "cm.req.alt_hoplim", M(alternate.hop_limit), NUMBER},
	{AV_CM_REQ, "cm.req.alt_sl", M(alternate.sl), NUMBER},
	{AV_CM_REQ, "cm.req.alt_subnetlocal", M(alternate.subnet_local), NUMBER},
	{AV_CM_REQ, "cm.req.alt_localacktout", M(alternate.ack_timeout), NUMBER},

	{AV_CM_REJ, "cm.rej.localcommid", M(local_comm_id), NUMBER},
	{AV_CM_REJ, "cm.rej.remotecommid", M(remote_comm_id), NUMBER},
	{AV_CM_REJ, "cm.rej.msgrej", M(message_rejected), NUMBER},
	{AV_CM_REJ, "cm.rej.rejinfolen", M(info_bytes), NUMBER},
	{AV_CM_REJ, "cm.rej.reason", M(reason), NUMBER},
	{AV_CM_REJ, "cm.rej.ari", M(info), BYTES},
	{AV_CM_REJ, "cm.rej.private", offsetof(struct av_cm_message, private_data), 148, BYTES},

	{AV_CM_REP, "cm.rep", M(local_comm_id), NUMBER},
	{AV_CM_REP, "cm.rep.remotecommid", M(remote_comm_id), NUMBER},
	{AV_CM_REP, "cm.rep.localqkey", M(qkey), NUMBER},
	{AV_CM_REP, "cm.rep.localqpn", M(qpn), NUMBER},
	{AV_CM_REP, "cm.rep.localeecn", M(eecn), NUMBER},
	{AV_CM_REP, "cm.rep.startpsn", M(psn), NUMBER},
	{AV_CM_REP, "cm.rep.respres", M(responder_resources), NUMBER},
	{AV_CM_REP, "cm.rep.initdepth", M(initiator_depth), NUMBER},
	{AV_CM_REP, "cm.rep.tgtackdelay", M(target_ack_delay), NUMBER},
	{AV_CM_REP, "cm.rep.failoveracc", M(failover_accepted), NUMBER},
	{AV_CM_REP, "cm.rep.e2eflowctrl", M(flow_control), NUMBER},
	{AV_CM_REP, "cm.rep.rnrretrcount", M(rnr_retry_count), NUMBER},
	{AV_CM_REP, "cm.rep.srq", M(srq), NUMBER},
	{AV_CM_REP, "cm.rep.localcaguid", M(ca_guid), NUMBER},
	{AV_CM_REP, "cm.rep.private", offsetof(struct av_cm_message, private_data), 196, BYTES},

	{AV_CM_RTU, "cm.rtu.localcommid", M(local_comm_id), NUMBER},
	{AV_CM_RTU, "cm.rtu.remotecommid", M(remote_comm_id), NUMBER},
	{AV_CM_RTU, "cm.rtu.private", M(private_data), BYTES},

	{AV_CM_DREQ, "cm.dreq.localcommid", M(local_comm_id), NUMBER},
	{AV_CM_DREQ, "cm.dreq.remotecommid", M(remote_comm_id), NUMBER},
	{AV_CM_DREQ, "cm.req.remoteqpneecn", M(qpn), NUMBER},
	{AV_CM_DREQ, "cm.dreq.private", offsetof(struct av_cm_message, private_data), 220, BYTES},

	{AV_CM_DREP, "cm.drsp.localcommid", M(local_comm_id), NUMBER},
	{AV_CM_DREP, "cm.drsp.remotecommid", M(remote_comm_id), NUMBER},
	{AV_CM_DREP, "cm.drsp.private", M(private_data), BYTES},
};

/* What is to be read of the service and the addresses in a REQ, with IPv4 and with IPv6. */
static const struct {
	const char *field, *text[2];
} texts[] = {
	{"cm.req.serviceid", {"0x0000000001061d2f", "0x0000000001061d2f"}},
	{"cm.req.serviceid.prefix", {"0000000001", "0000000001"}},
	{"cm.req.serviceid.protocol", {"0x06", "0x06"}},
	{"cm.req.serviceid.dport", {"0x1d2f", "0x1d2f"}},
	{"cm.req.ip_cm.majv", {"0x00", "0x00"}},
	{"cm.req.ip_cm.minv", {"0x00", "0x00"}},
	{"cm.req.ip_cm.ipv", {"0x04", "0x06"}},
	{"cm.req.ip_cm.sport", {"0xabcd", "0xabcd"}},
	{"cm.req.ip_cm.sip4", {"192.0.2.1", ""}},
	{"cm.req.ip_cm.dip4", {"192.0.2.2", ""}},
	{"cm.req.ip_cm.sip6", {"", "fd00::1"}},
	{"cm.req.ip_cm.dip6", {"", "fd00::2"}},
};

/* Values that fit into their fields, in which no two neighbours are alike. */
static struct av_cm_message message(uint16_t attribute)
{
	return (struct av_cm_message){
		.attribute = attribute,
		.transaction = 0x0102030405060708,
		.attr_mod = 0xf1f2f3f4,
		.local_comm_id = 0x11121314,
		.remote_comm_id = 0x21222324,
		.service_id = av_cm_service_id(0x0106, PORT),
		.ca_guid = 0x3132333435363738,
		.qkey = 0x41424344,
		.qpn = 0x515253,
		.eecn = 0x616263,
		.remote_eecn = 0x717273,
		.psn = 0x818283,
		.vendor_id = 0x919293,
		.responder_resources = 0xa1,
		.initiator_depth = 0xb1,
		.flow_control = true,
		.srq = true,
		.rnr_retry_count = 5,
		.transport = 2,
		.ext_transport = 1,
		.retry_count = 6,
		.pkey = 0xc1c2,
		.path_mtu = 9,
		.rdc_exists = true,
		.local_timeout = 0x15,
		.remote_timeout = 0x19,
		.max_cm_retries = 0xa,
		.primary =
			{
				.local_lid = 1,
				.remote_lid = 2,
				.flow_label = 0xd1d2d,
				.rate = 0x25,
				.traffic_class = 3,
				.hop_limit = 4,
				.sl = 5,
				.subnet_local = true,
				.ack_timeout = 0x12,
			},
		.alternate =
			{
				.local_lid = 6,
				.remote_lid = 7,
				.flow_label = 0xe1e2e,
				.rate = 0x32,
				.traffic_class = 8,
				.hop_limit = 9,
				.sl = 10,
				.subnet_local = true,
				.ack_timeout = 0x1a,
			},
		.target_ack_delay = 0x13,
		.failover_accepted = 2,
		.message_rejected = 2,
		.reason = 0x1c1d,
		.message_mraed = 1,
		.service_timeout = 0x17,
		.status = 0x1e,
		.info_bytes = 71,
	};
}

static void ends(bool v6, uint8_t src[16], uint8_t dst[16])
{
	assert_int_equal(inet_pton(AF_INET6, v6 ? "fd00::1" : "::ffff:192.0.2.1", src), 1);
	assert_int_equal(inet_pton(AF_INET6, v6 ? "fd00::2" : "::ffff:192.0.2.2", dst), 1);
}

static void fill(uint8_t *bytes, size_t count, uint8_t first)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(first + i);
}

static struct av_cm_message sent_message(uint16_t attribute, bool v6)
{
	struct av_cm_ip ip = {.v6 = v6, .src_port = 0xabcd};
	struct av_cm_message m = message(attribute);

	fill(m.primary.local_gid, 16, 0x20);
	fill(m.primary.remote_gid, 16, 0x40);
	fill(m.alternate.local_gid, 16, 0x60);
	fill(m.alternate.remote_gid, 16, 0x80);
	fill(m.info, sizeof(m.info), 0xa0);
	fill(m.private_data, sizeof(m.private_data), 1);
	ends(v6, ip.src, ip.dst);
	av_cm_ip_put(&ip, m.private_data);
	return m;
}

static void put_frame(FILE *f, const struct av_cm_message *m, bool v6)
{
	uint8_t datagram[AV_MAD_BYTES], bytes[AV_FRAME_HEADERS_MAX + AV_MAD_BYTES + AV_ICRC_BYTES];
	struct av_frame frame = {.path = {.hop_limit = 64, .source_port = 0xc123}};
	struct av_packet p = {
		.opcode = UD_SEND_ONLY,
		.migrated = true,
		.pkey = 0xffff,
		.dest_qpn = 1,
		.qkey = AV_CM_QKEY,
		.src_qpn = 1,
		.payload = datagram,
		.payload_bytes = sizeof(datagram),
	};
	uint32_t record[4] = {0};

	assert_true(av_cm_put(m, datagram));
	ends(v6, frame.path.src, frame.path.dst);
	record[2] = record[3] = (uint32_t)av_frame_put(&frame, &p, bytes, sizeof(bytes));
	assert_int_not_equal(record[2], 0);
	assert_int_equal(fwrite(record, sizeof(record), 1, f), 1);
	assert_int_equal(fwrite(bytes, record[2], 1, f), 1);
}

static uint16_t nth_attribute(unsigned int packet)
{
	return (uint16_t)(AV_CM_REQ + packet / 2);
}

static void write_capture(FILE *f)
{
	/* pcap: its number, version 2.4, time zone and precision, longest frame, Ethernet. */
	const uint32_t start[] = {0xa1b2c3d4, 4u << 16 | 2u, 0, 0, 0xffff, 1};

	assert_int_equal(fwrite(start, sizeof(start), 1, f), 1);
	for (unsigned int i = 0; i < PACKETS; i++) {
		struct av_cm_message m = sent_message(nth_attribute(i), i % 2);

		put_frame(f, &m, i % 2);
	}
	assert_int_equal(fclose(f), 0);
}

static uint64_t number(const uint8_t *member, size_t bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes; i++) /* this machine's order: little-endian */
		v |= (uint64_t)member[i] << 8 * i;
	return v;
}

static void expected_text(const struct shown *s, const uint8_t *member, char *to)
{
	to[0] = 0;
	if (s->look == ADDRESS4)
		inet_ntop(AF_INET, member + 12, to, LINE);
	else if (s->look == ADDRESS6)
		inet_ntop(AF_INET6, member, to, LINE);
	for (size_t i = 0; s->look == BYTES && i < s->bytes; i++)
		sprintf(to + 2 * i, "%02x", member[i]);
}

static bool is_number(const char *text, uint64_t v)
{
	char *end;

	return *text && strtoull(text, &end, 0) == v && *end == 0;
}

static void check_shown(const struct shown *s, unsigned int packet, const char *text)
{
	struct av_cm_message m = sent_message(nth_attribute(packet), packet % 2);
	const uint8_t *member = (const uint8_t *)&m + s->member;
	bool absent = (s->attribute && s->attribute != m.attribute) ||
		      s->look == (packet % 2 ? ADDRESS4 : ADDRESS6);
	char wanted[LINE];

	if (!absent && s->look == NUMBER) {
		if (!is_number(text, number(member, s->bytes)))
			fail_msg("packet %u, %s: %s", packet, s->field, text);
		return;
	}
	expected_text(s, member, wanted);
	if (strcmp(text, absent ? "" : wanted) != 0)
		fail_msg("packet %u, %s: %s", packet, s->field, text);
}

static void check_line(unsigned int packet, char *line)
{
	bool is_req = nth_attribute(packet) == AV_CM_REQ;

	line[strcspn(line, "\n")] = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(shown); i++) {
		assert_non_null(line);
		check_shown(&shown[i], packet, strsep(&line, "|"));
	}
	for (size_t i = 0; i < AV_ARRAY_SIZE(texts); i++) {
		assert_non_null(line);
		assert_string_equal(strsep(&line, "|"), is_req ? texts[i].text[packet % 2] : "");
	}
	assert_string_equal(line, ""); /* malformed */
}

static FILE *ask_tshark(void)
{
	static char command[LINE];
	char *at = command;

	at += sprintf(at, "tshark -n -r %s -T fields -E separator='|'", path);
	for (size_t i = 0; i < AV_ARRAY_SIZE(shown); i++)
		at += sprintf(at, " -e infiniband.%s", shown[i].field);
	for (size_t i = 0; i < AV_ARRAY_SIZE(texts); i++)
		at += sprintf(at, " -e infiniband.%s", texts[i].field);
	sprintf(at, " -e _ws.malformed 2>/dev/null");
	return popen(command, "re");
}

static int remove_capture(void **unused)
{
	unlink(path);
	return 0;
}

TEST_WITH(tshark_sees_what_was_put, NULL, remove_capture)
{
	char line[LINE];
	int fd = mkostemp(path, O_CLOEXEC);
	unsigned int packet = 0;
	FILE *f;

	assert_true(fd >= 0);
	f = fdopen(fd, "we");
	assert_non_null(f);
	write_capture(f);
	f = ask_tshark();
	assert_non_null(f);
	for (; fgets(line, sizeof(line), f); packet++)
		check_line(packet, line);
	assert_int_equal(pclose(f), 0);
	assert_int_equal(packet, PACKETS);
}

int main(void)
{
	if (system("tshark -v >/dev/null 2>&1")) {
		printf("there is no tshark here\n");
		return 77;
	}
	return run_cases(NULL, NULL);
}
