/* SPDX-License-Identifier: MIT */
/* Environment variables that turn something on, asked for once: they hold for the life of the
 * process. */
#ifndef AV_BASE_SETTING_H
#define AV_BASE_SETTING_H

#include <stdatomic.h>
#include <stdbool.h>

struct av_setting {
	const char *variable, *value;
	_Atomic int answer; /* 0: not asked yet */
};

/* Has the variable that value? Context: any thread; ignored in set-user-ID programs. */
bool av_setting_is(struct av_setting *s);

#endif
