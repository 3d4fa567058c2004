/* SPDX-License-Identifier: MIT */
/* What the two sides of a pair run: a table of programs, and words in which {port} stands for one.
 */
#pragma once

#include <stdbool.h>

struct av_pair_words {
	char **server, **client; /* each ends with NULL */
	unsigned int port;	 /* where the server listens; 0: unknown */
	bool server_stays;	 /* it does not end when its client does */
};

/**
 * av_pair_words_make() - both command lines
 * @argv: @argc words: a program of the table and its arguments, or a server's words, "---" and a
 *        client's. In these, {host} and {port} stand for where the server is.
 * @words: out; av_pair_words_free() frees it, also after failure
 * Return: false if neither is so or memory is short, already reported
 */
bool av_pair_words_make(int argc, char **argv, struct av_pair_words *words);
void av_pair_words_free(struct av_pair_words *words);
