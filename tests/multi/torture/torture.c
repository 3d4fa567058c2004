/* SPDX-License-Identifier: MIT */
/*
 * Memory regions, pinned and paged on demand, windows, device memory and the address space below
 * them, changed at random by one process and accessed at random by another, step by step, against a
 * model that predicts the outcome of every call and request, and every byte. All the while a third
 * process writes to a region that nobody changes, which must never fail.
 *
 * TORTURE_SEED repeats a run; TORTURE_SECONDS (else the argument, else 10) is its length,
 * TORTURE_STEPS ends it earlier.
 *
 * A further kind of region is a row of kinds[] (kinds.c), a further thing to do a row of actions[].
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/flood.h"
#include "lib/sandbox.h"
#include "torture/actions.h"
#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_run.h"

#define QP_FLOOD 3 /* behind those of the peer */

static struct flood flood; /* the bystander */

static const struct {
	unsigned int weight;
	void (*act)(void);
} actions[] = {
	{8, act_create},     {5, act_destroy},	{8, act_change},  {8, act_bind},
	{3, act_invalidate}, {1, act_send_inv}, {40, act_access}, {4, act_access_dead},
	{12, act_local},     {3, act_device},	{9, act_pages},	  {4, act_store},
	{8, act_advise},
};

static void one_step(void)
{
	unsigned int sum = 0;
	uint64_t at;
	size_t i = 0;

	for (size_t k = 0; k < COUNT_OF(actions); k++)
		sum += actions[k].weight;
	at = rnd(sum);
	while (at >= actions[i].weight)
		at -= actions[i++].weight;
	actions[i].act();
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void steps(uint64_t seconds)
{
	uint64_t end = now_ms() + seconds * 1000, most = number("TORTURE_STEPS", UINT64_MAX);

	for (step = 0; step < most && (step % 64 || now_ms() < end); step++) {
		one_step();
		if (step % 512)
			continue;
		check_everything();
		MUST(!flood_failed(&flood), "the bystander failed");
	}
	printf("%lu steps, %lu requests done, %lu refused, all as predicted (state 0x%lx)\n", step,
	       requests_done, requests_denied, run_state());
	EXPECT(requests_done > step / 8 && requests_denied > step / 16,
	       "the model predicts too little of one kind");
}

static void bystander_start(void)
{
	flood_start(&flood, &a, QP_FLOOD);
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)n->arena,
					      n->info.key[KEY_FULL], 16384});
}

static void bystander_end(void)
{
	struct flood_report report = flood_stop(&flood);

	row("the bystander's traffic");
	EXPECT(report.status == IBV_WC_SUCCESS && report.done > 0, "%lu requests, '%s'",
	       report.done, ibv_wc_status_str(report.status));
	printf("%lu requests of the bystander\n", report.done);
	flood_end(&flood);
}

static void close_all(void)
{
	row("everything can be destroyed in the end");
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_window(&object[i]))
			EXPECT(ibv_dealloc_mw(object[i].mw) == 0, "ibv_dealloc_mw");
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_region(&object[i]))
			EXPECT(ibv_dereg_mr(object[i].mr) == 0, "ibv_dereg_mr");
	store_close();
	peer_end();
}

int main(int argc, char **argv)
{
	uint64_t seconds;

	peer_main(argc, argv);
	flood_agent_main(argc, argv);
	seconds = number("TORTURE_SECONDS", argc > 1 ? strtoull(argv[1], NULL, 10) : 10);
	time_limit((unsigned int)seconds + 170);
	run_begin(number("TORTURE_SEED", (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid()));
	printf("TORTURE_SEED=%lu\n", seed);
	row("TORTURE_SEED=%lu", seed);
	fflush(stdout);
	sandbox_enter();
	peer_start();
	store_open();
	bystander_start();
	steps(seconds);
	bystander_end();
	close_all();
	return sandbox_end();
}
