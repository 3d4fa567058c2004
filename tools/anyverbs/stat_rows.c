/* SPDX-License-Identifier: MIT */
#include "stat_rows.h"

#include <stdlib.h>
#include <string.h>

#include "observe/check.h"
#include "queue/objects.h"
#include "stat_mr.h"

/* --- columns --------------------------------------------------------------------- */

/* Does the scope show this ODP counter? Processes have no gauges of what is registered now. */
static bool has_odp(unsigned int scope, enum av_odp_counter which)
{
	return scope == AV_SCOPE_DEVICE ||
	       (scope == AV_SCOPE_PROCESS && !av_odp_counter_info[which].gauge);
}

unsigned int av_columns(unsigned int scope, struct av_column column[AV_COLUMNS_MAX])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < av_counter_count && count < AV_COLUMNS_MAX; i++) {
		const struct av_counter_info *c = &av_counter_info[i];

		if (c->scope & scope)
			column[count++] =
				(struct av_column){c->name, c->unit, c->help, c->gauge, c, 0};
	}
	for (unsigned int i = 0; i < AV_ODP_COUNTER_N && count < AV_COLUMNS_MAX; i++) {
		const struct av_odp_counter_info *c = &av_odp_counter_info[i];

		if (has_odp(scope, i))
			column[count++] =
				(struct av_column){c->name, c->unit, c->help, c->gauge, NULL, i};
	}
	return count;
}

const struct av_column *av_column_find(const struct av_column *column, unsigned int count,
				       const char *name)
{
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(column[i].name, name))
			return &column[i];
	return NULL;
}

uint64_t av_column_value(const struct av_column *column, const struct av_row *row)
{
	return column->info ? av_counter_value(column->info, &row->counted) : row->odp[column->odp];
}

/* --- rows ------------------------------------------------------------------------ */

struct gathering {
	struct av_rows *rows;
	const char *device;
};

static struct av_row *new_row(const struct gathering *g)
{
	struct av_rows *rows = g->rows;
	struct av_row *grown, *row;

	if (rows->count == rows->room) {
		grown = realloc(rows->list, (rows->room * 2 + 8) * sizeof(*grown));
		if (!grown) {
			rows->incomplete = true;
			return NULL;
		}
		rows->list = grown;
		rows->room = rows->room * 2 + 8;
	}
	row = &rows->list[rows->count++];
	memset(row, 0, sizeof(*row));
	row->device = g->device;
	return row;
}

static void label(struct av_row *row, const char *name, int64_t number, bool identity)
{
	row->label[row->labels++] = (struct av_label){name, NULL, number, identity};
}

static void label_text(struct av_row *row, const char *name, const char *text, bool identity)
{
	row->label[row->labels++] = (struct av_label){name, text, 0, identity};
}

static const char *word(unsigned int form, uint64_t value)
{
	const char *name = av_field_word(form, value);

	return name ? name : "?";
}

static void add_qp(const struct av_qp_info *info, void *arg)
{
	struct av_row *row = new_row(arg);

	if (!row)
		return;
	label(row, "pid", info->pid, true);
	label(row, "qpn", info->qpn, true);
	label_text(row, "type", word(AV_FIELD_TYPE, info->type), true);
	label_text(row, "state", word(AV_FIELD_STATE, info->state), false);
	label(row, "dest_qpn", info->dest_qpn, false);
	label(row, "send_cq", info->send_cq, true);
	label(row, "recv_cq", info->recv_cq, true);
	row->counted = info->counted;
}

static void add_cq(const struct av_cq_info *info, void *arg)
{
	struct av_row *row = new_row(arg);

	if (!row)
		return;
	label(row, "pid", info->pid, true);
	label(row, "cq", info->number, true);
	row->counted = info->counted;
}

static void add_process(const struct av_process_info *info, void *arg)
{
	struct av_row *row = new_row(arg);

	if (!row)
		return;
	label(row, "pid", info->pid, true);
	row->counted = info->counted;
	memcpy(row->odp, info->odp, sizeof(row->odp));
}

static void add_region(const struct av_region_info *info, void *arg)
{
	struct av_row *row = new_row(arg);

	if (!row)
		return;
	label(row, "pid", info->pid, true);
	label(row, "key", info->key, true);
	label(row, "address", (int64_t)info->addr, false);
	label(row, "length", (int64_t)info->length, false);
	label_text(row, "memory", av_region_memory_name(info->memory), false);
	label_text(row, "type", av_region_type(info), false);
	label_text(row, "shared", av_region_sharing(info), false);
	label(row, "huge_pages", (int64_t)info->huge, false);
	label(row, "small_pages", (int64_t)info->small, false);
	memcpy(row->counted.mr, info->counted, sizeof(row->counted.mr));
}

void av_rows_add(struct av_rows *rows, unsigned int scope, const struct av_device *dev)
{
	struct gathering g = {rows, dev->ibv.name};
	struct av_row *row;

	switch (scope) {
	case AV_SCOPE_QP:
		av_report_qps(g.device, add_qp, &g);
		break;
	case AV_SCOPE_CQ:
		av_report_cqs(g.device, add_cq, &g);
		break;
	case AV_SCOPE_MR:
		av_region_report(g.device, add_region, &g);
		break;
	case AV_SCOPE_PROCESS:
		av_report_processes(g.device, add_process, &g);
		break;
	default:
		row = new_row(&g);
		if (!row)
			break;
		av_report_device(g.device, &row->counted);
		av_odp_report(g.device, row->odp);
		break;
	}
}

void av_rows_free(struct av_rows *rows)
{
	free(rows->list);
	*rows = (struct av_rows){0};
}
