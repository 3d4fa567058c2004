/* SPDX-License-Identifier: MIT */
int neighbour(void);

__attribute__((visibility("default"))) int neighbour(void)
{
	return 42;
}
