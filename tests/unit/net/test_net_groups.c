/* SPDX-License-Identifier: MIT */
/* A multicast group: every process that has joined it gets each packet once. */
#include "net_fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/wait.h"

#define MEMBERS	      3
#define PACKETS	      20
#define GROUP_QPN     0xffffffu
#define UD_SEND_ONLY  0x64
#define PATIENCE_MS   10000
#define OTHER_ADDRESS 2
#define OTHER	      1000u /* packets: what another one counts for */

static uint8_t group[16], other_group[16];

static _Atomic uint32_t *got; /* of each member; shared */
static unsigned int number;   /* of this one */

static void count(const struct av_net_packet *p, unsigned int packets)
{
	if (p->packet.dest_qpn == GROUP_QPN && memcmp(p->path.dst, group, 16) == 0)
		atomic_fetch_add(&got[number], packets);
	else
		atomic_fetch_add(&got[number], OTHER * packets);
}

static uint64_t settled(uint64_t now_ns)
{
	return UINT64_MAX;
}

static const struct av_net_receiver receiver = {.packets = count, .settled = settled};

static int send_to(const uint8_t to[16], uint32_t qpn)
{
	struct av_net_path path = {.hop_limit = 1};
	struct av_packet p = send_only(qpn, 1, 4);
	struct av_net_burst *b;

	p.opcode = UD_SEND_ONLY;
	own_address(path.src, 0);
	memcpy(path.dst, to, 16);
	b = av_net_burst(&path, "any0");
	assert_non_null(b);
	memset(av_net_put(b, &p), 0, 4);
	return av_net_send(b);
}

/* All members share an address; the last of them joins the other group. */
static void be_member(unsigned int i, const int done[2], const int go[2])
{
	uint32_t ref = enter();
	uint8_t own[16];
	char byte;

	number = i;
	av_net_receive_by(&receiver);
	own_address(own, 1);
	assert_int_equal(av_net_open(own, true), 0);
	assert_int_equal(av_net_join(own, i == MEMBERS - 1 ? other_group : group), 0);
	assert_int_equal(write(done[1], "", 1), 1);
	close(go[1]);
	(void)!read(go[0], &byte, 1);
	av_net_leave(own, i == MEMBERS - 1 ? other_group : group);
	av_net_close(own, true, NULL);
	leave(ref);
	_exit(0);
}

static void expect_got(unsigned int i, uint32_t n)
{
	(void)WAIT_UNTIL(atomic_load(&got[i]) >= n, PATIENCE_MS);
	assert_int_equal(atomic_load(&got[i]), n);
}

TEST(every_member_gets_one_copy)
{
	int done[2], go[2];
	uint8_t own[16];
	uint32_t ref;
	char byte;

	(void)state;
	assert_false(pipe(done) || pipe(go));
	for (unsigned int i = 0; i < MEMBERS; i++)
		if (fork() == 0)
			be_member(i, done, go);
	for (unsigned int i = 0; i < MEMBERS; i++)
		assert_int_equal(read(done[0], &byte, 1), 1);
	ref = enter();
	number = MEMBERS;
	av_net_receive_by(&receiver);
	own_address(own, 0);
	assert_int_equal(av_net_open(own, true), 0);
	assert_int_equal(av_net_join(own, group), 0); /* the sender gets a copy, too */
	for (unsigned int n = 1; n <= PACKETS; n++) {
		assert_int_equal(send_to(group, GROUP_QPN), 0);
		for (unsigned int i = 0; i < MEMBERS - 1; i++)
			expect_got(i, n);
		expect_got(MEMBERS, n);
	}
	assert_int_equal(send_to(other_group, GROUP_QPN), 0);
	expect_got(MEMBERS - 1, OTHER); /* and before that nothing */
	for (unsigned int i = 0; i <= MEMBERS; i++)
		expect_got(i, i == MEMBERS - 1 ? OTHER : PACKETS);
	close(go[1]);
	for (unsigned int i = 0; i < MEMBERS; i++)
		assert_true(wait(NULL) > 0);
	close(go[0]);
	close(done[0]);
	close(done[1]);
	av_net_leave(own, group);
	av_net_close(own, true, NULL);
	leave(ref);
}

/* One queue pair's number is the group's; no other has packets sent to a group. */
TEST(what_is_not_for_a_group)
{
	uint32_t ref = enter(), qpn = new_qpn(ref);
	uint64_t nobody = av_net_counted(AV_NET_NOBODY);
	uint8_t own[16];

	(void)state;
	av_net_receive_by(&receiver);
	number = 0;
	atomic_store(&got[0], 0);
	own_address(own, 0);
	assert_int_equal(av_net_open(own, true), 0);
	assert_int_equal(av_net_join(own, group), 0);
	assert_int_equal(send_to(group, qpn), 0);
	assert_int_equal(send_to(own, GROUP_QPN), 0);
	assert_int_equal(send_to(group, GROUP_QPN), 0);
	expect_got(0, 1);
	/* They come by two sockets, in any order. */
	assert_true(WAIT_UNTIL(av_net_counted(AV_NET_NOBODY) >= nobody + 2, PATIENCE_MS));
	/* What comes behind them is the next. */
	assert_int_equal(send_to(own, GROUP_QPN), 0);
	assert_int_equal(send_to(group, GROUP_QPN), 0);
	expect_got(0, 2);
	assert_true(WAIT_UNTIL(av_net_counted(AV_NET_NOBODY) >= nobody + 3, PATIENCE_MS));
	assert_int_equal(av_net_counted(AV_NET_NOBODY), nobody + 3);
	av_net_leave(own, group);
	av_net_close(own, true, NULL);
	leave(ref);
}

/* Two addresses of one interface are on one network: its packets come once, for both. */
TEST(users_of_a_group)
{
	uint8_t own[16], other[16];
	uint32_t ref = enter();

	(void)state;
	av_net_receive_by(&receiver);
	atomic_store(&got[0], 0);
	own_address(own, 0);
	own_address(other, OTHER_ADDRESS);
	assert_int_equal(av_net_open(own, true), 0);
	assert_int_equal(av_net_open(other, true), 0);
	assert_int_equal(av_net_join(own, group), 0);
	assert_int_equal(av_net_join(other, group), 0);
	for (uint32_t users = 2; users > 0; users--) {
		assert_int_equal(send_to(group, GROUP_QPN), 0);
		expect_got(0, 3 - users);
		av_net_leave(users == 2 ? own : other, group);
	}
	assert_int_equal(send_to(group, GROUP_QPN), 0);
	assert_int_equal(av_net_join(own, group), 0);
	assert_int_equal(send_to(group, GROUP_QPN), 0);
	expect_got(0, 3); /* the one before was nobody's */
	av_net_leave(own, group);
	av_net_close(other, true, NULL);
	av_net_close(own, true, NULL);
	leave(ref);
}

static int begin(void **state)
{
	own_address(group, 0);
	group[12] = 239; /* for tests of this process, too */
	memcpy(other_group, group, 16);
	other_group[13] ^= 0x80;
	got = mmap(NULL, (MEMBERS + 1) * sizeof(*got), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return got == MAP_FAILED || make_folder(state);
}

int main(void)
{
	return run_cases(begin, remove_folder);
}
