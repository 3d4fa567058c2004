/* SPDX-License-Identifier: MIT */
/* Each queue pair's packets go where the table says, in tables of all sizes. */
#include <stdbool.h>
#include <string.h>

#include "lib/unit.h"
#include "net/socket.h"
#include "registry/tables.h"
#include "wire/packet.h"

#define BLOCKS AV_QPN_BLOCKS
#define NOBODY AV_REUSEPORT_NOBODY
#define BTH    12

static uint32_t place[BLOCKS];
static struct av_steer_run run[AV_STEER_RUNS];
static struct sock_filter program[AV_STEER_MAX];
static unsigned int runs, instructions;

/* What the kernel would do. Source: Linux, Documentation/networking/filter.rst */
static uint32_t interpret(const uint8_t *packet, size_t bytes)
{
	uint32_t a = 0;

	for (unsigned int pc = 0; pc < instructions; pc++) {
		const struct sock_filter *i = &program[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k + 4 > bytes)
				return 0;
			a = av_get32(packet + i->k);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail();
		}
	}
	fail();
	return 0;
}

static uint32_t place_of(uint32_t qpn)
{
	uint8_t packet[BTH] = {0};

	packet[4] = 0xc0; /* marks on its way are no part of the number */
	av_put24(packet + 5, qpn);
	return interpret(packet, sizeof(packet));
}

/* The kernel refuses a program with a jump behind its end. */
static void make(void)
{
	runs = av_steer_runs(place, BLOCKS, run);
	assert_in_range(runs, 1, AV_STEER_RUNS);
	memset(program, 0xff, sizeof(program));
	instructions = av_steer_program(run, runs, program);
	assert_in_range(instructions, 3, AV_STEER_MAX);
}

/* Whichever number and tag. */
static void assert_block(uint32_t block)
{
	const uint32_t qpn[] = {
		block << 4,
		(block << 4) + 15,
		((block << 4) + 7) | 0x540000,
		((block << 4) + 15) | 0xfe0000,
	};

	for (size_t i = 0; i < sizeof(qpn) / sizeof(qpn[0]); i++)
		if (place[block] != NOBODY)
			assert_int_equal(place_of(qpn[i]), place[block]);
}

static void fill(uint32_t (*of)(uint32_t block, uint32_t arg), uint32_t arg)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		place[i] = of(i, arg);
}

static uint32_t nobody(uint32_t block, uint32_t arg)
{
	return NOBODY;
}

static uint32_t all_of_one(uint32_t block, uint32_t arg)
{
	return arg;
}

static uint32_t stripes(uint32_t block, uint32_t width)
{
	return block / width;
}

static uint32_t holes(uint32_t block, uint32_t width)
{
	return block / width % 2 ? NOBODY : block / width % 7;
}

static uint32_t scattered(uint32_t block, uint32_t one_of)
{
	return block * 2654435761u % one_of ? NOBODY : block % 5;
}

static const struct {
	uint32_t (*of)(uint32_t block, uint32_t arg);
	uint32_t arg;
} table[] = {
	{all_of_one, 0},       {all_of_one, 511}, {stripes, BLOCKS / 2},
	{stripes, BLOCKS / 3}, {stripes, 1000},	  {stripes, 100},
	{stripes, 32},	       {stripes, 17},	  {stripes, 5},
	{holes, 1000},	       {holes, 9},	  {holes, 3},
	{scattered, 1u << 7},  {scattered, 6},
};

TEST(every_block_goes_to_its_owner)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		fill(table[i].of, table[i].arg);
		make();
		for (uint32_t block = 0; block < BLOCKS; block++)
			assert_block(block);
	}
}

/* Half of the program's conditional jumps are too short for it. */
TEST(as_many_runs_as_there_may_be)
{
	(void)state;
	fill(nobody, 0);
	for (uint32_t i = 0; i < AV_STEER_RUNS - 1; i++)
		place[4 * i] = i;
	make();
	assert_int_equal(runs, AV_STEER_RUNS - 1);
	for (uint32_t block = 0; block < BLOCKS; block++)
		assert_block(block);
}

/* Who has no room gets packets by way of others. Nobody else's are misrouted. */
TEST(too_many_runs)
{
	uint32_t block = 0;

	(void)state;
	fill(stripes, 1);
	make();
	assert_int_equal(runs, AV_STEER_RUNS);
	for (; block < AV_STEER_RUNS - 1; block++)
		assert_block(block);
	for (; block < BLOCKS; block++)
		assert_int_equal(place_of(block << 4), NOBODY);
}

TEST(a_table_of_nobody)
{
	(void)state;
	fill(nobody, 0);
	make();
	assert_int_equal(place_of(0), NOBODY);
	assert_int_equal(place_of(0xffffff), NOBODY);
}

TEST(a_packet_without_a_number)
{
	const uint8_t packet[BTH] = {[4] = 0xff, 0xff, 0xff, 0xff};

	(void)state;
	fill(all_of_one, 3);
	make();
	for (size_t bytes = 0; bytes < 8; bytes++)
		assert_int_equal(interpret(packet, bytes), 0);
	assert_int_equal(interpret(packet, 8), 3);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
