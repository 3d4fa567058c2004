/* SPDX-License-Identifier: MIT */
/* "anyverbs run": a program with the library preloaded. Nothing stays between the two: the tool
 * becomes it.
 */
#include "command.h"
#include "launch.h"

static int run_main(int argc, char **argv)
{
	(void)argc;
	return av_launch_prepare() ? av_launch(argv) : AV_EXIT_RUN_FAILED;
}

static const struct av_option options[] = {AV_LAUNCH_OPTIONS, {.name = NULL}};

const struct av_command av_command_run = {
	.name = "run",
	.summary = "Run a program that then sees anyverbs' devices",
	.operands = "[--] PROGRAM [ARGUMENT]...",
	.least = 1,
	.most = AV_ANY_NUMBER,
	.options = options,
	.details =
		"SPEC is NAME[:KEY=VALUE]..., for example mlx5_0:link=infiniband:lid=7, or\n"
		"connectx:8 for that many devices like those of ConnectX adapters; see\n"
		"anyverbs_config(5).\n"
		"The program's exit status, or 125 if anyverbs fails, 126 if the program cannot\n"
		"be executed, 127 if it is not found.\n",
	.examples = "anyverbs run -- ibv_devinfo\n"
		    "anyverbs run -d mlx5_0:mtu=1024 -- ibv_devinfo -d mlx5_0\n",
	.misuse = AV_EXIT_RUN_FAILED,
	.runs = true,
	.main = run_main,
};
