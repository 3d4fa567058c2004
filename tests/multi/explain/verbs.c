/* SPDX-License-Identifier: MIT */
#include "verbs.h"

#include <string.h>
#include <unistd.h>

#include "observe/check.h"

struct node *n;

void verb_run(const struct verb_row *v)
{
	const struct seed seed = {v->name, v->check, AV_FLIGHT_REFUSAL, v->wanted, v->limit};
	struct av_flight_record r;
	int err;

	row("verb: %s", v->name);
	recorder_begin();
	err = v->call(v->value);
	EXPECT(err == v->error, "errno %d instead of %d", err, v->error);
	if (!recorder_find(&seed, &r))
		return;
	EXPECT(r.error == v->error && (r.has & AV_HAS_VERB), "error %d", r.error);
	EXPECT(!strcmp(av_verb_name(r.verb), v->verb), "verb %s", av_verb_name(r.verb));
	/* What is not permitted is done by a child. */
	EXPECT(v->check == AV_CHECK_NOT_PERMITTED || (r.pid == getpid() && r.by == getpid()),
	       "pid %d", r.pid);
	if (v->of_qp)
		EXPECT(r.object == AV_OBJECT_QP &&
			       (r.number == n->qp[0]->qp_num || r.number == n->qp[1]->qp_num),
		       "object %u %u", r.object, r.number);
}

void seed_verbs(void)
{
	struct node_qp_spec spec = spec_default();

	n = a.node;
	NEED(node_create_qp(n, 0, &spec) == 0);
	pair_create(&a, 1, &b, 1, NULL);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
	verbs_of_memory();
	verbs_of_queues();
	verbs_of_objects();
	verbs_of_arguments();
	verbs_of_experiments();
	pair_destroy(&a, 1, &b, 1);
	EXPECT(node_destroy_qp(n, 0) == 0, "ibv_destroy_qp");
}
