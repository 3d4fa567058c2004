/* SPDX-License-Identifier: MIT */
/*
 * Environment variables that turn something on. Each is read once, and holds for the life of the
 * process.
 */
#ifndef AV_BASE_SETTING_H
#define AV_BASE_SETTING_H

#include <stdatomic.h>
#include <stdbool.h>

struct av_setting {
	const char *variable, *value;
	_Atomic int answer; /* 0: not asked yet */
};

/*
 * Does the variable have that value? Always false in a program that runs with another user's
 * privileges.
 * Context: any thread.
 */
bool av_setting_is(struct av_setting *s);

#endif
