/* SPDX-License-Identifier: MIT */
/* What a program says of itself: some have other options in other versions. */
#pragma once

#include <stdbool.h>

/*
 * Run "@program -h", which prints a usage and ends. Return: true if that has @word in it; false
 * also if the program cannot be run, or does not end
 */
bool av_pair_usage_has(const char *program, const char *word);
