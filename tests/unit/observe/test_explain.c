/* SPDX-License-Identifier: MIT */
/* The table of checks, records in English, and pending records. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/unit.h"
#include "observe/check.h"
#include "observe/flight.h"

/* --- the table ------------------------------------------------------------------- */

TEST(each_check_has_its_words)
{
	for (unsigned int i = 1; i < AV_CHECK_N; i++) {
		const struct av_check_row *row = av_check_row(i);

		assert_true(row->name && strlen(row->name) > 3);
		assert_true(row->clause && strlen(row->clause) > 2);
		assert_true(row->sentence && strlen(row->sentence) > 8);
		assert_non_null(row->advice);
		assert_null(strchr("."
				   "\n",
				   row->sentence[strlen(row->sentence) - 1]));
		for (unsigned int j = 1; j < i; j++)
			assert_string_not_equal(row->name, av_check_row(j)->name);
	}
	assert_ptr_equal(av_check_row(AV_CHECK_N), av_check_row(AV_CHECK_NONE));
	assert_ptr_equal(av_check_row(UINT32_MAX), av_check_row(AV_CHECK_NONE));
}

static struct av_word word(const char *from, const char *end)
{
	return (struct av_word){from, (size_t)(end - from)};
}

static void check_placeholders(const char *text)
{
	const char *open, *close, *colon;

	while ((open = strchr(text, '{'))) {
		close = strchr(open, '}');
		assert_non_null(close);
		colon = memchr(open, ':', (size_t)(close - open));
		if (!av_field_find(word(open + 1, colon ? colon : close)))
			fail_msg("no field: %s", open);
		if (colon && av_field_form(word(colon + 1, close)) == AV_FIELD_FORM_N)
			fail_msg("no form: %s", colon);
		text = close + 1;
	}
	assert_null(strchr(text, '}'));
}

TEST(each_placeholder_is_a_field)
{
	for (unsigned int i = 0; i < AV_CHECK_N; i++) {
		check_placeholders(av_check_row(i)->sentence);
		check_placeholders(av_check_row(i)->advice);
	}
}

TEST(fields_are_where_they_say)
{
	unsigned int count;
	const struct av_field *f = av_fields(&count);
	uint8_t covered[sizeof(struct av_flight_record)] = {0};

	for (unsigned int i = 0; i < count; i++)
		for (unsigned int at = f[i].offset; at < f[i].offset + f[i].bytes; at++) {
			assert_true(at < sizeof(covered));
			/*
			 * A record has a region or a GID, an access or what the GID stands for; or
			 * words instead.
			 */
			if (f[i].group != AV_HAS_GID && f[i].group != AV_HAS_TAKEN_FOR &&
			    f[i].group != AV_HAS_DETAIL)
				assert_int_equal(covered[at]++, 0);
		}
	for (size_t at = 0; at < sizeof(covered); at++)
		if (!covered[at]) /* only the mask says nothing by itself */
			assert_in_range(at, offsetof(struct av_flight_record, has),
					offsetof(struct av_flight_record, has) + 3);
}

TEST(each_errno_has_a_check)
{
	for (int err = 1; err < 134; err++)
		assert_int_not_equal(av_check_of_errno(err), AV_CHECK_NONE);
	assert_int_equal(av_check_of_errno(ENOENT), AV_CHECK_OBJECT_UNKNOWN);
	assert_int_equal(av_check_of_errno(EXDEV), AV_CHECK_OTHER_ERROR);
}

/* --- sentences ------------------------------------------------------------------- */

TEST(sentence_of_a_request)
{
	const struct av_flight_record r = {
		.pid = 811,
		.by = 811,
		.process = "prog",
		.device = "any0",
		.kind = AV_FLIGHT_REQUEST,
		.check = AV_CHECK_KEY_BEHIND,
		.has = AV_HAS_OBJECT | AV_HAS_REQUEST | AV_HAS_STATUS | AV_HAS_ACCESS |
		       AV_HAS_REGION | AV_HAS_MEASURE,
		.object = AV_OBJECT_QP,
		.number = 17,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr_id = 4711,
		.status = IBV_WC_REM_ACCESS_ERR,
		.remote = 1,
		.key = 0x2a01,
		.address = 0x7f0040,
		.length = 4096,
		.wanted = 512,
		.region_address = 0x7f0000,
		.region_length = 3584 + 64,
		.region_pid = 900,
	};
	char text[AV_EXPLAIN_MAX];
	size_t n = av_explain(&r, text);

	assert_int_equal(n, strlen(text));
	assert_string_equal(
		text,
		"prog[811] any0: QP 0x000011: RDMA WRITE of 4096 B to 0x7f0040 under rkey 0x2a01: "
		"the "
		"range ends 512 B beyond the region, which has 3648 B at 0x7f0000 (registered by "
		"pid 900) (IBV_WC_REM_ACCESS_ERR, wr_id 4711)\n"
		"    register more, or ask for less; do address and key belong to the same region? "
		"[IBTA 1, 10.6.3]\n");
}

/* Of the other end's process, too, which found it out or did it. */
TEST(the_peer_is_named)
{
	struct av_flight_record r = {
		.pid = 811,
		.by = 900,
		.kind = AV_FLIGHT_RECEIVE,
		.check = AV_CHECK_KEY_DEAD,
		.has = AV_HAS_OBJECT | AV_HAS_REQUEST | AV_HAS_EVENT | AV_HAS_PEER,
		.object = AV_OBJECT_QP,
		.number = 17,
		.opcode = IBV_WR_RDMA_WRITE,
		.event = IBV_EVENT_QP_ACCESS_ERR,
		.peer_pid = 900,
		.peer_qp = 23,
	};
	char text[AV_EXPLAIN_MAX];

	av_explain(&r, text);
	assert_non_null(strstr(text, "QP 0x000011: peer's RDMA WRITE: "));
	assert_non_null(
		strstr(text, " (peer: QP 0x000017 of pid 900) (IBV_EVENT_QP_ACCESS_ERR)\n"));
	r.peer_pid = 0;
	av_explain(&r, text);
	assert_non_null(strstr(text, " (peer: QP 0x000017 of another host) ("));
	r.peer_pid = 811; /* it is connected within its process */
	av_explain(&r, text);
	assert_null(strstr(text, "(peer:"));
}

TEST(advice_is_a_second_line)
{
	const struct av_flight_record r = {
		.pid = 5,
		.by = 6,
		.check = AV_CHECK_KEY_RIGHTS,
		.has = AV_HAS_OBJECT | AV_HAS_ACCESS | AV_HAS_REGION,
		.object = AV_OBJECT_QP,
		.number = 3,
		.access = IBV_ACCESS_REMOTE_WRITE,
		.region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	char text[AV_EXPLAIN_MAX];

	av_explain(&r, text);
	assert_string_equal(
		text,
		"[5]: QP 0x000003: the region permits IBV_ACCESS_LOCAL_WRITE | REMOTE_READ, and "
		"IBV_ACCESS_REMOTE_WRITE is needed\n    register it with IBV_ACCESS_REMOTE_WRITE "
		"[IBTA 1, 10.6.3]\n");
}

/* Whatever a record holds, it becomes at most two lines of printable text. */
TEST(nonsense_is_written_harmlessly)
{
	struct av_flight_record r;
	char text[AV_EXPLAIN_MAX + 1];

	srand(1);
	for (int i = 0; i < 20000; i++) {
		unsigned int lines = 0;
		size_t n;

		for (size_t k = 0; k < sizeof(r); k++)
			((uint8_t *)&r)[k] = (uint8_t)(i % 3 ? rand() : 0xff);
		if (i % 2)
			r.check = (uint16_t)(rand() % AV_CHECK_N);
		text[AV_EXPLAIN_MAX] = 'x';
		n = av_explain(&r, text);
		assert_int_equal(text[AV_EXPLAIN_MAX], 'x');
		assert_true(n < AV_EXPLAIN_MAX && n == strlen(text) && text[n - 1] == '\n');
		for (size_t k = 0; k < n; k++) {
			lines += text[k] == '\n';
			assert_true(text[k] == '\n' || (unsigned char)text[k] >= ' ');
		}
		assert_in_range(lines, 1, 2);
	}
}

/* --- pending records ------------------------------------------------------------- */

static char path[64];
static int folder;

static int setup(void **state)
{
	snprintf(path, sizeof(path), "/tmp/anyverbs-blame-XXXXXX");
	if (!mkdtemp(path))
		return -1;
	folder = open(path, O_RDONLY | O_DIRECTORY);
	av_flight_join(folder);
	return 0;
}

static int teardown(void **state)
{
	av_flight_leave();
	unlinkat(folder, AV_FLIGHT_FILE, 0);
	close(folder);
	return rmdir(path);
}

/* Number of records; the last of them in @r. */
static uint64_t records(struct av_flight_record *r)
{
	const struct av_flight_file *file = av_flight_own();
	uint64_t next = av_flight_next(file);

	if (next)
		assert_true(av_flight_read(file, next - 1, r));
	av_flight_own_end();
	return next;
}

/* How many have not been withdrawn. */
static unsigned int readable(void)
{
	const struct av_flight_file *file = av_flight_own();
	struct av_flight_record r;
	unsigned int count = 0;

	for (uint64_t at = 0; at < av_flight_next(file); at++)
		count += av_flight_read(file, at, &r);
	av_flight_own_end();
	return count;
}

TEST_WITH(refusal_has_what_was_noted, setup, teardown)
{
	struct av_flight_record r;

	errno = E2BIG;
	assert_int_equal(av_refused(AV_VERB_REG_MR, av_refuse(EINVAL, AV_CHECK_MR_LENGTH, 10, 5)),
			 EINVAL);
	assert_int_equal(errno, E2BIG);
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.kind, AV_FLIGHT_REFUSAL);
	assert_int_equal(r.check, AV_CHECK_MR_LENGTH);
	assert_int_equal(r.error, EINVAL);
	assert_int_equal(r.wanted, 10);
	assert_int_equal(r.limit, 5);
	assert_int_equal(r.pid, getpid());
	assert_int_equal(r.by, getpid());
	assert_int_equal(r.by_group, getpgrp());
	assert_true(r.time_ns > 0 && r.monotonic_ns > 0);
	assert_string_equal(r.process, program_invocation_short_name);
	assert_string_equal(av_verb_name(r.verb), "ibv_reg_mr");
}

/* What was noted and overcome is no reason of what fails later with another value. */
TEST_WITH(refusal_of_another_value_is_another, setup, teardown)
{
	struct av_flight_record r;

	(void)av_refuse(EPERM, AV_CHECK_ADVISE_PD, 1, 2);
	(void)av_refused(AV_VERB_DESTROY_CQ, EBUSY);
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.check, AV_CHECK_OBJECT_BUSY);
	(void)av_refused(AV_VERB_DESTROY_CQ, EPERM); /* and the pending record is gone */
	assert_int_equal(records(&r), 2);
	assert_int_equal(r.check, AV_CHECK_NOT_PERMITTED);
}

TEST_WITH(same_again_is_told_seldom, setup, teardown)
{
	struct av_flight_record r;
	uint64_t told;

	for (uint64_t i = 0; i < 1000; i++)
		(void)av_refused(AV_VERB_POST_RECV,
				 av_refuse(ENOMEM, AV_CHECK_POST_RECV_FULL, 8, 8));
	told = records(&r);
	assert_in_range(
		told, 10,
		40); /* 1, 2, 4, ... 512; more if the machine paused for a second in between */
	assert_int_equal(r.repeats & (r.repeats - 1), 0);
	assert_in_range(readable(), 1, 30); /* each takes the place of the one before */
	(void)av_refused(AV_VERB_POST_RECV, av_refuse(ENOMEM, AV_CHECK_POST_RECV_FULL, 9, 9));
	assert_int_equal(records(&r), told + 1);
	assert_int_equal(r.repeats, 0);
}

/* Another mask, another number: another mistake. */
TEST_WITH(other_numbers_are_other_records, setup, teardown)
{
	static const uint64_t mask[] = {0x80, 0x40, 0x40, 0x80};
	struct av_flight_record r;

	for (size_t i = 0; i < AV_ARRAY_SIZE(mask); i++)
		(void)av_refused(AV_VERB_ADVISE_MR, av_refuse(EINVAL, AV_CHECK_FLAGS, mask[i], 1));
	assert_int_equal(records(&r), 4);
	assert_int_equal(readable(), 3);
	assert_int_equal(r.wanted, 0x80);
	assert_int_equal(r.repeats, 0);
	(void)av_refused(AV_VERB_ADVISE_MR, av_refuse(EINVAL, AV_CHECK_FLAGS, 0x80, 3));
	assert_int_equal(readable(), 4);
}

/* A program that looks for a limit asks for less and less. */
TEST_WITH(a_row_is_withdrawn_as_a_whole, setup, teardown)
{
	(void)av_refused(AV_VERB_CREATE_QP, av_refuse(EINVAL, AV_CHECK_QP_SEND_WR, 9, 8));
	for (uint64_t bytes = 4000; bytes > 4000 - AV_DIAG_ROW; bytes--)
		for (int times = 0; times < 3; times++)
			(void)av_refused(AV_VERB_CREATE_QP,
					 av_refuse(EINVAL, AV_CHECK_QP_INLINE, bytes, 64));
	assert_int_equal(readable(), 1 + AV_DIAG_ROW);
	av_overcome(AV_VERB_CREATE_QP);
	assert_int_equal(readable(), 1); /* by another check */
	for (uint64_t bytes = 4000; bytes > 4000 - AV_DIAG_ROW - 5; bytes--)
		(void)av_refused(AV_VERB_CREATE_QP,
				 av_refuse(EINVAL, AV_CHECK_QP_INLINE, bytes, 64));
	av_overcome(AV_VERB_CREATE_QP);
	assert_int_equal(readable(), 1 + 5); /* no more than the last are remembered */
}

TEST_WITH(refused_as_has_the_same_reason, setup, teardown)
{
	struct av_flight_record r;

	(void)av_refuse(EPERM, AV_CHECK_ADVISE_RIGHT, 1, 2);
	(void)av_refused(AV_VERB_EXP_PREFETCH_MR, av_refuse_as(EINVAL));
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.check, AV_CHECK_ADVISE_RIGHT);
	assert_int_equal(r.error, EINVAL);
}

/* What does not fit is cut, and others' bytes make no second line. */
TEST_WITH(details_are_words, setup, teardown)
{
	struct av_flight_record r;
	char text[AV_EXPLAIN_MAX], name[100];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	(void)av_refuse(EFAULT, AV_CHECK_MEMORY_HOLE, 0x7000, 0x6000);
	av_diag_detail("rw-p\n%s", name);
	(void)av_refused(AV_VERB_REG_MR, EFAULT);
	assert_int_equal(records(&r), 1);
	av_explain(&r, text);
	assert_non_null(strstr(text, "nothing is mapped at 0x7000; the mapping before it ends at "
				     "0x6000: rw-p?xxxx"));
	assert_non_null(strstr(text, "xxx (EFAULT)\n"));
}

TEST(negative_numbers_are_negative)
{
	const struct av_flight_record r = {.check = AV_CHECK_CQ_VECTOR,
					   .has = AV_HAS_MEASURE,
					   .wanted = (uint64_t)-1,
					   .limit = 4};
	char text[AV_EXPLAIN_MAX];

	av_explain(&r, text);
	assert_non_null(strstr(text, "comp_vector -1; the device has 4"));
}

/* Also while the same comes again and again, of which only some make a record. */
TEST_WITH(of_what_shows_nothing_yet_the_last_stays, setup, teardown)
{
	_Atomic uint64_t last = 0;
	struct av_flight_record r;

	for (uint32_t i = 0; i < 15; i++) {
		r = (struct av_flight_record){.kind = AV_FLIGHT_EVENT,
					      .check = AV_CHECK_STRICT_EVENTS,
					      .has = AV_HAS_OBJECT,
					      .object = AV_OBJECT_CQ,
					      .number = i / 5};
		av_flight_replace(&last, av_report_beside(&r));
		assert_int_equal(readable(), 1);
		(void)records(&r);
		assert_int_equal(r.number, i / 5);
	}
}

TEST_WITH(what_is_overcome_is_withdrawn, setup, teardown)
{
	(void)av_refused(AV_VERB_CREATE_CQ, av_refuse(EINVAL, AV_CHECK_CQ_SIZE, 9, 8));
	(void)av_refused(AV_VERB_CREATE_QP, av_refuse(EINVAL, AV_CHECK_QP_INLINE, 9, 8));
	(void)av_refused(AV_VERB_CREATE_QP, av_refuse(EINVAL, AV_CHECK_QP_INLINE, 7, 8));
	assert_int_equal(readable(), 3);
	av_overcome(AV_VERB_CREATE_CQ); /* the last refusal was another verb's */
	assert_int_equal(readable(), 3);
	av_overcome(AV_VERB_CREATE_QP);
	assert_int_equal(readable(), 1);
	av_overcome(AV_VERB_CREATE_QP);
	assert_int_equal(readable(), 1);
}

/* Numbers of queue pairs as programs print them, and bits by their names. */
TEST(numbers_have_their_forms)
{
	static const struct {
		enum av_check check;
		uint64_t wanted, limit;
		const char *text;
	} row[] = {
		{AV_CHECK_PEER_OTHER, 1, 0x20011, "is connected to QP 0x020011\n"},
		{AV_CHECK_STATE_MISSING, IBV_QP_RNR_RETRY, IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN,
		 "attr_mask lacks IBV_QP_RNR_RETRY; the move to RTS requires IBV_QP_RNR_RETRY | "
		 "SQ_PSN\n"},
		{AV_CHECK_STATE_EXTRA, IBV_QP_AV, 0,
		 "attr_mask has IBV_QP_AV; the move to RTS accepts nothing else\n"},
	};
	char text[AV_EXPLAIN_MAX];

	for (size_t i = 0; i < AV_ARRAY_SIZE(row); i++) {
		const struct av_flight_record r = {.check = row[i].check,
						   .state = IBV_QPS_RTS,
						   .has = AV_HAS_MEASURE,
						   .wanted = row[i].wanted,
						   .limit = row[i].limit};

		av_explain(&r, text);
		assert_non_null(strstr(text, row[i].text));
	}
}

TEST(each_verb_has_a_name_of_its_own)
{
	for (unsigned int i = AV_VERB_NONE + 1; i < AV_VERB_N; i++)
		for (unsigned int j = 0; j < i; j++)
			assert_string_not_equal(av_verb_name(i), av_verb_name(j));
	assert_string_equal(av_verb_name(AV_VERB_NONE), "a verb");
	assert_string_equal(av_verb_name(AV_VERB_N), "a verb");
	assert_string_equal(av_verb_name(UINT16_MAX), "a verb");
}

int main(void)
{
	return run_cases(NULL, NULL);
}
