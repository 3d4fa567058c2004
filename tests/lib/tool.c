/* SPDX-License-Identifier: MIT */
#include "lib/tool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"

#define ARGUMENTS 8

int tool_run(const char *tool, ...)
{
	char *argv[ARGUMENTS + 2] = {(char *)(uintptr_t)tool};
	va_list list;
	pid_t pid;
	int status;

	va_start(list, tool);
	for (int i = 1; i <= ARGUMENTS && (argv[i] = va_arg(list, char *)); i++)
		;
	va_end(list);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execv(tool, argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		DIE("%s", tool);
	return WEXITSTATUS(status);
}
