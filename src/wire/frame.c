/* SPDX-License-Identifier: MIT */
#include "wire/address.h"

#include <libdeflate.h>

#define OWN_CRC (LIBDEFLATE_VERSION_MAJOR == 1 && LIBDEFLATE_VERSION_MINOR < 20)

#if defined(__x86_64__) && OWN_CRC
#include <immintrin.h>
#endif

static size_t put_ip_headers(const struct av_net_path *path, size_t bytes, uint8_t *to);

uint32_t av_icrc_of(const struct av_net_path *path, const uint8_t *packet, size_t bytes)
{
	uint8_t headers[AV_IP_HEADERS_MAX];

	(void)put_ip_headers(path, bytes, headers);
	return av_icrc(headers, packet, bytes);
}

/* --- solving for the identification ---------------------------------------------- */

/* A CRC is a polynomial over GF(2) modulo P. Highest bit: that of x^0; lowest: of x^31. */
#define P 0xedb88320u /* without its x^32 */

/*
 * A change of the identification, C(x), before n more bytes changes the CRC by
 * C(x) * x^(8n + 32) mod P. So C(x) is the CRC's change, times x^-(8n + 32).
 */

/* x^-(8 * 2^i): each is the square of the one before. */
static const uint32_t back_bytes[] = {
	0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d,
	0x5139de12, 0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8,
	0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
};

#define BACK_HEADERS 0xf2949dc4u /* x^-(8 * 22 + 32): rest of the IPv4 header, UDP header, CRC */

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		product ^= b & -(a >> 31);
		b = b >> 1 ^ (P & -(b & 1));
	}
	return product;
}

static uint32_t rewind_crc_change(uint32_t change, size_t bytes)
{
	change = multiply(change, BACK_HEADERS);
	for (size_t i = 0; i < AV_ARRAY_SIZE(back_bytes); i++)
		if (bytes >> i & 1)
			change = multiply(change, back_bytes[i]);
	return change;
}

bool av_icrc_fits(struct av_net_path *path, const uint8_t *packet, size_t bytes, uint32_t icrc)
{
	uint8_t headers[AV_IP_HEADERS_MAX];
	bool ipv4 = put_ip_headers(path, bytes, headers) < AV_IP_HEADERS_MAX;
	uint32_t change = icrc ^ av_icrc(headers, packet, bytes);

	if (!change || !ipv4)
		return !change;
	change = rewind_crc_change(change, bytes);
	if (change & 0xffff) /* x^16 or more: not of the identification alone */
		return false;
	path->identification ^= (uint16_t)((change >> 16 & 0xff) << 8 | change >> 24);
	return true;
}

#define LRH_BYTES     8 /* the link header that RoCE lacks; its CRC counts it as ones */
#define TYPE_IPV4     0x0800
#define TYPE_IPV6     0x86dd
#define IPV4_BYTES    20
#define IPV6_BYTES    40
#define UDP_BYTES     8
#define BTH_BYTES     12
#define PROTOCOL_UDP  17
#define DONT_FRAGMENT 0x4000
#define DYNAMIC_PORTS 0xc000 /* first port of the dynamic range */

static const uint8_t mapped_group[12] = {0xff, 0x0e, [10] = 0xff, [11] = 0xff};

bool av_frame_gid_is_ipv4(const uint8_t gid[16])
{
	return av_net_is_v4(gid) || memcmp(gid, mapped_group, 12) == 0;
}

static bool is_ipv4(const struct av_net_path *path)
{
	return av_frame_gid_is_ipv4(path->src) && av_frame_gid_is_ipv4(path->dst);
}

/* --- addresses ------------------------------------------------------------------- */

void av_frame_mac(const uint8_t gid[16], uint8_t mac[6])
{
	static const uint8_t group4[3] = {0x01, 0x00, 0x5e}, group6[2] = {0x33, 0x33};

	if (av_frame_gid_is_ipv4(gid) && gid[12] >> 4 == 0xe) { /* RFC 1112, 6.4 */
		memcpy(mac, group4, 3);
		memcpy(mac + 3, gid + 13, 3);
		mac[3] &= 0x7f;
	} else if (gid[0] == 0xff) { /* RFC 2464, 7 */
		memcpy(mac, group6, 2);
		memcpy(mac + 2, gid + 12, 4);
	} else if (!av_frame_gid_is_ipv4(gid) && gid[11] == 0xff &&
		   gid[12] == 0xfe) { /* RFC 4291, appendix A */
		memcpy(mac, gid + 8, 3);
		memcpy(mac + 3, gid + 13, 3);
		mac[0] ^= 2;
	} else {
		mac[0] = 2;
		memcpy(mac + 1, gid + 11, 5);
	}
}

uint16_t av_frame_source_port(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn)
{
	uint64_t v = flow_label;

	if (!flow_label) {
		v = (uint64_t)src_qpn * dest_qpn;
		v ^= v >> 20;
		v ^= v >> 40;
	}
	return (uint16_t)(DYNAMIC_PORTS | ((v & 0x3fff) ^ (v >> 14 & 0x3f)));
}

/* --- CRC-32 ---------------------------------------------------------------------- */

#if defined(__x86_64__) && OWN_CRC

/*
 * libdeflate before 1.20 multiplies 128 bits at a time; this 512, which takes a third of the time.
 * A sum of products with powers of x has the CRC of the bytes that it stands for: Gopal and others,
 * "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
 */

#define WIDE	 ((size_t)64) /* bytes of a vector */
#define VECTORS	 4u
#define WIDE_MIN (VECTORS * WIDE)
#define VECTOR	 __attribute__((target("avx512f,vpclmulqdq")))

/* x^(n + 32) and x^(n - 32) mod P, bits reversed and shifted by one: so far bytes are carried. */
#define BY_64  0x1c6e41596, 0x154442bd4 /* n = 512 bits */
#define BY_256 0x1322d1430, 0x11542778a /* n = 2048 bits */

/* Carry @sum by the distance of @powers, to @next: the sum of both. */
VECTOR static inline __m512i carry(__m512i sum, __m512i powers, __m512i next)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, powers, 0x00),
					 _mm512_clmulepi64_epi128(sum, powers, 0x11), next, 0x96);
}

/*
 * The CRC of @head, which begins with ones, and what is behind it. Zeros before them make all a
 * multiple of WIDE. @head_bytes: WIDE_MIN - WIDE at most; @bytes: WIDE_MIN at least
 */
VECTOR static uint32_t wide_crc32(const uint8_t *head, size_t head_bytes, const uint8_t *from,
				  size_t bytes)
{
	const __m512i by_64 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_64));
	const __m512i by_256 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_256));
	size_t zeros = -(head_bytes + bytes) % WIDE, first = WIDE_MIN - zeros - head_bytes;
	uint8_t begin[WIDE_MIN] = {0}, last[WIDE];
	__m512i sum[VECTORS];

	/* A CRC begins with ones: those of @head become zeros. */
	memcpy(begin + zeros + AV_ICRC_BYTES, head + AV_ICRC_BYTES, head_bytes - AV_ICRC_BYTES);
	memcpy(begin + zeros + head_bytes, from, first);
	for (size_t i = 0; i < VECTORS; i++)
		sum[i] = _mm512_loadu_si512(begin + i * WIDE);
	for (bytes -= first, from += first; bytes >= WIDE_MIN; bytes -= WIDE_MIN, from += WIDE_MIN)
		for (size_t i = 0; i < VECTORS; i++)
			sum[i] = carry(sum[i], by_256, _mm512_loadu_si512(from + i * WIDE));
	for (size_t i = 1; i < VECTORS; i++)
		sum[0] = carry(sum[0], by_64, sum[i]);
	for (; bytes > 0; bytes -= WIDE, from += WIDE)
		sum[0] = carry(sum[0], by_64, _mm512_loadu_si512(from));
	_mm512_storeu_si512(last, sum[0]);
	return libdeflate_crc32(UINT32_MAX, last, WIDE); /* UINT32_MAX: nothing comes before */
}

#endif

/* --- the invariant CRC ----------------------------------------------------------- */

/* Header bytes that count as ones: of IPv4, type of service, time to live, checksum; */
static const uint8_t ipv4_ones[] = {1, 8, 10, 11};
/* of IPv6, traffic class and flow label, which begin in the version's byte, and the hop limit. */
static const uint8_t ipv6_ones[] = {1, 2, 3, 7};
#define UDP_CHECKSUM 6
#define BTH_RESERVED 4	/* shares its byte with the congestion bits */
#define SHORT	     64 /* bytes behind the BTH: two pieces take longer than one and a copy */

uint32_t av_icrc(const uint8_t *ip, const uint8_t *packet, size_t bytes)
{
	uint8_t head[LRH_BYTES + AV_IP_HEADERS_MAX + BTH_BYTES + SHORT], *masked = head + LRH_BYTES;
	size_t ip_bytes = ip[0] >> 4 == 4 ? IPV4_BYTES : IPV6_BYTES;
	size_t head_bytes = LRH_BYTES + ip_bytes + UDP_BYTES + BTH_BYTES;

	memset(head, 0xff, LRH_BYTES);
	memcpy(masked, ip, ip_bytes + UDP_BYTES);
	memcpy(masked + ip_bytes + UDP_BYTES, packet, BTH_BYTES);
	masked[0] |= ip_bytes == IPV6_BYTES ? 0x0f : 0;
	for (size_t i = 0; i < sizeof(ipv4_ones); i++)
		masked[ip_bytes == IPV6_BYTES ? ipv6_ones[i] : ipv4_ones[i]] = 0xff;
	memset(masked + ip_bytes + UDP_CHECKSUM, 0xff, 2);
	masked[ip_bytes + UDP_BYTES + BTH_RESERVED] = 0xff;
	packet += BTH_BYTES;
	bytes -= BTH_BYTES;
	if (bytes <= SHORT) {
		memcpy(head + head_bytes, packet, bytes);
		return libdeflate_crc32(0, head, head_bytes + bytes);
	}
#ifdef WIDE
	if (bytes >= WIDE_MIN && __builtin_cpu_supports("vpclmulqdq") &&
	    __builtin_cpu_supports("avx512f"))
		return wide_crc32(head, head_bytes, packet, bytes);
#endif
	return libdeflate_crc32(libdeflate_crc32(0, head, head_bytes), packet, bytes);
}

bool av_gro_next(struct av_gro_split *cut, struct av_net_path *path, struct av_packet *p,
		 enum av_datagram_error *error)
{
	size_t segment = cut->segment ? cut->segment : cut->count, rest = cut->count - cut->at;
	size_t bytes = rest < segment ? rest : segment;
	const uint8_t *from = cut->bytes + cut->at;

	if (rest == 0)
		return false;
	*path = cut->path;
	path->identification = (uint16_t)(cut->at / segment); /* so its kernel may number them */
	cut->at += bytes;
	if (bytes < AV_ICRC_BYTES || av_packet_get(p, from, bytes - AV_ICRC_BYTES) != AV_PACKET_OK)
		*error = AV_DATAGRAM_SHORT;
	else if (!av_icrc_fits(path, from, bytes - AV_ICRC_BYTES,
			       av_icrc_get(from + bytes - AV_ICRC_BYTES)))
		*error = AV_DATAGRAM_BAD_CRC;
	else
		*error = AV_DATAGRAM_OK;
	return true;
}

/* --- writing --------------------------------------------------------------------- */

/* Ones' complement sum, RFC 1071. */
static uint32_t sum16(uint32_t sum, const uint8_t *at, size_t bytes)
{
	for (; bytes > 1; at += 2, bytes -= 2)
		sum += av_get16(at);
	return bytes ? sum + (uint32_t)(at[0] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static void put_ethernet(const struct av_frame *f, uint8_t *to)
{
	memcpy(to, f->eth_dst, 6);
	memcpy(to + 6, f->eth_src, 6);
	av_put16(to + 12, is_ipv4(&f->path) ? TYPE_IPV4 : TYPE_IPV6);
}

static void put_ipv4(const struct av_net_path *p, uint8_t *to, size_t udp_bytes)
{
	to[0] = 0x45;
	to[1] = p->traffic_class;
	av_put16(to + 2, (uint32_t)(IPV4_BYTES + udp_bytes));
	av_put16(to + 4, p->identification);
	av_put16(to + 6, DONT_FRAGMENT);
	to[8] = p->hop_limit;
	to[9] = PROTOCOL_UDP;
	av_put16(to + 10, 0);
	memcpy(to + 12, p->src + 12, 4);
	memcpy(to + 16, p->dst + 12, 4);
}

static void put_ipv6(const struct av_net_path *p, uint8_t *to, size_t udp_bytes)
{
	av_put32(to, 6u << 28 | (uint32_t)p->traffic_class << 20 | (p->flow_label & 0xfffff));
	av_put16(to + 4, (uint32_t)udp_bytes);
	to[6] = PROTOCOL_UDP;
	to[7] = p->hop_limit;
	memcpy(to + 8, p->src, 16);
	memcpy(to + 24, p->dst, 16);
}

/* The sum covers addresses, length, protocol, UDP header and @bytes of @data behind it. */
static void put_udp_checksum(uint8_t *udp, size_t address_bytes, const uint8_t *data, size_t bytes)
{
	uint32_t sum = (uint32_t)(UDP_BYTES + bytes) + PROTOCOL_UDP;
	uint16_t checksum;

	sum = sum16(sum, udp - 2 * address_bytes, 2 * address_bytes);
	checksum = fold(sum16(sum16(sum, udp, UDP_BYTES), data, bytes));
	av_put16(udp + 6, checksum ? checksum : 0xffff);
}

static size_t ip_bytes(const struct av_net_path *p)
{
	return is_ipv4(p) ? IPV4_BYTES : IPV6_BYTES;
}

/*
 * Write the IP and UDP headers of a packet of @bytes, without its ICRC; all checksums are 0.
 * @to: room for AV_IP_HEADERS_MAX. Return: bytes written
 */
static size_t put_ip_headers(const struct av_net_path *p, size_t bytes, uint8_t *to)
{
	size_t udp_bytes = UDP_BYTES + bytes + AV_ICRC_BYTES;

	if (is_ipv4(p))
		put_ipv4(p, to, udp_bytes);
	else
		put_ipv6(p, to, udp_bytes);
	to += ip_bytes(p);
	av_put16(to, p->source_port);
	av_put16(to + 2, AV_ROCE_PORT);
	av_put16(to + 4, (uint32_t)udp_bytes);
	av_put16(to + 6, 0);
	return ip_bytes(p) + UDP_BYTES;
}

/* @checksum: with IPv4, UDP has one, too. @data: @bytes of what is behind the headers in @ip */
static void put_checksums(const struct av_net_path *p, uint8_t *ip, bool checksum,
			  const uint8_t *data, size_t bytes)
{
	bool ipv4 = is_ipv4(p);

	if (ipv4)
		av_put16(ip + 10, fold(sum16(0, ip, IPV4_BYTES)));
	if (!ipv4 || checksum)
		put_udp_checksum(ip + ip_bytes(p), ipv4 ? 4 : 16, data, bytes);
}

size_t av_frame_payload_at(const struct av_frame *f, uint8_t opcode)
{
	size_t headers = av_packet_header_bytes(opcode);

	return headers ? AV_ETH_BYTES + ip_bytes(&f->path) + UDP_BYTES + headers : 0;
}

size_t av_frame_put(const struct av_frame *f, const struct av_packet *p, uint8_t *to, size_t room)
{
	size_t at = av_frame_payload_at(f, p->opcode);
	size_t end =
		at + p->payload_bytes + av_packet_behind(p) + av_packet_padding(p->payload_bytes);
	uint8_t *ip = to + AV_ETH_BYTES, *udp = ip + ip_bytes(&f->path), *packet = udp + UDP_BYTES;
	size_t bytes = end - (size_t)(packet - to);

	if (!at || room < end + AV_ICRC_BYTES)
		return 0;
	if (p->payload_bytes && p->payload != to + at)
		memcpy(to + at, p->payload, p->payload_bytes);
	(void)av_packet_put_behind(p, to + at + p->payload_bytes);
	put_ethernet(f, to);
	(void)put_ip_headers(&f->path, bytes, ip);
	(void)av_packet_put_headers(p, packet);
	av_icrc_put(to + end, av_icrc(ip, packet, bytes));
	put_checksums(&f->path, ip, false, packet, bytes + AV_ICRC_BYTES);
	return end + AV_ICRC_BYTES;
}

size_t av_frame_wrap(const struct av_frame *f, bool checksum, const uint8_t *datagram, size_t bytes,
		     uint8_t *to, size_t room)
{
	size_t headers = AV_ETH_BYTES + ip_bytes(&f->path) + UDP_BYTES;

	put_ethernet(f, to);
	(void)put_ip_headers(&f->path, bytes - AV_ICRC_BYTES, to + AV_ETH_BYTES);
	put_checksums(&f->path, to + AV_ETH_BYTES, checksum, datagram, bytes);
	memcpy(to + headers, datagram, bytes < room - headers ? bytes : room - headers);
	return headers + bytes;
}
