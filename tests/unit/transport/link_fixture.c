/* SPDX-License-Identifier: MIT */
/* Runs of an exchange, and what happens to its packets meanwhile. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/unit.h"
#include "unit/transport/link_parts.h"

#include "copy/copy.h"
#include "lib/check.h"
#include "lib/own_directory.h"
#include "lib/turned_clock.h"
#include "transport/observed.h"

#define STEPS 100000u

void (*link_judge)(const struct link_exchange *e);

static struct link_setting setting;
static bool traces;
static bool failed; /* and left everything as it was: no more runs */
static const int fault[] = {SIGSEGV, SIGBUS};
static struct sigaction on_fault[2]; /* the library's: cmocka sets its own before each test */

/* --- words ------------------------------------------------------------------------ */

static const char *const what_names[] = {
	[LINK_LOSE] = "lost",	   [LINK_DOUBLE] = "doubled", [LINK_ECHO] = "come again",
	[LINK_SWAP] = "overtaken", [LINK_DELAY] = "delayed",  [LINK_DAMAGE] = "damaged",
};

static void print_faults(void)
{
	printf("%s%s:", link_now->name, link_now->each ? " (settled one by one)" : "");
	for (unsigned int i = 0; i < setting.fault_count; i++)
		printf(" packet %u %s (%llu ns, byte %d)", setting.faults[i].packet,
		       what_names[setting.faults[i].what],
		       (unsigned long long)setting.faults[i].delay_ns, setting.faults[i].byte);
	printf("\n");
}

void link_fail(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_faults();
	fflush(stdout);
	failed = true;
	fail_msg("%s", text);
	abort();
}

void link_trace(const struct link_packet *p)
{
	const struct av_packet *b = &p->net->packet;
	const struct av_opcode *info = av_opcode_info(b->opcode);

	if (!traces || !info)
		return;
	printf("%10.3f us %3u %c %-28s psn %06x len %5u%s", (double)turned_clock_ns() / 1e3,
	       p->number, "><"[p->from], info -> name, b -> psn, b -> payload_bytes,
	       b -> ack_request ? " A" : "");
	if (b->carries)
		printf(" carries %06x", b->carried & AV_PSN_MASK);
	if (b->filler)
		printf(" filler %u", b->filler);
	if (info->headers & 1 << AV_HEADER_AETH)
		printf(" syndrome %02x msn %u", b->syndrome, b->msn);
	printf("%s%s\n", p->fault ? " " : "", p->fault ? what_names[p->fault->what] : "");
}

/* --- runs ------------------------------------------------------------------------- */

struct link_setting *link_open(const struct link_exchange *e, const struct link_fault *faults,
			       unsigned int fault_count)
{
	link_now = e;
	setting = (struct link_setting){.faults = faults,
					.fault_count = fault_count,
					.each = e->each,
					.room = e->room,
					.congested = e->congested,
					.sent = link_judge_sent,
					.arrives = link_judge_arrival};
	if (failed)
		skip();
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], &on_fault[i], NULL) == 0);
	link_lay_out();
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		setting.process[h] = e->near ? link_side[h].seg : NULL;
		setting.call_ns[h] = e->call_ns[h];
	}
	link_begin(&setting);
	if (traces)
		print_faults();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		link_make_side(h);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		link_connect_side(h);
	if (link_now->narrow)
		link_narrow();
	link_bind_windows();
	if (link_now->late_ns)
		link_call_at(turned_clock_ns() + link_now->late_ns, link_post_receives);
	else
		link_post_receives();
	return &setting;
}

void link_close(void)
{
	link_run_as(LINK_HOSTS);
	link_unbind_windows();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		link_destroy_side(h);
}

unsigned int link_run(const struct link_exchange *e, const struct link_fault *faults,
		      unsigned int fault_count)
{
	unsigned int steps = 0;

	(void)link_open(e, faults, fault_count);
	link_post();
	link_poll();
	link_post();
	while (link_step()) {
		if (++steps == STEPS)
			link_fail("it does not end");
		link_poll();
		link_post();
	}
	if (!link_now->fails) {
		for (unsigned int h = 0; h < LINK_HOSTS; h++)
			link_check_side(h);
		link_check_memory();
	} else if (link_judge) {
		link_judge(link_now);
	}
	link_close();
	return link_sent();
}

/* What happens to a packet; times are beyond each timer. */
static const struct link_fault each_fault[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_ECHO, .delay_ns = 2 * LINK_RNR_NS},
	{.what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS * 40},
	{.what = LINK_DELAY, .delay_ns = 2 * LINK_RNR_NS},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 5},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 40},
	{.what = LINK_DAMAGE, .byte = 0},  /* opcode */
	{.what = LINK_DAMAGE, .byte = 7},  /* queue pair number */
	{.what = LINK_DAMAGE, .byte = 11}, /* PSN */
	{.what = LINK_DAMAGE, .byte = 12}, /* the next header, or payload, or ICRC */
	{.what = LINK_DAMAGE, .byte = -8}, /* the end of the payload, or of the headers */
	{.what = LINK_DAMAGE, .byte = -1}, /* ICRC */
};

static const struct link_fault one_of_two[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_DELAY, .delay_ns = LINK_TIMEOUT_NS * 3 / 2},
	{.what = LINK_DAMAGE, .byte = 11},
};

static void try_each(const struct link_exchange *e)
{
	unsigned int packets = link_run(e, NULL, 0);

	for (unsigned int i = 0; i < packets; i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(each_fault); k++) {
			struct link_fault f = each_fault[k];

			f.packet = i;
			(void)link_run(e, &f, 1);
		}
}

void link_each(const struct link_exchange *e)
{
	struct link_exchange settled = *e;

	try_each(e);
	settled.each = !e->each;
	try_each(&settled);
}

/* The second packet is one of those that are sent after what happened to the first. */
static void try_second(const struct link_exchange *e, const struct link_fault *first)
{
	unsigned int packets = link_run(e, first, 1);
	struct link_fault f[2] = {*first};

	for (unsigned int i = first->packet + 1; i < packets; i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(one_of_two); k++) {
			f[1] = one_of_two[k];
			f[1].packet = i;
			(void)link_run(e, f, 2);
		}
}

void link_each_two(const struct link_exchange *e)
{
	unsigned int packets = link_run(e, NULL, 0);

	for (unsigned int i = 0; i < packets; i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(one_of_two); k++) {
			struct link_fault f = one_of_two[k];

			f.packet = i;
			try_second(e, &f);
		}
}

const uint32_t link_sizes[] = {0, 1, 255, 256, 257, 512, 769};
const unsigned int link_size_count = AV_ARRAY_SIZE(link_sizes);

void link_each_size(enum ibv_qp_type type, uint32_t opcode)
{
	for (unsigned int i = 0; i < link_size_count; i++) {
		char name[64];
		struct link_exchange e = {
			.name = name,
			.type = type,
			.request = {POST(opcode, link_sizes[i]), POST(opcode, link_sizes[i])}};

		snprintf(name, sizeof(name), "opcode %u, %u bytes, twice", opcode, link_sizes[i]);
		link_each(&e);
		link_each_two(&e);
	}
}

void link_all(const struct link_exchange *rows, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		link_each(&rows[i]);
		link_each_two(&rows[i]);
	}
}

/* --- set-up ----------------------------------------------------------------------- */

int link_set_up(void **state)
{
	traces = getenv("LINK_TRACE") != NULL;
	if (setenv("ANYVERBS_TRANSPORT", "wire", 1) || own_directory_join(state) || av_copy_init())
		return -1;
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], NULL, &on_fault[i]) == 0);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		link_set_up_side(h);
	return 0;
}

int link_tear_down(void **state)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		munmap(link_side[h].arena, ARENA);
		free(link_want[h]);
		av_wire_faults_end(link_side[h].seg); /* settles both */
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		av_inject_end(link_side[h].seg);
		av_seg_close(link_side[h].seg);
	}
	return own_directory_leave(state);
}
