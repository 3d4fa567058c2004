/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/cm.h"
#include "cm/id.h"
#include "lib/check.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "registry/tables.h"
#include "unit/cm/cm_link_parts.h"

#define LONG (120 * SECOND) /* whatever can happen has happened */

struct cm_link_now cm_link_now;

static const struct link_fault *faults;
/* cmocka puts its own in the place of that of av_copy(), which then asks the kernel. */
static const int fault[] = {SIGSEGV, SIGBUS};
static struct sigaction on_fault[2];
static char failure[400];

/* --- saying what is wrong ---------------------------------------------------------- */

static void print_faults(char *to, size_t room)
{
	static const char *const names[] = {"lost",    "doubled", "echoed",
					    "swapped", "late",	  "damaged"};
	size_t n = (size_t)snprintf(to, room, "%s%s", cm_link_now.exchange->name,
				    cm_link_now.exchange->together ? " (processes)" : "");

	for (unsigned int i = 0; i < cm_link_now.fault_count && n < room; i++)
		n += (size_t)snprintf(to + n, room - n, ", %u %s by %llu ms", faults[i].packet,
				      names[faults[i].what],
				      (unsigned long long)(faults[i].delay_ns / MS));
}

void cm_link_fail(const char *fmt, ...)
{
	char text[160], which[200];
	va_list ap;

	if (failure[0])
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_faults(which, sizeof(which));
	snprintf(failure, sizeof(failure), "%s: %s", which, text);
}

uint64_t cm_link_since_begun(void)
{
	return turned_clock_ns() - cm_link_now.begun_ns;
}

/* --- a run ------------------------------------------------------------------------- */

static uint64_t due(void)
{
	uint64_t manager = manager_due(), program = cm_link_next_doing();

	return manager < program ? manager : program;
}

static void look(void)
{
	cm_link_do_due();
	if (manager_due() <= turned_clock_ns())
		manager_look();
}

/* Past the resolution of addresses, which asks the kernel. */
static void route(struct cm_link_id *x)
{
	union ibv_gid own = link_gid(0), there = link_gid(cm_link_now.exchange->together ? 0 : 1);
	struct av_cm_id *id;

	CHECK(av_cm_id_find(cm_link_now.channel[0], x->number, &id) == 0);
	CHECK(av_cm_where_gid(own.raw, &id->where));
	id->src = (struct av_cm_name){.v6 = true, .port = CM_LINK_PORT + 1};
	id->dst = (struct av_cm_name){.v6 = true, .port = CM_LINK_PORT};
	memcpy(id->src.address, own.raw, sizeof(own));
	memcpy(id->dst.address, there.raw, sizeof(there));
	memcpy(id->gid, there.raw, sizeof(there));
	id->state = AV_CM_ID_ROUTED;
}

static void begin(const struct cm_link_exchange *e, const struct link_fault *f, unsigned int n)
{
	cm_link_now.exchange = e;
	faults = f;
	cm_link_now.fault_count = n;
	cm_link_now.setting.faults = f;
	cm_link_now.setting.fault_count = n;
	cm_link_now.setting.sent = cm_link_on_sent;
	cm_link_now.setting.loses = cm_link_loses;
	cm_link_now.setting.alarm = (struct link_alarm){due, look};
	cm_link_now.setting.full = e->full;
	memset(cm_link_now.setting.proc, 0, sizeof(cm_link_now.setting.proc));
	if (e->together)
		memcpy(cm_link_now.setting.proc, manager_proc, sizeof(cm_link_now.setting.proc));
	av_lock_self = manager_proc[0];
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], &on_fault[i], NULL) == 0);
	link_begin(&cm_link_now.setting);
	cm_link_now.begun_ns = turned_clock_ns();
	cm_link_now.messages = cm_link_events = cm_link_now.said_count = cm_link_now.id_count = 0;
	cm_link_do_nothing_more();
	cm_link_now.listener = 0;
	cm_link_now.peer_dead = false;
	failure[0] = '\0';
}

static void ask(void)
{
	struct cm_link_id *x = &cm_link_now.ids[cm_link_now.id_count++];

	*x = (struct cm_link_id){.uid = 1, .there = true};
	if (cm_link_now.traces) {
		char which[200];

		print_faults(which, sizeof(which));
		printf("%s\n", which);
	}
	if (!cm_link_now.exchange->deaf)
		cm_link_listen();
	link_be(0);
	MUST_BE(cm_create(cm_link_now.fd[0], x->uid, cm_link_space(), &x->number), 0);
	route(x);
	MUST_BE(cm_link_connect(x), 0);
	cm_link_plan(0, 0, cm_link_now.exchange->then[0]);
	cm_link_plan(1, 1, cm_link_now.exchange->then[1]);
}

static void play(void)
{
	uint64_t until = turned_clock_ns() + LONG;

	cm_link_hear_all();
	while (turned_clock_ns() < until && link_step())
		cm_link_hear_all();
}

static bool is_case(const struct cm_link_case *c)
{
	if (memcmp(cm_link_now.ids[0].heard, c->hears[0], CM_HISTORY) != 0)
		return false;
	if (cm_link_now.peer_dead)
		return true;
	if (cm_link_now.id_count > 1 &&
	    memcmp(cm_link_now.ids[1].heard, c->hears[1], CM_HISTORY) != 0)
		return false;
	for (unsigned int i = 2; i < cm_link_now.id_count; i++)
		if (memcmp(cm_link_now.ids[i].heard, c->hears[1], CM_HISTORY) != 0 &&
		    !(cm_link_now.ids[i].count == 2 && cm_link_now.ids[i].heard[1] == CM_REJECTED))
			return false;
	return cm_link_now.id_count > 1 || !c->hears[1][0];
}

/* A request whose refusal is lost is another one when it comes again. Else there is one. */
static void judge_ends(void)
{
	bool anew = cm_link_refuses(1) ||
		    cm_link_now.exchange->on[1][CM_CONNECT_REQUEST].act == DESTROY;

	for (unsigned int i = 0; i < CM_CASES; i++) {
		if (i && !cm_link_now.fault_count)
			break;
		if (is_case(&cm_link_now.exchange->cases[i]) && (cm_link_now.id_count <= 2 || anew))
			return;
	}
	cm_link_fail("host 0 hears %u %u %u %u %u, host 1 %u %u %u %u %u, of %u requests",
		     cm_link_now.ids[0].heard[0], cm_link_now.ids[0].heard[1],
		     cm_link_now.ids[0].heard[2], cm_link_now.ids[0].heard[3],
		     cm_link_now.ids[0].heard[4], cm_link_now.ids[1].heard[0],
		     cm_link_now.ids[1].heard[1], cm_link_now.ids[1].heard[2],
		     cm_link_now.ids[1].heard[3], cm_link_now.ids[1].heard[4],
		     cm_link_now.id_count - 1);
}

static void judge_leavings(void)
{
	struct av_cm_port p;
	uint32_t at = 0;

	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		MUST(TAILQ_EMPTY(&cm_link_now.channel[h]->ids) &&
		     TAILQ_EMPTY(&cm_link_now.channel[h]->events));
	MUST(!av_cm_conns_there());
	MUST(manager_due() == UINT64_MAX);
	MUST(!av_cm_port_next(&at, &p));
	MUST_BE(link_under_way(), 0);
}

static void end(void)
{
	cm_link_do_nothing_more();
	for (unsigned int i = 0; i < cm_link_now.id_count; i++) {
		link_be(cm_link_now.ids[i].host);
		if (cm_link_now.ids[i].there)
			cm_link_end_id(&cm_link_now.ids[i]);
	}
	cm_link_end_listen();
	play();
	judge_leavings();
	if (cm_link_now.peer_dead)
		manager_peer_begins();
	memset(cm_link_now.setting.cut, 0, sizeof(cm_link_now.setting.cut));
	memset(cm_link_now.setting.moved, 0, sizeof(cm_link_now.setting.moved));
}

unsigned int cm_link_run(const struct cm_link_exchange *e, const struct link_fault *f,
			 unsigned int n)
{
	unsigned int count;

	begin(e, f, n);
	ask();
	play();
	count = cm_link_now.messages;
	judge_ends();
	end();
	memset(cm_link_now.ids, 0, sizeof(cm_link_now.ids));
	fflush(stdout);
	if (failure[0])
		fail_msg("%s", failure);
	return count;
}

/* --- everything that can happen ---------------------------------------------------- */

/* Beyond the first repetition, TIMEWAIT, the longest time between two, and all of them. */
static const struct link_fault each_fault[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_DAMAGE, .byte = 11},
	{.what = LINK_DAMAGE, .byte = 100},
	{.what = LINK_DAMAGE, .byte = -1},
	{.what = LINK_ECHO, .delay_ns = MS},
	{.what = LINK_ECHO, .delay_ns = 150 * MS},
	{.what = LINK_ECHO, .delay_ns = 700 * MS},
	{.what = LINK_ECHO, .delay_ns = 1200 * MS}, /* in TIMEWAIT, if it began after a second */
	{.what = LINK_ECHO, .delay_ns = 5 * SECOND},
	{.what = LINK_ECHO, .delay_ns = 40 * SECOND},
	{.what = LINK_DELAY, .delay_ns = MS},
	{.what = LINK_DELAY, .delay_ns = 150 * MS},
	{.what = LINK_DELAY, .delay_ns = 700 * MS},
	{.what = LINK_DELAY, .delay_ns = 5 * SECOND},
	{.what = LINK_DELAY, .delay_ns = 40 * SECOND},
};

static const struct link_fault one_of_two[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_ECHO, .delay_ns = 700 * MS},
	{.what = LINK_DELAY, .delay_ns = 150 * MS},
	{.what = LINK_DELAY, .delay_ns = 5 * SECOND},
};

void cm_link_each(const struct cm_link_exchange *e)
{
	unsigned int n = cm_link_run(e, NULL, 0);

	for (unsigned int i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(each_fault) / sizeof(*each_fault); k++) {
			struct link_fault f = each_fault[k];

			f.packet = i;
			(void)cm_link_run(e, &f, 1);
		}
}

/* The second message is one of those that are sent after what happened to the first. */
static void try_second(const struct cm_link_exchange *e, const struct link_fault *first)
{
	unsigned int n = cm_link_run(e, first, 1);
	struct link_fault f[2] = {*first};

	for (unsigned int i = first->packet + 1; i < n; i++)
		for (size_t k = 0; k < sizeof(one_of_two) / sizeof(*one_of_two); k++) {
			f[1] = one_of_two[k];
			f[1].packet = i;
			(void)cm_link_run(e, f, 2);
		}
}

void cm_link_each_two(const struct cm_link_exchange *e)
{
	unsigned int n = cm_link_run(e, NULL, 0);

	for (unsigned int i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(one_of_two) / sizeof(*one_of_two); k++) {
			struct link_fault f = one_of_two[k];

			f.packet = i;
			try_second(e, &f);
		}
}

void cm_link_all(const struct cm_link_exchange *rows, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct cm_link_exchange together = rows[i];

		cm_link_each(&rows[i]);
		cm_link_each_two(&rows[i]);
		together.together = true;
		cm_link_each(&together);
	}
}

/* --- set-up ------------------------------------------------------------------------ */

static ssize_t put(int to, const void *bytes, size_t count)
{
	return av_cm_write(to, cm_link_now.channel[to == cm_link_now.fd[1]]->number, bytes, count);
}

int cm_link_set_up(void **state)
{
	cm_link_now.traces = getenv("CM_LINK_TRACE") != NULL;
	cm_put = put;
	if (manager_set_up(state))
		return -1;
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], NULL, &on_fault[i]) == 0);
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		uint32_t number;

		cm_link_now.fd[h] = av_cm_channel_new(O_CLOEXEC | O_NONBLOCK);
		CHECK(cm_link_now.fd[h] >= 0 && av_cm_is_channel(cm_link_now.fd[h], &number));
		av_cm_lock();
		cm_link_now.channel[h] = av_cm_channel_get(number);
		av_cm_unlock();
	}
	return 0;
}

int cm_link_tear_down(void **state)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		close(cm_link_now.fd[h]);
	return manager_tear_down(state);
}
