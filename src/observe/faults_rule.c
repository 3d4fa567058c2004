/* SPDX-License-Identifier: MIT */
/* The parser of fault rules. Words are split at blanks; clauses[] has a row for each clause. */
#include "observe/faults_rule.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define TIME_MAX  (1000000ull * 1000000000u) /* about twelve days */
#define QUOTE_MAX 40

/* The state of the parser. */
struct reader {
	const char *text; /* the whole text */
	const char *at;
	struct av_faults_error *error;
	uint64_t seed; /* default for the rules that follow */
};

/* --- errors ---------------------------------------------------------------------- */

static void place(const struct reader *r, const char *where)
{
	r->error->line = r->error->column = 1;
	for (const char *p = r->text; p < where; p++) {
		r->error->column = *p == '\n' ? 1 : r->error->column + 1;
		r->error->line += *p == '\n';
	}
}

/* Report an error at @where. Return: always false. */
AV_PRINTF(3, 4)
static bool wrong(const struct reader *r, const char *where, const char *fmt, ...)
{
	va_list ap;

	place(r, where);
	va_start(ap, fmt);
	vsnprintf(r->error->text, sizeof(r->error->text), fmt, ap);
	va_end(ap);
	return false;
}

/* Length for printf's "%.*s". */
static int quote_len(struct av_faults_word w)
{
	return w.len < QUOTE_MAX ? (int)w.len : QUOTE_MAX;
}

/*
 * Report that @behind needs a @wanted instead of @w, or instead of nothing. Return: always false.
 */
static bool unwanted(const struct reader *r, struct av_faults_word w, const char *behind,
		     const char *wanted)
{
	if (!w.len)
		return wrong(r, w.text, "'%s' needs %s", behind, wanted);
	return wrong(r, w.text, "'%s' needs %s, not '%.*s'", behind, wanted, quote_len(w), w.text);
}

/* --- words ----------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_rule(char c)
{
	return !c || c == ';' || c == '\n' || c == '#';
}

/* The next word of this rule, not consumed. Length 0: the rule ends here. */
static struct av_faults_word peek(struct reader *r)
{
	struct av_faults_word w;

	while (is_blank(*r->at))
		r->at++;
	w.text = r->at;
	w.len = 0;
	while (!ends_rule(w.text[w.len]) && !is_blank(w.text[w.len]))
		w.len++;
	return w;
}

static struct av_faults_word take(struct reader *r)
{
	struct av_faults_word w = peek(r);

	r->at += w.len;
	return w;
}

static bool word_is(struct av_faults_word w, const char *name)
{
	return w.len == strlen(name) && !memcmp(w.text, name, w.len);
}

/* --- numbers --------------------------------------------------------------------- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

/* Decimal, or hexadecimal with 0x. Return: false if @w is no number or overflows. */
static bool number(struct av_faults_word w, uint64_t *value)
{
	bool hex = w.len > 2 && w.text[0] == '0' && (w.text[1] == 'x' || w.text[1] == 'X');
	unsigned int base = hex ? 16 : 10;

	*value = 0;
	for (size_t i = hex ? 2 : 0; i < w.len; i++) {
		unsigned int d = (unsigned int)digit(w.text[i]);

		if (d >= base || *value > (UINT64_MAX - d) / base)
			return false;
		*value = *value * base + d;
	}
	return w.len > 0;
}

static bool number32(struct av_faults_word w, uint32_t min, uint32_t *value)
{
	uint64_t v;

	if (!number(w, &v) || v < min || v >= UINT32_MAX)
		return false;
	*value = (uint32_t)v;
	return true;
}

static bool count(struct av_faults_word w, uint32_t *value)
{
	return number32(w, 1, value);
}

static bool duration(struct av_faults_word w, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"min", 60000000000}, {"s", 1000000000}};
	struct av_faults_word digits = w, unit;
	uint64_t v;

	digits.len = 0;
	while (digits.len < w.len && digit(w.text[digits.len]) < 10)
		digits.len++;
	unit = (struct av_faults_word){w.text + digits.len, w.len - digits.len};
	for (size_t i = 0; i < AV_ARRAY_SIZE(units); i++) {
		if (!word_is(unit, units[i].name) || !number(digits, &v) ||
		    v > TIME_MAX / units[i].ns)
			continue;
		*ns = v * units[i].ns;
		return *ns > 0;
	}
	return false;
}

/*
 * A decimal fraction in units of @one: with @one 100, "0.25" gives 25. False if above
 * AV_FAULTS_CERTAIN.
 */
static bool fraction(struct av_faults_word w, uint64_t one, uint32_t *parts)
{
	uint64_t v = 0, step = one;
	bool point = false, any = false;

	for (size_t i = 0; i < w.len; i++) {
		unsigned int d = (unsigned int)digit(w.text[i]);

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

/* --- the argument after a fault's name ------------------------------------------- */

static bool no_argument(struct reader *r, struct av_faults_rule *rule)
{
	return true;
}

static bool a_time(struct reader *r, struct av_faults_rule *rule)
{
	struct av_faults_word w = take(r);

	return duration(w, &rule->time_ns) ||
	       unwanted(r, w, av_faults_name[rule->what], "a time such as 500us, 20ms or 3s");
}

static bool maybe_a_time(struct reader *r, struct av_faults_rule *rule)
{
	if (duration(peek(r), &rule->time_ns))
		(void)take(r);
	return true;
}

static bool maybe_a_count(struct reader *r, struct av_faults_rule *rule)
{
	struct av_faults_word w = peek(r);

	rule->count = 1;
	if (word_is(w, "all"))
		rule->count = AV_FAULTS_ALL;
	else if (!count(w, &rule->count))
		return true;
	(void)take(r);
	return true;
}

/* With a time, the count has no limit. */
static bool maybe_a_count_or_time(struct reader *r, struct av_faults_rule *rule)
{
	if (!maybe_a_time(r, rule))
		return false;
	if (!rule->time_ns)
		return maybe_a_count(r, rule);
	rule->count = AV_FAULTS_ALL;
	return true;
}

static bool a_status(struct reader *r, struct av_faults_rule *rule)
{
	struct av_faults_word w = take(r);

	rule->status = av_faults_status(w);
	return rule->status >= 0 ||
	       unwanted(r, w, "status", "a completion status such as rem-access-err");
}

static bool a_verb(struct reader *r, struct av_faults_rule *rule)
{
	struct av_faults_word w = take(r);
	unsigned int verb = av_faults_find(w, "ibv_", av_faults_verb_name, AV_FAIL_N);

	if (verb == AV_FAIL_N)
		return unwanted(r, w, "fail",
				"a verb that makes or changes an object, such as reg_mr, or 'any'");
	rule->verb = (enum av_fail)verb;
	rule->err = av_faults_errno((struct av_faults_word){"ENOMEM", 6});
	if (av_faults_errno(peek(r)) > 0)
		rule->err = av_faults_errno(take(r));
	return true;
}

enum sort { OF_REQUESTS = 1, OF_CONTEXTS = 2, OF_VERBS = 4, OF_ALL = 7 };

static const struct {
	bool (*argument)(struct reader *r, struct av_faults_rule *rule);
	enum sort sort;
} faults[AV_INJECT_N] = {
	[AV_INJECT_DELAY] = {a_time, OF_REQUESTS},
	[AV_INJECT_STALL] = {no_argument, OF_REQUESTS},
	[AV_INJECT_RNR] = {maybe_a_count_or_time, OF_REQUESTS},
	[AV_INJECT_RNR_EXHAUSTED] = {no_argument, OF_REQUESTS},
	[AV_INJECT_LOSE] = {maybe_a_count, OF_REQUESTS},
	[AV_INJECT_RETRY_EXHAUSTED] = {no_argument, OF_REQUESTS},
	[AV_INJECT_STATUS] = {a_status, OF_REQUESTS},
	[AV_INJECT_PEER_DEATH] = {no_argument, OF_REQUESTS},
	[AV_INJECT_CQ_OVERRUN] = {no_argument, OF_REQUESTS},
	[AV_INJECT_EVICT] = {maybe_a_count, OF_CONTEXTS},
	[AV_INJECT_FATAL] = {no_argument, OF_CONTEXTS},
	[AV_INJECT_PORT_DOWN] = {maybe_a_time, OF_CONTEXTS},
	[AV_INJECT_PORT_UP] = {no_argument, OF_CONTEXTS},
	[AV_INJECT_KILL] = {no_argument, OF_CONTEXTS},
	[AV_INJECT_FAIL] = {a_verb, OF_VERBS},
};

/* --- clauses --------------------------------------------------------------------- */

static bool copy_name(struct av_faults_word w, char to[AV_FAULTS_NAME])
{
	if (!w.len || w.len >= AV_FAULTS_NAME)
		return false;
	memcpy(to, w.text, w.len);
	to[w.len] = '\0';
	return true;
}

static bool set_device(struct av_faults_rule *rule, struct av_faults_word w)
{
	return copy_name(w, rule->device);
}

static bool set_process(struct av_faults_rule *rule, struct av_faults_word w)
{
	return copy_name(w, rule->process);
}

static bool set_pid(struct av_faults_rule *rule, struct av_faults_word w)
{
	return number32(w, 1, &rule->pid);
}

static bool set_qp(struct av_faults_rule *rule, struct av_faults_word w)
{
	return word_is(w, "all") || (number32(w, 1, &rule->qpn) && rule->qpn <= 0xffffff);
}

static bool set_opcode(struct av_faults_rule *rule, struct av_faults_word w)
{
	int at = av_faults_opcode_place(w);

	if (at >= 0)
		rule->opcodes |= 1u << at;
	return at >= 0;
}

static bool set_key(struct av_faults_rule *rule, struct av_faults_word w)
{
	rule->has_key = number32(w, 0, &rule->key);
	return rule->has_key;
}

static bool set_p(struct av_faults_rule *rule, struct av_faults_word w)
{
	return fraction(w, AV_FAULTS_CERTAIN, &rule->parts);
}

static bool set_seed(struct av_faults_rule *rule, struct av_faults_word w)
{
	return number(w, &rule->seed);
}

static bool set_nth(struct av_faults_rule *rule, struct av_faults_word w)
{
	return count(w, &rule->nth);
}

static bool set_every(struct av_faults_rule *rule, struct av_faults_word w)
{
	return duration(w, &rule->every_ns) || count(w, &rule->every);
}

static bool set_first(struct av_faults_rule *rule, struct av_faults_word w)
{
	return count(w, &rule->first);
}

static bool set_after(struct av_faults_rule *rule, struct av_faults_word w)
{
	return duration(w, &rule->after_ns);
}

static bool set_for(struct av_faults_rule *rule, struct av_faults_word w)
{
	return duration(w, &rule->for_ns);
}

static const struct clause {
	const char *name;
	bool (*set)(struct av_faults_rule *rule, struct av_faults_word w);
	enum sort sort; /* faults it may follow */
	bool again;	/* may appear more than once */
	const char *wanted;
} clauses[] = {
	{"device", set_device, OF_ALL, false, "a device name"},
	{"process", set_process, OF_ALL, false, "a process name"},
	{"pid", set_pid, OF_ALL, false, "a process number"},
	{"qp", set_qp, OF_REQUESTS | OF_CONTEXTS, false, "a queue pair number, or 'all'"},
	{"opcode", set_opcode, OF_REQUESTS | OF_CONTEXTS, true, "a send opcode such as rdma-write"},
	{"key", set_key, OF_REQUESTS | OF_CONTEXTS, false, "a key such as 0x2a01"},
	{"p", set_p, OF_ALL, false, "a probability above 0, up to 1"},
	{"seed", set_seed, OF_ALL, false, "a number"},
	{"nth", set_nth, OF_ALL, false, "a count of 1 or more"},
	{"every", set_every, OF_ALL, false, "a count of 1 or more, or a time such as 20ms"},
	{"first", set_first, OF_ALL, false, "a count of 1 or more"},
	{"after", set_after, OF_ALL, false, "a time such as 500us, 20ms or 3s"},
	{"for", set_for, OF_ALL, false, "a time such as 500us, 20ms or 3s"},
};
_Static_assert(AV_ARRAY_SIZE(clauses) < 31, "a bit for each clause, and one");
#define CLAUSE_P 6u

/* Parse "12.5%". Return: false if @w is not a valid percentage. */
static bool percent(struct av_faults_word w, struct av_faults_rule *rule)
{
	if (w.len < 2 || w.text[w.len - 1] != '%')
		return false;
	w.len--;
	return fraction(w, AV_FAULTS_CERTAIN / 100, &rule->parts);
}

static bool parse_clause(struct reader *r, struct av_faults_rule *rule, uint32_t *said)
{
	struct av_faults_word name = take(r), value;
	size_t i = 0;

	if (percent(name, rule)) {
		if (*said & 1u << CLAUSE_P)
			return wrong(r, name.text, "the probability is given twice");
		*said |= 1u << CLAUSE_P;
		return true;
	}
	while (i < AV_ARRAY_SIZE(clauses) && !word_is(name, clauses[i].name))
		i++;
	if (i == AV_ARRAY_SIZE(clauses))
		return wrong(r, name.text, "'%.*s' cannot follow '%s': see anyverbs_faults(5)",
			     quote_len(name), name.text, av_faults_name[rule->what]);
	if (!(clauses[i].sort & faults[rule->what].sort))
		return wrong(r, name.text, "'%s' does not go with '%s'", clauses[i].name,
			     av_faults_name[rule->what]);
	if ((*said & 1u << i) && !clauses[i].again)
		return wrong(r, name.text, "'%s' is given twice", clauses[i].name);
	*said |= 1u << i;
	value = take(r);
	return clauses[i].set(rule, value) ||
	       unwanted(r, value, clauses[i].name, clauses[i].wanted);
}

/* --- rules ----------------------------------------------------------------------- */

bool av_faults_is_timed(const struct av_faults_rule *rule)
{
	return faults[rule->what].sort == OF_CONTEXTS && (rule->every_ns || rule->after_ns) &&
	       !rule->nth && !rule->every && !rule->qpn && !rule->opcodes;
}

/* Rules between clauses, whatever their order. */
static bool check(const struct reader *r, const struct av_faults_rule *rule)
{
	const char *at = r->text + rule->at;

	if (rule->nth && (rule->every || rule->first))
		return wrong(r, at, "'nth' cannot be combined with 'every' or 'first'");
	if (rule->every_ns && !av_faults_is_timed(rule))
		return wrong(r, at,
			     "'every' with a time works with evict, fatal, port-down, port-up and "
			     "kill only, without 'nth', 'qp' or 'opcode'");
	return true;
}

static bool unknown_fault(const struct reader *r, struct av_faults_word w)
{
	static const char *const packets[] = {"drop", "duplicate", "reorder", "corrupt"};

	for (size_t i = 0; i < AV_ARRAY_SIZE(packets); i++)
		if (word_is(w, packets[i]))
			return wrong(r, w.text,
				     "'%s' is about packets and needs the wire transport",
				     packets[i]);
	return wrong(r, w.text,
		     "'%.*s' is not a fault; expected delay, stall, rnr, rnr-exhausted, lose, "
		     "retry-exhausted, status, peer-death, cq-overrun, evict, fatal, port-down, "
		     "port-up, kill or fail",
		     quote_len(w), w.text);
}

static bool parse_rule(struct reader *r, struct av_faults_rule *rule)
{
	struct av_faults_word w = take(r);
	uint32_t said = 0;
	unsigned int what = av_faults_find(w, "", av_faults_name, AV_INJECT_N);

	if (what == AV_INJECT_N)
		return unknown_fault(r, w);
	*rule = (struct av_faults_rule){
		.what = (enum av_inject)what,
		.number = rule->number,
		.at = (size_t)(w.text - r->text),
		.parts = AV_FAULTS_CERTAIN,
		.seed = r->seed,
	};
	if (!faults[what].argument(r, rule))
		return false;
	while (peek(r).len)
		if (!parse_clause(r, rule, &said))
			return false;
	rule->len = (size_t)(r->at - w.text);
	while (is_blank(w.text[rule->len - 1]))
		rule->len--;
	return check(r, rule);
}

/* Skip the separator, blanks and comments before the next rule. */
static void next_rule(struct reader *r)
{
	while (*r->at == '#' || *r->at == ';' || *r->at == '\n' || is_blank(*r->at)) {
		if (*r->at == '#')
			r->at += strcspn(r->at, "\n");
		else
			r->at++;
	}
}

/* "seed" as a rule of its own: it sets the default for the rules that follow. */
static bool parse_seed(struct reader *r)
{
	struct av_faults_word w;

	(void)take(r);
	w = take(r);
	if (!number(w, &r->seed))
		return unwanted(r, w, "seed", "a number");
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

		if (word_is(peek(&r), "seed")) {
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
