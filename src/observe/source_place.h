/* SPDX-License-Identifier: MIT */
/*
 * Where in its sources the program made something: function, file and line, if the program has
 * debug information and elfutils' libdw can be loaded, which nothing here depends on. Only for who
 * has asked for a report: it opens and reads files, and allocates.
 */
#ifndef AV_OBSERVE_SOURCE_PLACE_H
#define AV_OBSERVE_SOURCE_PLACE_H

#include <stddef.h>

struct av_sources;

/*
 * Open the debug information of this process. Context: may block, no lock held. Return: to be
 * closed; NULL: there is none, which the others accept
 */
struct av_sources *av_sources_open(void);
void av_sources_close(struct av_sources *s);

/*
 * Write where the call is that returns to @address: "main, ping.c:40", or else "a.out(main+0x1b)",
 * or as much as is known. If the call is in an inline function of a header, that is where the
 * program called this function. ASCII, without quotes, backslashes and control characters. NULL:
 * nothing is written
 */
void av_source_place(const struct av_sources *s, const void *address, char *to, size_t size);

#endif
