/* SPDX-License-Identifier: MIT */
#include "memory/odp_uffd.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "memory/odp_table.h"

#define SPINS 200
#define CALLS 16u /* of madvise() at a time whose reports are one event each */

/* A stopped peer must not stop us. In our own process, only a debugger stops a single thread. */
#define PEER_WAIT_NS 10000000u
#define OWN_WAIT_NS  1000000000u

static struct {
	_Atomic int fd;
	_Atomic uint64_t round; /* odd while the listener may use entries of @context */
	_Atomic uint64_t expected_begin, expected_end; /* range of av_odp_expect(); equal: none */
	struct {
		_Atomic uint64_t begin, end; /* 0: free; or not said yet */
	} call[CALLS];
	_Atomic uint32_t used; /* length of the part of @context that was ever used */
	_Atomic(struct av_seg *) context[AV_REF_SLOTS];
} listener = {.fd = -1};

int av_odp_uffd(void)
{
	return atomic_load_explicit(&listener.fd, memory_order_acquire);
}

void av_odp_uffd_set(int fd)
{
	atomic_store(&listener.fd, fd);
}

/* --- contexts -------------------------------------------------------------------- */

struct av_seg *av_odp_context_at(uint32_t slot)
{
	return atomic_load_explicit(&listener.context[slot], memory_order_acquire);
}

uint32_t av_odp_context_slots(void)
{
	return atomic_load_explicit(&listener.used, memory_order_acquire);
}

/* The entry of @seg (NULL: a free one), or AV_REF_SLOTS. */
static uint32_t find_uffd_context(const struct av_seg *seg)
{
	uint32_t i = 0;

	while (i < AV_REF_SLOTS && av_odp_context_at(i) != seg)
		i++;
	return i;
}

bool av_odp_context_has(const struct av_seg *seg)
{
	return find_uffd_context(seg) < AV_REF_SLOTS;
}

bool av_odp_context_add(struct av_seg *seg)
{
	uint32_t i = find_uffd_context(NULL);

	if (i == AV_REF_SLOTS)
		return false;
	atomic_store(&listener.context[i], seg);
	if (i >= av_odp_context_slots())
		atomic_store(&listener.used, i + 1);
	return true;
}

void av_odp_forget_seen(void)
{
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++) {
		struct av_seg *seg = av_odp_context_at(i);
		struct av_odp_root *root = seg ? av_odp_root(seg) : NULL;

		if (root)
			atomic_fetch_add(&root->unmaps, 1);
	}
}

void av_odp_uffd_forked(void)
{
	atomic_store(&listener.fd, -1);
	atomic_store(&listener.round, 0);
	atomic_store(&listener.expected_begin, 0);
	atomic_store(&listener.expected_end, 0);
	for (uint32_t i = 0; i < CALLS; i++)
		av_odp_discard_end(i);
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++)
		atomic_store(&listener.context[i], NULL);
	atomic_store(&listener.used, 0);
}

/* --- waiting --------------------------------------------------------------------- */

static void pause_or_yield(unsigned int turn)
{
	if (turn < SPINS)
		av_pause();
	else
		sched_yield();
}

void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq)
{
	uint64_t until = av_now_ns() + (seg->own ? OWN_WAIT_NS : PEER_WAIT_NS);

	for (unsigned int turn = 0;
	     atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq; turn++) {
		pause_or_yield(turn);
		if (turn > SPINS && av_now_ns() > until)
			return;
	}
}

void av_odp_settle_to_read(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire), until = 0;

	while ((seq & 1) &&
	       atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq &&
	       av_patient(&until))
		sched_yield();
}

void av_odp_round_begin(void)
{
	atomic_fetch_add(&listener.round, 1);
}

void av_odp_round_end(void)
{
	atomic_fetch_add(&listener.round, 1);
}

/* After clearing an entry: wait until the listener cannot be using it any more. */
static void wait_for_round(void)
{
	uint64_t round = atomic_load(&listener.round);

	for (unsigned int turn = 0; (round & 1) && atomic_load(&listener.round) == round; turn++)
		pause_or_yield(turn);
}

void av_odp_context_remove(const struct av_seg *seg)
{
	uint32_t i = find_uffd_context(seg);

	if (i == AV_REF_SLOTS)
		return;
	atomic_store(&listener.context[i], NULL);
	wait_for_round();
}

/* Is an event unread? Since Linux 5.7 this ioctl checks that before anything else. */
static bool report_outstanding(int fd)
{
	struct uffdio_writeprotect nothing = {0};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &nothing) && errno == EAGAIN;
}

void av_odp_barrier(void)
{
	int fd = av_odp_uffd(), saved = errno;
	uint64_t until = 0;

	if (fd < 0)
		return;
	for (unsigned int turn = 0; report_outstanding(fd); turn++) {
		pause_or_yield(turn);
		if (turn == 0)
			until = av_now_ns() + OWN_WAIT_NS;
		else if (turn > SPINS && av_now_ns() > until)
			break; /* the unmapping thread is stopped */
	}
	wait_for_round();
	errno = saved;
}

/* --- unmappings to ignore -------------------------------------------------------- */

void av_odp_expect(uint64_t addr, uint64_t len)
{
	atomic_store(&listener.expected_begin, addr);
	atomic_store(&listener.expected_end, addr + len);
}

/* The unmapping returned when its event was read. The event is handled when its batch is. */
void av_odp_expect_end(void)
{
	wait_for_round();
	atomic_store(&listener.expected_begin, 0);
	atomic_store(&listener.expected_end, 0);
}

bool av_odp_is_expected(uint64_t begin, uint64_t end)
{
	return begin == atomic_load(&listener.expected_begin) &&
	       end == atomic_load(&listener.expected_end);
}

/* --- one call, several reports ---------------------------------------------------- */

uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len)
{
	uint32_t i = 0;

	if (addr == 0 || av_odp_uffd() < 0)
		return CALLS;
	while (i < CALLS &&
	       !atomic_compare_exchange_strong(&listener.call[i].begin, &(uint64_t){0}, addr))
		i++;
	if (i < CALLS)
		atomic_store(&listener.call[i].end, addr + len);
	return i;
}

void av_odp_discard_end(uint32_t call)
{
	if (call == CALLS)
		return;
	atomic_store(&listener.call[call].end, 0);
	atomic_store(&listener.call[call].begin, 0);
}

void av_odp_discarded_by(uint64_t *begin, uint64_t *end)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t from = atomic_load(&listener.call[i].begin),
			 to = atomic_load(&listener.call[i].end);

		if (from && from <= *begin && *end <= to) {
			*begin = from;
			*end = to;
			return;
		}
	}
}
