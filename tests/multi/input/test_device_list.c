/* SPDX-License-Identifier: MIT */
/* What programs do with the list of devices: it is theirs, and the devices in it are not. */
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/sandbox.h"

#define DEVICES 3

static void release(struct ibv_device **list)
{
	ibv_free_device_list(list);
}

/* As qperf does. The system's library gives what calloc() gave, too. */
static void release_by_free(struct ibv_device **list)
{
	free(list);
}

static void shorten(struct ibv_device **list)
{
	list[1] = NULL;
	ibv_free_device_list(list);
}

static void empty(struct ibv_device **list)
{
	list[0] = NULL;
	ibv_free_device_list(list);
}

static void reverse(struct ibv_device **list)
{
	struct ibv_device *first = list[0];

	list[0] = list[DEVICES - 1];
	list[DEVICES - 1] = first;
	ibv_free_device_list(list);
}

static void only_last(struct ibv_device **list)
{
	list[0] = list[DEVICES - 1];
	list[1] = NULL;
	ibv_free_device_list(list);
}

static const struct {
	const char *name;
	void (*end)(struct ibv_device **list);
} uses[] = {
	{"freed by its verb", release}, {"freed by free()", release_by_free},
	{"shortened", shorten},		{"emptied", empty},
	{"turned round", reverse},	{"its last device first", only_last},
};

/* @known: the devices as another list has them. */
static void check_list(struct ibv_device **list, int count, struct ibv_device **known)
{
	EXPECT(count >= DEVICES, "%d devices", count);
	for (int i = 0; i < count; i++)
		EXPECT(list[i] == known[i], "device %d is another one", i);
	EXPECT(list[count] == NULL, "no NULL at the end");
}

static void open_each(struct ibv_device **known)
{
	for (int i = 0; i < DEVICES; i++) {
		struct ibv_context *ctx = ibv_open_device(known[i]);

		if (EXPECT(ctx != NULL, "device %d cannot be opened afterwards", i))
			EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
	}
}

static void run(struct ibv_device **known)
{
	for (size_t i = 0; i < COUNT_OF(uses); i++) {
		int count = -1;
		struct ibv_device **list = ibv_get_device_list(&count),
				  **second = ibv_get_device_list(NULL);

		row("%s", uses[i].name);
		check_list(list, count, known);
		uses[i].end(list);
		check_list(second, count, known);
		ibv_free_device_list(second);
		open_each(known);
	}
	row("no list");
	ibv_free_device_list(NULL);
}

int main(void)
{
	struct ibv_device **known;

	sandbox_begin(120);
	setenv("ANYVERBS_DEVICES", "any0,ib0:link=infiniband,any1", 1);
	known = ibv_get_device_list(NULL);
	if (!known || !known[0] || strcmp(known[0]->name, "any0"))
		DIE("the first device is not any0: is the library under test loaded?");
	run(known);
	ibv_free_device_list(known);
	return sandbox_end();
}
