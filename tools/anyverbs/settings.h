/* SPDX-License-Identifier: MIT */
/* The environment variables that tool and library read: is one of them, or its value, misspelt? */
#pragma once

/*
 * Say so of each variable that is close to one of ours, and of words that none of ours can have.
 * Others may be somebody else's.
 */
void av_settings_check(void);
