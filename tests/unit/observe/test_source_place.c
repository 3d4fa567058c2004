/* SPDX-License-Identifier: MIT */
/* The place of a call, as a line of text or a string of JSON holds it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/unit.h"
#include "observe/flight.h"

#define IS_CHILD "tell"

static bool is_plain(const char *text)
{
	for (const char *c = text; *c; c++)
		if (*c < ' ' || *c > '~' || strchr("\"\\", *c))
			return false;
	return true;
}

/* dladdr(3) names the program as it was started. */
TEST(names_are_plain)
{
	char odd[] = "odd\xff\"\\\n\xc3\xa9", tell[] = IS_CHILD;
	char *const words[] = {odd, tell, NULL};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execv("/proc/self/exe", words);
		_exit(2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST(nothing_is_nowhere)
{
	char text[8] = "before";

	av_source_place(NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "");
}

int main(int argc, char **argv)
{
	char text[200];

	if (argc < 2 || strcmp(argv[1], IS_CHILD) != 0)
		return run_cases(NULL, NULL);
	av_source_place(NULL, (const void *)(uintptr_t)main, text, sizeof(text));
	return !is_plain(text) || strncmp(text, "odd", strlen("odd")) != 0;
}
