/* SPDX-License-Identifier: MIT */
/* What a record says in English: verbs, checks, fields, and sentences with both. */
#include "observe/check.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "observe/faults.h"
#include "observe/wr_opcode.h"
#include "wire/address.h"

static const struct {
	const char *name;
	uint8_t errs[8];
} verbs[AV_VERB_N] = {[AV_VERB_NONE] = {"a verb", {0}},
#define AV_VERB_ROW(id, name, ...) [AV_VERB_##id] = {name, {__VA_ARGS__}},
		      AV_VERBS(AV_VERB_ROW)
#undef AV_VERB_ROW
};

const char *av_verb_name(unsigned int verb)
{
	return verbs[verb < AV_VERB_N ? verb : AV_VERB_NONE].name;
}

const uint8_t *av_verb_errs(unsigned int verb)
{
	return verbs[verb].errs;
}

static const struct av_check_row rows[] = {
	[AV_CHECK_NONE] = {"NONE", "", "the reason is not known", ""},
#define AV_CHECK_ROW(id, clause, sentence, advice) \
	[AV_CHECK_##id] = {#id, clause, sentence, advice},
	AV_CHECKS(AV_CHECK_ROW)
#undef AV_CHECK_ROW
};

const struct av_check_row *av_check_row(unsigned int check)
{
	return &rows[check < AV_CHECK_N ? check : AV_CHECK_NONE];
}

struct of_errno {
	int err;
	enum av_check check;
};

static enum av_check find_errno_check(const struct of_errno *row, size_t count, int err,
				      enum av_check other)
{
	for (size_t i = 0; i < count; i++)
		if (row[i].err == err)
			return row[i].check;
	return other;
}

enum av_check av_check_of_errno(int err)
{
	static const struct of_errno row[] = {
		{ENOENT, AV_CHECK_OBJECT_UNKNOWN}, {EBUSY, AV_CHECK_OBJECT_BUSY},
		{ENOMEM, AV_CHECK_NO_MEMORY},	   {EPERM, AV_CHECK_NOT_PERMITTED},
		{EIO, AV_CHECK_DEVICE_FAILED},	   {EOPNOTSUPP, AV_CHECK_NOT_SUPPORTED},
		{EINVAL, AV_CHECK_ARGUMENT},	   {EFAULT, AV_CHECK_BAD_ADDRESS},
		{ENOSYS, AV_CHECK_NO_SUCH_VERB},   {EMFILE, AV_CHECK_NO_DESCRIPTOR},
		{ENFILE, AV_CHECK_NO_DESCRIPTOR},
	};

	return find_errno_check(row, AV_ARRAY_SIZE(row), err, AV_CHECK_OTHER_ERROR);
}

enum av_check av_check_of_silence(int err)
{
	static const struct of_errno row[] = {
		{ENETUNREACH, AV_CHECK_PEER_NO_WAY},   {EHOSTUNREACH, AV_CHECK_PEER_NO_WAY},
		{ECONNREFUSED, AV_CHECK_PEER_NO_PORT}, {EPERM, AV_CHECK_PEER_FIREWALL},
		{EACCES, AV_CHECK_PEER_FIREWALL},      {EMSGSIZE, AV_CHECK_PEER_MTU},
		{EBADMSG, AV_CHECK_PEER_LENGTH},
	};

	return find_errno_check(row, AV_ARRAY_SIZE(row), err, AV_CHECK_PEER_SILENT);
}

/* --- fields ----------------------------------------------------------------------- */

/* clang-format off */
#define F(name, member, form, group) \
	{name, offsetof(struct av_flight_record, member), \
	 sizeof(((struct av_flight_record *)0)->member), AV_FIELD_##form, group}

static const struct av_field fields[] = {
	F("time_ns",        time_ns,        DEC,    0),
	F("monotonic_ns",   monotonic_ns,   DEC,    0),
	F("pid",            pid,            SIGNED, 0),
	F("by",             by,             SIGNED, 0),
	F("by_group",       by_group,       SIGNED, 0),
	F("process",        process,        TEXT,   0),
	F("device",         device,         TEXT,   0),
	F("kind",           kind,           KIND,   0),
	F("check",          check,          CHECK,  0),
	F("object",         object,         OBJECT, AV_HAS_OBJECT),
	F("number",         number,         DEC,    AV_HAS_OBJECT),
	F("verb",           verb,           VERB,   AV_HAS_VERB),
	F("error",          error,          ERRNO,  AV_HAS_VERB),
	F("opcode",         opcode,         OPCODE, AV_HAS_REQUEST),
	F("wr_id",          wr_id,          ID,     AV_HAS_REQUEST),
	F("status",         status,         STATUS, AV_HAS_STATUS),
	F("event",          event,          EVENT,  AV_HAS_EVENT),
	F("state",          state,          STATE,  AV_HAS_STATE),
	F("wanted",         wanted,         DEC,    AV_HAS_MEASURE),
	F("limit",          limit,          DEC,    AV_HAS_MEASURE),
	F("detail",         detail,         TEXT,   AV_HAS_DETAIL),
	F("count",          count,          DEC,    AV_HAS_COUNT),
	F("repeats",        repeats,        DEC,    0),
	F("key",            key,            HEX,    AV_HAS_ACCESS),
	F("remote",         remote,         DEC,    AV_HAS_ACCESS),
	F("address",        address,        HEX,    AV_HAS_ACCESS),
	F("length",         length,         DEC,    AV_HAS_ACCESS),
	F("access",         access,         ACCESS, AV_HAS_ACCESS),
	F("pd",             pd,             DEC,    AV_HAS_ACCESS),
	F("region_kind",    region_kind,    REGION_KIND, AV_HAS_REGION),
	F("region_address", region_address, HEX,    AV_HAS_REGION),
	F("region_length",  region_length,  DEC,    AV_HAS_REGION),
	F("region_access",  region_access,  ACCESS, AV_HAS_REGION),
	F("region_pd",      region_pd,      DEC,    AV_HAS_REGION),
	F("region_pid",     region_pid,     SIGNED, AV_HAS_REGION),
	F("region_qp",      region_qp,      QPN,    AV_HAS_REGION_QP),
	F("gid",            gid,            GID,    AV_HAS_GID),
	F("taken_for",      taken_for,      GID,    AV_HAS_TAKEN_FOR),
	F("peer_pid",       peer_pid,       SIGNED, AV_HAS_PEER),
	F("peer_qp",        peer_qp,        QPN,    AV_HAS_PEER),
};
/* clang-format on */

const struct av_field *av_fields(unsigned int *count)
{
	*count = AV_ARRAY_SIZE(fields);
	return fields;
}

const struct av_field *av_field_find(struct av_word name)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(fields); i++)
		if (av_word_is(name, fields[i].name))
			return &fields[i];
	return NULL;
}

bool av_field_is_set(const struct av_field *field, const struct av_flight_record *record)
{
	if (field->offset == offsetof(struct av_flight_record, repeats))
		return record->repeats;
	return field->group == 0 || (record->has & field->group);
}

bool av_field_is_number(const struct av_field *field)
{
	return field->form <= AV_FIELD_ID;
}

int64_t av_field_number(const struct av_field *field, const struct av_flight_record *record)
{
	const uint8_t *at = (const uint8_t *)record + field->offset;
	uint64_t value = 0;

	memcpy(&value, at, field->bytes); /* assumes little endian: x86-64 and aarch64 */
	if (field->form == AV_FIELD_SIGNED || field->form == AV_FIELD_ERRNO ||
	    field->form == AV_FIELD_EVENT)
		return (int32_t)value;
	return (int64_t)value;
}

/* --- words ----------------------------------------------------------------------- */

static const char *const kinds[] = {
	[AV_FLIGHT_REFUSAL] = "refusal",   [AV_FLIGHT_REQUEST] = "request",
	[AV_FLIGHT_RECEIVE] = "responder", [AV_FLIGHT_FLUSH] = "flush",
	[AV_FLIGHT_EVENT] = "event",	   [AV_FLIGHT_DROPPED] = "dropped",
};

static const char *const objects[] = {
	[AV_OBJECT_NONE] = "none", [AV_OBJECT_QP] = "QP", [AV_OBJECT_CQ] = "CQ",
	[AV_OBJECT_SRQ] = "SRQ",   [AV_OBJECT_MR] = "MR", [AV_OBJECT_PORT] = "port",
};

const char *const av_status_name[AV_STATUS_N] = {
	[IBV_WC_SUCCESS] = "SUCCESS",
	[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
	[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
	[IBV_WC_LOC_EEC_OP_ERR] = "LOC_EEC_OP_ERR",
	[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
	[IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
	[IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
	[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
	[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
	[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
	[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "LOC_RDD_VIOL_ERR",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "REM_INV_RD_REQ_ERR",
	[IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
	[IBV_WC_INV_EECN_ERR] = "INV_EECN_ERR",
	[IBV_WC_INV_EEC_STATE_ERR] = "INV_EEC_STATE_ERR",
	[IBV_WC_FATAL_ERR] = "FATAL_ERR",
	[IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
	[IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
};

static const char *const events[] = {
	[IBV_EVENT_CQ_ERR] = "CQ_ERR",	       [IBV_EVENT_QP_FATAL] = "QP_FATAL",
	[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR", [IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
	[IBV_EVENT_SRQ_ERR] = "SRQ_ERR",       [IBV_EVENT_DEVICE_FATAL] = "DEVICE_FATAL",
	[IBV_EVENT_PORT_ERR] = "PORT_ERR",
};

static const char *const states[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

static const char *const mtus[] = {
	[IBV_MTU_256] = "256",	 [IBV_MTU_512] = "512",	  [IBV_MTU_1024] = "1024",
	[IBV_MTU_2048] = "2048", [IBV_MTU_4096] = "4096",
};

static const char *const types[] = {
	[IBV_QPT_RC] = "RC",
	[IBV_QPT_UC] = "UC",
	[IBV_QPT_UD] = "UD",
	[IBV_QPT_RAW_PACKET] = "RAW_PACKET",
	[IBV_QPT_XRC_SEND] = "XRC_SEND",
	[IBV_QPT_XRC_RECV] = "XRC_RECV",
	[IBV_QPT_DRIVER] = "DRIVER (an adapter's own, such as DC)",
};

/* By enum av_key_kind of memory/key.h. */
static const char *const region_kinds[] = {
	"nothing", "region",	       "region on demand", "device memory", "null region",
	"nothing", "allocated region", "nothing",	   "UMR key",	    "memory window",
};

#define PHASE(name) #name,
static const char *const phases[] = {AV_CM_PHASES(PHASE)};

/* Words of sets, by bit. */

#define RIGHT(name) [__builtin_ctz(IBV_ACCESS_##name)] = #name
static const char *const rights[] = {
	RIGHT(LOCAL_WRITE),
	RIGHT(REMOTE_WRITE),
	RIGHT(REMOTE_READ),
	RIGHT(REMOTE_ATOMIC),
	RIGHT(MW_BIND),
	RIGHT(ZERO_BASED),
	RIGHT(ON_DEMAND),
	[__builtin_ctz(AV_ACCESS_FLUSH_GLOBAL)] = "FLUSH_GLOBAL",
	[__builtin_ctz(AV_ACCESS_FLUSH_PERSISTENT)] = "FLUSH_PERSISTENT",
};

#define BIT(name) [__builtin_ctz(IBV_QP_##name)] = #name
static const char *const mask_bits[] = {
	BIT(STATE),
	BIT(CUR_STATE),
	BIT(EN_SQD_ASYNC_NOTIFY),
	BIT(ACCESS_FLAGS),
	BIT(PKEY_INDEX),
	BIT(PORT),
	BIT(QKEY),
	BIT(AV),
	BIT(PATH_MTU),
	BIT(TIMEOUT),
	BIT(RETRY_CNT),
	BIT(RNR_RETRY),
	BIT(RQ_PSN),
	BIT(MAX_QP_RD_ATOMIC),
	BIT(ALT_PATH),
	BIT(MIN_RNR_TIMER),
	BIT(SQ_PSN),
	BIT(MAX_DEST_RD_ATOMIC),
	BIT(PATH_MIG_STATE),
	BIT(CAP),
	BIT(DEST_QPN),
	BIT(RATE_LIMIT),
};

#define WORDS(names) .word = (names), .count = AV_ARRAY_SIZE(names)
static const struct {
	const char *name; /* in a placeholder; NULL: only fields of their own have the form */
	const char *prefix;
	const char *const *word; /* by value, of a set by bit; NULL: it has none */
	size_t count;
	const char *between, *none; /* of a set: between its words, and instead of them */
} forms[AV_FIELD_FORM_N] = {
	[AV_FIELD_SIGNED] = {.name = "d"},
	[AV_FIELD_HEX] = {.name = "x"},
	[AV_FIELD_QPN] = {.name = "qpn"},
	[AV_FIELD_OPCODE] = {.name = "opcode", .prefix = ""},
	[AV_FIELD_CHECK] = {.prefix = ""},
	[AV_FIELD_VERB] = {.prefix = ""},
	[AV_FIELD_ERRNO] = {.prefix = ""},
	[AV_FIELD_KIND] = {.prefix = "", WORDS(kinds)},
	[AV_FIELD_OBJECT] = {.prefix = "", WORDS(objects)},
	[AV_FIELD_STATUS] = {.prefix = "IBV_WC_", WORDS(av_status_name)},
	[AV_FIELD_EVENT] = {.prefix = "IBV_EVENT_", WORDS(events)},
	[AV_FIELD_STATE] = {.name = "state", .prefix = "", WORDS(states)},
	[AV_FIELD_MTU] = {.name = "mtu", .prefix = "IBV_MTU_", WORDS(mtus)},
	[AV_FIELD_TYPE] = {.name = "type", .prefix = "", WORDS(types)},
	[AV_FIELD_REGION_KIND] = {.prefix = "", WORDS(region_kinds)},
	[AV_FIELD_FAULT] = {.name = "fault", .prefix = "", WORDS(av_faults_name)},
	[AV_FIELD_CM_PHASE] = {.name = "phase", .prefix = "", WORDS(phases)},
	[AV_FIELD_CM_PHASES] = {"phases", "", WORDS(phases), .between = " or ", .none = ""},
	[AV_FIELD_ACCESS] = {"access", "IBV_ACCESS_", WORDS(rights), .between = " | ",
			     .none = "no access flag"},
	[AV_FIELD_MASK] = {"mask", "IBV_QP_", WORDS(mask_bits), .between = " | ",
			   .none = "nothing else"},
};

unsigned int av_field_form(struct av_word name)
{
	unsigned int form = 0;

	while (form < AV_FIELD_FORM_N && !(forms[form].name && av_word_is(name, forms[form].name)))
		form++;
	return form;
}

const char *av_field_word(unsigned int form, uint64_t value)
{
	switch (form) {
	case AV_FIELD_CHECK:
		return av_check_row((unsigned int)value)->name;
	case AV_FIELD_VERB:
		return av_verb_name((unsigned int)value);
	case AV_FIELD_OPCODE:
		return av_wr_opcode((uint32_t)value)->name;
	case AV_FIELD_ERRNO:
		return strerrorname_np((int)value);
	default:
		return value < forms[form].count ? forms[form].word[value] : NULL;
	}
}

/* --- text ------------------------------------------------------------------------- */

/* Write "PREFIX_A | B | 0x100". */
static void write_set(unsigned int form, uint64_t value, char *text)
{
	size_t len = 0;

	snprintf(text, AV_FIELD_TEXT_MAX, "%s", value ? "" : forms[form].none);
	for (unsigned int bit = 0; bit < forms[form].count && len < AV_FIELD_TEXT_MAX; bit++) {
		const char *word = value >> bit & 1 ? forms[form].word[bit] : NULL;

		if (!word)
			continue;
		value &= ~(1ull << bit);
		len += (size_t)snprintf(text + len, AV_FIELD_TEXT_MAX - len, "%s%s",
					len ? forms[form].between : forms[form].prefix, word);
	}
	if (value && len < AV_FIELD_TEXT_MAX)
		snprintf(text + len, AV_FIELD_TEXT_MAX - len, "%s0x%" PRIx64,
			 len ? forms[form].between : "", value);
}

/* Others may have written anything: one line must stay one line. */
static void write_text(const char *from, size_t bytes, char *text)
{
	size_t n = strnlen(from, bytes);

	for (size_t i = 0; i < n; i++)
		text[i] = from[i] < ' ' || from[i] == 0x7f ? '?' : from[i];
	text[n] = '\0';
}

/* As an address of IP, which a GID of RoCE v2 is. */
static void write_gid(const uint8_t gid[16], char *text)
{
	bool v4 = av_net_is_v4(gid);

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + 12 : gid, text, AV_FIELD_TEXT_MAX))
		text[0] = '\0';
}

static void write_number(unsigned int form, uint64_t value, char *text)
{
	if (form == AV_FIELD_SIGNED)
		snprintf(text, AV_FIELD_TEXT_MAX, "%" PRId64, (int64_t)value);
	else if (form == AV_FIELD_QPN)
		snprintf(text, AV_FIELD_TEXT_MAX, "0x%06" PRIx64, value);
	else if (form == AV_FIELD_HEX || (form == AV_FIELD_ID && value >> 32))
		snprintf(text, AV_FIELD_TEXT_MAX, "0x%" PRIx64, value);
	else
		snprintf(text, AV_FIELD_TEXT_MAX, "%" PRIu64, value);
}

void av_field_write(const struct av_field *field, unsigned int form,
		    const struct av_flight_record *record, char text[AV_FIELD_TEXT_MAX])
{
	const uint8_t *at = (const uint8_t *)record + field->offset;
	const char *word;
	uint64_t value;

	if (field->form == AV_FIELD_TEXT) {
		write_text((const char *)at, field->bytes, text);
		return;
	}
	if (field->form == AV_FIELD_GID) {
		write_gid(at, text);
		return;
	}
	value = (uint64_t)av_field_number(field, record);
	word = forms[form].between ? NULL : av_field_word(form, value);
	if (forms[form].between)
		write_set(form, value, text);
	else if (word)
		snprintf(text, AV_FIELD_TEXT_MAX, "%s%s", forms[form].prefix, word);
	else
		write_number(form, value, text);
}

/* A text buffer. What does not fit is cut. */
struct text {
	char *at;
	size_t used, size;
};

AV_PRINTF(2, 3)
static void append_diag_text(struct text *t, const char *fmt, ...)
{
	size_t room = t->size - t->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at + t->used, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void add_sentence(struct text *t, const char *sentence,
			 const struct av_flight_record *record);

/* Append a placeholder's value. @name: what the braces hold, a name or name:form. */
static void add_field(struct text *t, struct av_word name, const struct av_flight_record *record)
{
	const char *end = name.text + name.len, *colon = memchr(name.text, ':', name.len);
	const struct av_field *field;
	char word[AV_FIELD_TEXT_MAX];

	if (colon)
		name.len = (size_t)(colon++ - name.text);
	field = av_field_find(name);
	if (!field)
		return;
	av_field_write(field,
		       colon ? av_field_form((struct av_word){colon, (size_t)(end - colon)})
			     : field->form,
		       record, word);
	append_diag_text(t, "%s", word);
	if (field->group == AV_HAS_GID && record->has & AV_HAS_TAKEN_FOR)
		add_sentence(t, " (taken for {taken_for})", record);
}

static void add_sentence(struct text *t, const char *sentence,
			 const struct av_flight_record *record)
{
	const char *open, *close;

	while ((open = strchr(sentence, '{')) && (close = strchr(open, '}'))) {
		append_diag_text(t, "%.*s", (int)(open - sentence), sentence);
		add_field(t, (struct av_word){open + 1, (size_t)(close - open - 1)}, record);
		sentence = close + 1;
	}
	append_diag_text(t, "%s", sentence);
}

void av_explain_sentence(const char *sentence, const struct av_flight_record *record, char *text,
			 size_t size)
{
	struct text t = {text, 0, size};

	text[0] = '\0';
	add_sentence(&t, sentence, record);
}

static void add_who(struct text *t, const struct av_flight_record *r)
{
	add_sentence(t, "{process}[{pid}]", r);
	if (r->device[0])
		add_sentence(t, " {device}", r);
	append_diag_text(t, ": ");
}

/* The memory range that the request named, if known. */
static void add_memory(struct text *t, const struct av_flight_record *r)
{
	if (r->has & AV_HAS_ACCESS)
		add_sentence(t,
			     r->remote ? " of {length} B to {address} under rkey {key}"
				       : " of {length} B at {address} under lkey {key}",
			     r);
}

/* By the number that programs print. */
static void add_object(struct text *t, const struct av_flight_record *r)
{
	add_sentence(t, "{object} ", r);
	add_sentence(t,
		     r->object == AV_OBJECT_QP	 ? "{number:qpn}"
		     : r->object == AV_OBJECT_MR ? "{number:x}"
						 : "{number}",
		     r);
}

static void add_what(struct text *t, const struct av_flight_record *r)
{
	if (r->has & AV_HAS_VERB)
		add_sentence(t, r->has & AV_HAS_OBJECT ? "{verb} of " : "{verb}", r);
	if (r->has & AV_HAS_OBJECT)
		add_object(t, r);
	if (r->has & AV_HAS_REQUEST) {
		bool peers = r->kind == AV_FLIGHT_RECEIVE ||
			     (r->kind == AV_FLIGHT_DROPPED && (r->has & AV_HAS_PEER));

		add_sentence(t, peers ? ": peer's {opcode}" : ": {opcode}", r);
		add_memory(t, r);
	}
	if (r->has & (AV_HAS_VERB | AV_HAS_OBJECT | AV_HAS_REQUEST))
		append_diag_text(t, ": ");
}

/* The process at the other end. A queue pair may be connected within its own process. */
static void add_peer(struct text *t, const struct av_flight_record *r)
{
	if (!(r->has & AV_HAS_PEER) || r->peer_pid == r->pid)
		return;
	if (r->peer_pid)
		add_sentence(t, " (peer: QP {peer_qp} of pid {peer_pid})", r);
	else if (r->kind == AV_FLIGHT_RECEIVE || r->kind == AV_FLIGHT_DROPPED)
		add_sentence(t, " (peer: QP {peer_qp} of another host)", r);
}

static void add_outcome(struct text *t, const struct av_flight_record *r)
{
	add_peer(t, r);
	if (r->has & AV_HAS_REGION && r->region_pid && r->region_pid != r->pid)
		add_sentence(t, " (registered by pid {region_pid})", r);
	if (r->has & AV_HAS_VERB)
		add_sentence(t, " ({error})", r);
	if (r->has & AV_HAS_STATUS)
		add_sentence(t,
			     r->has & AV_HAS_REQUEST ? " ({status}, wr_id {wr_id})" : " ({status})",
			     r);
	if (r->has & AV_HAS_EVENT)
		add_sentence(t, " ({event})", r);
	if (r->kind == AV_FLIGHT_DROPPED)
		append_diag_text(t, " (dropped silently)");
	if (r->repeats > 1)
		add_sentence(t, ", {repeats} times in a row", r);
	append_diag_text(t, "\n");
}

size_t av_explain(const struct av_flight_record *record, char text[AV_EXPLAIN_MAX])
{
	const struct av_check_row *row = av_check_row(record->check);
	struct text t = {text, 0, AV_EXPLAIN_MAX};

	add_who(&t, record);
	add_what(&t, record);
	add_sentence(&t, row->sentence, record);
	add_outcome(&t, record);
	if (*row->advice) {
		append_diag_text(&t, "    ");
		add_sentence(&t, row->advice, record);
		append_diag_text(&t, " [%s]\n", row->clause);
	}
	if (t.used == AV_EXPLAIN_MAX - 1)
		text[t.used - 1] = '\n';
	return t.used;
}
