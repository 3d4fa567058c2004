/* SPDX-License-Identifier: MIT */
/*
 * The specification's table, transcribed row by row as text. Cells without a row are invalid,
 * except for two rules: any state may go to RESET, and any state but RESET may go to ERR.
 */
#include "lib/qp_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *transition, *services, *required, *optional;
} rows[] = {
	{"RESET>INIT", "UD", "PKEY PORT QKEY", ""},
	{"RESET>INIT", "UC RC XS XR", "PKEY PORT ACCESS", ""},

	{"INIT>INIT", "UD", "", "PKEY PORT QKEY"},
	{"INIT>INIT", "UC RC XS XR", "", "PKEY PORT ACCESS"},

	{"INIT>RTR", "UD", "", "PKEY QKEY"},
	{"INIT>RTR", "UC XS", "AV MTU DQPN RQPSN", "ALT ACCESS PKEY"},
	{"INIT>RTR", "RC XR", "AV MTU DQPN RQPSN MAXDEST MINRNR", "ALT ACCESS PKEY"},

	{"RTR>RTS", "UD", "SQPSN", "CUR QKEY"},
	{"RTR>RTS", "UC", "SQPSN", "CUR ALT ACCESS MIG"},
	{"RTR>RTS", "RC", "TIMEOUT RETRY RNR SQPSN MAXRD", "CUR ALT ACCESS MIG MINRNR"},
	{"RTR>RTS", "XS", "TIMEOUT RETRY RNR SQPSN MAXRD", "CUR ALT ACCESS MIG"},
	{"RTR>RTS", "XR", "TIMEOUT SQPSN", "CUR ALT ACCESS MIG MINRNR"},

	{"RTS>RTS", "UD", "", "CUR QKEY"},
	{"RTS>RTS", "UC XS", "", "CUR ACCESS ALT MIG"},
	{"RTS>RTS", "RC XR", "", "CUR ACCESS ALT MIG MINRNR"},

	{"RTS>SQD", "UD UC RC XS XR", "", "SQDNOTIFY"},

	{"SQD>RTS", "UD", "", "CUR QKEY"},
	{"SQD>RTS", "UC XS", "", "CUR ALT ACCESS MIG"},
	{"SQD>RTS", "RC XR", "", "CUR ALT ACCESS MIG MINRNR"},

	{"SQD>SQD", "UD", "", "PKEY QKEY"},
	{"SQD>SQD", "UC", "", "AV ALT ACCESS PKEY MIG"},
	{"SQD>SQD", "RC", "", "PORT AV TIMEOUT RETRY RNR MAXRD MAXDEST ALT ACCESS PKEY MINRNR MIG"},
	{"SQD>SQD", "XS", "", "PORT AV TIMEOUT RETRY RNR MAXRD ALT ACCESS PKEY MIG"},
	{"SQD>SQD", "XR", "", "PORT AV TIMEOUT MAXDEST ALT ACCESS PKEY MINRNR MIG"},

	{"SQE>RTS", "UD", "", "CUR QKEY"},
	{"SQE>RTS", "UC", "", "CUR ACCESS"},
};

/* Bit positions as numbers, so that a wrong name in the header is not repeated here. */
static const struct {
	const char *name;
	int bit;
} bit_names[] = {
	{"CUR", 1},    {"SQDNOTIFY", 2}, {"ACCESS", 3}, {"PKEY", 4},	{"PORT", 5},
	{"QKEY", 6},   {"AV", 7},	 {"MTU", 8},	{"TIMEOUT", 9}, {"RETRY", 10},
	{"RNR", 11},   {"RQPSN", 12},	 {"MAXRD", 13}, {"ALT", 14},	{"MINRNR", 15},
	{"SQPSN", 16}, {"MAXDEST", 17},	 {"MIG", 18},	{"DQPN", 20},
};

static const struct {
	const char *name;
	enum ibv_qp_type type;
	const char *ignored;
} services[QP_TABLE_SERVICES] = {
	{"UD", IBV_QPT_UD, ""},
	{"UC", IBV_QPT_UC, ""},
	{"RC", IBV_QPT_RC, ""},
	{"XS", IBV_QPT_XRC_SEND, "MAXDEST MINRNR"},
	{"XR", IBV_QPT_XRC_RECV, "MAXRD RETRY RNR"},
};

static const char *const state_names[QP_TABLE_STATES] = {"RESET", "INIT", "RTR", "RTS",
							 "SQD",	  "SQE",  "ERR"};

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
		if ((p == text || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
			return true;
	return false;
}

static void insist(bool sound, const char *text)
{
	if (sound)
		return;
	fprintf(stderr, "qp_table: '%s' is no row of it\n", text);
	abort();
}

static int parse_bits(const char *text)
{
	int mask = 0, words = *text != '\0', found = 0;

	for (const char *p = text; *p; p++)
		words += *p == ' ';
	for (size_t i = 0; i < COUNT_OF(bit_names); i++) {
		if (has_word(text, bit_names[i].name)) {
			mask |= 1 << bit_names[i].bit;
			found++;
		}
	}
	insist(found == words, text); /* a misspelt bit must not weaken a test */
	return mask;
}

enum ibv_qp_type qp_table_type(int service)
{
	return services[service].type;
}

const char *qp_table_service(int service)
{
	return services[service].name;
}

const char *qp_table_state(int state)
{
	return state >= 0 && state < QP_TABLE_STATES ? state_names[state] : "?";
}

struct qp_cell qp_table_cell(int service, int from, int to)
{
	struct qp_cell cell = {.service = service, .from = from, .to = to};
	char transition[16];

	cell.ignored = parse_bits(services[service].ignored);
	cell.valid = to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET);
	snprintf(transition, sizeof(transition), "%s>%s", state_names[from], state_names[to]);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (strcmp(rows[i].transition, transition) != 0 ||
		    !has_word(rows[i].services, services[service].name))
			continue;
		insist(!cell.valid, transition); /* one row per cell */
		cell.valid = true;
		cell.required = parse_bits(rows[i].required);
		cell.optional = parse_bits(rows[i].optional);
	}
	return cell;
}
