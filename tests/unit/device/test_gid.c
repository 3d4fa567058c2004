/* SPDX-License-Identifier: MIT */
/* The GID table: which addresses give rows, and in which order. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "device/port.h"
#include "lib/unit.h"

#define ADDRS_MAX 8

/* An address as a person writes it, behind "!" if the interface is down. Interface 1 is the
 * loopback interface. */
struct given {
	const char *addr;
	uint32_t ifindex;
};

static const struct av_gid_form single = {.max = AV_GID_MAX};

/* The GUID of a device, and the address that it makes. */
#define GUID	      0x0011223344556677
#define OF_GUID	      "fe80::211:2233:4455:6677"
#define PAIR(address) address "/v1 " address "/v2 "

static const struct av_gid_form paired = {.max = AV_GID_MAX, .paired = true, .guid = GUID};

struct table_row {
	const char *rule;
	struct given given[ADDRS_MAX];
	const char *table; /* "ADDRESS%INTERFACE " for each row */
};

static const struct table_row table_rows[] = {
	{"no_address_gives_127_0_0_1", {{NULL, 0}}, "::ffff:127.0.0.1%1 "},
	{"v4_is_mapped", {{"10.0.0.5", 2}}, "::ffff:10.0.0.5%2 "},
	{"v6_as_it_is", {{"2001:db8::1", 2}}, "2001:db8::1%2 "},
	{"unique_local_v6_counts_as_global",
	 {{"fe80::1", 2}, {"fd00::1", 3}},
	 "fd00::1%3 fe80::1%2 "},
	{"by_interface_number",
	 {{"10.0.3.1", 3}, {"10.0.2.1", 2}, {"10.0.4.1", 4}},
	 "::ffff:10.0.2.1%2 ::ffff:10.0.3.1%3 ::ffff:10.0.4.1%4 "},
	{"v4_before_v6_of_one_interface",
	 {{"2001:db8::1", 2}, {"10.0.0.1", 2}},
	 "::ffff:10.0.0.1%2 2001:db8::1%2 "},
	{"v6_of_one_before_v4_of_the_next",
	 {{"10.0.0.1", 3}, {"2001:db8::1", 2}},
	 "2001:db8::1%2 ::ffff:10.0.0.1%3 "},
	{"addresses_of_an_interface_keep_their_order",
	 {{"10.0.0.9", 2}, {"10.0.0.1", 2}, {"10.0.0.5", 2}},
	 "::ffff:10.0.0.9%2 ::ffff:10.0.0.1%2 ::ffff:10.0.0.5%2 "},
	{"link_local_v6_last",
	 {{"fe80::2", 2}, {"fe80::3", 3}, {"10.0.3.1", 3}},
	 "::ffff:10.0.3.1%3 fe80::2%2 fe80::3%3 "},
	{"link_local_is_a_10_bit_prefix", {{"febf::1", 2}, {"fec0::1", 3}}, "fec0::1%3 febf::1%2 "},
	{"link_local_alone_is_used", {{"fe80::2", 2}}, "fe80::2%2 "},
	{"link_local_is_more_than_loopback",
	 {{"127.0.0.1", 1}, {"::1", 1}, {"fe80::2", 2}},
	 "fe80::2%2 "},
	{"loopback_only_when_alone",
	 {{"127.0.0.1", 1}, {"::1", 1}, {"10.0.0.1", 2}},
	 "::ffff:10.0.0.1%2 "},
	{"loopback_v4_before_v6", {{"::1", 1}, {"127.0.0.1", 1}}, "::ffff:127.0.0.1%1 ::1%1 "},
	{"loopback_v6_alone", {{"::1", 1}}, "::1%1 "},
	{"loopback_is_127_8", {{"127.255.0.1", 2}, {"10.0.0.1", 3}}, "::ffff:10.0.0.1%3 "},
	{"other_address_on_loopback_only_behind_it",
	 {{"10.255.255.254", 1}, {"127.0.0.1", 1}},
	 "::ffff:127.0.0.1%1 ::ffff:10.255.255.254%1 "},
	{"other_address_on_loopback_is_not_preferred",
	 {{"10.255.255.254", 1}, {"10.0.0.1", 2}},
	 "::ffff:10.0.0.1%2 "},
	{"down_gives_no_row", {{"!10.0.0.1", 2}, {"10.0.0.2", 3}}, "::ffff:10.0.0.2%3 "},
	{"all_down_gives_127_0_0_1", {{"!10.0.0.1", 2}}, "::ffff:127.0.0.1%1 "},
	{"equal_gids_give_one_row",
	 {{"fe80::1", 3}, {"fe80::1", 2}, {"fe80::2", 3}},
	 "fe80::1%2 fe80::2%3 "},
	{"v6_form_of_a_v4_address_is_the_same",
	 {{"10.0.0.1", 2}, {"::ffff:10.0.0.1", 3}},
	 "::ffff:10.0.0.1%2 "},
	{"unspecified_v4_gives_no_row", {{"0.0.0.0", 2}, {"10.0.0.2", 3}}, "::ffff:10.0.0.2%3 "},
	{"unspecified_v6_gives_no_row", {{"::", 2}, {"10.0.0.2", 3}}, "::ffff:10.0.0.2%3 "},
	{"multicast_v4_gives_no_row", {{"224.0.0.1", 2}, {"10.0.0.2", 3}}, "::ffff:10.0.0.2%3 "},
	{"multicast_v6_gives_no_row", {{"ff02::1", 2}, {"10.0.0.2", 3}}, "::ffff:10.0.0.2%3 "},
	{"interface_numbers_of_32_bits",
	 {{"10.0.0.1", UINT32_MAX}, {"10.0.0.2", 2}, {"fe80::1", 2}},
	 "::ffff:10.0.0.2%2 ::ffff:10.0.0.1%4294967295 fe80::1%2 "},
};

/* Rows as "ADDRESS%INTERFACE/VERSION ". */
static const struct table_row paired_rows[] = {
	{"no_address_gives_127_0_0_1", {{NULL, 0}}, PAIR(OF_GUID "%1") PAIR("::ffff:127.0.0.1%1")},
	{"v4_is_in_rows_2_and_3_behind_the_guid",
	 {{"10.0.0.5", 2}},
	 PAIR(OF_GUID "%2") PAIR("::ffff:10.0.0.5%2")},
	{"v4_is_in_rows_2_and_3_behind_the_link_local_address",
	 {{"10.0.0.5", 2}, {"fe80::5", 2}},
	 PAIR("fe80::5%2") PAIR("::ffff:10.0.0.5%2")},
	{"two_v4",
	 {{"10.0.0.5", 2}, {"10.0.0.6", 2}, {"fe80::5", 2}},
	 PAIR("fe80::5%2") PAIR("::ffff:10.0.0.5%2") PAIR("::ffff:10.0.0.6%2")},
	{"v6_behind_v4",
	 {{"2001:db8::1", 2}, {"10.0.0.5", 2}, {"fe80::5", 2}},
	 PAIR("fe80::5%2") PAIR("::ffff:10.0.0.5%2") PAIR("2001:db8::1%2")},
	{"v6_behind_v4_of_another_interface",
	 {{"2001:db8::1", 2}, {"10.0.0.5", 3}},
	 PAIR(OF_GUID "%3") PAIR("::ffff:10.0.0.5%3") PAIR("2001:db8::1%2")},
	{"v6_alone", {{"2001:db8::1", 2}, {"fe80::5", 2}}, PAIR("fe80::5%2") PAIR("2001:db8::1%2")},
	{"link_local_alone", {{"fe80::5", 2}}, PAIR("fe80::5%2")},
	{"link_local_of_the_first_address",
	 {{"fe80::2", 2}, {"10.0.0.5", 3}, {"fe80::3", 3}},
	 PAIR("fe80::3%3") PAIR("::ffff:10.0.0.5%3") PAIR("fe80::2%2")},
	{"first_of_two_link_local_addresses",
	 {{"10.0.0.5", 2}, {"fe80::9", 2}, {"fe80::1", 2}},
	 PAIR("fe80::9%2") PAIR("::ffff:10.0.0.5%2") PAIR("fe80::1%2")},
	{"link_local_that_is_down_is_not_used",
	 {{"10.0.0.5", 2}, {"!fe80::5", 2}},
	 PAIR(OF_GUID "%2") PAIR("::ffff:10.0.0.5%2")},
	{"link_local_that_is_the_guids",
	 {{"10.0.0.5", 3}, {OF_GUID, 2}},
	 PAIR(OF_GUID "%3") PAIR("::ffff:10.0.0.5%3")},
	{"loopback_only_when_alone",
	 {{"127.0.0.1", 1}, {"::1", 1}, {"10.0.0.5", 2}},
	 PAIR(OF_GUID "%2") PAIR("::ffff:10.0.0.5%2")},
	{"loopback_alone",
	 {{"::1", 1}, {"127.0.0.1", 1}},
	 PAIR(OF_GUID "%1") PAIR("::ffff:127.0.0.1%1") PAIR("::1%1")},
	{"interface_numbers_of_32_bits",
	 {{"10.0.0.1", UINT32_MAX}, {"10.0.0.2", 2}, {"2001:db8::1", 2}},
	 PAIR(OF_GUID "%2") PAIR("::ffff:10.0.0.2%2") PAIR("::ffff:10.0.0.1%4294967295")
		 PAIR("2001:db8::1%2")},
};

static void make_addr(const struct given *given, struct av_host_addr *a)
{
	const char *addr = given->addr + (given->addr[0] == '!');
	char text[64];

	memset(a, 0, sizeof(*a));
	snprintf(text, sizeof(text), "%s%s", strchr(addr, ':') ? "" : "::ffff:", addr);
	assert_int_equal(inet_pton(AF_INET6, text, a->addr), 1);
	a->ifindex = given->ifindex;
	a->up = addr == given->addr;
	a->loopback = given->ifindex == 1;
	snprintf(a->ifname, sizeof(a->ifname), "if%u", given->ifindex);
}

static size_t make_addrs(const struct given *given, struct av_host_addr *addrs)
{
	size_t n = 0;

	for (; n < ADDRS_MAX && given[n].addr; n++)
		make_addr(&given[n], &addrs[n]);
	return n;
}

static void print_row(const struct av_gid *gid, const char *version, char *table, size_t size)
{
	char text[64];

	assert_non_null(inet_ntop(AF_INET6, gid->gid.raw, text, sizeof(text)));
	snprintf(table + strlen(table), size - strlen(table), "%s%%%u%s ", text, gid->ifindex,
		 version);
	assert_int_not_equal(gid->ifname[0], 0);
}

static void gives_table(void **state)
{
	const struct table_row *row = *state;
	struct av_host_addr addrs[ADDRS_MAX];
	struct av_gid gids[AV_GID_MAX];
	char table[1024] = "";
	size_t n = make_addrs(row->given, addrs);
	unsigned int rows = av_gid_table(addrs, n, &single, gids);

	for (unsigned int i = 0; i < rows; i++) {
		print_row(&gids[i], "", table, sizeof(table));
		assert_int_equal(gids[i].type, IBV_GID_TYPE_ROCE_V2);
	}
	assert_string_equal(table, row->table);
}

static void gives_paired_table(void **state)
{
	const struct table_row *row = *state;
	struct av_host_addr addrs[ADDRS_MAX];
	struct av_gid gids[AV_GID_MAX];
	char table[1024] = "";
	size_t n = make_addrs(row->given, addrs);
	unsigned int rows = av_gid_table(addrs, n, &paired, gids);

	for (unsigned int i = 0; i < rows; i++) {
		assert_in_range(gids[i].type, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2);
		print_row(&gids[i], gids[i].type == IBV_GID_TYPE_ROCE_V1 ? "/v1" : "/v2", table,
			  sizeof(table));
	}
	assert_string_equal(table, row->table);
}

static void paired_table_ends_at_its_length(void **state)
{
	struct av_host_addr addr;
	struct av_gid gids[5];

	make_addr(&(struct given){"10.0.0.5", 2}, &addr);
	for (unsigned int max = 1; max <= 4; max++) {
		const struct av_gid_form form = {.max = max, .paired = true, .guid = GUID};

		memset(gids, 0xee, sizeof(gids));
		assert_int_equal(av_gid_table(&addr, 1, &form, gids), max);
		assert_int_equal(gids[max - 1].gid.raw[0], max <= 2 ? 0xfe : 0);
		assert_int_equal(gids[max].gid.raw[0], 0xee);
	}
}

/* A table in use after each step of a host's life. */
static void paired_rows_follow_the_addresses(void **state)
{
	static const struct table_row steps[] = {
		{"nothing", {{NULL, 0}}, PAIR(OF_GUID "%1") PAIR("::ffff:127.0.0.1%1")},
		{"an address", {{"10.0.0.5", 2}}, PAIR(OF_GUID "%2") PAIR("::ffff:10.0.0.5%2")},
		{"and its link-local one",
		 {{"10.0.0.5", 2}, {"fe80::5", 2}},
		 PAIR("fe80::5%2") PAIR("::ffff:10.0.0.5%2")},
		{"one of a smaller interface number",
		 {{"10.0.0.5", 3}, {"fe80::5", 3}, {"10.0.0.4", 2}},
		 PAIR(OF_GUID "%2") PAIR("::ffff:10.0.0.4%2") PAIR("::ffff:10.0.0.5%3")
			 PAIR("fe80::5%3")},
		{"the first is gone",
		 {{"10.0.0.5", 3}, {"fe80::5", 3}},
		 PAIR("fe80::5%3") "- - " PAIR("::ffff:10.0.0.5%3")},
		{"another takes its rows",
		 {{"10.0.0.5", 3}, {"10.0.0.6", 3}, {"fe80::5", 3}},
		 PAIR("fe80::5%3") PAIR("::ffff:10.0.0.6%3") PAIR("::ffff:10.0.0.5%3")},
	};
	struct av_gid table[AV_GID_MAX] = {0}, fresh[AV_GID_MAX];
	struct av_host_addr addrs[ADDRS_MAX];

	for (size_t step = 0; step < AV_ARRAY_SIZE(steps); step++) {
		size_t n = make_addrs(steps[step].given, addrs);
		unsigned int count = av_gid_table(addrs, n, &paired, fresh);
		char text[1024] = "";

		assert_true(av_gid_merge(table, &paired, fresh, count));
		assert_false(av_gid_merge(table, &paired, fresh, count));
		for (unsigned int i = 0; i < AV_GID_MAX; i++)
			if (!av_gid_is_empty(&table[i]))
				print_row(&table[i],
					  table[i].type == IBV_GID_TYPE_ROCE_V1 ? "/v1" : "/v2",
					  text, sizeof(text));
			else if (i < 4)
				strcat(text, "- ");
		assert_string_equal(text, steps[step].table);
	}
}

static void row_has_the_name_of_its_interface(void **state)
{
	struct av_host_addr addr;
	struct av_gid gid;

	make_addr(&(struct given){"10.0.0.1", 5}, &addr);
	assert_int_equal(av_gid_table(&addr, 1, &(struct av_gid_form){.max = 1}, &gid), 1);
	assert_string_equal(gid.ifname, "if5");
}

static void table_ends_at_its_length(void **state)
{
	struct av_host_addr addrs[AV_GID_MAX + 36];
	struct av_gid gids[AV_GID_MAX + 1];
	const unsigned int lengths[] = {1, 2, 63, AV_GID_MAX};
	char text[32];

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(addrs); i++) {
		snprintf(text, sizeof(text), "10.0.%u.1", i);
		make_addr(&(struct given){text, 1000 - i}, &addrs[i]);
	}
	for (size_t i = 0; i < AV_ARRAY_SIZE(lengths); i++) {
		const struct av_gid_form form = {.max = lengths[i]};

		memset(gids, 0xee, sizeof(gids));
		assert_int_equal(av_gid_table(addrs, AV_ARRAY_SIZE(addrs), &form, gids),
				 lengths[i]);
		assert_int_equal(gids[lengths[i]].gid.raw[0], 0xee);
		/* Kept are the first by the order of the table, not the first given. */
		assert_int_equal(gids[0].ifindex, 1000 - (AV_ARRAY_SIZE(addrs) - 1));
	}
}

static void empty_rows_come_first(void **state)
{
	struct av_host_addr addr;
	struct av_gid gids[5];

	make_addr(&(struct given){"10.0.0.5", 2}, &addr);
	for (unsigned int pairs = 0; pairs < 2; pairs++) {
		const struct av_gid_form form = {
			.max = 4, .empty = 2, .paired = pairs, .guid = GUID};

		memset(gids, 0xee, sizeof(gids));
		assert_int_equal(av_gid_table(&addr, 1, &form, gids), pairs ? 4 : 3);
		for (unsigned int i = 0; i < 4; i++)
			assert_int_equal(av_gid_is_empty(&gids[i]), i < 2);
		assert_int_equal(gids[4].gid.raw[0], 0xee);
	}
}

static void host_has_a_first_row(void **state)
{
	struct av_host_gids host;

	errno = EXDEV;
	av_gid_from_host(&host, &single);
	assert_int_equal(errno, EXDEV);
	assert_in_range(host.count, 1, AV_GID_MAX);
	for (unsigned int i = 0; i < host.count; i++) {
		assert_int_not_equal(host.row[i].ifindex, 0);
		assert_int_not_equal(host.row[i].ifname[0], 0);
		assert_int_equal(av_gid_interface_up(host.row[i].ifindex),
				 host.link != AV_LINK_NONE);
	}
	assert_int_equal(errno, EXDEV);
}

static void host_is_cut_to_one_row(void **state)
{
	struct av_host_gids one, all;

	memset(&one, 0xee, sizeof(one));
	av_gid_from_host(&all, &single);
	av_gid_from_host(&one, &(struct av_gid_form){.max = 1});
	assert_int_equal(one.count, 1);
	assert_memory_equal(&one.row[0], &all.row[0], sizeof(one.row[0]));
	assert_int_equal(one.row[1].gid.raw[0], 0xee);
}

/* A table in use and what it should hold, rows by a letter each and "." for an empty one. */
struct merge_row {
	const char *rule, *table, *fresh, *after;
	bool paired;
};

static const struct merge_row merge_rows[] = {
	{"nothing_new_changes_nothing", "ab..", "ab", "ab..", false},
	{"order_of_what_is_there_does_not_matter", "ab..", "ba", "ab..", false},
	{"new_row_comes_behind", "a...", "ab", "ab..", false},
	{"new_row_comes_behind_even_if_it_is_named_first", "b...", "ab", "ba..", false},
	{"lost_row_becomes_empty", "abc.", "ac", "a.c.", false},
	{"first_empty_row_is_used_first", "a.c.", "acd", "adc.", false},
	{"row_that_is_lost_makes_room", "abcd", "acde", "aecd", false},
	{"all_change", "ab..", "cd", "cd..", false},
	{"too_many_are_cut", "abc.", "abcde", "abcd", false},
	{"paired_rows_that_stay", "LMab", "LMab", "LMab", true},
	{"paired_address_is_added", "LM..", "LMab", "LMab", true},
	{"paired_address_is_removed", "LMab", "LM", "LM..", true},
	{"paired_address_is_exchanged", "LMab", "LMcd", "LMcd", true},
	{"fixed_rows_are_replaced_where_they_are", "LMab", "NOab", "NOab", true},
	{"fixed_rows_come_from_further_rows", "LMNO", "NO", "NO..", true},
	{"fixed_rows_and_address_change", "LMab", "NOcd", "NOcd", true},
	{"fixed_rows_are_not_taken_by_others", "LMab", "LMcdab", "LMab", true},
	{"empty_rows_in_front_stay_so", "..a.", "..ab", "..ab", false},
	{"empty_rows_in_front_are_no_room", "..ab", "..cb", "..cb", false},
	{"empty_rows_in_front_of_fixed_ones", ".LMa", ".NOa", ".NOa", true},
};

static void make_rows(const char *letters, struct av_gid *rows)
{
	for (; *letters; letters++, rows++) {
		memset(rows, 0, sizeof(*rows));
		if (*letters != '.')
			rows->gid.raw[15] = (uint8_t)*letters;
	}
}

static void merges(void **state)
{
	const struct merge_row *row = *state;
	const struct av_gid_form form = {
		.max = 4, .empty = (unsigned int)strspn(row->table, "."), .paired = row->paired};
	struct av_gid table[4], after[4], fresh[8];

	make_rows(row->table, table);
	make_rows(row->fresh, fresh);
	make_rows(row->after, after);
	assert_int_equal(av_gid_merge(table, &form, fresh, (unsigned int)strlen(row->fresh)),
			 strcmp(row->table, row->after) != 0);
	assert_memory_equal(table, after, sizeof(table));
}

static void same_address_of_another_interface_is_another_row(void **state)
{
	struct av_gid table[2], fresh[1];

	make_rows("a.", table);
	make_rows("a", fresh);
	fresh[0].ifindex = 7;
	assert_true(av_gid_merge(table, &(struct av_gid_form){.max = 2}, fresh, 1));
	assert_int_equal(table[0].ifindex, 7);
	assert_true(av_gid_is_empty(&table[1]));
}

static void link_is_the_furthest_there_is(void **state)
{
	const struct {
		struct given given;
		enum av_link link;
	} more[] = {
		{{"!10.0.0.1", 2}, AV_LINK_NONE},     {{"!127.0.0.1", 1}, AV_LINK_NONE},
		{{"127.0.0.1", 1}, AV_LINK_LOOPBACK}, {{"10.0.0.1", 1}, AV_LINK_LOOPBACK},
		{{"fe80::1", 2}, AV_LINK_NETWORK},    {{"!10.0.0.1", 2}, AV_LINK_NETWORK},
	};
	struct av_host_addr addrs[AV_ARRAY_SIZE(more)];

	assert_int_equal(av_gid_link(NULL, 0), AV_LINK_NONE);
	for (size_t i = 0; i < AV_ARRAY_SIZE(more); i++) {
		make_addr(&more[i].given, &addrs[i]);
		assert_int_equal(av_gid_link(addrs, i + 1), more[i].link);
	}
}

static void infiniband_gid_is_link_local_prefix_and_guid(void **state)
{
	static const uint8_t expected[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	struct av_gid gid;

	av_gid_from_guid(0x0102030405060708, &gid);
	assert_memory_equal(gid.gid.raw, expected, sizeof(expected));
	assert_int_equal(gid.type, IBV_GID_TYPE_IB);
	assert_int_equal(gid.ifindex, 0);
	assert_string_equal(gid.ifname, "");
}

static int run_tables(const char *name, const struct table_row *rows, size_t count,
		      CMUnitTestFunction function)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(table_rows) + AV_ARRAY_SIZE(paired_rows)];

	for (size_t i = 0; i < count; i++)
		tests[i] = (struct CMUnitTest){
			.name = rows[i].rule,
			.test_func = function,
			.initial_state = (void *)(uintptr_t)&rows[i],
		};
	return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

static int run_merges(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(merge_rows)];

	for (size_t i = 0; i < AV_ARRAY_SIZE(merge_rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = merge_rows[i].rule,
			.test_func = merges,
			.initial_state = (void *)(uintptr_t)&merge_rows[i],
		};
	return cmocka_run_group_tests_name("GID table in use", tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(row_has_the_name_of_its_interface),
		cmocka_unit_test(table_ends_at_its_length),
		cmocka_unit_test(empty_rows_come_first),
		cmocka_unit_test(paired_table_ends_at_its_length),
		cmocka_unit_test(paired_rows_follow_the_addresses),
		cmocka_unit_test(host_has_a_first_row),
		cmocka_unit_test(host_is_cut_to_one_row),
		cmocka_unit_test(same_address_of_another_interface_is_another_row),
		cmocka_unit_test(link_is_the_furthest_there_is),
		cmocka_unit_test(infiniband_gid_is_link_local_prefix_and_guid),
	};
	int failed = run_tables("GID table", table_rows, AV_ARRAY_SIZE(table_rows), gives_table);

	failed += run_tables("paired GID table", paired_rows, AV_ARRAY_SIZE(paired_rows),
			     gives_paired_table);
	failed += run_merges();

	return failed + cmocka_run_group_tests_name("GIDs", tests, NULL, NULL);
}
