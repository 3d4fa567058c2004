/* SPDX-License-Identifier: MIT */
/*
 * The guarded routines in assembly, and the table of their landings: docs/COPY.md.
 *
 * Leaving in the middle loses nothing: the three registers of a copy (destination, source, bytes
 * left) always describe what is left, because they advance only after a store. A block loads
 * everything before it stores anything, so ranges may overlap if the destination is the lower one.
 *
 * After a fault the copy continues at "careful": word by word, after a second fault byte by byte.
 * The third fault ends it, with everything before the first inaccessible byte copied.
 */
#include "copy/copy.h"

#if defined(__x86_64__)
#include <cpuid.h>

#define bit_ENHANCED_STRINGS (1u << 9) /* of EBX, leaf 7 */
#endif

/* clang-format off */

#define FUNCTION(name)                 \
	".globl " name "\n"            \
	".hidden " name "\n"           \
	".type " name ", %function\n"  \
	".p2align 6\n"                 \
	name ":\n"                     \
	".cfi_startproc\n"
#define END(name)                      \
	".cfi_endproc\n"               \
	".size " name ", . - " name "\n"
/* A label inside a function that the table refers to. */
#define PLACE(name)                    \
	".globl " name "\n"            \
	".hidden " name "\n"           \
	name ":\n"

#if defined(__x86_64__)

/* Copy @bytes and go on. The flags are those of the bytes left. */
#define STEP(load, to, store, from, bytes)     \
	load "\t(%rsi), " to "\n"              \
	store "\t" from ", (%rdi)\n"           \
	"addq	$" bytes ", %rsi\n"            \
	"addq	$" bytes ", %rdi\n"            \
	"subq	$" bytes ", %rdx\n"

/*
 * %rdi destination, %rsi source, %rdx bytes left.
 *
 * Stores become visible in program order on this machine, except in the two routines for large
 * copies. So ascending stores suffice. A 16-byte aligned vector store is atomic wherever AVX
 * exists, and nowhere else is it split within a word.
 */
__asm__(
".pushsection .text\n"
FUNCTION("av_raw_copy")
	"testb	$7, %dil\n"
	"jnz	.Lav_head\n"
".Lav_words:\n"
	"cmpq	$16, %rdx\n"
	"jae	.Lav_blocks\n"
	"testb	$8, %dl\n"
	"jz	.Lav_tail4\n"
".Lav_last_word:\n"
	"movq	(%rsi), %rax\n"
	"movq	%rax, (%rdi)\n"
	"andl	$7, %edx\n"
	"jz	.Lav_done\n"
	"addq	$8, %rsi\n"
	"addq	$8, %rdi\n"
".Lav_tail4:\n"
	"testb	$4, %dl\n"
	"jz	.Lav_tail2\n"
	"movl	(%rsi), %eax\n"
	"movl	%eax, (%rdi)\n"
	"subl	$4, %edx\n"
	"jz	.Lav_done\n"
	"addq	$4, %rsi\n"
	"addq	$4, %rdi\n"
".Lav_tail2:\n"
	"testb	$2, %dl\n"
	"jz	.Lav_tail1\n"
	"movzwl	(%rsi), %eax\n"
	"movw	%ax, (%rdi)\n"
	"subl	$2, %edx\n"
	"jz	.Lav_done\n"
	"addq	$2, %rsi\n"
	"addq	$2, %rdi\n"
".Lav_tail1:\n"
	"testb	$1, %dl\n"
	"jz	.Lav_done\n"
	"movzbl	(%rsi), %eax\n"
	"movb	%al, (%rdi)\n"
".Lav_done:\n"
	"xorl	%eax, %eax\n"
	"ret\n"

	/* Not on a word boundary. If too little is left for a step, the tail copies the rest. */
".Lav_head:\n"
	"testb	$1, %dil\n"
	"jz	.Lav_head2\n"
	"testq	%rdx, %rdx\n"
	"jz	.Lav_done\n"
	STEP("movzbl", "%eax", "movb", "%al", "1")
".Lav_head2:\n"
	"testb	$2, %dil\n"
	"jz	.Lav_head4\n"
	"cmpq	$2, %rdx\n"
	"jb	.Lav_tail1\n"
	STEP("movzwl", "%eax", "movw", "%ax", "2")
".Lav_head4:\n"
	"testb	$4, %dil\n"
	"jz	.Lav_words\n"
	"cmpq	$4, %rdx\n"
	"jb	.Lav_tail2\n"
	STEP("movl", "%eax", "movl", "%eax", "4")
	"jmp	.Lav_words\n"

	/* At least two words left: 64 bytes per turn, then as the low bits of the length say. */
".Lav_blocks:\n"
	"testb	$8, %dil\n"
	"jz	.Lav_blocks_aligned\n"
	STEP("movq", "%rax", "movq", "%rax", "8")
".Lav_blocks_aligned:\n"
	"cmpq	$64, %rdx\n"
	"jb	.Lav_block32\n"
	".p2align 4\n"
".Lav_block64:\n"
	"movdqu	(%rsi), %xmm0\n"
	"movdqu	16(%rsi), %xmm1\n"
	"movdqu	32(%rsi), %xmm2\n"
	"movdqu	48(%rsi), %xmm3\n"
	"movdqa	%xmm0, (%rdi)\n"
	"movdqa	%xmm1, 16(%rdi)\n"
	"movdqa	%xmm2, 32(%rdi)\n"
	"movdqa	%xmm3, 48(%rdi)\n"
	"addq	$64, %rsi\n"
	"addq	$64, %rdi\n"
	"subq	$64, %rdx\n"
	"cmpq	$64, %rdx\n"
	"jae	.Lav_block64\n"
".Lav_block32:\n"
	"testb	$32, %dl\n"
	"jz	.Lav_block16\n"
	"movdqu	(%rsi), %xmm0\n"
	"movdqu	16(%rsi), %xmm1\n"
	"movdqa	%xmm0, (%rdi)\n"
	"movdqa	%xmm1, 16(%rdi)\n"
	"addq	$32, %rsi\n"
	"addq	$32, %rdi\n"
	"subl	$32, %edx\n"
".Lav_block16:\n"
	"testb	$16, %dl\n"
	"jz	.Lav_block8\n"
	"movdqu	(%rsi), %xmm0\n"
	"movdqa	%xmm0, (%rdi)\n"
	"addq	$16, %rsi\n"
	"addq	$16, %rdi\n"
	"subl	$16, %edx\n"
".Lav_block8:\n"
	"testb	$8, %dl\n"
	"jnz	.Lav_last_word\n"
	"testl	%edx, %edx\n"
	"jz	.Lav_done\n"
	"jmp	.Lav_tail4\n"

PLACE("av_raw_careful")
	"testq	%rdx, %rdx\n"
	"jz	.Lav_done\n"
	"testb	$7, %dil\n"
	"jnz	.Lav_careful_byte\n"
	"cmpq	$8, %rdx\n"
	"jb	.Lav_careful_byte\n"
	STEP("movq", "%rax", "movq", "%rax", "8")
	"jmp	av_raw_careful\n"
".Lav_careful_byte:\n"
	STEP("movzbl", "%eax", "movb", "%al", "1")
	"jmp	av_raw_careful\n"

PLACE("av_raw_bytes")
	STEP("movzbl", "%eax", "movb", "%al", "1")
	"jnz	av_raw_bytes\n"
	"jmp	.Lav_done\n"
END("av_raw_copy")

FUNCTION("av_raw_load")
	"movzbl	(%rdi), %eax\n"
	"xorl	%eax, %eax\n"
	"ret\n"
END("av_raw_load")

FUNCTION("av_raw_touch")
	"lock addb $0, (%rdi)\n"
	"xorl	%eax, %eax\n"
	"ret\n"
END("av_raw_touch")

	/* Both return the status in %rax and the old value in %rdx. */
FUNCTION("av_raw_fetch_add")
	"lock xaddq %rsi, (%rdi)\n"
	"movq	%rsi, %rdx\n"
	"xorl	%eax, %eax\n"
	"ret\n"
END("av_raw_fetch_add")

FUNCTION("av_raw_cmp_swap")
	"movq	%rsi, %rax\n"
	"lock cmpxchgq %rdx, (%rdi)\n"
	"movq	%rax, %rdx\n"
	"xorl	%eax, %eax\n"
	"ret\n"
PLACE("av_raw_end")
PLACE("av_raw_failed")
	"movq	$-1, %rax\n"
	"ret\n"
END("av_raw_cmp_swap")

	/* 32-byte vectors; av_raw_copy does the beginning and the end. */
FUNCTION("av_raw_copy_wide")
	"testb	$1, %dil\n"
	"jz	.Lav_wide2\n"
	STEP("movzbl", "%eax", "movb", "%al", "1")
".Lav_wide2:\n"
	"testb	$2, %dil\n"
	"jz	.Lav_wide4\n"
	STEP("movzwl", "%eax", "movw", "%ax", "2")
".Lav_wide4:\n"
	"testb	$4, %dil\n"
	"jz	.Lav_wide8\n"
	STEP("movl", "%eax", "movl", "%eax", "4")
".Lav_wide8:\n"
	"testb	$8, %dil\n"
	"jz	.Lav_wide16\n"
	STEP("movq", "%rax", "movq", "%rax", "8")
".Lav_wide16:\n"
	"testb	$16, %dil\n"
	"jz	.Lav_wide32\n"
	"movdqu	(%rsi), %xmm0\n"
	"movdqa	%xmm0, (%rdi)\n"
	"addq	$16, %rsi\n"
	"addq	$16, %rdi\n"
	"subq	$16, %rdx\n"
".Lav_wide32:\n"
	"subq	$128, %rdx\n"
	".p2align 5\n"
PLACE("av_raw_wide_loop")
	"vmovdqu (%rsi), %ymm0\n"
	"vmovdqu 32(%rsi), %ymm1\n"
	"vmovdqu 64(%rsi), %ymm2\n"
	"vmovdqu 96(%rsi), %ymm3\n"
	"vmovdqa %ymm0, (%rdi)\n"
	"vmovdqa %ymm1, 32(%rdi)\n"
	"vmovdqa %ymm2, 64(%rdi)\n"
	"vmovdqa %ymm3, 96(%rdi)\n"
	"subq	$-128, %rsi\n"
	"subq	$-128, %rdi\n"
	"subq	$128, %rdx\n"
	"jae	av_raw_wide_loop\n"
PLACE("av_raw_wide_end")
	"vzeroupper\n"
	"subq	$-128, %rdx\n"
	"jmp	av_raw_copy\n"
PLACE("av_raw_wide_failed")
	"vzeroupper\n"
	"subq	$-128, %rdx\n"
	"jmp	av_raw_careful\n"
END("av_raw_copy_wide")

	/* Whole words in any order, by the string instruction. %rcx counts them down. */
FUNCTION("av_raw_copy_string")
	"movq	%rdx, %rcx\n"
	"shrq	$3, %rcx\n"
PLACE("av_raw_string_loop")
	"rep movsq\n"
PLACE("av_raw_string_end")
	"xorl	%eax, %eax\n"
	"ret\n"
PLACE("av_raw_string_failed")
	"leaq	(,%rcx,8), %rdx\n"
	"jmp	av_raw_careful\n"
END("av_raw_copy_string")

	/* Past the caches. Only a fence orders such stores, so every way out has one. */
FUNCTION("av_raw_copy_stream")
PLACE("av_raw_stream_loop")
	"vmovdqu (%rsi), %ymm0\n"
	"vmovdqu 32(%rsi), %ymm1\n"
	"vmovdqu 64(%rsi), %ymm2\n"
	"vmovdqu 96(%rsi), %ymm3\n"
	"vmovntdq %ymm0, (%rdi)\n"
	"vmovntdq %ymm1, 32(%rdi)\n"
	"vmovntdq %ymm2, 64(%rdi)\n"
	"vmovntdq %ymm3, 96(%rdi)\n"
	"subq	$-128, %rsi\n"
	"subq	$-128, %rdi\n"
	"addq	$-128, %rdx\n"
	"jnz	av_raw_stream_loop\n"
PLACE("av_raw_stream_end")
	"vzeroupper\n"
	"sfence\n"
	"xorl	%eax, %eax\n"
	"ret\n"
PLACE("av_raw_stream_failed")
	"vzeroupper\n"
	"sfence\n"
	"jmp	av_raw_careful\n"
END("av_raw_copy_stream")
".popsection\n"
);

/* "Enhanced REP MOVSB/STOSB" (Intel SDM volume 2, CPUID): string instructions move whole lines. */
bool av_raw_string_usable(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx & bit_ENHANCED_STRINGS;
}

#elif defined(__aarch64__)

/* Copy @bytes and go on. The flags are those of the bytes left. */
#define STEP(load, word, store, bytes)          \
	load "\t" word ", [x1]\n"              \
	store "\t" word ", [x0]\n"             \
	"add	x1, x1, #" bytes "\n"          \
	"add	x0, x0, #" bytes "\n"          \
	"subs	x2, x2, #" bytes "\n"

/*
 * x0 destination, x1 source, x2 bytes left.
 *
 * This machine may reorder stores. The last (partial) word, and every store of less than a word,
 * uses store-release, which becomes visible after everything before it. Words and blocks before the
 * last word have no order among themselves. Aligned X registers, also in pairs, are never torn
 * (single-copy atomicity).
 */
__asm__(
".pushsection .text\n"
FUNCTION("av_raw_copy")
	/* There are no others for large copies. */
PLACE("av_raw_copy_wide")
PLACE("av_raw_copy_string")
PLACE("av_raw_copy_stream")
	"hint	#34\n" /* bti c */
	"tst	x0, #7\n"
	"b.ne	.Lav_head\n"
".Lav_words:\n"
	"cmp	x2, #64\n"
	"b.ls	.Lav_word\n"
	".p2align 4\n"
".Lav_block64:\n" /* while more than 64 are left, so that the last word is never in a block */
	"ldp	x3, x4, [x1]\n"
	"ldp	x5, x6, [x1, #16]\n"
	"ldp	x7, x8, [x1, #32]\n"
	"ldp	x9, x10, [x1, #48]\n"
	"stp	x3, x4, [x0]\n"
	"stp	x5, x6, [x0, #16]\n"
	"stp	x7, x8, [x0, #32]\n"
	"stp	x9, x10, [x0, #48]\n"
	"add	x1, x1, #64\n"
	"add	x0, x0, #64\n"
	"sub	x2, x2, #64\n"
	"cmp	x2, #64\n"
	"b.hi	.Lav_block64\n"
".Lav_word:\n"
	"cmp	x2, #8\n"
	"b.ls	.Lav_last_word\n"
	STEP("ldr", "x3", "str", "8")
	"b	.Lav_word\n"
".Lav_last_word:\n"
	"b.ne	.Lav_tail4\n"
	"ldr	x3, [x1]\n"
	"stlr	x3, [x0]\n"
	"mov	w0, #0\n"
	"ret\n"
".Lav_tail4:\n"
	"tbz	w2, #2, .Lav_tail2\n"
	STEP("ldr", "w3", "stlr", "4")
".Lav_tail2:\n"
	"tbz	w2, #1, .Lav_tail1\n"
	STEP("ldrh", "w3", "stlrh", "2")
".Lav_tail1:\n"
	"tbz	w2, #0, .Lav_done\n"
	"ldrb	w3, [x1]\n"
	"stlrb	w3, [x0]\n"
".Lav_done:\n"
	"mov	w0, #0\n"
	"ret\n"

	/* Not on a word boundary. If too little is left for a step, the tail copies the rest. */
".Lav_head:\n"
	"tbz	w0, #0, .Lav_head2\n"
	"cbz	x2, .Lav_done\n"
	STEP("ldrb", "w3", "stlrb", "1")
".Lav_head2:\n"
	"tbz	w0, #1, .Lav_head4\n"
	"cmp	x2, #2\n"
	"b.lo	.Lav_tail1\n"
	STEP("ldrh", "w3", "stlrh", "2")
".Lav_head4:\n"
	"tbz	w0, #2, .Lav_words\n"
	"cmp	x2, #4\n"
	"b.lo	.Lav_tail2\n"
	STEP("ldr", "w3", "stlr", "4")
	"b	.Lav_words\n"

PLACE("av_raw_careful")
	"cbz	x2, .Lav_done\n"
	"tst	x0, #7\n"
	"b.ne	.Lav_careful_byte\n"
	"cmp	x2, #8\n"
	"b.lo	.Lav_careful_byte\n"
	STEP("ldr", "x3", "stlr", "8")
	"b	av_raw_careful\n"
".Lav_careful_byte:\n"
	STEP("ldrb", "w3", "stlrb", "1")
	"b	av_raw_careful\n"

PLACE("av_raw_bytes")
	STEP("ldrb", "w3", "stlrb", "1")
	"b.ne	av_raw_bytes\n"
	"b	.Lav_done\n"
END("av_raw_copy")

FUNCTION("av_raw_load")
	"hint	#34\n"
	"ldrb	w1, [x0]\n"
	"mov	w0, #0\n"
	"ret\n"
END("av_raw_load")

FUNCTION("av_raw_touch")
	"hint	#34\n"
".Lav_touch:\n"
	"ldaxrb	w1, [x0]\n"
	"stlxrb	w2, w1, [x0]\n"
	"cbnz	w2, .Lav_touch\n"
	"mov	w0, #0\n"
	"ret\n"
END("av_raw_touch")

	/* Both return the status in x0 and the old value in x1. */
FUNCTION("av_raw_fetch_add")
	"hint	#34\n"
".Lav_add:\n"
	"ldaxr	x2, [x0]\n"
	"add	x3, x2, x1\n"
	"stlxr	w4, x3, [x0]\n"
	"cbnz	w4, .Lav_add\n"
	"dmb	ish\n"
	"mov	x1, x2\n"
	"mov	x0, #0\n"
	"ret\n"
END("av_raw_fetch_add")

	/* Stores the old value if the comparison fails: write permission decides either way. */
FUNCTION("av_raw_cmp_swap")
	"hint	#34\n"
".Lav_swap:\n"
	"ldaxr	x3, [x0]\n"
	"cmp	x3, x1\n"
	"csel	x4, x2, x3, eq\n"
	"stlxr	w5, x4, [x0]\n"
	"cbnz	w5, .Lav_swap\n"
	"dmb	ish\n"
	"mov	x1, x3\n"
	"mov	x0, #0\n"
	"ret\n"
PLACE("av_raw_end")
PLACE("av_raw_failed")
	"mov	x0, #-1\n"
	"ret\n"
END("av_raw_cmp_swap")
".popsection\n"
);

bool av_raw_string_usable(void)
{
	return false;
}

#else
#error "copy_raw: no copy routine for this machine"
#endif

/* clang-format on */

#define CODE extern const char __attribute__((visibility("hidden")))
CODE av_raw_careful[], av_raw_bytes[], av_raw_end[], av_raw_failed[];
#if defined(__x86_64__)
CODE av_raw_wide_loop[], av_raw_wide_end[], av_raw_wide_failed[];
CODE av_raw_string_loop[], av_raw_string_end[], av_raw_string_failed[];
CODE av_raw_stream_loop[], av_raw_stream_end[], av_raw_stream_failed[];
#endif

/* In memory the routines follow each other as in this file, from av_raw_copy to av_raw_end. */
const struct av_copy_range av_copy_ranges[] = {
	{(const char *)av_raw_copy, av_raw_careful, av_raw_careful},
	{av_raw_careful, av_raw_bytes, av_raw_bytes},
	{av_raw_bytes, av_raw_end, av_raw_failed},
#if defined(__x86_64__)
	{(const char *)av_raw_copy_wide, av_raw_wide_loop, av_raw_careful},
	{av_raw_wide_loop, av_raw_wide_end, av_raw_wide_failed},
	{av_raw_string_loop, av_raw_string_end, av_raw_string_failed},
	{av_raw_stream_loop, av_raw_stream_end, av_raw_stream_failed},
#endif
};
const size_t av_copy_range_count = AV_ARRAY_SIZE(av_copy_ranges);
