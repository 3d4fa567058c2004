/* SPDX-License-Identifier: MIT */
#include "umr_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/exp_objects.h"
#include "lib/flood.h"

#define IMPLICIT_AT 0x300000u /* in the arena: the places of regions that lie there */
#define IOVA_AT	    0x340000u
#define IOVA	    0x700000000ull
#define INLINE_KLMS 20u
#define POOL_MORE   16381u

struct node *n;
struct made leaf[LEAF_N];
struct memory model;

static struct ibv_dm *dm;
static uint8_t *plain, *odp;
static struct ibv_exp_mkey_list_container *container;

/* --- regions --------------------------------------------------------------------- */

static struct made region(enum leaf kind, struct ibv_mr *mr, uint64_t base)
{
	struct made m = {.mr = mr, .base = base, .bytes = LEAF_BYTES};

	m.spots = calloc(LEAF_BYTES, sizeof(*m.spots));
	if (!mr || !m.spots)
		DIE("region %d: errno %d", (int)kind, errno);
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		m.spots[i] = (struct spot){(uint8_t)kind, i};
	return m;
}

static uint8_t *pages(void)
{
	uint8_t *p =
		mmap(NULL, LEAF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		DIE("mmap");
	return p;
}

/* The rights that an UMR key needs of them, and no remote ones. */
static void open_regions(void)
{
	struct ibv_alloc_dm_attr attr = {.length = LEAF_BYTES};
	uint8_t *implicit = n->arena + IMPLICIT_AT, *iova = n->arena + IOVA_AT;
	int rights = IBV_ACCESS_LOCAL_WRITE;

	plain = pages();
	odp = pages();
	dm = ibv_alloc_dm(n->ctx, &attr);
	NEED(dm);
	leaf[LEAF_PLAIN] =
		region(LEAF_PLAIN, ibv_reg_mr(n->pd, plain, LEAF_BYTES, rights), (uintptr_t)plain);
	leaf[LEAF_ODP] =
		region(LEAF_ODP, ibv_reg_mr(n->pd, odp, LEAF_BYTES, rights | IBV_ACCESS_ON_DEMAND),
		       (uintptr_t)odp);
	leaf[LEAF_IMPLICIT] = region(
		LEAF_IMPLICIT, ibv_reg_mr(n->pd, NULL, SIZE_MAX, rights | IBV_ACCESS_ON_DEMAND),
		(uintptr_t)implicit);
	leaf[LEAF_DEVICE] = region(LEAF_DEVICE,
				   ibv_reg_dm_mr(n->pd, dm, 0, LEAF_BYTES,
						 (unsigned int)rights | IBV_ACCESS_ZERO_BASED),
				   0);
	leaf[LEAF_NULL] = region(LEAF_NULL, ibv_alloc_null_mr(n->pd), 0);
	leaf[LEAF_IOVA] =
		region(LEAF_IOVA, ibv_reg_mr_iova(n->pd, iova, LEAF_BYTES, IOVA, rights), IOVA);
}

static void close_regions(void)
{
	for (int i = 0; i < LEAF_N; i++)
		unmake(&leaf[i]);
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm");
	munmap(plain, LEAF_BYTES);
	munmap(odp, LEAF_BYTES);
}

/* Where a leaf's bytes are in this process; NULL: in device memory, or nowhere. */
static uint8_t *memory_of(int kind)
{
	switch (kind) {
	case LEAF_PLAIN:
		return plain;
	case LEAF_ODP:
		return odp;
	case LEAF_IMPLICIT:
		return n->arena + IMPLICIT_AT;
	case LEAF_IOVA:
		return n->arena + IOVA_AT;
	default:
		return NULL;
	}
}

/* Different for each region and seed: pieces of one long pattern. */
static void pattern_of(uint8_t *to, uint64_t seed)
{
	static uint8_t pool[LEAF_BYTES + POOL_MORE];

	if (!pool[0] && !pool[1])
		pattern_fill(pool, sizeof(pool), PROBE_SEED, 0);
	memcpy(to, pool + seed * 977 % POOL_MORE, LEAF_BYTES);
}

void memory_fill(uint64_t seed)
{
	for (int i = 0; i < LEAF_N; i++) {
		pattern_of(model.of[i], seed + (uint64_t)i);
		if (i == LEAF_NULL)
			memset(model.of[i], 0, LEAF_BYTES);
		else if (i == LEAF_DEVICE)
			EXPECT(ibv_memcpy_to_dm(dm, 0, model.of[i], LEAF_BYTES) == 0,
			       "ibv_memcpy_to_dm");
		else
			memcpy(memory_of(i), model.of[i], LEAF_BYTES);
	}
}

void memory_expect(void)
{
	static uint8_t device[LEAF_BYTES];

	EXPECT(ibv_memcpy_from_dm(device, dm, 0, LEAF_BYTES) == 0, "ibv_memcpy_from_dm");
	for (int i = 0; i < LEAF_N; i++) {
		const uint8_t *is = i == LEAF_DEVICE ? device : memory_of(i);

		if (!is || memcmp(is, model.of[i], LEAF_BYTES) == 0)
			continue;
		for (uint32_t at = 0; at < LEAF_BYTES; at++)
			if (!EXPECT(is[at] == model.of[i][at],
				    "region %d: byte %u is 0x%02x, not 0x%02x", i, at, is[at],
				    model.of[i][at]))
				break;
	}
}

void model_read(const struct made *key, uint32_t at, uint32_t bytes, uint8_t *to)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = model.of[key->spots[at + i].leaf][key->spots[at + i].at];
}

void model_write(const struct made *key, uint32_t at, uint32_t bytes, const uint8_t *from)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (key->spots[at + i].leaf != LEAF_NULL)
			model.of[key->spots[at + i].leaf][key->spots[at + i].at] = from[i];
}

/* --- keys ------------------------------------------------------------------------ */

struct ibv_mr *create_key(uint32_t klms, uint32_t flags)
{
	struct ibv_exp_create_mr_in in = {
		.pd = n->pd,
		.attr = {.max_klm_list_size = klms,
			 .create_flags = flags,
			 .exp_access_flags = RIGHTS},
	};
	struct ibv_mr *mr = ibv_exp_create_mr(&in);

	NEED(mr);
	return mr;
}

struct ibv_exp_send_wr fill_request(struct ibv_mr *mr, const struct list *list)
{
	static struct ibv_exp_mem_region regions[ELEMENTS];
	static struct ibv_exp_mem_repeat_block blocks[ELEMENTS];
	static size_t counts[ELEMENTS], strides[ELEMENTS], rounds;
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = list->inlined ? IBV_EXP_SEND_INLINE : 0;
	wr.ext_op.umr.umr_type = list->type;
	wr.ext_op.umr.memory_objects = list->inlined ? NULL : container;
	wr.ext_op.umr.exp_access = list->access;
	wr.ext_op.umr.modified_mr = mr;
	wr.ext_op.umr.base_addr = list->base;
	wr.ext_op.umr.num_mrs = list->count;
	for (uint32_t i = 0; i < list->count && i < ELEMENTS; i++) {
		const struct element *e = &list->e[i];

		regions[i] = (struct ibv_exp_mem_region){e->of->base + e->at, e->of->mr, e->bytes};
		counts[i] = e->bytes;
		strides[i] = e->stride;
		blocks[i] = (struct ibv_exp_mem_repeat_block){e->of->base + e->at, e->of->mr,
							      &counts[i], &strides[i]};
	}
	rounds = list->rounds;
	if (list->type == IBV_EXP_UMR_REPEAT) {
		wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = blocks;
		wr.ext_op.umr.mem_list.rb.repeat_count = &rounds;
		wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	} else {
		wr.ext_op.umr.mem_list.mem_reg_list = regions;
	}
	return wr;
}

struct ibv_exp_send_wr invalidate_request(struct ibv_mr *mr)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
	wr.ext_op.umr.modified_mr = mr;
	return wr;
}

enum ibv_wc_status run_request(struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;
	struct ibv_wc wc;
	int ret;

	wr->wr_id = 0x756d72;
	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	ret = ibv_exp_post_send(n->qp[0], wr, &bad);
	if (!EXPECT(ret == 0, "ibv_exp_post_send: %d", ret))
		return IBV_WC_GENERAL_ERR;
	if (node_poll(n, 0, 1, PATIENCE, &wc) != 1)
		DIE("no completion");
	EXPECT(wc.wr_id == wr->wr_id && wc.qp_num == n->qp[0]->qp_num, "fields of the completion");
	EXPECT((int)wc.opcode == (wr->exp_opcode == IBV_EXP_WR_NOP ? 0 : 0x100) || wc.status,
	       "opcode 0x%x", (int)wc.opcode);
	if (wc.status != IBV_WC_SUCCESS)
		probe_reconnect(&b, &a, 0);
	return wc.status;
}

void need_fill(struct ibv_mr *mr, const struct list *list)
{
	struct ibv_exp_send_wr wr = fill_request(mr, list);
	enum ibv_wc_status got = run_request(&wr);

	EXPECT(got == IBV_WC_SUCCESS, "UMR_FILL: '%s'", ibv_wc_status_str(got));
}

void need_invalidate(struct ibv_mr *mr)
{
	struct ibv_exp_send_wr wr = invalidate_request(mr);
	enum ibv_wc_status got = run_request(&wr);

	EXPECT(got == IBV_WC_SUCCESS, "UMR_INVALIDATE: '%s'", ibv_wc_status_str(got));
}

struct made make(const struct list *list)
{
	bool fixed = list->type == IBV_EXP_UMR_MR_LIST_FIXED_SIZE;
	uint32_t rounds = list->type == IBV_EXP_UMR_REPEAT ? list->rounds : 1;
	struct made m = {.base = list->base, .spots = calloc(KEY_BYTES, sizeof(*m.spots))};

	m.mr = create_key(list->count,
			  fixed ? IBV_EXP_MR_FIXED_BUFFER_SIZE : IBV_EXP_MR_INDIRECT_KLMS);
	need_fill(m.mr, list);
	for (uint32_t r = 0; r < rounds; r++)
		for (uint32_t i = 0; i < list->count; i++)
			for (uint32_t k = 0; k < list->e[i].bytes; k++) {
				const struct element *e = &list->e[i];
				uint32_t from = e->at + r * e->stride + k;

				if (m.bytes == KEY_BYTES || from >= e->of->bytes)
					DIE("the test's own list is too long");
				m.spots[m.bytes++] = e->of->spots[from];
			}
	return m;
}

void unmake(struct made *m)
{
	EXPECT(ibv_dereg_mr(m->mr) == 0, "ibv_dereg_mr: errno %d", errno);
	free(m->spots);
}

/* --- plain requests -------------------------------------------------------------- */

enum ibv_wc_status remote(enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey, uint32_t bytes)
{
	struct node_send request = {
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = addr,
		.rkey = rkey,
		.compare_add = 1,
		.num_sge = 1,
		.sge = {side_sge(&b, KEY_FULL, AT, bytes)},
	};

	return probe_request(&b, &a, 0, &request);
}

enum ibv_wc_status local(enum ibv_wr_opcode op, uint64_t addr, uint32_t lkey, uint32_t bytes)
{
	struct node_send request = {
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = b.info.base[KEY_FULL] + AT,
		.rkey = b.info.key[KEY_FULL],
		.compare_add = 1,
		.num_sge = 1,
		.sge = {{.addr = addr, .length = bytes, .lkey = lkey}},
	};

	return probe_request(&a, &b, 0, &request);
}

void post_receive(uint64_t addr, uint32_t lkey, uint32_t bytes)
{
	struct node_recv recv = {.num_sge = 1,
				 .sge = {{.addr = addr, .length = bytes, .lkey = lkey}}};

	EXPECT(node_post_recv(n, 0, &recv, 1).ret == 0, "ibv_post_recv");
}

enum ibv_wc_status received(struct side *s, uint32_t bytes)
{
	struct ibv_wc wc;

	if (side_poll(s, 1, 1, PATIENCE, &wc) != 1)
		DIE("nothing received");
	EXPECT(wc.status != IBV_WC_SUCCESS || wc.byte_len == bytes, "%u bytes received",
	       wc.byte_len);
	return wc.status;
}

void expect_there(uint32_t at, const uint8_t *bytes, uint32_t count)
{
	struct node_send request =
		side_rdma_to(IBV_WR_RDMA_READ, side_sge(&a, KEY_FULL, HERE, count), &b, at);

	EXPECT(probe_request(&a, &b, 0, &request) == IBV_WC_SUCCESS, "fetching");
	for (uint32_t i = 0; i < count; i++)
		if (!EXPECT(n->arena[HERE + i] == bytes[i], "byte %u there is 0x%02x, not 0x%02x",
			    i, n->arena[HERE + i], bytes[i]))
			break;
}

/* --- */

static void open_pair(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_exp_qp_init_attr init = {
		.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = INLINE_KLMS,
	};

	exp_need_rc(n, 0, &init);
	NEED(side_create_qp(&b, 0, &spec, NULL) == 0);
	EXPECT(init.max_inl_send_klms == INLINE_KLMS, "%u elements granted",
	       init.max_inl_send_klms);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
}

int umr_test(int argc, char **argv, void (*run)(void))
{
	struct ibv_exp_mkey_list_container_attr attr = {.max_klm_list_size = 65536};

	flood_agent_main(argc, argv);
	two_sides_open(argc, argv);
	n = a.node;
	open_pair();
	open_regions();
	attr.pd = n->pd;
	container = ibv_exp_alloc_mkey_list_memory(&attr);
	NEED(container);
	run();
	row("closing");
	EXPECT(ibv_exp_dealloc_mkey_list_memory(container) == 0,
	       "ibv_exp_dealloc_mkey_list_memory");
	close_regions();
	pair_destroy(&a, 0, &b, 0);
	return two_sides_close();
}
