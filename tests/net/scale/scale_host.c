/* SPDX-License-Identifier: MIT */
/*     scale_host connected|datagrams RANK HOSTS EACH BYTES ROUNDS TOGETHER */
#include "net/scale/scale_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/pattern.h"

#define LIMIT_SECONDS 1500

static uint64_t clock_of(clockid_t id)
{
	struct timespec ts;

	NEED(clock_gettime(id, &ts) == 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct scale_mark scale_mark(void)
{
	return (struct scale_mark){clock_of(CLOCK_THREAD_CPUTIME_ID), clock_of(CLOCK_MONOTONIC)};
}

void scale_say_cost(const char *step, struct scale_mark since)
{
	struct scale_mark now = scale_mark();

	printf("%s %" PRIu64 " %" PRIu64 "\n", step, now.thread_ns - since.thread_ns,
	       now.wall_ns - since.wall_ns);
}

/* --- the driver ------------------------------------------------------------------- */

char *scale_answer(void)
{
	static char *line;
	static size_t room;

	fflush(stdout);
	if (getline(&line, &room, stdin) < 0)
		DIE("the driver has gone");
	return line;
}

const char *scale_word(char **line)
{
	const char *word = strsep(line, " \n");

	NEED(word && *word);
	return word;
}

uint64_t scale_number(char **line)
{
	return strtoull(scale_word(line), NULL, 10);
}

void scale_print_gid(const union ibv_gid *gid)
{
	putchar(' ');
	for (size_t i = 0; i < sizeof(gid->raw); i++)
		printf("%02x", gid->raw[i]);
}

union ibv_gid scale_gid(char **line)
{
	const char *word = scale_word(line);
	union ibv_gid gid;

	NEED(strlen(word) == 2 * sizeof(gid.raw));
	for (size_t i = 0; i < sizeof(gid.raw); i++) {
		char byte[3] = {word[2 * i], word[2 * i + 1]};

		gid.raw[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return gid;
}

/* --- the device ------------------------------------------------------------------- */

/* The row of the host's IPv4 address at the switch. */
static void find_address(struct scale_host *h)
{
	static const uint8_t v4[12] = {[10] = 0xff, 0xff};

	for (uint8_t i = 0; ibv_query_gid(h->ctx, 1, i, &h->gid) == 0; i++) {
		h->gid_index = i;
		if (!memcmp(h->gid.raw, v4, sizeof(v4)) && h->gid.raw[12] != 127)
			return;
	}
	DIE("no address of IPv4");
}

void scale_prepare(struct scale_host *h, size_t bytes, uint32_t cqe)
{
	h->memory_bytes = (bytes + 4095) & ~(size_t)4095;
	h->memory = aligned_alloc(4096, h->memory_bytes);
	NEED(h->memory);
	memset(h->memory, UNTOUCHED, h->memory_bytes);
	h->mr = ibv_reg_mr(h->pd, h->memory, h->memory_bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	NEED(h->mr);
	h->cq = ibv_create_cq(h->ctx, (int)cqe, NULL, h->channel, 0);
	NEED(h->cq);
}

/* Who waits does not keep the others from running: there are more of them than cores. */
static void sleep_until_there_is_one(struct scale_host *h)
{
	struct ibv_cq *cq;
	void *context;

	NEED(ibv_get_cq_event(h->channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

int scale_completions(struct scale_host *h, struct ibv_wc *wc, int room)
{
	int n = ibv_poll_cq(h->cq, room, wc);

	while (n == 0) {
		NEED(ibv_req_notify_cq(h->cq, 0) == 0);
		n = ibv_poll_cq(h->cq, room, wc);
		if (n == 0) {
			sleep_until_there_is_one(h);
			n = ibv_poll_cq(h->cq, room, wc);
		}
	}
	NEED(n > 0);
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			DIE("host %u: completion %" PRIx64 ": %s", h->rank, wc[i].wr_id,
			    ibv_wc_status_str(wc[i].status));
	return n;
}

uint64_t scale_seed(const struct scale_host *h, uint32_t from, uint32_t to, uint32_t n,
		    uint32_t round)
{
	return (((uint64_t)round * h->hosts + from) * h->hosts + to) * h->each + n;
}

int main(int argc, char **argv)
{
	struct scale_host h = {0};
	uint32_t *number[] = {&h.rank, &h.hosts, &h.each, &h.bytes, &h.rounds, &h.together};

	NEED(argc == 2 + (int)COUNT_OF(number));
	for (size_t i = 0; i < COUNT_OF(number); i++)
		*number[i] = (uint32_t)strtoul(argv[2 + i], NULL, 10);
	time_limit(LIMIT_SECONDS);
	row("%s, host %u of %u", argv[1], h.rank, h.hosts);
	h.ctx = node_open_device();
	find_address(&h);
	h.pd = ibv_alloc_pd(h.ctx);
	h.channel = ibv_create_comp_channel(h.ctx);
	NEED(h.pd && h.channel);
	if (strcmp(argv[1], "datagrams") == 0)
		scale_datagrams(&h);
	else
		scale_connected(&h);
	NEED(ibv_destroy_cq(h.cq) == 0 && ibv_dereg_mr(h.mr) == 0);
	NEED(ibv_destroy_comp_channel(h.channel) == 0 && ibv_dealloc_pd(h.pd) == 0);
	NEED(ibv_close_device(h.ctx) == 0);
	EXPECT(h.wrong == 0, "%u messages were wrong", h.wrong);
	free(h.memory);
	printf("end\n");
	return failures() ? 1 : 0;
}
