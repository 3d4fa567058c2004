/* SPDX-License-Identifier: MIT */
/* Fault rules in a child that was forked while another thread of its parent read some. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/unit.h"
#include "segment/observers.h"

#define CHILDREN 50
#define LIMIT	 20 /* seconds */

/* An own context, as far as fault rules need it. */
struct context {
	struct av_seg seg;
	struct av_seg_head head;
};

static atomic_bool stop;

static struct context *context_new(void)
{
	struct context *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->seg.head = &c->head;
	c->seg.own = true;
	snprintf(c->head.device, sizeof(c->head.device), "none");
	return c;
}

/* Have the rules read once more. */
static void read_again(struct context *c)
{
	atomic_fetch_add(&c->head.faults_change, 1);
	assert_non_null(av_faults_of(&c->seg));
}

static void *read_for_ever(void *arg)
{
	while (!atomic_load(&stop))
		read_again(arg);
	return NULL;
}

static void run_child(struct context *c)
{
	pid_t pid = fork();
	int status;

	assert_return_code(pid, errno);
	if (pid == 0) {
		alarm(LIMIT);
		read_again(c);
		read_again(c);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST(child_reads_rules_while_its_parent_did)
{
	struct context *parents = context_new(), *childs = context_new();
	pthread_t thread;

	read_again(parents);
	assert_int_equal(pthread_create(&thread, NULL, read_for_ever, parents), 0);
	for (int i = 0; i < CHILDREN; i++)
		run_child(childs);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	av_faults_detach(&parents->seg);
	free(parents);
	free(childs);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
