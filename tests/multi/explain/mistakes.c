/* SPDX-License-Identifier: MIT */
#include "mistakes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/expect.h"
#include "lib/to_rts.h"
#include "observe/check.h"
#include "recorder.h"

#define PATIENCE_MS 20000u

struct scene scene;
static unsigned int made;

/* --- what mistakes are made with ------------------------------------------------- */

struct ibv_qp_init_attr usual(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.qp_type = type,
		.send_cq = scene.cq,
		.recv_cq = scene.cq,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 64},
	};
}

void need(enum ibv_qp_type type)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = usual(type);

		scene.qp[i] = ibv_create_qp(scene.pd, &init);
		NEED(scene.qp[i]);
		scene.qpn[i] = scene.qp[i]->qp_num;
	}
}

struct ibv_qp_attr attr_of(int i)
{
	struct ibv_qp_attr attr = connect_attr(scene.qpn[!i], &scene.gid);

	attr.timeout = 8;
	attr.retry_cnt = 1;
	return attr;
}

void connect_to(struct ibv_qp_attr attr)
{
	NEED(connect_qp(scene.qp[1], attr) == 0);
	NEED(connect_qp(scene.qp[0], attr_of(0)) == 0);
}

void connect_both(void)
{
	connect_to(attr_of(1));
}

struct ibv_mr *reg(struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, scene.remote, BYTES, access);

	NEED(mr);
	scene.key = mr->rkey;
	return mr;
}

struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){(uintptr_t)scene.buf, 64, scene.mr->lkey};
	return (struct ibv_send_wr){
		.wr_id = WR_ID,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = 1,
		.wr.rdma = {.remote_addr = (uintptr_t)scene.remote, .rkey = scene.key},
	};
}

int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(scene.qp[0], wr, &bad);
}

enum ibv_wc_status run(struct ibv_send_wr *wr)
{
	uint64_t until = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;

	NEED(post(wr) == 0);
	while (now_ms() < until)
		if (ibv_poll_cq(scene.cq, 1, &wc) == 1 && wc.qp_num == scene.qpn[0])
			return wc.status;
	DIE("no completion");
}

void post_recv(uint32_t bytes, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)scene.remote, bytes, lkey};
	struct ibv_recv_wr wr = {.wr_id = WR_ID, .sg_list = &sge, .num_sge = 1}, *bad;

	NEED(ibv_post_recv(scene.qp[1], &wr, &bad) == 0);
}

/* --- what is told ---------------------------------------------------------------- */

/* Write @line with its <words> replaced. */
static void expect(const char *line, char *text, size_t size)
{
	char qp[2][16], key[16], at[2][24];
	const struct {
		const char *word, *text;
	} words[] = {{"<qp0>", qp[0]}, {"<qp1>", qp[1]},    {"<key>", key},
		     {"<buf>", at[0]}, {"<remote>", at[1]}, {"<number>", scene.number}};
	size_t n = 0;

	snprintf(key, sizeof(key), "0x%x", scene.key);
	for (int i = 0; i < 2; i++) {
		snprintf(qp[i], sizeof(qp[i]), "0x%06x", scene.qpn[i]);
		snprintf(at[i], sizeof(at[i]), "%p", (void *)(scene.buf + BYTES * (size_t)i));
	}
	while (*line && n + sizeof(scene.number) < size) {
		size_t i = 0;

		while (i < COUNT_OF(words) && strncmp(line, words[i].word, strlen(words[i].word)))
			i++;
		if (i < COUNT_OF(words)) {
			n += (size_t)sprintf(text + n, "%s", words[i].text);
			line += strlen(words[i].word);
		} else {
			text[n++] = *line++;
		}
	}
	text[n] = '\0';
}

static void look(const struct mistake *m)
{
	char text[AV_EXPLAIN_MAX], wanted[AV_EXPLAIN_MAX], *told;
	struct av_flight_record r;

	if (!EXPECT(recorder_first(m->name, &r), "nothing is told"))
		return;
	av_explain(&r, text);
	*strchr(text, '\n') = '\0';
	told = strstr(text, "any0: ");
	expect(m->line, wanted, sizeof(wanted));
	EXPECT(told && !strcmp(told + strlen("any0: "), wanted), "\n  told: %s\n  not:  %s",
	       told ? told + strlen("any0: ") : text, wanted);
}

static void begin(void)
{
	scene.cq = ibv_create_cq(scene.ctx, 64, NULL, NULL, 0);
	scene.mr = ibv_reg_mr(scene.pd, scene.buf, (size_t)2 * BYTES, ALL_ACCESS);
	NEED(scene.cq && scene.mr);
	scene.key = scene.mr->rkey;
}

static void end(void)
{
	for (int i = 0; i < 2; i++) {
		if (scene.qp[i])
			NEED(ibv_destroy_qp(scene.qp[i]) == 0);
		scene.qp[i] = NULL;
	}
	NEED(ibv_destroy_cq(scene.cq) == 0 && ibv_dereg_mr(scene.mr) == 0);
}

void run_mistakes(const struct mistake *mistake, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		row("mistake: %s", mistake[i].name);
		begin();
		recorder_begin();
		mistake[i].make();
		look(&mistake[i]);
		end();
	}
	made += count;
}

void seed_mistakes(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(list && list[0]);
	scene.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	NEED(scene.ctx && ibv_query_gid(scene.ctx, 1, 0, &scene.gid) == 0);
	scene.pd = ibv_alloc_pd(scene.ctx);
	scene.buf = mmap(NULL, (size_t)2 * BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(scene.pd && scene.buf != MAP_FAILED);
	scene.remote = scene.buf + BYTES;
	make_connecting_mistakes();
	make_request_mistakes();
	make_memory_mistakes();
	make_datagram_mistakes();
	make_queue_mistakes();
	row("mistakes");
	EXPECT(made >= 60, "%u mistakes only", made);
	munmap(scene.buf, (size_t)2 * BYTES);
	NEED(ibv_dealloc_pd(scene.pd) == 0 && ibv_close_device(scene.ctx) == 0);
}
