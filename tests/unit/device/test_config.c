/* SPDX-License-Identifier: MIT */
/* ANYVERBS_DEVICES: every key with its first, last and nearest refused values, names, and what a
 * fault leaves. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "device/device.h"
#include "lib/unit.h"
#include "observe/freedom.h"

#define KEYS	AV_FREEDOM_BIT(AV_FREEDOM_KEYS)
#define LIMITS	AV_FREEDOM_BIT(AV_FREEDOM_LIMITS)
#define GIDS	AV_FREEDOM_BIT(AV_FREEDOM_GIDS)
#define NAME_63 "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

_Static_assert(sizeof(NAME_63) - 1 == 63, "the longest name");

/* The names that a text gives, and how many complaints. */
struct list_row {
	const char *rule;
	const char *text;
	const char *names; /* of the devices, each followed by a blank */
	unsigned int complaints;
};

static const struct list_row list_rows[] = {
	{"no_text_is_any0", NULL, "any0 ", 0},
	{"empty_text_is_any0", "", "any0 ", 0},
	{"one_name", "mlx5_0", "mlx5_0 ", 0},
	{"order_is_kept", "b,a,c", "b a c ", 0},
	{"all_characters_of_a_name", "aZ09_.-", "aZ09_.- ", 0},
	{"one_character", "x", "x ", 0},
	{"63_characters", NAME_63, NAME_63 " ", 0},
	{"64_characters_are_too_long", NAME_63 "x,b", "b ", 1},
	{"names_differ_by_case", "a,A", "a A ", 0},
	{"name_may_begin_with_dots", "...,..a", "... ..a ", 0},
	{"dot_is_no_name", ".,b", "b ", 1},
	{"dot_dot_is_no_name", "..,b", "b ", 1},
	{"slash_is_refused", "a/b,b", "b ", 1},
	{"blank_is_refused", "a, b", "a ", 1},
	{"percent_is_refused", "%s%n,b", "b ", 1},
	{"non_ascii_is_refused", "\303\244,b", "b ", 1},
	{"empty_name_is_refused", "a,,b", "a b ", 1},
	{"last_comma_is_an_empty_name", "a,", "a ", 1},
	{"key_without_name", ":mtu=256,b", "b ", 1},
	{"second_of_a_name_is_left_out", "a,b,a", "a b ", 1},
	{"prefix_of_a_name_is_another_name", "ab,a,abc", "ab a abc ", 0},
	{"16_devices", "0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f", "0 1 2 3 4 5 6 7 8 9 a b c d e f ", 0},
	{"17th_device_is_left_out", "0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g",
	 "0 1 2 3 4 5 6 7 8 9 a b c d e f ", 1},
	{"nothing_usable_is_any0", "/,.", "any0 ", 2},
	{"bad_setting_keeps_the_device", "a:mtu=7,b", "a b ", 1},
	{"profile_is_one_device", "connectx", "mlx5_0 ", 0},
	{"profile_of_2", "connectx:2", "mlx5_0 mlx5_1 ", 0},
	{"profile_of_1", "connectx:1:mtu=1024", "mlx5_0 ", 0},
	{"profile_with_settings_and_no_number", "connectx:mtu=1024", "mlx5_0 ", 0},
	{"profile_between_devices", "a,connectx:2,b", "a mlx5_0 mlx5_1 b ", 0},
	{"profile_counts_on", "connectx:2,connectx", "mlx5_0 mlx5_1 mlx5_2 ", 0},
	{"profile_leaves_names_out_that_are_taken", "mlx5_1,connectx:2", "mlx5_1 mlx5_0 mlx5_2 ",
	 0},
	{"profile_of_16", "connectx:16",
	 "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_9 mlx5_10 mlx5_11 "
	 "mlx5_12 mlx5_13 mlx5_14 mlx5_15 ",
	 0},
	{"profile_of_17_is_one", "connectx:17", "mlx5_0 ", 1},
	{"profile_of_0_is_one", "connectx:0", "mlx5_0 ", 1},
	{"profile_of_a_word_is_one", "connectx:many", "mlx5_0 ", 1},
	{"profile_of_nothing_is_one", "connectx:", "mlx5_0 ", 1},
	{"number_comes_first", "connectx:mtu=1024:2", "mlx5_0 ", 1},
	{"mistake_of_a_profile_is_one", "connectx:4:mtu=7", "mlx5_0 mlx5_1 mlx5_2 mlx5_3 ", 1},
	{"guid_of_a_profile_is_the_first_ones", "connectx:2:guid=0200000000000001",
	 "mlx5_0 mlx5_1 ", 1},
	{"profile_beyond_16_devices", "a,b,connectx:15",
	 "a b mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_9 mlx5_10 "
	 "mlx5_11 mlx5_12 mlx5_13 ",
	 1},
	{"name_of_a_profile_is_one_by_the_whole_word", "connectx0,Connectx", "connectx0 Connectx ",
	 0},
	{"number_is_for_profiles_only", "a:2", "a ", 1},
	{"freedoms_of_a_device", "a:strict=keys,limits,b", "a b ", 0},
	{"freedom_behind_all_freedoms", "a:strict,limits,b", "a b ", 0},
	{"freedoms_of_a_profile", "connectx:2:strict=keys,limits,b", "mlx5_0 mlx5_1 b ", 0},
	{"freedom_behind_a_plain_device_is_a_device", "a,keys", "a keys ", 0},
	{"freedom_behind_the_next_device_is_a_device", "a:strict=keys,b,limits", "a b limits ", 0},
	{"freedom_alone_is_a_device", "keys,limits", "keys limits ", 0},
	{"freedom_with_a_setting_is_a_device", "a:strict=keys,limits:mtu=256", "a limits ", 0},
	{"freedom_by_the_whole_word", "a:strict=keys,Limits,limit", "a Limits limit ", 0},
	{"freedom_behind_a_bad_one_is_a_device", "a:strict=lock,limits", "a limits ", 1},
};

static void gives_list(void **state)
{
	const struct list_row *row = *state;
	static struct av_config config;
	char names[AV_DEVICE_MAX * 65] = "";

	av_config_parse(row->text, &config);
	for (unsigned int i = 0; i < config.device_count; i++) {
		strcat(names, config.device[i].ibv.name);
		strcat(names, " ");
	}
	assert_string_equal(names, row->names);
	assert_int_equal(config.complaint_count, row->complaints);
}

/* One device "a" with these settings: the value of one field, and a word of the complaint if there
 * is one. */
struct value_row {
	const char *text;
	size_t offset;
	size_t size;
	uint64_t value;
	const char *complaint;
};

#define FIELD(f) offsetof(struct av_device, f), sizeof(((struct av_device *)0)->f)

/* A number from 1 to @max: both ends, what is next to them, and what is no number. */
#define NUMBER_ROWS(key, f, max, text_max, text_more)                                           \
	{"a", FIELD(f), max, NULL}, {"a:" #key "=1", FIELD(f), 1, NULL},                        \
		{"a:" #key "=" text_max, FIELD(f), max, NULL},                                  \
		{"a:" #key "=0", FIELD(f), max, #key},                                          \
		{"a:" #key "=" text_more, FIELD(f), max, #key},                                 \
		{"a:" #key "=-1", FIELD(f), max, #key}, {"a:" #key "=+1", FIELD(f), max, #key}, \
		{"a:" #key "= 1", FIELD(f), max, #key}, {"a:" #key "=1k", FIELD(f), max, #key}, \
		{"a:" #key "=0x10", FIELD(f), max, #key}, {"a:" #key "=", FIELD(f), max, #key}, \
		{"a:" #key, FIELD(f), max, "KEY=VALUE"},                                        \
		{"a:" #key "=4294967297", FIELD(f), max, #key},                                 \
		{"a:" #key "=18446744073709551617", FIELD(f), max, #key},                       \
	{                                                                                       \
		"a:" #key "=7:" #key "=9", FIELD(f), 7, "twice"                                 \
	}

static const struct value_row value_rows[] = {
	NUMBER_ROWS(max_qp, attr.max_qp, AV_MAX_QP, "65535", "65536"),
	NUMBER_ROWS(max_qp_wr, attr.max_qp_wr, AV_MAX_QP_WR, "16384", "16385"),
	NUMBER_ROWS(max_sge, attr.max_sge, AV_MAX_SGE, "32", "33"),
	NUMBER_ROWS(max_cq, attr.max_cq, AV_MAX_CQ, "65535", "65536"),
	NUMBER_ROWS(max_cqe, attr.max_cqe, AV_MAX_CQE, "1048575", "1048576"),
	NUMBER_ROWS(max_mr, attr.max_mr, AV_MAX_MR, "1048575", "1048576"),
	NUMBER_ROWS(max_pd, attr.max_pd, AV_MAX_PD, "65536", "65537"),
	NUMBER_ROWS(gids, port.gid_tbl_len, AV_GID_MAX, "64", "65"),
	{"a", FIELD(port.link_layer), IBV_LINK_LAYER_ETHERNET, NULL},
	{"a:link=ethernet", FIELD(port.link_layer), IBV_LINK_LAYER_ETHERNET, NULL},
	{"a:link=infiniband", FIELD(port.link_layer), IBV_LINK_LAYER_INFINIBAND, NULL},
	{"a:link=InfiniBand", FIELD(port.link_layer), IBV_LINK_LAYER_ETHERNET, "link"},
	{"a:link=ib", FIELD(port.link_layer), IBV_LINK_LAYER_ETHERNET, "link"},
	{"a:link=", FIELD(port.link_layer), IBV_LINK_LAYER_ETHERNET, "link"},
	{"a", FIELD(port.max_mtu), IBV_MTU_4096, NULL},
	{"a:mtu=256", FIELD(port.max_mtu), IBV_MTU_256, NULL},
	{"a:mtu=512", FIELD(port.max_mtu), IBV_MTU_512, NULL},
	{"a:mtu=1024", FIELD(port.max_mtu), IBV_MTU_1024, NULL},
	{"a:mtu=2048", FIELD(port.max_mtu), IBV_MTU_2048, NULL},
	{"a:mtu=4096", FIELD(port.max_mtu), IBV_MTU_4096, NULL},
	{"a:mtu=1500", FIELD(port.max_mtu), IBV_MTU_4096, "mtu"},
	{"a:mtu=8192", FIELD(port.max_mtu), IBV_MTU_4096, "mtu"},
	{"a:mtu=3", FIELD(port.max_mtu), IBV_MTU_4096, "mtu"},
	{"a", FIELD(guid), 0, NULL},
	{"a:guid=0123456789abcDEF", FIELD(guid), 0x0123456789abcdef, NULL},
	{"a:guid=ffffffffffffffff", FIELD(guid), UINT64_MAX, NULL},
	{"a:guid=0000000000000001", FIELD(guid), 1, NULL},
	{"a:guid=0000000000000000", FIELD(guid), 0, "guid"},
	{"a:guid=123", FIELD(guid), 0, "guid"},
	{"a:guid=0123456789abcdef0", FIELD(guid), 0, "guid"},
	{"a:guid=0123456789abcdeg", FIELD(guid), 0, "guid"},
	{"a:guid=0x23456789abcdef", FIELD(guid), 0, "guid"},
	{"a", FIELD(gids_paired), false, NULL},
	{"a:gid_rows=mlx5", FIELD(gids_paired), true, NULL},
	{"a:gid_rows=single", FIELD(gids_paired), false, NULL},
	{"a:gid_rows=mlx4", FIELD(gids_paired), false, "single or mlx5"},
	{"a:gid_rows=", FIELD(gids_paired), false, "single or mlx5"},
	{"a:gid_rows=mlx5:gids=4", FIELD(port.gid_tbl_len), 4, NULL},
	{"a:as=mlx5", FIELD(gids_paired), true, NULL},
	{"a:as=mlx5:gid_rows=single", FIELD(gids_paired), false, NULL},
	{"a:gid_rows=single:as=mlx5", FIELD(gids_paired), false, NULL},
	{"a:as=rxe:gid_rows=mlx5", FIELD(gids_paired), true, NULL},
	{"a:as=", FIELD(as), 0, "as"},
	{"a:as=MLX5", FIELD(as), 0, "as"},
	{"a:as=connectx", FIELD(as), 0, "as"},
	{"a:as", FIELD(as), 0, "KEY=VALUE"},
	{"a:as=rxe:as=mlx5", FIELD(gids_paired), false, "twice"},
	{"a", FIELD(port.lid), 0, NULL},
	{"a:link=infiniband", FIELD(port.lid), 1, NULL},
	{"a:link=infiniband:lid=1", FIELD(port.lid), 1, NULL},
	{"a:link=infiniband:strict", FIELD(port.lid), 49151, NULL},
	{"a:strict=limits:link=infiniband", FIELD(port.lid), 49151, NULL},
	{"a:link=infiniband:strict=keys", FIELD(port.lid), 1, NULL},
	{"a:link=infiniband:strict:lid=7", FIELD(port.lid), 7, NULL},
	{"a:link=infiniband:strict,b:link=infiniband:lid=49151", FIELD(port.lid), 49150, NULL},
	{"a:lid=7:link=infiniband", FIELD(port.lid), 7, NULL},
	{"a:link=infiniband:lid=49151", FIELD(port.lid), 49151, NULL},
	{"a:link=infiniband:lid=49152", FIELD(port.lid), 1, "lid"},
	{"a:link=infiniband:lid=0", FIELD(port.lid), 1, "lid"},
	{"a:lid=7", FIELD(port.lid), 0, "infiniband"},
	{"a:lid=7:link=ethernet", FIELD(port.lid), 0, "infiniband"},
	{"a", FIELD(strict), 0, NULL},
	{"a:strict", FIELD(strict), AV_FREEDOM_ALL, NULL},
	{"a:strict:strict=gids", FIELD(strict), AV_FREEDOM_ALL | GIDS, NULL},
	{"a:strict=gids:strict", FIELD(strict), AV_FREEDOM_ALL | GIDS, NULL},
	{"a:strict=keys", FIELD(strict), KEYS, NULL},
	{"a:strict=keys,limits", FIELD(strict), KEYS | LIMITS, NULL},
	{"a:strict=keys,keys", FIELD(strict), KEYS, NULL},
	{"a:strict,keys", FIELD(strict), AV_FREEDOM_ALL, NULL},
	{"a:strict=keys,b,limits", FIELD(strict), KEYS, NULL},
	{"a:mtu=256:strict=keys,limits", FIELD(port.max_mtu), IBV_MTU_256, NULL},
	{"a:strict=", FIELD(strict), 0, "freedom"},
	{"a:strict=all", FIELD(strict), 0, "freedom"},
	{"a:strict=Keys", FIELD(strict), 0, "freedom"},
	{"a:strict=keys:strict=limits", FIELD(strict), KEYS, "twice"},
	{"a", FIELD(seed), 0, NULL},
	{"a:strict:seed=1", FIELD(seed), 1, NULL},
	{"a:seed=7:strict=keys,limits", FIELD(seed), 7, NULL},
	{"a:seed=7:strict=keys,limits", FIELD(strict), KEYS | LIMITS, NULL},
	{"a:seed=18446744073709551615", FIELD(seed), UINT64_MAX, NULL},
	{"a:seed=18446744073709551616", FIELD(seed), 0, "seed"},
	{"a:seed=0", FIELD(seed), 0, "seed"},
	{"a:seed=", FIELD(seed), 0, "seed"},
	{"a:seed=-1", FIELD(seed), 0, "seed"},
	{"a:seed=x", FIELD(seed), 0, "seed"},
	{"a:seed", FIELD(seed), 0, "KEY=VALUE"},
	{"a:max_inline=1", FIELD(attr.max_sge), AV_MAX_SGE, "unknown key"},
	{"a:pkeys=1", FIELD(attr.max_sge), AV_MAX_SGE, "unknown key"},
	{"a:MTU=256", FIELD(port.max_mtu), IBV_MTU_4096, "unknown key"},
	{"a:=256", FIELD(port.max_mtu), IBV_MTU_4096, "unknown key"},
	{"a:", FIELD(port.max_mtu), IBV_MTU_4096, "KEY=VALUE"},
	{"a::mtu=256", FIELD(port.max_mtu), IBV_MTU_256, "KEY=VALUE"},
	{"a:mtu=256=256", FIELD(port.max_mtu), IBV_MTU_4096, "mtu"},
	{"a:max_qp=0:mtu=256", FIELD(port.max_mtu), IBV_MTU_256, "max_qp"},
	{"a:mtu=7:mtu=256", FIELD(port.max_mtu), IBV_MTU_256,
	 "mtu"}, /* what was refused may be said again */
};

static void gives_value(void **state)
{
	const struct value_row *row = *state;
	static struct av_config config;
	uint64_t value = 0;

	av_config_parse(row->text, &config);
	memcpy(&value, (char *)&config.device[0] + row->offset,
	       row->size); /* little endian hosts */
	assert_string_equal(config.device[0].ibv.name, "a");
	assert_int_equal(value, row->value);
	assert_int_equal(config.complaint_count, row->complaint ? 1 : 0);
	if (row->complaint)
		assert_non_null(strstr(config.complaint[0], row->complaint));
}

static void settings_belong_to_their_device(void **state)
{
	static struct av_config config;

	av_config_parse("any0,mlx5_0:link=infiniband:lid=7,rxe0:mtu=1024:max_qp=100", &config);
	assert_int_equal(config.device_count, 3);
	assert_int_equal(config.complaint_count, 0);
	assert_int_equal(config.device[0].port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(config.device[1].port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(config.device[1].port.lid, 7);
	assert_int_equal(config.device[1].attr.max_qp, AV_MAX_QP);
	assert_int_equal(config.device[2].port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(config.device[2].port.max_mtu, IBV_MTU_1024);
	assert_int_equal(config.device[2].attr.max_qp, 100);
}

static void settings_of_a_profile_belong_to_all_its_devices(void **state)
{
	static struct av_config config;

	av_config_parse("any0,connectx:2:mtu=1024,connectx:gid_rows=single", &config);
	assert_int_equal(config.device_count, 4);
	assert_int_equal(config.complaint_count, 0);
	assert_ptr_equal(config.device[0].model, &av_model_own);
	assert_false(config.device[0].gids_paired);
	for (unsigned int i = 1; i < 4; i++) {
		assert_int_equal(config.device[i].model->vendor, 0x02c9);
		assert_int_equal(config.device[i].port.max_mtu,
				 i < 3 ? IBV_MTU_1024 : IBV_MTU_4096);
		assert_int_equal(config.device[i].gids_paired, i < 3);
	}
}

static void freedoms_of_a_profile_belong_to_all_its_devices(void **state)
{
	static struct av_config config;

	av_config_parse("a,connectx:2:seed=5:strict=keys,limits,b", &config);
	assert_int_equal(config.device_count, 4);
	for (unsigned int i = 0; i < 4; i++) {
		bool of_profile = i == 1 || i == 2;

		assert_int_equal(config.device[i].strict, of_profile ? KEYS | LIMITS : 0);
		assert_int_equal(config.device[i].seed, of_profile ? 5 : 0);
	}
}

static void lid_left_free_is_position_plus_one(void **state)
{
	static struct av_config config;

	av_config_parse("a,b:link=infiniband,c:link=infiniband", &config);
	assert_int_equal(config.device[0].port.lid, 0);
	assert_int_equal(config.device[1].port.lid, 2);
	assert_int_equal(config.device[2].port.lid, 3);
}

static void lid_left_free_avoids_those_that_are_set(void **state)
{
	static struct av_config config;

	av_config_parse("a:link=infiniband,b:link=infiniband,c:link=infiniband:lid=1", &config);
	assert_int_equal(config.complaint_count, 0);
	assert_int_equal(config.device[0].port.lid, 2);
	assert_int_equal(config.device[1].port.lid, 3);
	assert_int_equal(config.device[2].port.lid, 1);
}

static void lid_of_two_devices_is_refused(void **state)
{
	static struct av_config config;

	av_config_parse("a:link=infiniband:lid=9,b:link=infiniband:lid=9", &config);
	assert_int_equal(config.complaint_count, 1);
	assert_int_equal(config.device[0].port.lid, 9);
	assert_int_equal(config.device[1].port.lid, 2);
}

static void guid_of_two_devices_is_refused(void **state)
{
	static struct av_config config;

	av_config_parse("a:guid=0200000000000001,b:guid=0200000000000001", &config);
	assert_int_equal(config.complaint_count, 1);
	assert_int_equal(config.device[0].guid, 0x0200000000000001);
	assert_int_equal(config.device[1].guid, 0);
}

static void complaints_are_counted_beyond_those_kept(void **state)
{
	static struct av_config config;
	char text[256] = "a";

	for (unsigned int i = 0; i < AV_COMPLAINT_MAX + 5; i++)
		strcat(text, ":x");
	av_config_parse(text, &config);
	assert_int_equal(config.complaint_count, AV_COMPLAINT_MAX + 5);
	assert_int_not_equal(config.complaint[AV_COMPLAINT_MAX - 1][0], 0);
}

static void complaint_quotes_only_the_beginning(void **state)
{
	static struct av_config config;
	char text[5000];

	memset(text, '/', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	av_config_parse(text, &config);
	assert_int_equal(config.complaint_count, 1);
	assert_in_range(strlen(config.complaint[0]), 64, AV_COMPLAINT_BYTES - 1);
	assert_non_null(strstr(config.complaint[0], "/' is not a device name"));
}

static void longest_name_and_value_leave_room_for_the_reason(void **state)
{
	static struct av_config config;

	av_config_parse(NAME_63 ":mtu=" NAME_63 NAME_63, &config);
	assert_int_equal(config.complaint_count, 1);
	assert_non_null(strstr(config.complaint[0], "is not 256, 512, 1024, 2048 or 4096"));
}

/* Pieces that mean something, in every order of length 5: none may be read past its end or loop. */
static void any_order_of_separators_ends(void **state)
{
	static const char *const piece[] = {"a", ",", ":", "=", "mtu", "2", "connectx"};
	size_t n = AV_ARRAY_SIZE(piece), total = n * n * n * n * n;
	static struct av_config config;
	char text[64];

	for (size_t i = 0; i < total; i++) {
		text[0] = '\0';
		for (size_t j = 0, rest = i; j < 5; j++, rest /= n)
			strcat(text, piece[rest % n]);
		av_config_parse(text, &config);
		assert_in_range(config.device_count, 1, 6);
	}
}

static int run_lists(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(list_rows)];

	for (size_t i = 0; i < AV_ARRAY_SIZE(list_rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = list_rows[i].rule,
			.test_func = gives_list,
			.initial_state = (void *)(uintptr_t)&list_rows[i],
		};
	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}

static int run_values(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(value_rows)];

	for (size_t i = 0; i < AV_ARRAY_SIZE(value_rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = value_rows[i].text,
			.test_func = gives_value,
			.initial_state = (void *)(uintptr_t)&value_rows[i],
		};
	return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_belong_to_their_device),
		cmocka_unit_test(settings_of_a_profile_belong_to_all_its_devices),
		cmocka_unit_test(freedoms_of_a_profile_belong_to_all_its_devices),
		cmocka_unit_test(lid_left_free_is_position_plus_one),
		cmocka_unit_test(lid_left_free_avoids_those_that_are_set),
		cmocka_unit_test(lid_of_two_devices_is_refused),
		cmocka_unit_test(guid_of_two_devices_is_refused),
		cmocka_unit_test(complaints_are_counted_beyond_those_kept),
		cmocka_unit_test(complaint_quotes_only_the_beginning),
		cmocka_unit_test(longest_name_and_value_leave_room_for_the_reason),
		cmocka_unit_test(any_order_of_separators_ends),
	};
	int failed = run_lists() + run_values();

	return failed + cmocka_run_group_tests_name("whole texts", tests, NULL, NULL);
}
