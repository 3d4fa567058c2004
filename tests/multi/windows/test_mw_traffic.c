/* SPDX-License-Identifier: MIT */
/* That a memory window, and only that, is shut at once while another process writes through it. */
#include <string.h>

#include "lib/flood.h"
#include "mw_fixture.h"

#define FLOOD_BYTES 16384u

static struct flood flood;

enum shut { SHUT_UNBIND, SHUT_INVALIDATE, SHUT_FREE_1, SHUT_FREE_2, SHUT_REBIND, SHUT_N };

static void shut(enum shut how, struct ibv_mw *mw)
{
	switch (how) {
	case SHUT_UNBIND:
	case SHUT_INVALIDATE:
		unbind(QP_FLOOD, mw);
		break;
	case SHUT_REBIND:
		need_bind(QP_FLOOD, mw, R_PLAIN, FLOOD_BYTES, FLOOD_BYTES, ALL_REMOTE);
		break;
	default:
		free_window(mw);
	}
}

static bool only(uint64_t value)
{
	for (uint64_t i = 0; i < FLOOD_BYTES / 8; i++)
		if (((volatile uint64_t *)memory)[i] != value)
			return false;
	return true;
}

/* The bind's completion must be taken before the flood begins, and the end's while it runs: same
 * send CQ. */
static void shut_row(enum shut how)
{
	static const char *const names[] = {"unbound", "invalidated", "freed (type 1)",
					    "freed (type 2)", "bound elsewhere"};
	bool type2 = how == SHUT_INVALIDATE || how == SHUT_FREE_2;

	row("a window is %s while another process writes through it", names[how]);
	for (int i = 0; i < 15; i++) {
		struct ibv_mw *mw = window(type2 ? TYPE2 : TYPE1);
		struct flood_report report;

		need_bind(QP_FLOOD, mw, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
		flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)memory,
						      mw->rkey, FLOOD_BYTES});
		shut(how, mw);
		memset(memory, 0xff, FLOOD_BYTES);
		report = flood_until_failure(&flood);
		EXPECT(report.status == IBV_WC_REM_ACCESS_ERR, "'%s'",
		       ibv_wc_status_str(report.status));
		EXPECT(report.done > 0, "nothing was written before");
		EXPECT(only(UINT64_MAX), "written after it was shut");
		flood_reconnect(&flood);
		if (how != SHUT_FREE_1 && how != SHUT_FREE_2)
			free_window(mw);
	}
}

static void destroy_row(void)
{
	struct flood_report report;
	struct ibv_mw *mw = window(TYPE2);
	struct node_qp_spec spec = spec_default();

	row("the queue pair of a window is destroyed while another process writes through it");
	need_bind(QP_FLOOD, mw, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
	flood_go(&flood,
		 &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey, FLOOD_BYTES});
	EXPECT(node_destroy_qp(n, QP_FLOOD) == 0, "ibv_destroy_qp");
	memset(memory, 0xff, FLOOD_BYTES);
	report = flood_until_failure(&flood);
	EXPECT(report.status == IBV_WC_RETRY_EXC_ERR, "'%s'", ibv_wc_status_str(report.status));
	EXPECT(only(UINT64_MAX), "written after the queue pair was destroyed");
	free_window(mw);
	EXPECT(node_create_qp(n, QP_FLOOD, &spec) == 0, "ibv_create_qp");
	flood_reconnect(&flood);
}

static void steady_row(void)
{
	struct ibv_mw *mw = window(TYPE1), *other = window(TYPE2);
	struct flood_report report;

	row("a window is untouched by what happens to others of its region");
	need_bind(0, mw, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
	flood_go(&flood,
		 &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey, FLOOD_BYTES});
	for (int i = 0; i < 1000 && !flood_failed(&flood); i++) {
		need_bind(0, other, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
		unbind(0, other);
	}
	report = flood_stop(&flood);
	EXPECT(report.status == SUCCESS, "'%s'", ibv_wc_status_str(report.status));
	free_window(mw);
	free_window(other);
}

static void flood_rows(void)
{
	flood_start(&flood, &a, QP_FLOOD);
	for (enum shut how = SHUT_UNBIND; how < SHUT_N; how++)
		shut_row(how);
	destroy_row();
	steady_row();
	flood_end(&flood);
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, flood_rows);
}
