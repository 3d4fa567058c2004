/* SPDX-License-Identifier: MIT */
/* Every experimental verb on another provider's device: what a library without experimental verbs
 * returns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"

#define UNTOUCHED EBADMSG /* an errno that no verb sets */

/* Whose device it is shows by the pointer alone. */
static struct ibv_device device;
static struct ibv_context context = {.device = &device};
static struct ibv_pd pd = {.context = &context};
static struct ibv_mr mr = {.context = &context, .pd = &pd};
static struct ibv_mw mw = {.context = &context, .pd = &pd};
static struct ibv_cq cq = {.context = &context};
static struct ibv_qp qp = {.context = &context, .pd = &pd};
static struct ibv_exp_dm dm = {.context = &context};
static struct ibv_exp_dct dct = {.context = &context};
static struct ibv_exp_mkey_list_container list = {.context = &context};

/* Verbs that give a pointer return it as a number: 0 is NULL. */
static long post_send(void)
{
	struct ibv_exp_send_wr wr, *bad = &wr;
	int ret;

	memset(&wr, 0, sizeof(wr));
	ret = ibv_exp_post_send(&qp, &wr, &bad);
	EXPECT(bad == &wr, "bad_wr was set");
	return ret;
}

static long poll_cq(void)
{
	struct ibv_exp_wc wc;

	return ibv_exp_poll_cq(&cq, 1, &wc, sizeof(wc));
}

static long query_device(void)
{
	struct ibv_exp_device_attr attr = {.comp_mask = 0};

	return ibv_exp_query_device(&context, &attr);
}

static long modify_cq(void)
{
	struct ibv_exp_cq_attr attr = {.comp_mask = 0};

	return ibv_exp_modify_cq(&cq, &attr, 0);
}

static long query_gid_attr(void)
{
	struct ibv_exp_gid_attr attr = {.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE};

	return ibv_exp_query_gid_attr(&context, 1, 0, &attr);
}

static long free_dm(void)
{
	return ibv_exp_free_dm(&dm);
}

static long memcpy_dm(void)
{
	struct ibv_exp_memcpy_dm_attr attr = {.length = 0};

	return ibv_exp_memcpy_dm(&dm, &attr);
}

static long modify_qp(void)
{
	struct ibv_exp_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	return ibv_exp_modify_qp(&qp, &attr, IBV_EXP_QP_STATE);
}

static long bind_mw(void)
{
	struct ibv_exp_mw_bind bind = {.qp = &qp, .mw = &mw};

	return ibv_exp_bind_mw(&bind);
}

static long prefetch_mr(void)
{
	struct ibv_exp_prefetch_attr attr = {.flags = 0};

	return ibv_exp_prefetch_mr(&mr, &attr);
}

static long rereg_mr(void)
{
	return ibv_exp_rereg_mr(&mr, IBV_EXP_REREG_MR_CHANGE_PD, &pd, NULL, 0, 0, NULL);
}

static long query_mkey(void)
{
	struct ibv_exp_mkey_attr attr = {.comp_mask = 0};

	return ibv_exp_query_mkey(&mr, &attr);
}

static long dealloc_mkey_list_memory(void)
{
	return ibv_exp_dealloc_mkey_list_memory(&list);
}

static long destroy_res_domain(void)
{
	return ibv_exp_destroy_res_domain(&context, (struct ibv_exp_res_domain *)&device, NULL);
}

static long release_intf(void)
{
	return ibv_exp_release_intf(&context, &device, NULL);
}

static long query_values(void)
{
	struct ibv_exp_values values;

	return ibv_exp_query_values(&context, IBV_EXP_VALUES_HW_CLOCK, &values);
}

static long query_port(void)
{
	struct ibv_exp_port_attr attr = {.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1,
					 .mask1 = IBV_EXP_QUERY_PORT_STATE};

	return ibv_exp_query_port(&context, 1, &attr);
}

static long reg_mr(void)
{
	struct ibv_exp_reg_mr_in in = {.pd = &pd, .addr = &device, .length = 1};

	return (long)ibv_exp_reg_mr(&in);
}

static long reg_shared_mr(void)
{
	struct ibv_exp_reg_shared_mr_in in = {.pd = &pd};

	return (long)ibv_exp_reg_shared_mr(&in);
}

static long create_mr(void)
{
	struct ibv_exp_create_mr_in in = {.pd = &pd};

	return (long)ibv_exp_create_mr(&in);
}

static long alloc_mkey_list_memory(void)
{
	struct ibv_exp_mkey_list_container_attr attr = {.pd = &pd};

	return (long)ibv_exp_alloc_mkey_list_memory(&attr);
}

static long create_qp(void)
{
	struct ibv_exp_qp_init_attr attr = {
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = &pd,
	};

	return (long)ibv_exp_create_qp(&context, &attr);
}

static long create_cq(void)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = 0};

	return (long)ibv_exp_create_cq(&context, 1, NULL, NULL, 0, &attr);
}

static long create_srq(void)
{
	struct ibv_exp_create_srq_attr attr = {.pd = &pd};

	return (long)ibv_exp_create_srq(&context, &attr);
}

static long create_res_domain(void)
{
	struct ibv_exp_res_domain_init_attr attr = {.comp_mask = 0};

	return (long)ibv_exp_create_res_domain(&context, &attr);
}

static long get_provider_func(void)
{
	return (long)ibv_exp_get_provider_func(&context, IBV_EXP_POST_SEND_FUNC);
}

static long create_dct(void)
{
	struct ibv_exp_dct_init_attr attr = {.pd = &pd};

	return (long)ibv_exp_create_dct(&context, &attr);
}

static long destroy_dct(void)
{
	return ibv_exp_destroy_dct(&dct);
}

static long query_dct(void)
{
	struct ibv_exp_dct_attr attr;

	return ibv_exp_query_dct(&dct, &attr);
}

static long arm_dct(void)
{
	struct ibv_exp_arm_attr attr = {.comp_mask = 0};

	return ibv_exp_arm_dct(&dct, &attr);
}

static long query_intf(void)
{
	enum ibv_exp_query_intf_status status = IBV_EXP_INTF_STAT_INVAL_OBJ;
	struct ibv_exp_query_intf_params params = {.intf = IBV_EXP_INTF_CQ, .obj = &cq};
	long ret = (long)ibv_exp_query_intf(&context, &params, &status);

	EXPECT(status == IBV_EXP_INTF_STAT_INVAL_OBJ, "the status was set");
	return ret;
}

static long alloc_dm(void)
{
	struct ibv_exp_alloc_dm_attr attr = {.length = 64};

	return (long)ibv_exp_alloc_dm(&context, &attr);
}

/* These two look at the mask before they look whose device it is. */
static long alloc_dm_mask(void)
{
	struct ibv_exp_alloc_dm_attr attr = {.length = 64,
					     .comp_mask = IBV_EXP_ALLOC_DM_ATTR_RESERVED};

	return (long)ibv_exp_alloc_dm(&context, &attr);
}

static long memcpy_dm_mask(void)
{
	struct ibv_exp_memcpy_dm_attr attr = {.comp_mask = IBV_EXP_DM_CPY_COMP_MASK_RESERVED};

	return ibv_exp_memcpy_dm(&dm, &attr);
}

static long bind_mw_mask(void)
{
	struct ibv_exp_mw_bind bind = {.qp = &qp, .mw = &mw, .comp_mask = IBV_EXP_BIND_MW_RESERVED};

	return ibv_exp_bind_mw(&bind);
}

static long use_priv_env(void)
{
	return ibv_exp_use_priv_env(&context);
}

static long poll_dc_info(void)
{
	struct ibv_exp_dc_info_ent entry;

	return ibv_exp_poll_dc_info(&context, &entry, 1, 1);
}

static long post_task(void)
{
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND}, *bad;

	return ibv_exp_post_task(&context, &task, &bad);
}

/* Of its own accord it does what the C library does. */
static long set_env(void)
{
	long ret = ibv_exp_setenv(&context, "ANYVERBS_TEST_SETTING", "1", 1);
	const char *value = getenv("ANYVERBS_TEST_SETTING");

	EXPECT(value && strcmp(value, "1") == 0, "not set");
	return ret;
}

static const struct {
	const char *name;
	long (*call)(void);
	long want;
	int want_errno;
} rows[] = {
	{"ibv_exp_post_send", post_send, -ENOSYS, UNTOUCHED},
	{"ibv_exp_poll_cq", poll_cq, -ENOSYS, UNTOUCHED},
	{"ibv_exp_query_device", query_device, ENOSYS, UNTOUCHED},
	{"ibv_exp_modify_cq", modify_cq, ENOSYS, UNTOUCHED},
	{"ibv_exp_query_gid_attr", query_gid_attr, ENOSYS, UNTOUCHED},
	{"ibv_exp_free_dm", free_dm, ENOSYS, UNTOUCHED},
	{"ibv_exp_memcpy_dm", memcpy_dm, ENOSYS, UNTOUCHED},
	{"ibv_exp_modify_qp", modify_qp, ENOSYS, ENOSYS},
	{"ibv_exp_bind_mw", bind_mw, ENOSYS, ENOSYS},
	{"ibv_exp_prefetch_mr", prefetch_mr, ENOSYS, ENOSYS},
	{"ibv_exp_rereg_mr", rereg_mr, ENOSYS, ENOSYS},
	{"ibv_exp_query_mkey", query_mkey, ENOSYS, ENOSYS},
	{"ibv_exp_dealloc_mkey_list_memory", dealloc_mkey_list_memory, ENOSYS, ENOSYS},
	{"ibv_exp_destroy_res_domain", destroy_res_domain, ENOSYS, ENOSYS},
	{"ibv_exp_release_intf", release_intf, ENOSYS, ENOSYS},
	{"ibv_exp_query_values", query_values, -ENOSYS, ENOSYS},
	{"ibv_exp_query_port", query_port, -ENOSYS, ENOSYS},
	{"ibv_exp_reg_mr", reg_mr, 0, ENOSYS},
	{"ibv_exp_reg_shared_mr", reg_shared_mr, 0, ENOSYS},
	{"ibv_exp_create_mr", create_mr, 0, ENOSYS},
	{"ibv_exp_alloc_mkey_list_memory", alloc_mkey_list_memory, 0, ENOSYS},
	{"ibv_exp_create_qp", create_qp, 0, ENOSYS},
	{"ibv_exp_create_cq", create_cq, 0, ENOSYS},
	{"ibv_exp_create_res_domain", create_res_domain, 0, ENOSYS},
	{"ibv_exp_create_srq", create_srq, 0, ENOSYS},
	{"ibv_exp_get_provider_func", get_provider_func, 0, ENOSYS},
	{"ibv_exp_create_dct", create_dct, 0, ENOSYS},
	{"ibv_exp_destroy_dct", destroy_dct, ENOSYS, ENOSYS},
	{"ibv_exp_query_dct", query_dct, ENOSYS, ENOSYS},
	{"ibv_exp_arm_dct", arm_dct, ENOSYS, ENOSYS},
	{"ibv_exp_query_intf", query_intf, 0, ENOSYS},
	{"ibv_exp_alloc_dm", alloc_dm, 0, UNTOUCHED},
	{"ibv_exp_alloc_dm, unknown mask", alloc_dm_mask, 0, EINVAL},
	{"ibv_exp_memcpy_dm, unknown mask", memcpy_dm_mask, EINVAL, EINVAL},
	{"ibv_exp_bind_mw, unknown mask", bind_mw_mask, ENOSYS, ENOSYS},
	{"ibv_exp_use_priv_env", use_priv_env, -1, ENOSYS},
	{"ibv_exp_poll_dc_info", poll_dc_info, -1, ENOSYS},
	{"ibv_exp_post_task", post_task, ENOSYS, ENOSYS},
	{"ibv_exp_setenv", set_env, 0, UNTOUCHED},
};

/* --- the one verb that is passed on: a queue pair with nothing but a domain ------- */

#define IN_FRONT   (1ul << 20)
#define OPERATIONS 512 /* more than a provider has */

static struct ibv_qp *provider_create_qp(struct ibv_pd *of, struct ibv_qp_init_attr *attr)
{
	attr->cap.max_send_wr = 77;
	return &qp;
}

/*
 * A context of libibverbs with nothing mapped in front of it. The provider's part is not public:
 * whatever place in it the operation has, it is there.
 */
static struct ibv_context *bare_context(void)
{
	static struct ibv_qp *(*operations[OPERATIONS])(struct ibv_pd *, struct ibv_qp_init_attr *);
	uint8_t *map = mmap(NULL, IN_FRONT + sizeof(struct verbs_context), PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct verbs_context *bare = (struct verbs_context *)(map + IN_FRONT);

	if (map == MAP_FAILED || mprotect(bare, sizeof(*bare), PROT_READ | PROT_WRITE))
		DIE("memory: errno %d", errno);
	for (int i = 0; i < OPERATIONS; i++)
		operations[i] = provider_create_qp;
	bare->priv = (void *)operations;
	bare->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	bare->context.device = &device;
	return &bare->context;
}

static void passed_on_row(void)
{
	struct ibv_pd bare_pd = {.context = bare_context()};
	struct ibv_exp_qp_init_attr attr = {.comp_mask = IBV_EXP_QP_INIT_ATTR_PD, .pd = &bare_pd};

	row("ibv_exp_create_qp, domain only: its provider's");
	EXPECT(ibv_exp_create_qp(bare_pd.context, &attr) == &qp, "not the provider's");
	EXPECT(attr.cap.max_send_wr == 77 && attr.comp_mask == IBV_EXP_QP_INIT_ATTR_PD,
	       "attributes");
}

int main(void)
{
	time_limit(200);
	passed_on_row();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		long ret;

		row("%s", rows[i].name);
		errno = UNTOUCHED;
		ret = rows[i].call();
		EXPECT(ret == rows[i].want && errno == rows[i].want_errno, "%ld, errno %d", ret,
		       errno);
	}
	return summary();
}
