/* SPDX-License-Identifier: MIT */
/* Numbers of receive requests in five bits: the whole table of IBTA volume 1, 9.7.5.2.2. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/packet.h"

static const uint32_t table[] = {
	[0x00] = 0,	[0x01] = 1,    [0x02] = 2,     [0x03] = 3,     [0x04] = 4,
	[0x05] = 6,	[0x06] = 8,    [0x07] = 12,    [0x08] = 16,    [0x09] = 24,
	[0x0a] = 32,	[0x0b] = 48,   [0x0c] = 64,    [0x0d] = 96,    [0x0e] = 128,
	[0x0f] = 192,	[0x10] = 256,  [0x11] = 384,   [0x12] = 512,   [0x13] = 768,
	[0x14] = 1024,	[0x15] = 1536, [0x16] = 2048,  [0x17] = 3072,  [0x18] = 4096,
	[0x19] = 6144,	[0x1a] = 8192, [0x1b] = 12288, [0x1c] = 16384, [0x1d] = 24576,
	[0x1e] = 32768,
};

TEST(each_code)
{
	for (uint8_t code = 0; code < AV_ARRAY_SIZE(table); code++) {
		assert_int_equal(av_credits_of(code), table[code]);
		assert_int_equal(av_credits_code(table[code]), code);
	}
	assert_int_equal(av_credits_of(AV_CREDITS_NONE_CODE), AV_CREDITS_UNLIMITED);
}

TEST(rounded_down)
{
	for (uint32_t count = 0, code = 0; count <= 100000; count++) {
		if (code + 1 < AV_ARRAY_SIZE(table) && table[code + 1] == count)
			code++;
		assert_int_equal(av_credits_code(count), code);
	}
	assert_int_equal(av_credits_code(UINT32_MAX), AV_ARRAY_SIZE(table) - 1);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
