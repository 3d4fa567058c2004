/* SPDX-License-Identifier: MIT */
/* Runs the command "anyverbs" as a user does. */
#ifndef TEST_TOOL_H
#define TEST_TOOL_H

/*
 * Run the program @tool (ANYVERBS_TOOL) with these arguments, the last one NULL, and drop its
 * output. Return: its exit status.
 */
int tool_run(const char *tool, ...) __attribute__((sentinel));

#endif
