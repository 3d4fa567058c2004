/* SPDX-License-Identifier: MIT */
/* Capture files: the bytes of a block, which files are taken, and appending by several processes
 * and to a full one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/unit.h"
#include "observe/pcapng.h"

#define PROLOGUE  72
#define PROCESSES 4
#define BATCHES	  200

/* Section header, interface "anyverbs" of Ethernet in nanoseconds: draft-ietf-opsawg-pcapng,
 * little-endian.
 */
static const uint8_t prologue[PROLOGUE] = {
	0x0a, 0x0d, 0x0d, 0x0a, 28,   0,    0,	  0,	0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0,
	0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28,   0,	  0,	0, 1, 0,
	0,    0,    44,	  0,	0,    0,    1,	  0,	0,    0,    0,	  0,	0, 0, 2,
	0,    8,    0,	  'a',	'n',  'y',  'v',  'e',	'r',  'b',  's',  9,	0, 1, 0,
	9,    0,    0,	  0,	0,    0,    0,	  0,	44,   0,    0,	  0,
};

static char path[64];

static int setup(void **unused)
{
	strcpy(path, "/tmp/anyverbs-test-XXXXXX");
	close(mkstemp(path));
	return unlink(path);
}

static int teardown(void **unused)
{
	unlink(path);
	return 0;
}

static size_t read_file(uint8_t *to, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, to, room);

	close(fd);
	assert_true(n >= 0);
	return (size_t)n;
}

/* Every length, with and without a comment of every length. */
TEST(blocks)
{
	static const char text[] = "comment";

	for (uint32_t captured = 0; captured < 9; captured++)
		for (uint32_t comment = 0; comment < sizeof(text); comment++) {
			uint8_t block[64 + AV_PCAPNG_AROUND_MAX];
			struct av_pcapng_frame f = {
				.time_ns = 0x0102030405060708, .captured = captured, .length = 999};
			uint32_t head[7], end, padded = (captured + 3) / 4 * 4;
			size_t bytes;

			f.comment = comment ? text + comment : NULL;
			memset(block, 0xee, sizeof(block));
			bytes = av_pcapng_block(block, &f);
			memcpy(head, block, sizeof(head));
			memcpy(&end, block + bytes - 4, sizeof(end));
			assert_int_equal(head[0], 6);
			assert_int_equal(head[1], bytes);
			assert_int_equal(end, bytes);
			assert_int_equal(head[2], 0);
			assert_int_equal(head[3], 0x01020304);
			assert_int_equal(head[4], 0x05060708);
			assert_int_equal(head[5], captured);
			assert_int_equal(head[6], 999);
			for (uint32_t i = 0; i < padded; i++)
				assert_int_equal(block[28 + i], i < captured ? 0xee : 0);
			if (f.comment) {
				assert_int_equal(bytes, 28 + padded + 4 +
								(strlen(f.comment) + 3) / 4 * 4 +
								4 + 4);
				assert_int_equal(block[28 + padded], 1);
				assert_int_equal(block[30 + padded], strlen(f.comment));
				assert_memory_equal(block + 32 + padded, f.comment,
						    strlen(f.comment));
			} else {
				assert_int_equal(bytes, 28 + padded + 4);
			}
		}
}

/* Behind the comment, if there is one. */
TEST(directions)
{
	static const uint8_t in[] = {2, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0},
			     out[] = {1, 0, 1, 0, '!', 0, 0, 0, 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0};
	struct av_pcapng_frame f = {.direction = AV_PCAPNG_INBOUND};
	uint8_t block[64 + AV_PCAPNG_AROUND_MAX];

	assert_int_equal(av_pcapng_block(block, &f), 28 + sizeof(in) + 4);
	assert_memory_equal(block + 28, in, sizeof(in));
	f.direction = AV_PCAPNG_OUTBOUND;
	f.comment = "!";
	assert_int_equal(av_pcapng_block(block, &f), 28 + sizeof(out) + 4);
	assert_memory_equal(block + 28, out, sizeof(out));
}

TEST_WITH(files_begin_alike, setup, teardown)
{
	uint8_t bytes[200];
	int fd = av_pcapng_open(path, false);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(read_file(bytes, sizeof(bytes)), PROLOGUE);
	assert_memory_equal(bytes, prologue, PROLOGUE);
	fd = av_pcapng_open(path, false);
	assert_true(fd >= 0);
	assert_int_equal(av_pcapng_append(fd, (const uint8_t *)"12345678", 8), 0);
	close(fd);
	assert_int_equal(read_file(bytes, sizeof(bytes)), PROLOGUE + 8);
	fd = av_pcapng_open(path, true);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(read_file(bytes, sizeof(bytes)), PROLOGUE);
}

TEST_WITH(other_files_are_left_alone, setup, teardown)
{
	uint8_t bytes[200];
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, "not a capture", 13), 13);
	close(fd);
	assert_int_equal(av_pcapng_open(path, false), -EBADMSG);
	assert_int_equal(read_file(bytes, sizeof(bytes)), 13);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(av_pcapng_open(path, false), -EINVAL);
	assert_int_equal(av_pcapng_open("/", false), -EISDIR);
	assert_int_equal(av_pcapng_open("/nonexistent/file", false), -ENOENT);
}

/* A batch of some blocks of a process' own size and content. */
static size_t batch(uint8_t *to, uint8_t who)
{
	size_t at = 0;

	for (int i = 0; i < 5; i++) {
		struct av_pcapng_frame f = {.captured = 100u + who * 37u, .length = 2000};

		memset(to + at + AV_PCAPNG_DATA_AT, who, f.captured);
		at += av_pcapng_block(to + at, &f);
	}
	return at;
}

static void append_as(uint8_t who)
{
	static uint8_t bytes[8192];
	int fd = av_pcapng_open(path, false);

	for (int i = 0; fd >= 0 && i < BATCHES; i++)
		if (av_pcapng_append(fd, bytes, batch(bytes, who)))
			_exit(1);
	_exit(fd < 0);
}

TEST_WITH(processes_do_not_interleave, setup, teardown)
{
	static uint8_t bytes[PROCESSES * BATCHES * 5 * 512];
	unsigned int count[PROCESSES + 1] = {0};
	size_t size, at = PROLOGUE;
	uint32_t head[7];
	int status;

	for (uint8_t who = 1; who <= PROCESSES; who++)
		if (fork() == 0)
			append_as(who);
	for (int i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	size = read_file(bytes, sizeof(bytes));
	for (; at < size; at += head[1]) {
		uint8_t who = bytes[at + AV_PCAPNG_DATA_AT];

		memcpy(head, bytes + at, sizeof(head));
		assert_int_equal(head[0], 6);
		assert_in_range(who, 1, PROCESSES);
		assert_int_equal(head[5], 100 + who * 37);
		for (uint32_t i = 0; i < head[5]; i++)
			assert_int_equal(bytes[at + AV_PCAPNG_DATA_AT + i], who);
		count[who]++;
	}
	assert_int_equal(at, size);
	for (int who = 1; who <= PROCESSES; who++)
		assert_int_equal(count[who], BATCHES * 5);
}

/* The process' own limit stands for a full disk; its signal would end the process. */
static void append_to_a_full_file(void)
{
	static const struct rlimit small = {1000, 1000};
	static uint8_t bytes[8192];
	int fd = av_pcapng_open(path, false), ret = 0, appended = 0;
	size_t size = batch(bytes, 1);
	struct stat st;
	sigset_t pending;

	if (fd < 0 || setrlimit(RLIMIT_FSIZE, &small))
		_exit(1);
	while (ret == 0 && appended < 10)
		if ((ret = av_pcapng_append(fd, bytes, size)) == 0)
			appended++;
	if (ret == 0 || fstat(fd, &st) || st.st_size != (off_t)(PROLOGUE + (size_t)appended * size))
		_exit(2);
	sigpending(&pending);
	_exit(sigismember(&pending, SIGXFSZ) ? 3 : 0);
}

TEST_WITH(a_full_file_ends_with_a_whole_block, setup, teardown)
{
	int status;

	if (fork() == 0)
		append_to_a_full_file();
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
