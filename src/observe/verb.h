/* SPDX-License-Identifier: MIT */
/* Numbers of the verbs that can refuse, for records. */
#ifndef AV_OBSERVE_VERB_H
#define AV_OBSERVE_VERB_H

#include <stdint.h>

/* The verb that a function of this library is, or works for; 0: not known. Compares text: for what
 * has failed
 */
uint16_t av_verb_of(const char *function);

/* Its name; "a verb" for a number that is none. */
const char *av_verb_name(unsigned int verb);

#endif
