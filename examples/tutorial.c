/* SPDX-License-Identifier: MIT */
/* docs/TUTORIAL.md explains this program: a queue pair talks to itself, and the device counts what
 * it takes.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>

#define PAGES 16
#define SIZE  (PAGES * 4096UL)

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* A statistic of the first device, where adapters have it. */
static long counter(const char *name)
{
	char path[128];
	FILE *file;
	long value = -1;

	snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/uverbs0/%s", name);
	file = fopen(path, "r");
	must(file && fscanf(file, "%ld", &value) == 1 && fclose(file) == 0, path);
	return value;
}

/* What the device has counted since the first report, which is of programs before this one. */
static void report(const char *when)
{
	static const char *const name[4] = {"num_page_faults", "num_page_fault_pages",
					    "num_prefetch_pages", "num_invalidation_pages"};
	static long before[4];
	long since[4];

	for (int i = 0; i < 4; i++) {
		since[i] = counter(name[i]) - before[i];
		before[i] += when ? 0 : since[i];
	}
	if (when)
		printf("%-22s %2ld faults of %2ld pages, %2ld pages prefetched, %2ld invalidated\n",
		       when, since[0], since[1], since[2], since[3]);
}

static struct ibv_qp *connect_to_itself(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1},
	};

	must(qp != NULL, "ibv_create_qp");
	attr.dest_qp_num = qp->qp_num;
	must(ibv_query_gid(pd->context, 1, 0, &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
		     0,
	     "INIT");
	attr.qp_state = IBV_QPS_RTR;
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0,
	     "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	     "RTS");
	return qp;
}

/* RDMA WRITE all of @from to @to, and wait until it is done. */
static void rdma_write(struct ibv_qp *qp, struct ibv_mr *from, struct ibv_mr *to)
{
	struct ibv_sge sge = {(uintptr_t)from->addr, SIZE, from->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
	wr.wr.rdma.rkey = to->rkey;
	must(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
	while ((n = ibv_poll_cq(qp->send_cq, 1, &wc)) == 0)
		;
	if (n != 1 || wc.status != IBV_WC_SUCCESS)
		errx(1, "%s", ibv_wc_status_str(n == 1 ? wc.status : IBV_WC_GENERAL_ERR));
}

static char *new_pages(void)
{
	char *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(pages != MAP_FAILED, "mmap");
	return pages;
}

int main(void)
{
	const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	char *first = new_pages(), *second = new_pages(), *lazy = new_pages();

	must(context != NULL, "no device");
	printf("device %s\n", ibv_get_device_name(list[0]));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp *qp = connect_to_itself(pd, cq);

	/* Register, and write. */
	char *source = new_pages();
	struct ibv_mr *from = ibv_reg_mr(pd, source, SIZE, 0);
	struct ibv_mr *to = ibv_reg_mr(pd, first, SIZE, remote);
	must(from && to, "ibv_reg_mr");
	strcpy(source, "hello");
	rdma_write(qp, from, to);
	printf("first buffer: %s\n", first);

	/* Re-register: other memory, the same keys. */
	uint32_t rkey = to->rkey;
	must(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, SIZE, 0) == 0,
	     "ibv_rereg_mr");
	rdma_write(qp, from, to);
	printf("second buffer: %s, rkey %s\n", second, to->rkey == rkey ? "unchanged" : "changed");

	/* On demand: nothing is brought in before it is accessed. */
	struct ibv_mr *odp = ibv_reg_mr(pd, lazy, SIZE, remote | IBV_ACCESS_ON_DEMAND);
	must(odp != NULL, "ibv_reg_mr on demand");
	report(NULL);
	report("registered on demand");
	rdma_write(qp, from, odp);
	report("written");
	rdma_write(qp, from, odp);
	report("written again");

	/* The pages go away, and are prefetched. */
	must(madvise(lazy, SIZE, MADV_DONTNEED) == 0, "madvise");
	report("pages dropped");
	struct ibv_sge range = {(uintptr_t)lazy, SIZE, odp->lkey};
	must(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			   &range, 1) == 0,
	     "ibv_advise_mr");
	report("prefetched");
	rdma_write(qp, from, odp);
	report("written, no fault");
	printf("on-demand buffer: %s\n", lazy);

	must(!ibv_destroy_qp(qp) && !ibv_dereg_mr(odp) && !ibv_dereg_mr(to) && !ibv_dereg_mr(from),
	     "destroying");
	must(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "closing");
	ibv_free_device_list(list);
	return 0;
}
