/* SPDX-License-Identifier: MIT */
/* What is received, what is dropped and counted, and by whom it is taken. */
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/wait.h"
#include "net/socket.h"
#include "registry/capture_table.h"
#include "wire/packet.h"

#define PORT	    55555 /* of strangers */
#define PATIENCE_MS 30000

static uint8_t own[16], theirs[16];
static int stranger;
static uint32_t ref, qpn;

/* A packet as it is sent from @port of theirs, with that identification. Return: bytes */
static size_t make_packet(uint8_t *to, uint32_t to_qpn, uint16_t port, uint16_t identification)
{
	struct av_net_path path = {.source_port = port, .identification = identification};
	struct av_packet p = send_only(to_qpn, 5, 8);
	size_t n = av_packet_put_headers(&p, to);

	for (uint32_t i = 0; i < p.payload_bytes; i++)
		to[n++] = (uint8_t)(5 + i);
	memcpy(path.src, theirs, sizeof(path.src));
	memcpy(path.dst, own, sizeof(path.dst));
	av_icrc_put(to + n, av_icrc_of(&path, to, n));
	return n + AV_ICRC_BYTES;
}

/* Wait until that many have come, whatever became of them. */
static void wait_in(uint64_t n)
{
	(void)WAIT_UNTIL(av_net_counted(AV_NET_IN) >= n, PATIENCE_MS);
	assert_int_equal(av_net_counted(AV_NET_IN), n);
}

/* What is done to a good packet, and how it is counted then. */
enum harm {
	NONE,
	CUT_ICRC,
	CUT_BTH,
	ONE_BYTE,
	FLIP_FIRST,
	FLIP_LAST,
	FLIP_ICRC,
	OTHER_QPN,
	OPCODE
};

static const struct {
	enum harm harm;
	uint16_t identification;
	enum av_net_count counted; /* AV_NET_COUNTS: it is received */
} arrival[] = {
	{NONE, 0, AV_NET_COUNTS},
	{NONE, 0x1234, AV_NET_COUNTS}, /* the kernel's rdma_rxe numbers them */
	{NONE, 0xffff, AV_NET_COUNTS},
	{CUT_ICRC, 0, AV_NET_SHORT},
	{CUT_BTH, 0, AV_NET_SHORT},
	{ONE_BYTE, 0, AV_NET_SHORT},
	{OPCODE, 0, AV_NET_SHORT},
	{FLIP_FIRST, 0, AV_NET_BAD_CRC},
	{FLIP_LAST, 0x4321, AV_NET_BAD_CRC},
	{FLIP_ICRC, 0, AV_NET_BAD_CRC},
	{OTHER_QPN, 0, AV_NET_NOBODY},
	{NONE, 1, AV_NET_COUNTS},
};

static size_t harm(uint8_t *packet, size_t n, enum harm how)
{
	switch (how) {
	case CUT_ICRC:
		return n - 2;
	case CUT_BTH:
		return 11;
	case ONE_BYTE:
		return 1;
	case OPCODE:
		packet[0] = 0xff;
		break;
	case FLIP_FIRST:
		packet[11] ^= 1;
		break;
	case FLIP_LAST:
		packet[n - AV_ICRC_BYTES - 1] ^= 0x80;
		break;
	case FLIP_ICRC:
		packet[n - 1] ^= 1;
		break;
	case NONE:
	case OTHER_QPN:
		break;
	}
	return n;
}

/* It is counted among those that have come before it is dropped. */
static bool is_dropped(enum av_net_count what, uint64_t n)
{
	return av_net_counted(what) == n &&
	       atomic_load(&damaged_count) == av_net_counted(AV_NET_BAD_CRC);
}

/* Captures saw the last one as it came, whatever became of it; an identification that solves it. */
static void assert_shown(const uint8_t *packet, size_t n, uint16_t identification,
			 enum av_net_count what)
{
	const struct shown *s = &shown[atomic_load(&shown_count) - 1];
	bool is_packet = what == AV_NET_COUNTS || what == AV_NET_NOBODY;

	assert_string_equal(s->device, "");
	assert_int_equal(s->path.source_port, PORT);
	assert_memory_equal(s->path.src, theirs, 16);
	assert_memory_equal(s->path.dst, own, 16);
	assert_int_equal(s->datagram.count, n);
	assert_memory_equal(s->bytes, packet, n);
	assert_int_equal(s->datagram.identification, is_packet ? identification : 0);
	assert_int_equal(s->datagram.damaged, what == AV_NET_BAD_CRC);
	assert_int_equal(s->datagram.unknown_queue, what == AV_NET_NOBODY);
}

TEST(what_is_dropped)
{
	unsigned int capture = begin_capture(), received;
	uint8_t packet[128];

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(arrival); i++) {
		enum av_net_count what = arrival[i].counted;
		uint32_t to = arrival[i].harm == OTHER_QPN ? qpn ^ 1u << 22 : qpn;
		uint64_t in = av_net_counted(AV_NET_IN);
		uint64_t before = what < AV_NET_COUNTS ? av_net_counted(what) : 0;
		size_t n = make_packet(packet, to, PORT, arrival[i].identification);

		received = atomic_load(&kept_count);
		n = harm(packet, n, arrival[i].harm);
		plain_send(stranger, own, packet, n);
		wait_in(in + 1);
		if (what < AV_NET_COUNTS) {
			assert_true(WAIT_UNTIL(is_dropped(what, before + 1), PATIENCE_MS));
			assert_int_equal(atomic_load(&kept_count), received);
		} else {
			wait_kept(received + 1);
			assert_kept(received, qpn, 5, 8);
			assert_memory_equal(kept[received].p.path.src, theirs, 16);
			assert_memory_equal(kept[received].p.path.dst, own, 16);
		}
		assert_int_equal(atomic_load(&shown_count), i + 1);
		assert_shown(packet, n, arrival[i].identification, what);
	}
	assert_int_equal(atomic_load(&damaged_qpn), qpn);
	av_capture_end(capture);
	received = atomic_load(&kept_count);
	plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
	wait_kept(received + 1);
	assert_int_equal(atomic_load(&shown_count), AV_ARRAY_SIZE(arrival));
}

/* Which traffic classes say that the packet met a queue. */
TEST(congestion)
{
	uint8_t packet[128];

	(void)state;
	for (int tos = 0x40; tos < 0x44; tos++) {
		unsigned int received = atomic_load(&kept_count);

		assert_int_equal(setsockopt(stranger, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
		plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
		wait_kept(received + 1);
		assert_int_equal(av_net_is_congested(&kept[received].p.path), tos == 0x43);
		assert_int_equal(kept[received].p.path.traffic_class, tos);
	}
}

/* What a poller takes is in order, settled, and taken once. */
TEST(pollers_take_it)
{
	const unsigned int before = atomic_load(&settled_count);
	uint8_t packet[128];

	(void)state;
	for (unsigned int i = 0; i < 2000; i++) {
		unsigned int received = atomic_load(&kept_count);
		uint64_t end = wait_clock_ms() + PATIENCE_MS;

		plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
		while (atomic_load(&kept_count) == received && wait_clock_ms() < end)
			(void)av_net_poll();
		assert_int_equal(atomic_load(&kept_count), received + 1);
	}
	(void)WAIT_UNTIL(atomic_load(&settled_count) > before, PATIENCE_MS);
	assert_in_range(atomic_load(&settled_count), before + 1, before + 2000);
	assert_false(av_net_poll());
}

/* Whoever polls, and stops, leaves nothing lying about. */
TEST(pollers_stop)
{
	uint8_t packet[128];

	(void)state;
	for (unsigned int i = 0; i < 50; i++) {
		unsigned int received = atomic_load(&kept_count);

		plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
		(void)av_net_poll();
		plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
		wait_kept(received + 2);
	}
}

/* What waits for its time is settled, whoever has received it, and whether anybody polls. */
TEST(nothing_waits_for_ever)
{
	uint8_t packet[128];

	(void)state;
	atomic_store(&settle_after_ns, 50000);
	for (unsigned int i = 0; i < 600; i++) {
		unsigned int received = atomic_load(&kept_count);

		plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
		while (i % 3 && atomic_load(&kept_count) == received)
			(void)av_net_poll();
		for (unsigned int k = 0; k < i % 3 * i; k++)
			(void)av_net_poll();
		if (!WAIT_UNTIL(atomic_load(&settled_kept) == received + 1, PATIENCE_MS))
			fail_msg("packet %u is not settled", i);
	}
	atomic_store(&settle_after_ns, 0);
}

TEST(over_ipv6)
{
	static const uint32_t bytes[] = {1024, 1024, 5};
	struct av_net_path path = {.src = {[15] = 1},
				   .dst = {[15] = 1},
				   .traffic_class = 0x22,
				   .hop_limit = 7,
				   .flow_label = 0x54321};
	int ret = av_net_open(path.src, true);

	(void)state;
	if (ret == -EADDRNOTAVAIL) /* IPv6 is off */
		return;
	assert_int_equal(ret, 0);
	assert_int_equal(av_net_own(path.src, qpn), 0);
	for (unsigned int usual = 0; usual < 2; usual++) {
		unsigned int received = atomic_load(&kept_count);

		if (usual) {
			path.traffic_class = AV_NET_USUAL_CLASS;
			path.hop_limit = AV_NET_USUAL_HOPS;
		}
		for (unsigned int n = 1; n <= AV_ARRAY_SIZE(bytes); n++) {
			assert_int_equal(send_burst(&path, qpn, bytes, n), 0);
			wait_kept(received + n);
			for (unsigned int i = 0; i < n; i++) {
				assert_kept(received + i, qpn, i, bytes[i]);
				assert_path(received + i, &path);
			}
			received += n;
		}
	}
	av_net_close(path.src, true, NULL);
}

/* An address has users, and its socket goes with the last. */
TEST(users_of_an_address)
{
	struct av_net_path path;

	(void)state;
	memcpy(path.src, own, 16);
	assert_int_equal(av_net_open(own, true), 0);
	av_net_close(own, true, NULL);
	assert_true(atomic_load(&av_net_is_open));
	av_net_close(own, true, NULL);
	assert_false(atomic_load(&av_net_is_open));
	assert_null(av_net_burst(&path, "any0"));
	assert_false(av_net_poll());
	av_net_close(own, true, NULL); /* changes nothing */
	assert_int_equal(av_net_open(own, true), 0);
	assert_int_equal(av_net_own(own, qpn), 0);
}

TEST(addresses_that_cannot_be_had)
{
	uint8_t address[16];
	int taken;

	(void)state;
	own_address(address, 2);
	taken = plain_socket(address,
			     AV_ROCE_PORT); /* without SO_REUSEPORT, as another user's is */
	assert_int_equal(av_net_open(address, true), -EADDRINUSE);
	close(taken);
	taken = shared_socket(address); /* as that of another directory's process is */
	assert_int_equal(av_net_open(address, true), -EADDRINUSE);
	close(taken);
	assert_int_equal(av_net_open(address, true), 0);
	av_net_close(address, true, NULL);
	memcpy(address + 12, (const uint8_t[]){192, 0, 2, 250}, 4);
	assert_int_equal(av_net_open(address, true), -EADDRNOTAVAIL);
	assert_int_equal(av_net_join(own, own), -EADDRNOTAVAIL); /* no group */
	assert_int_equal(av_net_join(address, own), -EADDRNOTAVAIL);
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A child has nothing of it, and may begin anew; its parent goes on. */
TEST(a_forked_child)
{
	unsigned int received = atomic_load(&kept_count), files = open_files();
	uint8_t packet[128];
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		struct av_net_path path;

		memcpy(path.src, own, 16);
		if (atomic_load(&av_net_is_open) || av_net_burst(&path, "any0") || av_net_poll() ||
		    open_files() > files - 3)
			_exit(1);
#ifndef __SANITIZE_THREAD__ /* which has no threads in a child of several */
		leave(enter());
		(void)enter();
		if (av_net_open(own, true))
			_exit(2);
		av_net_close(own, true, NULL);
#endif
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	atomic_store(&kept_count, received);
	plain_send(stranger, own, packet, make_packet(packet, qpn, PORT, 0));
	wait_kept(received + 1);
}

/* Which is a race, as ThreadSanitizer would say of close(). */
static void close_sockets(void)
{
	struct stat st;

	for (int fd = 3; fd < 4096; fd++)
		if (fd != stranger && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
			syscall(SYS_close, fd);
}

/* Nothing of the program's is read, and nothing hangs. */
TEST(the_program_closes_our_sockets)
{
	struct av_net_path path = {.hop_limit = 1};
	const uint32_t bytes = 4;

	(void)state;
	memcpy(path.src, own, 16);
	memcpy(path.dst, theirs, 16);
	close_sockets();
	assert_int_equal(send_burst(&path, qpn, &bytes, 1), -EBADF);
	assert_false(av_net_poll());
	av_net_close(own, true, NULL);
	assert_false(atomic_load(&av_net_is_open));
}

static int begin(void **state)
{
	if (make_folder(state))
		return -1;
	own_address(own, 0);
	own_address(theirs, 1);
	ref = enter();
	qpn = new_qpn(ref);
	stranger = plain_socket(theirs, PORT);
	return av_net_open(own, true) || av_net_own(own, qpn);
}

static int end(void **state)
{
	leave(ref);
	return remove_folder(state);
}

int main(void)
{
	return run_cases(begin, end);
}
