/* SPDX-License-Identifier: MIT */
/* The parser of fault rules. Words are split at blanks; clauses[] has a row for each clause. */
#include "observe/faults.h"

#include <stdarg.h>
#include <stdio.h>

#include "observe/wr_opcode.h"
#include "wire/cm_message.h"

#define TIME_MAX  (1000000ull * 1000000000u) /* about twelve days */
#define QUOTE_MAX 40
#define BLANKS	  " \t\r"
#define ERRNO_MAX 133 /* the last of Linux */
#define A_TIME	  "a time such as 500us, 20ms or 3s"

#define NAME(id, name) (name),
const char *const av_faults_name[AV_INJECT_N] = {AV_FAULTS(NAME)};
#undef NAME

const char *av_faults_verb_name(enum av_verb verb)
{
	const char *name = av_verb_name(verb);

	if (verb == AV_VERB_NONE)
		return "any";
	if (!av_verb_errs(verb)[0])
		return NULL;
	return strncmp(name, "ibv_", 4) ? name : name + 4;
}

struct reader {
	const char *text; /* the whole text */
	const char *at;
	struct av_faults_error *error;
	uint64_t seed; /* default for the rules that follow */
};

/* --- errors ---------------------------------------------------------------------- */

/* Report an error at @where. Return: always false. */
AV_PRINTF(3, 4)
static bool wrong(const struct reader *r, const char *where, const char *fmt, ...)
{
	va_list ap;

	r->error->line = r->error->column = 1;
	for (const char *p = r->text; p < where; p++) {
		r->error->column = *p == '\n' ? 1 : r->error->column + 1;
		r->error->line += *p == '\n';
	}
	va_start(ap, fmt);
	vsnprintf(r->error->text, sizeof(r->error->text), fmt, ap);
	va_end(ap);
	return false;
}

/* @behind needs a @wanted instead of @w, or instead of nothing. Return: always false. */
static bool unwanted(const struct reader *r, struct av_word w, const char *behind,
		     const char *wanted)
{
	if (!w.len)
		return wrong(r, w.text, "'%s' needs %s", behind, wanted);
	return wrong(r, w.text, "'%s' needs %s, not '%.*s'", behind, wanted,
		     av_word_quote(w, QUOTE_MAX), w.text);
}

/* --- words ----------------------------------------------------------------------- */

/* To lower case, in ASCII regardless of the locale; "-" becomes "_". */
static char plain(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' ? '_' : c;
}

static bool word_has_prefix(struct av_word word, const char *with)
{
	size_t i = 0;

	while (with[i] && i < word.len && plain(word.text[i]) == plain(with[i]))
		i++;
	return !with[i];
}

static bool is(struct av_word word, const char *name)
{
	return word.len == strlen(name) && word_has_prefix(word, name);
}

/* Index of a word in a table, or @count. The word may begin with @prefix. */
static unsigned int find_rule_word(struct av_word word, const char *prefix,
				   const char *const *names, unsigned int count)
{
	unsigned int i = 0;

	if (word_has_prefix(word, prefix)) {
		word.text += strlen(prefix);
		word.len -= strlen(prefix);
	}
	while (i < count && (!names[i] || !is(word, names[i])))
		i++;
	return i;
}

/* Return: errno value; 0: it is none */
static int parse_errno(struct av_word word)
{
	for (int err = 1; err <= ERRNO_MAX; err++) {
		const char *name = strerrorname_np(err);

		if (name && is(word, name))
			return err;
	}
	return 0;
}

/* The next word of this rule, not consumed. Length 0: the rule ends here. */
static struct av_word peek(struct reader *r)
{
	r->at += strspn(r->at, BLANKS);
	return (struct av_word){r->at, strcspn(r->at, BLANKS ";\n#")};
}

static struct av_word take_rule_word(struct reader *r)
{
	struct av_word w = peek(r);

	r->at += w.len;
	return w;
}

/* --- numbers --------------------------------------------------------------------- */

/* Decimal, or hexadecimal with 0x. Return: false if @w is no number or overflows. */
static bool parse_rule_number(struct av_word w, void *value)
{
	bool hex = w.len > 2 && w.text[0] == '0' && (w.text[1] == 'x' || w.text[1] == 'X');
	size_t prefix = hex ? 2 : 0;

	return av_word_number((struct av_word){w.text + prefix, w.len - prefix}, hex ? 16 : 10,
			      value);
}

static bool number32(struct av_word w, uint32_t min, uint32_t *value)
{
	uint64_t v;

	if (!parse_rule_number(w, &v) || v < min || v >= UINT32_MAX)
		return false;
	*value = (uint32_t)v;
	return true;
}

static bool duration(struct av_word w, void *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"min", 60000000000}, {"s", 1000000000}};
	struct av_word digits = {w.text, strspn(w.text, "0123456789")};
	struct av_word unit = {w.text + digits.len, w.len - digits.len};
	uint64_t v;

	for (size_t i = 0; i < AV_ARRAY_SIZE(units); i++) {
		if (!av_word_is(unit, units[i].name) || !parse_rule_number(digits, &v) ||
		    v > TIME_MAX / units[i].ns)
			continue;
		*(uint64_t *)ns = v * units[i].ns;
		return v > 0;
	}
	return false;
}

/* A fraction in units of @one: with 100, "0.25" gives 25. At most AV_FAULTS_CERTAIN. */
static bool fraction(struct av_word w, uint64_t one, uint32_t *parts)
{
	uint64_t v = 0, step = one;
	bool point = false, any = false;

	for (size_t i = 0; i < w.len; i++) {
		unsigned int d = (unsigned int)(w.text[i] - '0');

		if (w.text[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (d > 9)
			return false;
		any = true;
		step = point ? step / 10 : step;
		v = point ? v + d * step : v * 10 + d * one;
		if (v > AV_FAULTS_CERTAIN)
			return false;
	}
	*parts = (uint32_t)v;
	return any && v > 0;
}

static bool parse_fault_count(struct av_word w, void *value)
{
	return number32(w, 1, value);
}

/* --- the argument after a fault's name ------------------------------------------- */

static bool a_time(struct reader *r, struct av_faults_rule *rule)
{
	struct av_word w = take_rule_word(r);

	return duration(w, &rule->time_ns) || unwanted(r, w, av_faults_name[rule->what], A_TIME);
}

static bool maybe_a_time(struct reader *r, struct av_faults_rule *rule)
{
	if (duration(peek(r), &rule->time_ns))
		(void)take_rule_word(r);
	return true;
}

static bool maybe_a_count(struct reader *r, struct av_faults_rule *rule)
{
	struct av_word w = peek(r);

	rule->count = av_word_is(w, "all") ? AV_FAULTS_ALL : 1;
	if (rule->count == AV_FAULTS_ALL || parse_fault_count(w, &rule->count))
		(void)take_rule_word(r);
	return true;
}

/* How many packets; the word behind may be a probability. */
static bool maybe_packets(struct reader *r, struct av_faults_rule *rule)
{
	struct av_word w = peek(r);
	uint64_t n = 1;

	if (parse_rule_number(w, &n)) {
		if (n < 1 || n > AV_FAULTS_PACKETS)
			return unwanted(r, w, av_faults_name[rule->what], "a count of 1 to 1000");
		(void)take_rule_word(r);
	}
	rule->count = (uint32_t)n;
	return true;
}

/* With a time, the count has no limit. */
static bool maybe_a_count_or_time(struct reader *r, struct av_faults_rule *rule)
{
	(void)maybe_a_time(r, rule);
	if (!rule->time_ns)
		return maybe_a_count(r, rule);
	rule->count = AV_FAULTS_ALL;
	return true;
}

static bool a_status(struct reader *r, struct av_faults_rule *rule)
{
	struct av_word w = take_rule_word(r);

	rule->status = (int)find_rule_word(w, "ibv_wc_", av_status_name, AV_STATUS_N);
	return (rule->status != IBV_WC_SUCCESS && rule->status < AV_STATUS_N) ||
	       unwanted(r, w, "status", "a completion status such as rem-access-err");
}

/* May the rule's errno value be the outcome of one of its verbs? */
static bool may_be_outcome(const struct av_faults_rule *rule)
{
	unsigned int at = rule->verb ? rule->verb : 1, end = rule->verb ? at + 1 : AV_VERB_ANY_N;

	while (at < end && !strchr((const char *)av_verb_errs(at), rule->err))
		at++;
	return at < end;
}

/* "EBUSY, EINVAL or EIO" */
static bool refuse_errno(const struct reader *r, struct av_word w, const char *verb,
			 const uint8_t *errs)
{
	char list[128] = "the errno value of a verb";
	size_t at = 0;

	for (; *errs; errs++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s",
				       !at	 ? ""
				       : errs[1] ? ", "
						 : " or ",
				       strerrorname_np(*errs));
	return unwanted(r, w, verb, list);
}

static bool a_verb(struct reader *r, struct av_faults_rule *rule)
{
	const char *names[AV_VERB_N];
	struct av_word w = take_rule_word(r), err;
	unsigned int verb;

	for (verb = 0; verb < AV_VERB_N; verb++)
		names[verb] = av_faults_verb_name((enum av_verb)verb);
	verb = find_rule_word(w, "ibv_", names, AV_VERB_N);
	if (verb == AV_VERB_N)
		return unwanted(r, w, "fail",
				"a verb such as reg_mr, post_send or rdma_connect, or 'any'");
	rule->verb = (enum av_verb)verb;
	err = peek(r);
	rule->err = parse_errno(err);
	if (rule->err)
		(void)take_rule_word(r);
	return !rule->err || may_be_outcome(rule) ||
	       refuse_errno(r, err, names[verb], av_verb_errs(verb));
}

enum sort {
	OF_REQUESTS = 1,
	OF_CONTEXTS = 2,
	OF_VERBS = 4,
	OF_PACKETS = 8,
	OF_MESSAGES = 16,
	OF_OBJECTS = OF_REQUESTS | OF_CONTEXTS,
	OF_QUEUES = OF_OBJECTS | OF_PACKETS,
	OF_KEYS = OF_OBJECTS | OF_VERBS,
	OF_ALL = OF_QUEUES | OF_VERBS,
	OF_ARRIVALS = OF_PACKETS | OF_MESSAGES,
};

static const struct {
	bool (*argument)(struct reader *r, struct av_faults_rule *rule); /* NULL: it has none */
	enum sort sort;
} faults[AV_INJECT_N] = {
	[AV_INJECT_DELAY] = {a_time, OF_REQUESTS | OF_MESSAGES},
	[AV_INJECT_STALL] = {NULL, OF_REQUESTS},
	[AV_INJECT_RNR] = {maybe_a_count_or_time, OF_REQUESTS},
	[AV_INJECT_RNR_EXHAUSTED] = {NULL, OF_REQUESTS},
	[AV_INJECT_LOSE] = {maybe_a_count, OF_REQUESTS},
	[AV_INJECT_RETRY_EXHAUSTED] = {NULL, OF_REQUESTS},
	[AV_INJECT_STATUS] = {a_status, OF_REQUESTS},
	[AV_INJECT_PEER_DEATH] = {NULL, OF_REQUESTS},
	[AV_INJECT_CQ_OVERRUN] = {NULL, OF_REQUESTS},
	[AV_INJECT_EVICT] = {maybe_a_count, OF_CONTEXTS},
	[AV_INJECT_FATAL] = {NULL, OF_CONTEXTS},
	[AV_INJECT_PORT_DOWN] = {maybe_a_time, OF_CONTEXTS},
	[AV_INJECT_PORT_UP] = {NULL, OF_CONTEXTS},
	[AV_INJECT_KILL] = {NULL, OF_CONTEXTS},
	[AV_INJECT_FAIL] = {a_verb, OF_VERBS},
	[AV_INJECT_DROP] = {NULL, OF_ARRIVALS},
	[AV_INJECT_CORRUPT] = {NULL, OF_ARRIVALS},
	[AV_INJECT_DUPLICATE] = {maybe_packets, OF_ARRIVALS},
	[AV_INJECT_REORDER] = {maybe_packets, OF_ARRIVALS},
	[AV_INJECT_MARK] = {NULL, OF_PACKETS},
};

/* --- clauses --------------------------------------------------------------------- */

/* Each reads @w into the field of the rule that its row names, or into the rule. */
static bool name(struct av_word w, void *to)
{
	if (!w.len || w.len >= AV_FAULTS_NAME)
		return false;
	memcpy(to, w.text, w.len);
	((char *)to)[w.len] = '\0';
	return true;
}

static bool probability(struct av_word w, void *to)
{
	return fraction(w, AV_FAULTS_CERTAIN, to);
}

static bool queue_pair(struct av_word w, void *to)
{
	uint32_t *qpn = to;

	return av_word_is(w, "all") || (number32(w, 1, qpn) && *qpn <= 0xffffff);
}

static bool opcode(struct av_word w, void *to)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < AV_WR_OPCODES; i++)
		if (find_rule_word(w, "ibv_wr_", av_wr_opcodes[i].rule_words, 2) < 2)
			found |= av_faults_opcode(i);
	*(uint64_t *)to |= found;
	return found != 0;
}

static bool parse_fault_message(struct av_word w, void *to)
{
	uint32_t found = 0;

	for (int attribute = AV_CM_REQ; attribute <= AV_CM_APR; attribute++)
		if (is(w, "any") || is(w, av_cm_attribute_name(attribute)))
			found |= av_faults_message(attribute);
	*(uint32_t *)to |= found;
	return found != 0;
}

static bool key(struct av_word w, void *to)
{
	struct av_faults_rule *rule = to;

	rule->has_key = number32(w, 0, &rule->key);
	return rule->has_key;
}

static bool every(struct av_word w, void *to)
{
	struct av_faults_rule *rule = to;

	return duration(w, &rule->every_ns) || parse_fault_count(w, &rule->every);
}

#define SEED	  "seed" /* a clause, and a rule of its own */
#define AT(field) offsetof(struct av_faults_rule, field)
#define A_COUNT	  "a count of 1 or more"

static const struct clause {
	const char *name;
	bool (*set)(struct av_word w, void *to);
	size_t offset;	/* of the field in struct av_faults_rule */
	enum sort sort; /* faults it may follow */
	bool again;	/* may appear more than once */
	const char *wanted;
} clauses[] = {
	{"device", name, AT(device), OF_ALL, false, "a device name"},
	{"process", name, AT(process), OF_ALL, false, "a process name"},
	{"pid", parse_fault_count, AT(pid), OF_ALL, false, "a process number"},
	{"qp", queue_pair, AT(qpn), OF_ALL, false, "a queue pair number, or 'all'"},
	{"opcode", opcode, AT(opcodes), OF_QUEUES, true, "a send opcode such as rdma-write"},
	{"key", key, 0, OF_KEYS, false, "a key such as 0x2a01"},
	{"message", parse_fault_message, AT(messages), OF_MESSAGES, true,
	 "a message of the connection manager such as req, or 'any'"},
	{"p", probability, AT(parts), OF_ALL, false, "a probability above 0, up to 1"},
	{SEED, parse_rule_number, AT(seed), OF_ALL, false, "a number"},
	{"nth", parse_fault_count, AT(nth), OF_ALL, false, A_COUNT},
	{"every", every, 0, OF_ALL, false, A_COUNT ", or a time such as 20ms"},
	{"first", parse_fault_count, AT(first), OF_ALL, false, A_COUNT},
	{"after", duration, AT(after_ns), OF_ALL, false, A_TIME},
	{"for", duration, AT(for_ns), OF_ALL, false, A_TIME},
};
_Static_assert(AV_ARRAY_SIZE(clauses) < 31, "a bit for each clause, and one");
#define CLAUSE_P    7u
#define CLAUSE_SEED 8u

/* Parse "12.5%". Return: false if @w is not a valid percentage. */
static bool percent(struct av_word w, struct av_faults_rule *rule)
{
	if (w.len < 2 || w.text[w.len - 1] != '%')
		return false;
	w.len--;
	return fraction(w, AV_FAULTS_CERTAIN / 100, &rule->parts);
}

static const char *clause_name(size_t i)
{
	return i < AV_ARRAY_SIZE(clauses) ? clauses[i].name : NULL;
}

static bool unknown_clause(const struct reader *r, struct av_word w, const char *fault)
{
	const char *nearest = av_word_nearest(w, clause_name);
	int len = av_word_quote(w, QUOTE_MAX);

	if (nearest)
		return wrong(r, w.text, "'%.*s' cannot follow '%s'; did you mean '%s'?", len,
			     w.text, fault, nearest);
	return wrong(r, w.text, "'%.*s' cannot follow '%s': see anyverbs_faults(5)", len, w.text,
		     fault);
}

static bool parse_clause(struct reader *r, struct av_faults_rule *rule, uint32_t *said)
{
	struct av_word name = take_rule_word(r), value;
	size_t i = 0;

	if (percent(name, rule)) {
		if (*said & 1u << CLAUSE_P)
			return wrong(r, name.text, "the probability is given twice");
		*said |= 1u << CLAUSE_P;
		return true;
	}
	while (i < AV_ARRAY_SIZE(clauses) && !av_word_is(name, clauses[i].name))
		i++;
	if (i == AV_ARRAY_SIZE(clauses))
		return unknown_clause(r, name, av_faults_name[rule->what]);
	if (!(clauses[i].sort & faults[rule->what].sort))
		return wrong(r, name.text, "'%s' does not go with '%s'", clauses[i].name,
			     av_faults_name[rule->what]);
	if ((*said & 1u << i) && !clauses[i].again)
		return wrong(r, name.text, "'%s' is given twice", clauses[i].name);
	*said |= 1u << i;
	value = take_rule_word(r);
	return clauses[i].set(value, (char *)rule + clauses[i].offset) ||
	       unwanted(r, value, clauses[i].name, clauses[i].wanted);
}

/* --- rules ----------------------------------------------------------------------- */

/* Rules between clauses, whatever their order. */
static bool check_fault_rule(const struct reader *r, const struct av_faults_rule *rule)
{
	const char *at = r->text + rule->at;

	if (rule->nth && (rule->every || rule->first))
		return wrong(r, at, "'nth' cannot be combined with 'every' or 'first'");
	if (rule->messages && (rule->qpn || rule->opcodes || rule->has_key))
		return wrong(r, at, "'message' cannot be combined with 'qp', 'opcode' or 'key'");
	if (rule->every_ns && !av_faults_is_timed(rule))
		return wrong(r, at,
			     "'every' with a time works with evict, fatal, port-down, port-up and "
			     "kill only, without 'nth', 'qp' or 'opcode'");
	return true;
}

/* What a rule may begin with. */
#define LISTED(id, name) name ", "
#define FIRST_WORDS	 AV_FAULTS(LISTED) "or " SEED
#define NOT_A_FAULT	 "'%.*s' is not a fault; expected " FIRST_WORDS
_Static_assert(sizeof(NOT_A_FAULT) + QUOTE_MAX <= sizeof(((struct av_faults_error *)0)->text),
	       "it is said in full");

static const char *first_word(size_t i)
{
	return i < AV_INJECT_N ? av_faults_name[i] : i == AV_INJECT_N ? SEED : NULL;
}

static bool unknown_fault(const struct reader *r, struct av_word w)
{
	const char *nearest = av_word_nearest(w, first_word);

	if (nearest)
		return wrong(r, w.text, "'%.*s' is not a fault; did you mean '%s'?",
			     av_word_quote(w, QUOTE_MAX), w.text, nearest);
	return wrong(r, w.text, NOT_A_FAULT, av_word_quote(w, QUOTE_MAX), w.text);
}

static bool parse_rule(struct reader *r, struct av_faults_rule *rule)
{
	struct av_word w = take_rule_word(r);
	uint32_t said = 0;
	unsigned int what = find_rule_word(w, "", av_faults_name, AV_INJECT_N);

	if (what == AV_INJECT_N)
		return unknown_fault(r, w);
	*rule = (struct av_faults_rule){
		.what = (enum av_inject)what,
		.number = rule->number,
		.at = (size_t)(w.text - r->text),
		.parts = AV_FAULTS_CERTAIN,
		.seed = r->seed,
	};
	if (faults[what].argument && !faults[what].argument(r, rule))
		return false;
	while (peek(r).len)
		if (!parse_clause(r, rule, &said))
			return false;
	rule->own_seed = said & 1u << CLAUSE_SEED;
	rule->len = (size_t)(r->at - w.text);
	while (strchr(BLANKS, w.text[rule->len - 1]))
		rule->len--;
	return check_fault_rule(r, rule);
}

/* Skip the separator, blanks and comments before the next rule. */
static void next_rule(struct reader *r)
{
	for (;;) {
		r->at += strspn(r->at, BLANKS ";\n");
		if (*r->at != '#')
			break;
		r->at += strcspn(r->at, "\n");
	}
}

/* "seed" as a rule of its own: it sets the default for the rules that follow. */
static bool parse_seed(struct reader *r)
{
	struct av_word w;

	(void)take_rule_word(r);
	w = take_rule_word(r);
	if (!parse_rule_number(w, &r->seed))
		return unwanted(r, w, SEED, "a number");
	w = peek(r);
	return !w.len || wrong(r, w.text, "expected ';' after 'seed' and its number");
}

int av_faults_parse(const char *text, struct av_faults_rule rules[AV_FAULTS_RULES],
		    struct av_faults_error *error)
{
	struct reader r = {.text = text, .at = text, .error = error};
	int n = 0;

	if (strlen(text) >= AV_FAULTS_BYTES) {
		(void)wrong(&r, text, "the text is longer than %d bytes", AV_FAULTS_BYTES - 1);
		return -1;
	}
	for (next_rule(&r); *r.at; next_rule(&r)) {
		bool ok;

		if (av_word_is(peek(&r), SEED)) {
			ok = parse_seed(&r);
		} else if (n == AV_FAULTS_RULES) {
			ok = wrong(&r, r.at, "there are more than %d rules", AV_FAULTS_RULES);
		} else {
			rules[n].number = (uint32_t)n + 1;
			ok = parse_rule(&r, &rules[n++]);
		}
		if (!ok)
			return -1;
	}
	return n;
}
