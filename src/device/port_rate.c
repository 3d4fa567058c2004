/* SPDX-License-Identifier: MIT */
#include "device/port_rate.h"

#include "base/compiler.h"

/* Number of lanes of a link width, by its code in PortInfo. */
static unsigned int lanes_of(uint8_t width)
{
	switch (width) {
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 1;
	}
}

struct av_port_rate av_port_rate(const struct ibv_port_attr *port)
{
	/*
	 * PortInfo's code of a link speed; the rate of a lane in 100 Mb/s, as the kernel has it;
	 * its name.
	 */
	static const struct {
		uint8_t code;
		unsigned int rate;
		const char *name;
	} speeds[] = {
		{1, 25, "SDR"},	  {2, 50, "DDR"},   {4, 100, "QDR"},  {8, 100, "FDR10"},
		{16, 140, "FDR"}, {32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"},
	};
	const unsigned int lanes = lanes_of(port->active_width);
	unsigned int i = 0;

	while (i < AV_ARRAY_SIZE(speeds) - 1 && speeds[i].code < port->active_speed)
		i++;
	return (struct av_port_rate){
		.lanes = lanes, .rate = speeds[i].rate * lanes, .name = speeds[i].name};
}
