/* SPDX-License-Identifier: MIT */
#include "device/model.h"

#include <stddef.h>

#include "base/compiler.h"

const struct av_model av_model_own = {
	.firmware = AV_VERSION,
	.type = "anyverbs",
	.board = "anyverbs",
	.vendor = 0x00a5e7, /* made up: programs want something other than 0 */
	.part = 1,
	.revision = 1,
	.bus_vendor = 0xa5e7,
};

static const struct av_model profiles[] = {
	/* ConnectX-6 Dx, 100 Gb/s, of 2023. Verbs have the vendor's OUI, the bus its PCI number. */
	{
		.profile = "connectx",
		.prefix = "mlx5_",
		.firmware = "22.39.1002",
		.type = "MT4125",
		.board = "MT_0000000359",
		.vendor = 0x02c9,
		.part = 4125,
		.revision = 0,
		.bus_vendor = 0x15b3,
		.gids_paired = true,
		.names_host = true,
	},
};

const struct av_model *av_model_find(struct av_word profile)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(profiles); i++)
		if (av_word_is(profile, profiles[i].profile))
			return &profiles[i];
	return NULL;
}
