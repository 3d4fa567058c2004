/* SPDX-License-Identifier: MIT */
#include "copy_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "copy/copy.h"
#include "lib/skipped_clock.h"

size_t page;

__attribute__((constructor)) static void know_page(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
}

void fill(unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = PATTERN(i);
}

unsigned char *map_pages(size_t count)
{
	void *p = mmap(NULL, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

unsigned char *make_edge(enum edge edge)
{
	unsigned char *p = map_pages(3);

	if (edge == EDGE_END_OF_FILE) {
		FILE *file = tmpfile();

		if (!file || ftruncate(fileno(file), (off_t)(2 * page)) != 0 ||
		    mmap(p, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileno(file),
			 0) != p)
			abort();
		fclose(file);
	} else if (edge == EDGE_UNMAPPED) {
		munmap(p + 2 * page, page);
	} else {
		mprotect(p + 2 * page, page, edge == EDGE_READ_ONLY ? PROT_READ : PROT_NONE);
	}
	return p + 2 * page;
}

void drop_edge(unsigned char *edge)
{
	munmap(edge - 2 * page, 3 * page);
}

int run_child(void (*body)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

void child_succeeds(void (*body)(void))
{
	int status = run_child(body);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("child ended with status 0x%x", (unsigned int)status);
}

void child_dies_of(void (*body)(void), int sig)
{
	int status = run_child(body);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != sig)
		fail_msg("child ended with status 0x%x instead of signal %d", (unsigned int)status,
			 sig);
}

void set_both(void (*handler)(int))
{
	signal(SIGSEGV, handler);
	signal(SIGBUS, handler);
}

void init_guard(void)
{
	CHECK(av_copy_init() == 0);
	CHECK(av_copy_guard_check(av_now_coarse_ns()));
}

void wait_for_next_check(void)
{
	clock_skip_ns(2 * AV_COPY_GUARD_FRESH_NS);
}

void copy_faults(void)
{
	unsigned char *edge = make_edge(EDGE_NONE), *eof = make_edge(EDGE_END_OF_FILE), byte = 0;
	uint64_t old;

	CHECK(av_copy(&byte, edge, 1) == AV_COPY_FAULT);
	CHECK(av_copy(edge - 4, edge - 16, 8) == AV_COPY_FAULT);
	CHECK(av_copy(&byte, eof, 1) == AV_COPY_FAULT);
	CHECK(av_copy_probe(eof, 1) == AV_COPY_FAULT);
	CHECK(av_copy_fetch_add(edge, 1, &old, av_now_coarse_ns()) == AV_COPY_FAULT);
	drop_edge(edge);
	drop_edge(eof);
}
