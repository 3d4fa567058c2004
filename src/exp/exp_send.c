/* SPDX-License-Identifier: MIT */
/* Posting, and UMR: the first access by a key checks its elements (memory/translate.h). */
#include "exp/exp.h"

#define CREATE_FLAGS (IBV_EXP_MR_INDIRECT_KLMS | IBV_EXP_MR_FIXED_BUFFER_SIZE)
#define SEND_FLAGS \
	(IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED | IBV_EXP_SEND_INLINE)
#define LIST_LIMIT 65535u /* containers per context */
#define RIGHTS                                                                   \
	((uint64_t)(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |   \
		    IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC) | \
	 AV_ACCESS_FLUSH_GLOBAL)

static_assert((int)AV_WR_NOP == (int)IBV_EXP_WR_NOP &&
		      (int)AV_WR_UMR_FILL == (int)IBV_EXP_WR_UMR_FILL &&
		      (int)AV_WR_UMR_INVALIDATE == (int)IBV_EXP_WR_UMR_INVALIDATE &&
		      (int)AV_WC_UMR == (int)IBV_EXP_WC_UMR,
	      "opcodes");

/* A list outside its request. It is in the segment, where every executor finds it. */
struct container {
	struct ibv_exp_mkey_list_container exp;
	uint32_t handle;
	uint64_t list; /* offset of the elements in the segment */
};

/* --- keys ------------------------------------------------------------------------ */

/* The region, if ibv_exp_create_mr() made it; otherwise NULL. */
static struct av_mr *find_indirect_mr(const struct ibv_mr *ibv)
{
	struct av_mr *mr = av_mr_find(ibv);

	return mr && mr->sort == AV_MR_INDIRECT ? mr : NULL;
}

static int check_klm_list_size(uint32_t elements)
{
	return elements == 0 || elements > AV_MAX_KLMS
		       ? av_refuse(EINVAL, AV_CHECK_UMR_SIZE, elements, AV_MAX_KLMS)
		       : 0;
}

static int check_indirect_create(const struct ibv_exp_mr_init_attr *attr)
{
	if (attr->create_flags & IBV_EXP_MR_SIGNATURE_EN)
		return av_refuse(EOPNOTSUPP, AV_CHECK_FLAGS, attr->create_flags, CREATE_FLAGS);
	if (!(attr->create_flags & CREATE_FLAGS) || (attr->create_flags & ~(uint32_t)CREATE_FLAGS))
		return av_refuse(EINVAL, AV_CHECK_FLAGS, attr->create_flags, CREATE_FLAGS);
	if (attr->exp_access_flags >= IBV_EXP_ACCESS_RESERVED)
		return av_refuse(EINVAL, AV_CHECK_MR_FLAGS, attr->exp_access_flags,
				 IBV_EXP_ACCESS_RESERVED - 1);
	return check_klm_list_size(attr->max_klm_list_size);
}

AV_EXPORT struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	AV_EXP_OURS(av_fail_null, EXP_CREATE_MR, in->pd);
	AV_EXP_KNOWN(NULL, EXP_CREATE_MR, in->comp_mask, IBV_EXP_CREATE_MR_IN_RESERVED);
	struct av_context *ctx = av_context_of(in->pd->context);
	struct av_key what = {.kind = AV_KEY_UMR};
	int err = check_indirect_create(&in->attr);
	struct av_mr *mr;

	if (err == 0)
		err = av_context_err(ctx);
	if (err)
		return av_fail_null(AV_VERB_EXP_CREATE_MR, err);
	what.addr = av_klm_alloc(ctx->seg, in->attr.max_klm_list_size);
	mr = what.addr ? av_mr_publish(in->pd, &what, NULL, NULL) : NULL;
	if (!mr) {
		err = errno;
		av_klm_free(ctx->seg, what.addr, in->attr.max_klm_list_size);
		return av_fail_null(AV_VERB_EXP_CREATE_MR, err);
	}
	mr->sort = AV_MR_INDIRECT;
	mr->list = what.addr;
	mr->klms = in->attr.max_klm_list_size;
	mr->fixed = in->attr.create_flags & IBV_EXP_MR_FIXED_BUFFER_SIZE;
	return &mr->ibv;
}

AV_EXPORT int ibv_exp_query_mkey(struct ibv_mr *ibv, struct ibv_exp_mkey_attr *attr)
{
	AV_EXP_OURS(av_fail_errno, EXP_QUERY_MKEY, ibv);
	AV_EXP_KNOWN(EINVAL, EXP_QUERY_MKEY, attr->comp_mask, IBV_EXP_MKEY_ATTR_RESERVED);
	const struct av_mr *mr = find_indirect_mr(ibv);

	if (!mr)
		return av_fail_errno(AV_VERB_EXP_QUERY_MKEY,
				     av_refuse(EINVAL, AV_CHECK_UMR_KEY, 0, 0));
	attr->max_klm_list_size = mr->klms;
	return 0;
}

/* --- containers of lists --------------------------------------------------------- */

static struct container *find_container(const struct av_context *ctx,
					struct ibv_exp_mkey_list_container *exp)
{
	struct container *c = av_container_of(exp, struct container, exp);

	return exp && exp->context == &ctx->verbs.context &&
			       av_table_get(&ctx->klm_lists.table, c->handle) == c
		       ? c
		       : NULL;
}

static uint64_t list_bytes(uint32_t count)
{
	return (uint64_t)count * sizeof(struct av_klm_entry);
}

static int check_klm_list_alloc(const struct ibv_exp_mkey_list_container_attr *attr)
{
	if (attr->mkey_list_type != IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR)
		return ENOMEM; /* as the real library does */
	if (check_klm_list_size(attr->max_klm_list_size))
		return av_refuse_as(EINVAL);
	if (!av_pd_find(attr->pd))
		return ENOENT;
	return av_context_err(av_context_of(attr->pd->context));
}

AV_EXPORT struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr)
{
	AV_EXP_OURS(av_fail_null, EXP_ALLOC_MKEY_LIST_MEMORY, attr->pd);
	AV_EXP_KNOWN(NULL, EXP_ALLOC_MKEY_LIST_MEMORY, attr->comp_mask,
		     IBV_EXP_MKEY_LIST_CONTAINER_RESERVED);
	struct av_context *ctx = av_context_of(attr->pd->context);
	int err = check_klm_list_alloc(attr);
	struct container *c = av_object_new(AV_VERB_EXP_ALLOC_MKEY_LIST_MEMORY, err, sizeof(*c));

	if (!c)
		return NULL;
	c->exp.context = attr->pd->context;
	c->exp.max_klm_list_size = attr->max_klm_list_size;
	c->list = av_seg_alloc(ctx->seg, list_bytes(attr->max_klm_list_size));
	if (c->list)
		c->handle = av_handles_add(&ctx->klm_lists, c, LIST_LIMIT);
	if (c->handle)
		return &c->exp;
	av_seg_free(ctx->seg, c->list, list_bytes(attr->max_klm_list_size));
	return av_object_fail(AV_VERB_EXP_ALLOC_MKEY_LIST_MEMORY, c, ENOMEM);
}

AV_EXPORT int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem)
{
	AV_EXP_OURS(av_fail_errno, EXP_DEALLOC_MKEY_LIST_MEMORY, mem);
	struct av_context *ctx = av_context_of(mem->context);
	struct container *c = find_container(ctx, mem);

	if (!c)
		return av_fail_errno(AV_VERB_EXP_DEALLOC_MKEY_LIST_MEMORY,
				     av_refuse(EINVAL, AV_CHECK_UMR_CONTAINER, 0, 0));
	av_handles_remove(&ctx->klm_lists, c->handle);
	if (!ctx->forked)
		av_seg_free(ctx->seg, c->list, list_bytes(mem->max_klm_list_size));
	free(c);
	return 0;
}

/* --- work requests --------------------------------------------------------------- */

typedef __typeof__(((struct ibv_exp_send_wr *)NULL)->ext_op.umr) umr_wr;

/* The regions must be of the queue pair's context: in another one a key means something else. */
static int set_entries(struct av_klm_entry *entries, const struct ibv_qp *qp, const umr_wr *umr)
{
	bool repeat = umr->umr_type == IBV_EXP_UMR_REPEAT;

	for (uint32_t i = 0; i < umr->num_mrs; i++) {
		const struct ibv_exp_mem_repeat_block *b =
			repeat ? &umr->mem_list.rb.mem_repeat_block_list[i] : NULL;
		const struct ibv_exp_mem_region *r = repeat ? NULL : &umr->mem_list.mem_reg_list[i];
		const struct ibv_mr *mr = repeat ? b->mr : r->mr;

		if (repeat && !(b->byte_count && b->stride))
			return av_refuse(EINVAL, AV_CHECK_UMR_LIST, 0, 0);
		if (!mr || mr->context != qp->context)
			return av_refuse(EINVAL, AV_CHECK_UMR_ELEMENT, 0, 0);
		entries[i] = (struct av_klm_entry){
			.key = mr->lkey,
			.addr = repeat ? b->base_addr : r->base_addr,
			.length = repeat ? b->byte_count[0] : r->length,
			.stride = repeat ? b->stride[0] : 0,
		};
	}
	return 0;
}

/* All elements must have the same length. Only the last may be shorter. */
static int check_fixed(const struct av_klm_entry *entries, uint32_t count)
{
	uint64_t entity = entries[0].length;

	if (entity == 0 || entity > AV_MAX_ENTITY_BYTES)
		return av_refuse(EINVAL, AV_CHECK_UMR_ENTITY, entity, AV_MAX_ENTITY_BYTES);
	for (uint32_t i = 1; i < count; i++)
		if (i + 1 < count ? entries[i].length != entity : entries[i].length > entity)
			return av_refuse(EINVAL, AV_CHECK_UMR_ENTITY, entries[i].length, entity);
	return 0;
}

/* Checks a fill request, but for its list. */
static int check_fill(const struct av_mr *key, const umr_wr *umr)
{
	bool repeat = umr->umr_type == IBV_EXP_UMR_REPEAT,
	     fixed = umr->umr_type == IBV_EXP_UMR_MR_LIST_FIXED_SIZE;

	if (!repeat && !fixed && umr->umr_type != IBV_EXP_UMR_MR_LIST)
		return av_refuse(EINVAL, AV_CHECK_UMR_TYPE, (uint64_t)(int)umr->umr_type, 0);
	if (fixed != key->fixed)
		return av_refuse(EINVAL, AV_CHECK_UMR_FIXED, 0, 0);
	if (umr->num_mrs == 0 || umr->num_mrs > key->klms)
		return av_refuse(EINVAL, AV_CHECK_UMR_COUNT, umr->num_mrs, key->klms);
	if (umr->exp_access & ~RIGHTS)
		return av_refuse(EINVAL, AV_CHECK_MR_FLAGS, umr->exp_access, RIGHTS);
	if (av_region_check_access((uint32_t)umr->exp_access))
		return av_refuse_as(EINVAL);
	if (!repeat)
		return umr->mem_list.mem_reg_list ? 0 : av_refuse(EINVAL, AV_CHECK_UMR_LIST, 0, 0);
	if (umr->mem_list.rb.stride_dim != 1)
		return ENOMEM; /* as the real library, which returns -ENOMEM */
	return umr->mem_list.rb.mem_repeat_block_list && umr->mem_list.rb.repeat_count &&
			       umr->mem_list.rb.repeat_count[0] > 0
		       ? 0
		       : av_refuse(EINVAL, AV_CHECK_UMR_LIST, 0, 0);
}

static int build_list(struct av_klm_entry *entries, const struct ibv_qp *qp, const umr_wr *umr,
		      struct av_sq_special *req)
{
	int err = set_entries(entries, qp, umr);

	req->rights = (uint32_t)umr->exp_access;
	req->base = umr->base_addr;
	req->rounds = umr->umr_type == IBV_EXP_UMR_REPEAT ? umr->mem_list.rb.repeat_count[0] : 1;
	req->count = umr->num_mrs;
	if (err == 0 && umr->umr_type == IBV_EXP_UMR_MR_LIST_FIXED_SIZE)
		err = check_fixed(entries, umr->num_mrs);
	if (err == 0 && av_klm_layout(entries, umr->num_mrs, req->rounds, req->base))
		err = av_refuse(EINVAL, AV_CHECK_UMR_RANGE, 0, 0);
	return err;
}

static int post_inline_umr(struct av_qp *qp, const umr_wr *umr,
			   const struct av_sq_special *with_key)
{
	struct av_klm_entry entries[AV_MAX_INLINE_KLMS];
	struct av_sq_special req = *with_key;
	int err;

	if (umr->num_mrs > qp->inline_klms)
		return av_refuse(EINVAL, AV_CHECK_UMR_INLINE, umr->num_mrs, qp->inline_klms);
	err = build_list(entries, &qp->ibv, umr, &req);
	req.inlined = entries;
	return err ? err : av_post_special(qp, &req);
}

static int fill_from_container(struct av_qp *qp, const umr_wr *umr, struct av_sq_special *req)
{
	struct av_context *ctx = av_context_of(qp->ibv.context);
	struct container *c = find_container(ctx, umr->memory_objects);
	int err;

	if (!c || umr->num_mrs > c->exp.max_klm_list_size)
		return av_refuse(EINVAL, AV_CHECK_UMR_CONTAINER, umr->num_mrs, 0);
	req->list = c->list;
	err = build_list(av_seg_at(ctx->seg, c->list, list_bytes(umr->num_mrs)), &qp->ibv, umr,
			 req);
	return err ? err : av_post_special(qp, req);
}

static int post_umr(struct av_qp *qp, const struct ibv_exp_send_wr *wr, struct av_sq_special *req)
{
	const umr_wr *umr = &wr->ext_op.umr;
	const struct ibv_mr *ibv = umr->modified_mr;
	const struct av_mr *key =
		ibv && ibv->context == qp->ibv.context ? find_indirect_mr(ibv) : NULL;
	int err;

	if (!qp->umr)
		return av_refuse(EINVAL, AV_CHECK_UMR_QP, 0, 0);
	if (!key)
		return av_refuse(EINVAL, AV_CHECK_UMR_KEY, 0, 0);
	req->key = ibv->lkey;
	if (wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE)
		return av_post_special(qp, req);
	err = check_fill(key, umr);
	if (err)
		return err;
	return wr->exp_send_flags & IBV_EXP_SEND_INLINE ? post_inline_umr(qp, umr, req)
							: fill_from_container(qp, umr, req);
}

static bool is_special(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_NOP || wr->exp_opcode == IBV_EXP_WR_UMR_FILL ||
	       wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE;
}

static int post_special(struct av_qp *qp, const struct ibv_exp_send_wr *wr)
{
	struct av_sq_special req = {
		.wr_id = wr->wr_id,
		.opcode = (uint32_t)wr->exp_opcode,
		.flags = (uint32_t)wr->exp_send_flags & ~(uint32_t)IBV_SEND_INLINE,
	};

	if (wr->exp_send_flags & ~(uint64_t)SEND_FLAGS)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, wr->exp_send_flags, SEND_FLAGS);
	if (!av_wr_opcode_is_of(av_wr_opcode(req.opcode), qp->ibv.qp_type))
		return av_refuse(EINVAL, AV_CHECK_REQUEST_SERVICE, (uint64_t)wr->exp_opcode,
				 (uint64_t)qp->ibv.qp_type);
	return wr->exp_opcode == IBV_EXP_WR_NOP ? av_post_special(qp, &req)
						: post_umr(qp, wr, &req);
}

/* ibv_exp_post_send() posts translated requests in batches, but UMR and NOP one by one. */

/* The two structures agree in the bytes before, but for the flags. */
#define COMMON offsetof(struct ibv_exp_send_wr, task)
#define BATCH  16

static_assert(offsetof(struct ibv_exp_send_wr, wr) == offsetof(struct ibv_send_wr, wr) &&
		      offsetof(struct ibv_exp_send_wr, qp_type) ==
			      offsetof(struct ibv_send_wr, qp_type) &&
		      offsetof(struct ibv_exp_send_wr, ex) ==
			      offsetof(struct ibv_send_wr, imm_data) &&
		      COMMON == offsetof(struct ibv_send_wr, bind_mw),
	      "send requests");

static_assert((int)AV_WR_MASKED_CMP_AND_SWP == (int)IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP &&
		      (int)AV_WR_MASKED_FETCH_AND_ADD ==
			      (int)IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD &&
		      (int)AV_WC_MASKED_CMP_AND_SWP == (int)IBV_EXP_WC_MASKED_COMP_SWAP &&
		      (int)AV_WC_MASKED_FETCH_AND_ADD == (int)IBV_EXP_WC_MASKED_FETCH_ADD,
	      "masked atomics");

/* --- extended atomics ------------------------------------------------------------ */

#define AT(member)     offsetof(struct ibv_exp_send_wr, member)
#define MASKED(member) AT(ext_op.masked_atomics.wr_data.inline_data.op.member)

/* The atomic operations with sized operands, by their opcodes. */
static const struct atomic_row {
	uint32_t opcode; /* to post; 0: no such operation */
	enum av_atomic_op op;
	bool masked; /* the extension names the target, not wr.atomic */
	size_t value, compare, mask, compare_mask; /* offsets of the operands; 0: none */
} atomic_row[] = {
	[IBV_EXP_WR_ATOMIC_CMP_AND_SWP] = {AV_WR_SIZED_CMP_AND_SWP, AV_ATOMIC_CMP_SWAP, false,
					   AT(wr.atomic.swap), AT(wr.atomic.compare_add), 0, 0},
	[IBV_EXP_WR_ATOMIC_FETCH_AND_ADD] = {AV_WR_SIZED_FETCH_AND_ADD, AV_ATOMIC_ADD, false,
					     AT(wr.atomic.compare_add), 0, 0, 0},
	[IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP] = {AV_WR_MASKED_CMP_AND_SWP, AV_ATOMIC_CMP_SWAP,
						      true, MASKED(cmp_swap.swap_val),
						      MASKED(cmp_swap.compare_val),
						      MASKED(cmp_swap.swap_mask),
						      MASKED(cmp_swap.compare_mask)},
	[IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD] = {AV_WR_MASKED_FETCH_AND_ADD, AV_ATOMIC_ADD,
							true, MASKED(fetch_add.add_val), 0,
							MASKED(fetch_add.field_boundary), 0},
};

/* The row of an atomic operation with sized operands, otherwise NULL. */
static const struct atomic_row *extended_atomic(const struct ibv_exp_send_wr *wr)
{
	if (av_likely(!(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE)) ||
	    (unsigned int)wr->exp_opcode >= AV_ARRAY_SIZE(atomic_row))
		return NULL;
	return atomic_row[wr->exp_opcode].opcode ? &atomic_row[wr->exp_opcode] : NULL;
}

/* Operands of up to 8 bytes are values. Longer ones are behind a pointer, which may not be NULL. */
static bool load_operand(struct av_operand *to, const struct ibv_exp_send_wr *wr, size_t offset,
			 uint32_t bytes)
{
	uint64_t field = 0;

	if (offset)
		memcpy(&field, (const char *)wr + offset, sizeof(field));
	if (bytes <= sizeof(field))
		to->word[0] = field;
	else if (field)
		memcpy(to, (const void *)(uintptr_t)field, bytes);
	return field || !offset || bytes <= sizeof(field);
}

static int translate_atomic(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr,
			    const struct atomic_row *row, struct av_atomic *operands)
{
	uint32_t log = wr->ext_op.masked_atomics.log_arg_sz;

	if (log > 31)
		return av_refuse(EINVAL, AV_CHECK_POST_OPERAND, 1ull << (log & 63), 0);
	memset(operands, 0, sizeof(*operands));
	operands->op = row->op;
	operands->bytes = 1u << log;
	if (!av_atomic_size_valid(operands->bytes) ||
	    !load_operand(&operands->value, wr, row->value, operands->bytes) ||
	    !load_operand(&operands->compare, wr, row->compare, operands->bytes) ||
	    !load_operand(&operands->mask, wr, row->mask, operands->bytes) ||
	    !load_operand(&operands->compare_mask, wr, row->compare_mask, operands->bytes))
		return av_refuse(EINVAL, AV_CHECK_POST_OPERAND, operands->bytes, 0);
	if (row->masked) {
		to->wr.atomic.remote_addr = wr->ext_op.masked_atomics.remote_addr;
		to->wr.atomic.rkey = wr->ext_op.masked_atomics.rkey;
	} else if (row->op == AV_ATOMIC_CMP_SWAP) {
		memset(&operands->mask, 0xff, sizeof(operands->mask));
		memset(&operands->compare_mask, 0xff, sizeof(operands->compare_mask));
	}
	to->opcode = (enum ibv_wr_opcode)row->opcode;
	return 0;
}

/* --- all requests ---------------------------------------------------------------- */

/* A program that filled in a cast request has the window where the plain struct has it. */
static int translate_bind(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr)
{
	const struct ibv_exp_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw) {
		memcpy(&to->bind_mw, (const char *)wr + COMMON, sizeof(to->bind_mw));
		return to->bind_mw.mw ? 0 : av_refuse(EINVAL, AV_CHECK_BIND_WINDOW, 0, 0);
	}
	to->bind_mw.mw = wr->bind_mw.mw;
	to->bind_mw.rkey = wr->bind_mw.rkey;
	to->bind_mw.bind_info.mr = info->mr;
	to->bind_mw.bind_info.addr = info->addr;
	to->bind_mw.bind_info.length = info->length;
	return av_exp_access(info->exp_mw_access_flags, &to->bind_mw.bind_info.mw_access_flags);
}

/* @operands: out, those of an extended atomic */
static int convert_exp_send_wr(struct ibv_send_wr *to, const struct ibv_exp_send_wr *wr,
			       const struct av_qp *qp, struct av_atomic *operands)
{
	const struct atomic_row *atomic = extended_atomic(wr);
	uint64_t flags = SEND_FLAGS | (atomic ? IBV_EXP_SEND_EXT_ATOMIC_INLINE : 0);

	if (!atomic && (unsigned int)wr->exp_opcode > IBV_EXP_WR_SEND_WITH_INV)
		return av_refuse(EINVAL, AV_CHECK_POST_OPCODE, (uint64_t)(int)wr->exp_opcode, 0);
	if (wr->exp_send_flags & ~flags)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, wr->exp_send_flags, flags);
	if (!(wr->exp_send_flags & IBV_EXP_SEND_INLINE) && wr->num_sge > 0 &&
	    (uint32_t)wr->num_sge > qp->end.qp->sq_max_sge)
		return av_refuse(ENOMEM, AV_CHECK_POST_SEND_SGE, (uint64_t)wr->num_sge,
				 qp->end.qp->sq_max_sge);
	memset(to, 0, sizeof(*to));
	memcpy(to, wr, COMMON);
	to->next = NULL;
	to->opcode = (enum ibv_wr_opcode)wr->exp_opcode; /* the same values */
	to->send_flags = (unsigned int)(wr->exp_send_flags & SEND_FLAGS);
	if (av_unlikely(atomic))
		return translate_atomic(to, wr, atomic, operands);
	return wr->exp_opcode == IBV_EXP_WR_BIND_MW ? translate_bind(to, wr) : 0;
}

static int refuse_exp_send(const struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
			   struct ibv_exp_send_wr **bad_wr, int err)
{
	*bad_wr = wr;
	av_refuse_object(err, AV_OBJECT_QP, qp->qp_num);
	return av_fail_errno(AV_VERB_EXP_POST_SEND, err);
}

/* The request of @exp at the position that @wanted has in @plain. */
static struct ibv_exp_send_wr *counterpart(struct ibv_exp_send_wr *exp,
					   const struct ibv_send_wr *plain,
					   const struct ibv_send_wr *wanted)
{
	for (; plain != wanted; plain = plain->next)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the lists are as long */
		exp = exp->next;
	return exp;
}

AV_EXPORT int ibv_exp_post_send(struct ibv_qp *ibv, struct ibv_exp_send_wr *wr,
				struct ibv_exp_send_wr **bad_wr)
{
	if (!av_ours(ibv->context))
		return -ENOSYS;
	struct ibv_send_wr batch[BATCH], *bad;
	struct av_atomic operands[BATCH];
	struct av_qp *qp = av_qp_find(ibv);

	if (av_unlikely(!qp || av_context_of(ibv->context)->forked))
		return refuse_exp_send(ibv, wr, bad_wr,
				       av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0));
	while (wr) {
		struct ibv_exp_send_wr *first = wr;
		int n = 0, err = 0, posted;

		for (; wr && n < BATCH && !is_special(wr); wr = wr->next, n++) {
			err = convert_exp_send_wr(&batch[n], wr, qp, &operands[n]);
			if (err)
				break;
			if (n)
				batch[n - 1].next = &batch[n];
		}
		posted = n ? av_post_translated(ibv, batch, &bad, operands) : 0;
		if (posted) {
			*bad_wr = counterpart(first, batch, bad);
			return posted;
		}
		if (!err && wr && is_special(wr)) {
			err = post_special(qp, wr);
			wr = err ? wr : wr->next;
		}
		if (err)
			return refuse_exp_send(ibv, wr, bad_wr, err);
	}
	return 0;
}
