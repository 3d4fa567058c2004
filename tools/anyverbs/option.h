/* SPDX-License-Identifier: MIT */
/* The options of a command: a table, from which the command line is read and help is written. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct av_command;

/* What the value of an option may be. */
struct av_value {
	const char *wanted; /* "seconds", for "-w takes seconds, not 'x'" */

	/* Store the value in @to. Return: false if it is none */
	bool (*take)(const char *text, void *to);
};

extern const struct av_value av_value_device;  /* const char *: a device's name, unchecked */
extern const struct av_value av_value_file;    /* const char *: not empty */
extern const struct av_value av_value_number;  /* uint64_t: from 0 */
extern const struct av_value av_value_count;   /* uint64_t: from 1 */
extern const struct av_value av_value_seconds; /* double: 0.01 to 86400 */
extern const struct av_value av_value_bytes;   /* uint64_t: from 1; K, M, G: powers of 1000 */

struct av_option {
	char letter;		      /* 0: none */
	const char *name;	      /* without "--" */
	const char *argument;	      /* what help calls the value */
	const struct av_value *value; /* NULL: none, and @to is a bool that becomes true */
	void *to;
	const char *help;      /* each further line begins with a newline */
	const char *otherwise; /* the value if there is none; NULL: there has to be one */
};

/**
 * av_options_read() - read the options of a command
 * @argv: @argc words, of which the first is the command's name; its operands come last afterwards
 * @first: out; the first operand's index
 * Return: a negative number to go on; or the exit status: help was asked for and given, or the
 * command line is wrong, and why has been said
 */
int av_options_read(const struct av_command *command, int argc, char **argv, int *first);

/* Write the lines of help for the options. */
void av_options_help(FILE *out, const struct av_option *options);
