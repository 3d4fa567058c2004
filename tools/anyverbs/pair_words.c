/* SPDX-License-Identifier: MIT */
#include "pair_words.h"

#include <fnmatch.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"
#include "pair_usage.h"

#define SEPARATOR  "---"
#define HOST	   "localhost"
#define WORD_BYTES 256 /* of a word of the table */

/*
 * Programs that are started twice. An option that the user gives is not given again; one that only
 * one side's words have is for that side, also if the user gives it.
 */
static const struct program {
	const char *name;   /* a pattern of fnmatch() */
	const char *client; /* the client's name, if it is another program */
	const char *for_server, *for_client;
	const char *flags; /* options without values, which may stand in one word, like "-sv" */
	const char *usage; /* it is this program only if its usage has this word */
	bool stays;	   /* the server does not end when its client does */
	bool alone;	   /* the server takes no words of the user's; the client takes them last */
} programs[] = {
	{.name = "ibv_*_pingpong", .for_server = "-p {port}", .for_client = "-p {port} {host}"},
	{.name = "ib_*_bw", .for_server = "-p {port}", .for_client = "-p {port} {host}"},
	{.name = "ib_*_lat", .for_server = "-p {port}", .for_client = "-p {port} {host}"},
	{.name = "rping",
	 .for_server = "-s -a 127.0.0.1 -p {port}",
	 .for_client = "-c -a 127.0.0.1 -p {port}",
	 .flags = "PVcdqsv"},
	{.name = "ucmatose", .for_server = "-p {port}", .for_client = "-p {port} -s 127.0.0.1"},
	{.name = "udaddy", .for_server = "", .for_client = "-s 127.0.0.1"},
	{.name = "cmtime", /* since rdma-core 59 */
	 .usage = "controller",
	 .for_server = "-L -b 127.0.0.1 -C {host} -p {port}",
	 .for_client = "-b 127.0.0.1 -C {host} -p {port}",
	 .flags = "LS"},
	{.name = "cmtime",
	 .for_server = "-p {port}",
	 .for_client = "-p {port} -s 127.0.0.1",
	 .stays = true},
	{.name = "rstream", .for_server = "-p {port}", .for_client = "-p {port} -s 127.0.0.1"},
	{.name = "riostream", .for_server = "-p {port}", .for_client = "-p {port} -s 127.0.0.1"},
	{.name = "rdma_server",
	 .client = "rdma_client",
	 .for_server = "-p {port}",
	 .for_client = "-p {port} -s 127.0.0.1"},
	{.name = "rdma_xserver",
	 .client = "rdma_xclient",
	 .for_server = "-p {port}",
	 .for_client = "-p {port} -s 127.0.0.1"},
	{.name = "qperf",
	 .for_server = "-lp {port}",
	 .for_client = "{host} -lp {port}",
	 .stays = true,
	 .alone = true},
	{.name = "fi_pingpong", .for_server = "-B {port}", .for_client = "-P {port} {host}"},
	{.name = "ucx_perftest", .for_server = "-p {port}", .for_client = "-p {port} {host}"},
};

/* --- lists of words -------------------------------------------------------------- */

/* Append @text, which the list then owns. Return: false if memory is short; @text is freed */
static bool append(char ***list, char *text)
{
	size_t count = 0;
	char **grown;

	while (*list && (*list)[count])
		count++;
	grown = text ? reallocarray(*list, count + 2, sizeof(*grown)) : NULL;
	if (!grown) {
		free(text);
		return false;
	}
	grown[count] = text;
	grown[count + 1] = NULL;
	*list = grown;
	return true;
}

static void free_list(char **list)
{
	for (char **word = list; word && *word; word++)
		free(*word);
	free(list);
}

/* Copy @word, with each @name in it replaced by @value. Frees @word. NULL: memory is short */
static char *replace(char *word, const char *name, const char *value)
{
	size_t done = 0;
	char *at, *text;

	while (word && (at = strstr(word + done, name))) {
		done = (size_t)(at - word) + strlen(value);
		if (asprintf(&text, "%.*s%s%s", (int)(at - word), word, value, at + strlen(name)) <
		    0)
			text = NULL;
		free(word);
		word = text;
	}
	return word;
}

static bool add(char ***list, const char *word, unsigned int port)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", port);
	return append(list, replace(replace(strdup(word), "{port}", number), "{host}", HOST));
}

/* --- the port -------------------------------------------------------------------- */

/* A TCP port that nobody uses now; 0: none can be had */
static unsigned int free_port(void)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr *address = (struct sockaddr *)&v6;
	socklen_t length = sizeof(v6);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned int port = 0;

	if (fd < 0) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		address = (struct sockaddr *)&v4;
		length = sizeof(v4);
	}
	if (fd >= 0 && bind(fd, address, length) == 0 && getsockname(fd, address, &length) == 0)
		port = ntohs(address->sa_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

/* --- both sides, in full --------------------------------------------------------- */

static bool split(int argc, char **argv, int at, struct av_pair_words *words)
{
	unsigned int port = free_port();
	bool ok = true;

	for (int i = 0; i < argc; i++) {
		if (i != at)
			ok = ok && add(i < at ? &words->server : &words->client, argv[i], port);
		if (i < at && strstr(argv[i], "{port}"))
			words->port = port;
	}
	return ok;
}

/* --- a program of the table ------------------------------------------------------ */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const struct program *find(const char *word)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(programs); i++) {
		const struct program *p = &programs[i];

		if (!fnmatch(p->name, base_name(word), 0) &&
		    (!p->usage || av_pair_usage_has(word, p->usage)))
			return p;
	}
	return NULL;
}

/* --- what the user gives --------------------------------------------------------- */

enum in_row { ABSENT, ALONE, WITH_VALUE };

/* Is the option, of @length bytes, in that row of the table? */
static enum in_row row_has(const char *row, const char *option, size_t length)
{
	for (const char *at = row; *at; at += strspn(at, " ")) {
		const char *next = at + strcspn(at, " ");

		if ((size_t)(next - at) == length && !strncmp(at, option, length))
			return next[0] && next[1] != '-' ? WITH_VALUE : ALONE;
		at = next;
	}
	return ABSENT;
}

/* Has only the other side's row the option that the word begins with, of a dash and a letter? */
static enum in_row other_has(const char *own, const char *other, const char *word)
{
	if (word[0] != '-' || !word[1] || row_has(own, word, 2))
		return ABSENT;
	return row_has(other, word, 2);
}

/* Append a word like "-sv" without the letters that are for the other side. */
static bool append_flags(char ***list, const char *own, const char *other, const char *word)
{
	char kept[WORD_BYTES] = "-", option[] = "-?";
	size_t length = 1;

	for (const char *flag = word + 1; *flag && length < sizeof(kept) - 1; flag++) {
		option[1] = *flag;
		if (!other_has(own, other, option))
			kept[length++] = *flag;
	}
	return length == 1 || append(list, strdup(kept));
}

static bool is_flags(const struct program *p, const char *word)
{
	return p->flags && word[0] == '-' && word[1] && !word[1 + strspn(word + 1, p->flags)];
}

/* Append the user's words, but what is for the other side, and the host, which the row names. */
static bool append_own(char ***list, const struct program *p, bool server, int argc, char **argv)
{
	const char *own = server ? p->for_server : p->for_client;
	const char *other = server ? p->for_client : p->for_server;

	for (int i = 0; i < argc; i++) {
		enum in_row others = other_has(own, other, argv[i]);

		if (is_flags(p, argv[i])) {
			if (!append_flags(list, own, other, argv[i]))
				return false;
		} else if (others) {
			i += others == WITH_VALUE && !argv[i][2]; /* the value is the next word */
		} else if (strcmp(argv[i], HOST) != 0 || !strstr(p->for_client, "{host}")) {
			if (!append(list, strdup(argv[i])))
				return false;
		}
	}
	return true;
}

/* --- both sides of the program --------------------------------------------------- */

/* Is the option among the words? "-p" is there also as "-p7000" and "--port". */
static bool has_option(int argc, char **argv, const char *option)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], option, strlen(option)) ||
		    (!strcmp(option, "-p") && !strncmp(argv[i], "--port", strlen("--port"))))
			return true;
	return false;
}

/* Add the words of a row that the user has not given. @port: out, if it is among them */
static bool add_row(char ***list, const char *row, int argc, char **argv, unsigned int *port)
{
	unsigned int chosen = *port;
	char copy[WORD_BYTES], *rest = copy, *word;
	bool given = false;

	*port = 0;
	snprintf(copy, sizeof(copy), "%s", row);
	while ((word = strtok_r(rest, " ", &rest))) {
		bool is_option = word[0] == '-';

		if (is_option)
			given = has_option(argc, argv, word);
		if (!given && !add(list, word, chosen))
			return false;
		if (!given && !strcmp(word, "{port}"))
			*port = chosen;
		given = given && is_option; /* and so is its value */
	}
	return true;
}

/* The client's name for the server's, in the same folder. */
static bool add_client(char ***list, const char *server, const char *client)
{
	char *path;

	if (!client)
		return append(list, strdup(server));
	if (asprintf(&path, "%.*s%s", (int)(base_name(server) - server), server, client) < 0)
		path = NULL;
	return append(list, path);
}

static bool append_all(char ***list, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!append(list, strdup(argv[i])))
			return false;
	return true;
}

/* Word @at is the program, @p; what is before it starts it, such as "timeout 10". */
static bool expand(const struct program *p, int argc, char **argv, int at,
		   struct av_pair_words *words)
{
	int own = argc - at - 1;
	char **user = argv + at + 1;
	unsigned int port = free_port();

	words->server_stays = p->stays;
	words->port = port;
	return append_all(&words->server, at + 1, argv) &&
	       (p->alone || append_own(&words->server, p, true, own, user)) &&
	       add_row(&words->server, p->for_server, own, user, &words->port) &&
	       append_all(&words->client, at, argv) &&
	       add_client(&words->client, argv[at], p->client) &&
	       (p->alone || append_own(&words->client, p, false, own, user)) &&
	       add_row(&words->client, p->for_client, own, user, &port) &&
	       (!p->alone || append_own(&words->client, p, false, own, user));
}

bool av_pair_words_make(int argc, char **argv, struct av_pair_words *words)
{
	bool ok = false;

	*words = (struct av_pair_words){NULL, NULL, 0, false};
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], SEPARATOR) != 0)
			continue;
		if (i == 0 || i + 1 == argc) {
			av_tool_misuse(&av_command_pair, "there is no word %s '" SEPARATOR "'",
				       i ? "behind" : "before");
			return false;
		}
		ok = split(argc, argv, i, words);
		goto made;
	}
	for (int i = 0; i < argc; i++) {
		const struct program *p = find(argv[i]);

		if (p) {
			ok = expand(p, argc, argv, i, words);
			goto made;
		}
	}
	av_tool_misuse(&av_command_pair,
		       "'%s' is not known: write the server's words, " SEPARATOR
		       " and the client's",
		       argv[0]);
	return false;
made:
	if (!ok)
		av_tool_complain("out of memory");
	return ok;
}

void av_pair_words_free(struct av_pair_words *words)
{
	free_list(words->server);
	free_list(words->client);
}
