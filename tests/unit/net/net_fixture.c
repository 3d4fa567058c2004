/* SPDX-License-Identifier: MIT */
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/wait.h"
#include "registry/directory.h"
#include "registry/capture_table.h"
#include "wire/packet.h"

#define PATIENCE_MS  10000
#define UC_SEND_ONLY 0x24

struct kept *kept;
_Atomic unsigned int kept_count, settled_count, settled_kept;
_Atomic uint64_t settle_after_ns;
static unsigned int waiting; /* @kept_count that waits */
struct shown shown[SHOWN_MAX];
_Atomic unsigned int shown_count, damaged_count;
_Atomic uint32_t damaged_qpn;

static char folder[] = "/dev/shm/anyverbs-test-XXXXXX";

int make_folder(void **state)
{
	kept = mmap(NULL, KEPT_MAX * sizeof(*kept), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return kept == MAP_FAILED || !mkdtemp(folder) || setenv("ANYVERBS_DIR", folder, 1);
}

int remove_folder(void **state)
{
	rmdir(folder);
	return 0;
}

void own_address(uint8_t gid[16], unsigned int n)
{
	static pid_t pid;

	if (!pid)
		pid = getpid(); /* children use the same addresses */
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	gid[12] = 127;
	gid[13] = (uint8_t)(n << 6 | ((unsigned int)pid >> 16 & 0x3f));
	gid[14] = (uint8_t)(pid >> 8);
	gid[15] = (uint8_t)pid;
}

static void keep(const struct av_net_packet *p)
{
	unsigned int i = atomic_load(&kept_count);
	struct kept *k = &kept[i];

	if (i == KEPT_MAX)
		return;
	k->p = *p;
	k->bytes = p->packet.payload_bytes;
	if (k->bytes)
		memcpy(k->payload, p->packet.payload,
		       k->bytes < KEPT_BYTES ? k->bytes : KEPT_BYTES);
	atomic_store(&kept_count, i + 1);
}

static void keep_all(const struct av_net_packet *p, unsigned int count)
{
	for (; count > 0; count--)
		keep(p++);
}

static uint64_t settled(uint64_t now_ns)
{
	unsigned int received = atomic_load(&kept_count);
	static uint64_t due_ns;

	atomic_fetch_add(&settled_count, 1);
	if (received != waiting) {
		waiting = received;
		due_ns = av_now_ns() + atomic_load(&settle_after_ns);
	}
	if (atomic_load(&settle_after_ns) && due_ns > now_ns)
		return due_ns;
	atomic_store(&settled_kept, received);
	return UINT64_MAX;
}

static void show(const struct av_net_seen *s)
{
	unsigned int at = atomic_load(&shown_count);

	for (unsigned int i = 0; i < s->count && at < SHOWN_MAX; i++, at++) {
		size_t n = s->datagram[i].count;

		shown[at] = (struct shown){
			.path = *s->path, .time_ns = s->time_ns, .datagram = s->datagram[i]};
		strncpy(shown[at].device, s->device ? s->device : "", sizeof(shown[at].device) - 1);
		memcpy(shown[at].bytes, s->datagram[i].bytes, n < KEPT_BYTES ? n : KEPT_BYTES);
	}
	atomic_store(&shown_count, at);
}

static void damaged(uint32_t qpn)
{
	atomic_store(&damaged_qpn, qpn);
	atomic_fetch_add(&damaged_count, 1);
}

unsigned int begin_capture(void)
{
	static const struct av_capture_spec spec = {.limit = UINT64_MAX};
	int number = av_capture_begin(&spec);

	assert_in_range(number, 1, AV_CAPTURES);
	atomic_store(&shown_count, 0);
	return (unsigned int)number;
}

uint32_t enter(void)
{
	static const struct av_net_receiver receiver = {keep_all, settled, show, damaged};
	uint32_t ref;
	int fd;

	atomic_store(&kept_count, 0);
	waiting = 0;
	av_net_receive_by(&receiver);
	assert_int_equal(av_dir_join(NULL), 0);
	fd = av_dir_context_add(&ref);
	assert_true(fd >= 0);
	close(fd);
	return ref;
}

void leave(uint32_t ref)
{
	av_dir_context_remove(ref);
	av_dir_leave();
}

uint32_t new_qpn(uint32_t ref)
{
	int qpn = av_dir_qpn_add(ref, 1, LIMIT);

	assert_in_range(qpn, 2, 0xfffffe);
	return (uint32_t)qpn;
}

void wait_kept(unsigned int n)
{
	(void)WAIT_UNTIL(atomic_load(&kept_count) >= n, PATIENCE_MS);
	assert_in_range(atomic_load(&kept_count), n, KEPT_MAX);
}

static struct sockaddr_in name_of(const uint8_t gid[16], uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&a.sin_addr, gid + 12, 4);
	return a;
}

static int bound_socket(const uint8_t gid[16], uint16_t port, int shared)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = name_of(gid, port);
	const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

int plain_socket(const uint8_t gid[16], uint16_t port)
{
	return bound_socket(gid, port, 0);
}

int shared_socket(const uint8_t gid[16])
{
	return bound_socket(gid, AV_ROCE_PORT, 1);
}

void plain_send(int fd, const uint8_t to[16], const void *bytes, size_t n)
{
	struct sockaddr_in a = name_of(to, AV_ROCE_PORT);

	assert_int_equal(sendto(fd, bytes, n, 0, (struct sockaddr *)&a, sizeof(a)), n);
}

struct av_packet send_only(uint32_t qpn, uint32_t psn, uint32_t payload_bytes)
{
	return (struct av_packet){.opcode = UC_SEND_ONLY,
				  .pkey = 0xffff,
				  .dest_qpn = qpn,
				  .psn = psn,
				  .payload_bytes = payload_bytes};
}

void put_one(struct av_net_burst *b, uint32_t qpn, uint32_t psn, uint32_t payload_bytes)
{
	struct av_packet p = send_only(qpn, psn, payload_bytes);
	uint8_t *to = av_net_put(b, &p);

	for (uint32_t i = 0; i < payload_bytes; i++)
		to[i] = (uint8_t)(psn + i);
}

int send_burst(const struct av_net_path *path, uint32_t qpn, const uint32_t *payload_bytes,
	       unsigned int packets)
{
	struct av_net_burst *b = av_net_burst(path, "any0");

	assert_non_null(b);
	for (unsigned int psn = 0; psn < packets; psn++)
		put_one(b, qpn, psn, payload_bytes[psn]);
	return av_net_send(b);
}

void assert_path(unsigned int i, const struct av_net_path *path)
{
	const struct av_net_path *there = &kept[i].p.path;

	assert_memory_equal(there->src, path->src, sizeof(path->src));
	assert_memory_equal(there->dst, path->dst, sizeof(path->dst));
	assert_int_equal(there->traffic_class, path->traffic_class);
	assert_int_equal(there->hop_limit, path->hop_limit);
	assert_int_equal(there->flow_label, path->flow_label);
}

void assert_kept(unsigned int i, uint32_t qpn, uint32_t psn, uint32_t payload_bytes)
{
	const struct kept *k = &kept[i];

	assert_int_equal(k->p.packet.dest_qpn, qpn);
	assert_int_equal(k->p.packet.psn, psn);
	assert_int_equal(k->bytes, payload_bytes);
	for (uint32_t at = 0; at < payload_bytes; at++)
		assert_int_equal(k->payload[at], (uint8_t)(psn + at));
}
