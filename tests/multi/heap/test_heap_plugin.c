/* SPDX-License-Identifier: MIT */
/*
 * A plugin that was loaded with RTLD_DEEPBIND: its malloc() and mmap() are the C library's. Its
 * memory is private, and beside that of the program. It may unmap what the program has mapped.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deep_plugin.h"
#include "heap_fixture.h"

#define LARGE (200ul << 10)

static const struct deep_plugin *plugin;

static void load_row(void)
{
	void *handle = dlopen(DEEP_PLUGIN, RTLD_NOW | RTLD_DEEPBIND);

	row("the plugin");
	NEED(handle);
	plugin = dlsym(handle, "deep_plugin");
	NEED(plugin);
	EXPECT(plugin->malloc != malloc && plugin->munmap != munmap, "its functions are ours");
}

/* Blocks of any size, which the program registers and uses. */
static void allocating_row(size_t bytes)
{
	uint8_t *p = plugin->malloc(bytes), *q;
	struct ibv_mr *mr = reg(p, bytes);

	row("the plugin allocates %zu bytes", bytes);
	fill(p, bytes, 1);
	expect_shared(p, false);
	expect_reached(p, mr);
	dereg(mr);
	fill(p, bytes, 1);
	q = plugin->realloc(p, 2 * bytes);
	expect_filled(q, bytes, 1);
	plugin->free(q);
}

/* Small blocks are the C library's, so either may free them; mappings are the kernel's. */
static void exchanging_row(void)
{
	uint8_t *p = plugin->malloc(100), *q = malloc(100), *r = plugin->map(BYTES);

	row("one frees what the other has allocated");
	free(p);
	plugin->free(q);
	fill(r, BYTES, 2);
	expect_shared(r, false);
	EXPECT(munmap(r, BYTES) == 0 && !pages_mapped(r), "errno %d", errno);
}

static void expect_child_filled(const uint8_t *p, uint8_t seed)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(same(p, BYTES, seed) != BYTES);
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child: %#x", (unsigned int)status);
}

/* Peers hear of it from the kernel, and nobody gets that part of the heap again. */
static void unmapping_row(void)
{
	uint8_t *p = map_private(BYTES), *other = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	row("the plugin unmaps a block of the program");
	fill(p, BYTES, 3);
	fill(other, BYTES, 4);
	expect_shared(p, true);
	EXPECT(plugin->munmap(p, BYTES) == 0 && !pages_mapped(p), "errno %d", errno);
	expect_refused(p, mr, PAGE);
	dereg(mr);
	for (int i = 0; i < 100; i++) {
		uint8_t *q = map_private(PAGE);

		EXPECT(q < p || q >= p + BYTES, "given away");
		munmap(q, PAGE);
	}
	expect_child_filled(other, 4);
	expect_filled(other, BYTES, 4);
	munmap(other, BYTES);
}

static void run(void)
{
	load_row();
	allocating_row(4 * PAGE);
	allocating_row(LARGE);
	allocating_row(10 * HUGE_BYTES);
	exchanging_row();
	unmapping_row();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
