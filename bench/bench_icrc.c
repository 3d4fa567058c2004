/* SPDX-License-Identifier: MIT */
/*
 * The invariant CRC of a packet from a UDP socket: with the IPv4 identification that was guessed,
 * and with one that has to be solved for.
 */
#include <stdio.h>

#include "base/compiler.h"
#include "lib/expect.h"
#include "measure.h"
#include "wire/packet.h"

#define BTH_BYTES 12
#define PACKETS	  20000

static uint8_t packet[BTH_BYTES + 4096];

static double check_ns(const struct av_net_path *guess, size_t bytes, uint32_t icrc)
{
	int count = bench_count(PACKETS, 3);
	uint64_t begin = now_ns();

	for (int i = 0; i < count; i++) {
		struct av_net_path path = *guess;

		if (!av_icrc_fits(&path, packet, bytes, icrc))
			DIE("a right CRC is refused");
	}
	return ns_each(begin, count);
}

static void measure(size_t payload_bytes)
{
	struct av_net_path path = {.src = {[10] = 0xff, 0xff, 192, 0, 2, 1},
				   .dst = {[10] = 0xff, 0xff, 192, 0, 2, 2},
				   .source_port = 0xc000,
				   .identification = 0x1234},
			   wrong = path;
	size_t bytes = BTH_BYTES + payload_bytes;
	uint32_t icrc = av_icrc_of(&path, packet, bytes);
	struct series guessed = {0}, solved = {0}, ratio = {0};
	char size[16];

	wrong.identification = 0xabcd;
	for (int i = 0; i < BENCH_RUNS; i++) {
		double guessed_ns = check_ns(&path, bytes, icrc);
		double solved_ns = check_ns(&wrong, bytes, icrc);

		series_add(&guessed, guessed_ns);
		series_add(&solved, solved_ns);
		series_add(&ratio, solved_ns / guessed_ns);
	}
	snprintf(size, sizeof(size), "%zuB", payload_bytes);
	series_print(&guessed, "icrc_guessed_ns", size);
	series_print(&solved, "icrc_solved_ns", size);
	series_print_most(&ratio, "icrc_solved/guessed", size, 4);
}

int main(void)
{
	static const size_t payload_bytes[] = {1024, 4096};

	time_limit(60);
	for (size_t i = 0; i < sizeof(packet); i++)
		packet[i] = (uint8_t)(i * 167);
	for (size_t i = 0; i < AV_ARRAY_SIZE(payload_bytes); i++)
		measure(payload_bytes[i]);
	return 0;
}
