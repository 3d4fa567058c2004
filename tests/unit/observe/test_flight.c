/* SPDX-License-Identifier: MIT */
/* The ring of the flight recorder: what is written is read whole or not at all, whoever writes and
 * dies. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/unit.h"
#include "observe/flight.h"
#include "lib/wait.h"

#define WRITERS 4
#define EACH	3000u

static char path[64];
static int folder = -1;

static int setup(void **state)
{
	snprintf(path, sizeof(path), "/tmp/anyverbs-flight-XXXXXX");
	if (!mkdtemp(path))
		return -1;
	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	av_flight_join(folder);
	return folder < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	av_flight_leave();
	unlinkat(folder, AV_FLIGHT_FILE, 0);
	close(folder);
	return rmdir(path);
}

/* A record each word of which follows from two numbers, so that a mixture of two is seen. */
static struct av_flight_record make(uint32_t writer, uint32_t number)
{
	struct av_flight_record r;
	uint64_t word = (uint64_t)writer << 32 | number;
	uint8_t *at = (uint8_t *)&r;

	for (size_t i = 0; i < sizeof(r); i += sizeof(word))
		memcpy(at + i, &word, sizeof(word));
	r.process[sizeof(r.process) - 1] = r.device[sizeof(r.device) - 1] =
		'\0'; /* as reading does */
	return r;
}

static bool is_whole(const struct av_flight_record *r)
{
	uint64_t word;
	struct av_flight_record want;

	memcpy(&word, r, sizeof(word));
	want = make((uint32_t)(word >> 32), (uint32_t)word);
	return memcmp(r, &want, sizeof(want)) == 0;
}

static void write_some(uint32_t writer, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct av_flight_record r = make(writer, i + 1);

		av_flight_append(&r);
	}
}

/* Read all that there may be. Return: how many are there; each of them whole */
static uint64_t read_all(const struct av_flight_file *file)
{
	uint64_t next = av_flight_next(file), found = 0;
	struct av_flight_record r;

	for (uint64_t at = av_flight_first(next); at < next; at++) {
		if (!av_flight_read(file, at, &r))
			continue;
		assert_true(is_whole(&r));
		found++;
	}
	return found;
}

TEST_WITH(record_comes_back, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	struct av_flight_record in = make(1, 1), out;

	assert_non_null(file);
	assert_int_equal(av_flight_next(file), 0);
	assert_false(av_flight_read(file, 0, &out));
	errno = E2BIG;
	av_flight_append(&in);
	assert_int_equal(errno, E2BIG);
	assert_int_equal(av_flight_next(file), 1);
	assert_true(av_flight_read(file, 0, &out));
	assert_memory_equal(&in, &out, sizeof(in));
	assert_false(av_flight_read(file, 1, &out));
	av_flight_close(file);
}

TEST_WITH(ring_goes_round, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	struct av_flight_record r;
	uint64_t next = 2 * AV_FLIGHT_RECORDS + 5;

	write_some(7, (uint32_t)next);
	assert_int_equal(av_flight_next(file), next);
	assert_int_equal(av_flight_first(next), next - AV_FLIGHT_RECORDS);
	assert_int_equal(read_all(file), AV_FLIGHT_RECORDS);
	assert_false(av_flight_read(file, next - AV_FLIGHT_RECORDS - 1, &r));
	for (uint64_t at = next - AV_FLIGHT_RECORDS; at < next; at++) {
		struct av_flight_record want = make(7, (uint32_t)at + 1);

		assert_true(av_flight_read(file, at, &r));
		assert_memory_equal(&r, &want, sizeof(r));
	}
	av_flight_close(file);
}

static pid_t start_writer(uint32_t writer, uint32_t count)
{
	pid_t pid = fork();

	assert_return_code(pid, errno);
	if (pid)
		return pid;
	av_flight_forked();
	write_some(writer, count);
	_exit(0);
}

TEST_WITH(processes_write_at_once, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	pid_t pid[WRITERS];
	int status;

	for (uint32_t i = 0; i < WRITERS; i++)
		pid[i] = start_writer(i + 1, EACH);
	for (int i = 0; i < WRITERS; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(av_flight_next(file), WRITERS * EACH);
	/* A writer that was overtaken by the whole ring has spoilt the place of a younger record.
	 */
	assert_true(read_all(file) >= AV_FLIGHT_RECORDS - WRITERS);
	av_flight_close(file);
}

TEST_WITH(writers_are_killed, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	const unsigned int kills = 60;

	for (uint32_t i = 0; i < kills; i++) {
		uint64_t before = av_flight_next(file);
		pid_t pid = start_writer(i + 1, UINT32_MAX);

		assert_true(WAIT_UNTIL(av_flight_next(file) >= before + 100, 20000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		write_some(99, 10);
		assert_true(read_all(file) + kills >= (av_flight_next(file) < AV_FLIGHT_RECORDS
							       ? av_flight_next(file)
							       : AV_FLIGHT_RECORDS));
	}
	av_flight_close(file);
}

static void *write_as_thread(void *arg)
{
	write_some((uint32_t)(uintptr_t)arg, EACH);
	return NULL;
}

TEST_WITH(reader_beside_writers, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	pthread_t thread[WRITERS];

	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_as_thread, (void *)(i + 1)),
				 0);
	while (av_flight_next(file) < WRITERS * EACH)
		(void)read_all(file); /* whole, each of them */
	for (int i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	assert_true(read_all(file) >= AV_FLIGHT_RECORDS - WRITERS);
	av_flight_close(file);
}

/* Fill the file behind the head with what anybody may have left there. */
static void spoil(uint64_t next, int byte)
{
	int fd = openat(folder, AV_FLIGHT_FILE, O_RDWR);
	uint8_t junk[4096];
	struct stat st;

	assert_return_code(fd, errno);
	assert_return_code(fstat(fd, &st), errno);
	for (off_t at = 256; at < st.st_size; at += (off_t)sizeof(junk)) {
		size_t n = st.st_size - at < (off_t)sizeof(junk) ? (size_t)(st.st_size - at)
								 : sizeof(junk);

		for (size_t i = 0; i < sizeof(junk); i++)
			junk[i] = (uint8_t)(byte < 0 ? rand() : byte);
		assert_int_equal(pwrite(fd, junk, n, at), n);
	}
	assert_int_equal(pwrite(fd, &next, sizeof(next), 64), sizeof(next));
	close(fd);
}

TEST_WITH(nonsense_is_passed_over, setup, teardown)
{
	static const uint64_t nexts[] = {
		0, 1, AV_FLIGHT_RECORDS, UINT64_MAX, UINT64_MAX / 2, 1ull << 32};
	const struct av_flight_file *file = av_flight_open(folder);

	for (size_t i = 0; i < AV_ARRAY_SIZE(nexts); i++) {
		for (int byte = -1; byte <= 255; byte += 128) {
			spoil(nexts[i], byte);
			assert_int_equal(read_all(file), 0);
		}
		write_some(3, 2 * AV_FLIGHT_RECORDS); /* and is written over */
		assert_int_equal(read_all(file), AV_FLIGHT_RECORDS);
	}
	av_flight_close(file);
}

/* What each byte of a record may be changed to is noticed. */
TEST_WITH(each_changed_byte_is_noticed, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	int fd = openat(folder, AV_FLIGHT_FILE, O_RDWR);
	struct av_flight_record r;
	uint8_t byte, other;

	write_some(1, 1);
	for (off_t at = 256; at < 512; at++) {
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		other = (uint8_t)(byte ^ 0x10);
		assert_int_equal(pwrite(fd, &other, 1, at), 1);
		assert_false(av_flight_read(file, 0, &r));
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_true(av_flight_read(file, 0, &r));
	}
	close(fd);
	av_flight_close(file);
}

TEST_WITH(other_files_are_none, setup, teardown)
{
	const uint64_t old[2] = {0x1234, 0};
	int fd;

	av_flight_leave();
	unlinkat(folder, AV_FLIGHT_FILE, 0);
	assert_null(av_flight_open(folder));
	fd = openat(folder, AV_FLIGHT_FILE, O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, old, sizeof(old)), sizeof(old));
	close(fd);
	assert_null(av_flight_open(folder)); /* too short */
	av_flight_join(folder);
	write_some(1, 1); /* another's is replaced */
	fd = openat(folder, AV_FLIGHT_FILE, O_RDWR);
	assert_int_equal(pwrite(fd, old, 8, 0), 8);
	assert_null(av_flight_open(folder)); /* of another version */
	close(fd);
	unlinkat(folder, AV_FLIGHT_FILE, 0);
	assert_int_equal(symlinkat("/etc/passwd", folder, AV_FLIGHT_FILE), 0);
	assert_null(av_flight_open(folder));
	unlinkat(folder, AV_FLIGHT_FILE, 0);
	assert_int_equal(mkfifoat(folder, AV_FLIGHT_FILE, 0600), 0);
	assert_null(av_flight_open(folder)); /* and does not wait for a writer */
}

TEST_WITH(empty_ring_is_removed, setup, teardown)
{
	av_flight_leave();
	av_flight_forget(folder);
	assert_int_equal(faccessat(folder, AV_FLIGHT_FILE, F_OK, 0), -1);
	av_flight_join(folder);
	write_some(1, 1);
	av_flight_leave();
	av_flight_forget(folder);
	assert_int_equal(faccessat(folder, AV_FLIGHT_FILE, F_OK, 0), 0);
	av_flight_join(folder);
	write_some(2, 1);
	assert_int_equal(av_flight_next(av_flight_own()), 2); /* it goes on */
	av_flight_own_end();
}

TEST_WITH(ring_that_cannot_be_looked_at_stays, setup, teardown)
{
	struct rlimit limit, none;

	write_some(1, 1);
	av_flight_leave();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	av_flight_forget(folder);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(faccessat(folder, AV_FLIGHT_FILE, F_OK, 0), 0);
	av_flight_join(folder);
}

TEST_WITH(without_ring_nothing_happens, setup, teardown)
{
	av_flight_leave();
	assert_null(av_flight_own());
	write_some(1, 3);
	av_flight_leave();
}

TEST_WITH(waiting_ends_with_a_record, setup, teardown)
{
	const struct av_flight_file *file = av_flight_open(folder);
	pid_t pid;

	av_flight_wait(file, 5, 60000); /* there are others already */
	pid = start_writer(1, 1);
	while (av_flight_next(file) == 0)
		av_flight_wait(file, 0, 60000);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	av_flight_wait(file, 1, 1); /* and with time */
	av_flight_close(file);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
