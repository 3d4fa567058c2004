/* SPDX-License-Identifier: MIT */
/* The command "anyverbs", as a user runs it. */
#ifndef TEST_TOOL_H
#define TEST_TOOL_H

/*
 * Run the program @tool (ANYVERBS_TOOL) with these arguments, the last one NULL; what it prints is
 * dropped. Return: its exit status
 */
int tool_run(const char *tool, ...) __attribute__((sentinel));

#endif
