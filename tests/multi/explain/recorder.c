/* SPDX-License-Identifier: MIT */
#include "recorder.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "observe/check.h"

static const struct av_flight_file *file;
static uint64_t mark;
static unsigned int seeds;
const char *recorder_device = "any0";
static const char *done[AV_CHECK_N]; /* how it was seeded, or why it cannot be */

void recorder_open(void)
{
	DIR *d = opendir(getenv("ANYVERBS_DIR"));
	struct dirent *e;

	while (d && !file && (e = readdir(d))) {
		int fd = e->d_name[0] == '.' ? -1
					     : openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY);

		if (fd >= 0) {
			file = av_flight_open(fd);
			close(fd);
		}
	}
	if (d)
		closedir(d);
	if (!file)
		DIE("there is no recorder");
}

void recorder_close(void)
{
	av_flight_close(file);
}

void recorder_begin(void)
{
	mark = av_flight_next(file);
}

static void show(void)
{
	struct av_flight_record r;
	char text[AV_EXPLAIN_MAX];

	for (uint64_t at = mark; at < av_flight_next(file); at++) {
		if (!av_flight_read(file, at, &r))
			continue;
		av_explain(&r, text);
		printf("     recorded: kind %d %s wanted %" PRIu64 " limit %" PRIu64 ": %s", r.kind,
		       av_check_row(r.check)->name, r.wanted, r.limit, text);
	}
}

bool recorder_find(const struct seed *seed, struct av_flight_record *r)
{
	const char *name = av_check_row(seed->check)->name;
	uint64_t next = av_flight_next(file);
	bool found = false;

	seeds++;
	done[seed->check] = seed->name;
	for (uint64_t at = mark; at < next && !found; at++)
		found = av_flight_read(file, at, r) && r->kind == seed->kind &&
			r->check == seed->check;
	if (!EXPECT(found, "no record of kind %d with %s", seed->kind, name)) {
		show();
		return false;
	}
	EXPECT(seed->wanted == ANY || r->wanted == seed->wanted,
	       "%s: wanted %" PRIu64 " instead of %" PRIu64, name, r->wanted, seed->wanted);
	EXPECT(seed->limit == ANY || r->limit == seed->limit,
	       "%s: limit %" PRIu64 " instead of %" PRIu64, name, r->limit, seed->limit);
	EXPECT(!strcmp(r->device, recorder_device), "%s: device '%s'", name, r->device);
	return true;
}

bool recorder_first(const char *name, struct av_flight_record *r)
{
	for (uint64_t at = mark; at < av_flight_next(file); at++)
		if (av_flight_read(file, at, r)) {
			seeds++;
			done[r->check] = name;
			return true;
		}
	return false;
}

unsigned int recorder_count(const struct seed *seed, uint32_t number)
{
	struct av_flight_record r;
	unsigned int count = 0;

	for (uint64_t at = mark; at < av_flight_next(file); at++)
		count += av_flight_read(file, at, &r) && r.kind == seed->kind &&
			 r.check == seed->check && r.number == number;
	return count;
}

void recorder_except(enum av_check check, const char *why)
{
	EXPECT(!done[check], "%s is seeded, too: %s", av_check_row(check)->name, done[check]);
	done[check] = why;
}

void recorder_expect_all(unsigned int least)
{
	for (unsigned int i = 1; i < AV_CHECK_N; i++)
		EXPECT(done[i] != NULL, "%s is not seeded", av_check_row(i)->name);
	EXPECT(seeds >= least, "%u seeds only", seeds);
}
