/* SPDX-License-Identifier: MIT */
/* What a line of "maps" says, wherever it lies in the text; and which part of a file it shows. */
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/region.h"

#define READ  PROT_READ
#define WRITE PROT_WRITE
#define EXEC  PROT_EXEC
#define TEXT  1024u /* bytes that are read at once */

static const struct {
	const char *line;
	uint64_t begin, end, offset;
	unsigned int major, minor;
	uint64_t inode;
	int rights;
	bool shared, anonymous;
} lines[] = {
	{"00001000-00002000 r--p 00000000 00:00 0 \n", 0x1000, 0x2000, 0, 0, 0, 0, READ, false,
	 true},
	{"00002000-00003000 rw-p 00000000 00:00 0 [heap]\n", 0x2000, 0x3000, 0, 0, 0, 0,
	 READ | WRITE, false, true},
	{"00005000-0000a000 r-xp 0000f000 fe:01 1234567890 /a b-c 1 rwxs\n", 0x5000, 0xa000, 0xf000,
	 0xfe, 1, 1234567890, READ | EXEC, false, false},
	{"7f9abcdef000-7f9abcdf0000 rw-s 7f0000000000 103:2a 9 /dev/zero (deleted)\n",
	 0x7f9abcdef000, 0x7f9abcdf0000, 0x7f0000000000, 0x103, 0x2a, 9, READ | WRITE, true, false},
	{"7f9abcdf0000-7f9abcdf1000 ---s 00000000 00:05 0\n", 0x7f9abcdf0000, 0x7f9abcdf1000, 0, 0,
	 5, 0, 0, true, false},
	{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0\n", 0xffffffffff600000,
	 0xffffffffff601000, 0, 0, 0, 0, EXEC, false, true},
};

static void expect(size_t i, int maps, uint64_t addr)
{
	struct av_vma vma;

	if (!av_vma_next(maps, addr, &vma) || vma.begin != lines[i].begin ||
	    vma.end != lines[i].end || vma.offset != lines[i].offset ||
	    vma.dev != makedev(lines[i].major, lines[i].minor) || vma.inode != lines[i].inode ||
	    av_vma_rights(&vma) != lines[i].rights || vma.shared != lines[i].shared ||
	    vma.anonymous != lines[i].anonymous)
		fail_msg("line %zu, from %#lx on", i, (unsigned long)addr);
}

/* Behind a name so long that each byte of a line is once the first of what is read at once. */
TEST(each_line_is_found)
{
	for (size_t fill = 0; fill < TEXT; fill++) {
		int maps = memfd_create("maps", MFD_CLOEXEC);
		struct av_vma vma;
		char name[TEXT];

		memset(name, 'x', sizeof(name));
		assert_true(maps >= 0);
		assert_int_equal(write(maps, "0-1 ---p 0 0:0 0 ", 17), 17);
		assert_int_equal(write(maps, name, fill), fill);
		assert_int_equal(write(maps, "\n", 1), 1);
		for (size_t i = 0; i < AV_ARRAY_SIZE(lines); i++)
			assert_int_equal(write(maps, lines[i].line, strlen(lines[i].line)),
					 strlen(lines[i].line));
		for (size_t i = 0; i < AV_ARRAY_SIZE(lines); i++) {
			expect(i, maps, i ? lines[i - 1].end : 1);
			expect(i, maps, lines[i].begin);
			expect(i, maps, lines[i].end - 1);
		}
		assert_false(av_vma_next(maps, lines[AV_ARRAY_SIZE(lines) - 1].end, &vma));
		assert_true(av_vma_next(maps, 0, &vma));
		assert_int_equal(vma.end, 1);
		assert_int_equal(vma.end, 1);
		close(maps);
	}
}

/* Of a range that is mapped without holes, and everywhere with the same rights. */
TEST(a_range_has_rights)
{
	static const char text[] = "10000-12000 rw-p 0 0:0 0 \n"
				   "12000-13000 rw-s 0 0:5 9 /a\n"
				   "13000-14000 r--p 0 0:0 0 \n"
				   "15000-16000 r--p 0 0:0 0 \n";
	int maps = memfd_create("maps", MFD_CLOEXEC);

	assert_int_equal(write(maps, text, strlen(text)), strlen(text));
	assert_int_equal(av_vma_rights_of(maps, 0x10000, 0x3000), READ | WRITE);
	assert_int_equal(av_vma_rights_of(maps, 0x11fff, 1), READ | WRITE);
	assert_int_equal(av_vma_rights_of(maps, 0x13000, 0x1000), READ);
	assert_int_equal(av_vma_rights_of(maps, 0x12fff, 2), -1);
	assert_int_equal(av_vma_rights_of(maps, 0x13000, 0x1001), -1);
	assert_int_equal(av_vma_rights_of(maps, 0x13000, 0x3000), -1);
	assert_int_equal(av_vma_rights_of(maps, 0xf000, 0x2000), -1);
	assert_int_equal(av_vma_rights_of(maps, 0x16000, 1), -1);
	close(maps);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
