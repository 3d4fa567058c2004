/* SPDX-License-Identifier: MIT */
/*
 * What dlopen() and dlmopen() give to a program under the library: this library for libibverbs, in
 * any spelling, and everything else as without it. And what threads do meanwhile.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/wait.h"

#define SOON 30000u /* ms: longer than a thread takes to leave */

typedef struct ibv_device **list_function(int *);

/* Whose is the symbol? */
static bool is_ours(void *symbol)
{
	Dl_info info;

	return symbol && dladdr(symbol, &info) && strstr(info.dli_fname, "libanyverbs");
}

static bool is_the_systems(void *symbol)
{
	Dl_info info;

	return symbol && dladdr(symbol, &info) && strstr(info.dli_fname, "libibverbs");
}

static void every_spelling(void)
{
	static const char *const names[] = {
		"libibverbs.so",	   "libibverbs.so.1",
		"libibverbs.so.1.14.44.0", "/usr/lib/libibverbs.so.1",
		"./libibverbs.so",	   "/nowhere/at/all/libibverbs.so.1",
	};
	static const int modes[] = {RTLD_NOW, RTLD_LAZY | RTLD_GLOBAL, RTLD_NOW | RTLD_NOLOAD,
				    SANITIZED ? RTLD_NOW : RTLD_NOW | RTLD_DEEPBIND};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
			void *handle = dlopen(names[i], modes[m]);

			EXPECT(handle, "%s, mode %x: %s", names[i], modes[m], dlerror());
			EXPECT(is_ours(dlsym(handle, "ibv_get_device_list")), "%s", names[i]);
			EXPECT(dlclose(handle) == 0, "dlclose()");
			handle = dlmopen(LM_ID_BASE, names[i], modes[m]);
			EXPECT(is_ours(dlsym(handle, "ibv_get_device_list")), "dlmopen: %s",
			       names[i]);
			EXPECT(dlclose(handle) == 0, "dlclose()");
		}
}

static void other_names(void)
{
	static const char *const names[] = {"libibverbs.so.1x", "libibverbsx.so.1",  "libibverbs",
					    "xlibibverbs.so.1", "libibverbs.so/nix", "libnix.so"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *why;

		EXPECT(!dlopen(names[i], RTLD_NOW), "%s was opened", names[i]);
		why = dlerror();
		EXPECT(why && strstr(why, names[i]), "%s: %s", names[i], why ? why : "no error");
	}
}

static void versions(void)
{
	static const struct {
		const char *name, *version;
		bool ours;
	} rows[] = {
		{"ibv_get_device_list", "IBVERBS_1.1", true},
		{"ibv_open_device", "IBVERBS_1.1", true},
		{"ibv_reg_mr", "IBVERBS_1.1", true},
		{"ibv_reg_mr_iova2", "IBVERBS_1.8", true},
		{"ibv_query_ece", "IBVERBS_1.10", true},
		{"ibv_event_type_str", "IBVERBS_1.1", false},
		{"ibv_get_device_list", "IBVERBS_1.0", false}, /* of the first programs of all */
		{"ibv_register_driver", "IBVERBS_1.1", false},
	};
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *symbol = dlvsym(handle, rows[i].name, rows[i].version);

		EXPECT(rows[i].ours ? is_ours(symbol) : is_the_systems(symbol), "%s@%s: %p",
		       rows[i].name, rows[i].version, symbol);
	}
	EXPECT(!dlvsym(handle, "ibv_reg_mr", "IBVERBS_9.9"), "a version that nobody has");
	EXPECT(is_the_systems(dlsym(handle, "ibv_cmd_alloc_pd")), "a provider's symbol");
	dlclose(handle);
}

/* As programs do that know verbs by dlsym() only. */
static void the_device(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW);
	list_function *list = (list_function *)dlsym(handle, "ibv_get_device_list");
	__typeof__(&ibv_open_device) open =
		(__typeof__(&ibv_open_device))dlsym(handle, "ibv_open_device");
	__typeof__(&ibv_close_device) close =
		(__typeof__(&ibv_close_device))dlsym(handle, "ibv_close_device");
	__typeof__(&ibv_free_device_list) free_list =
		(__typeof__(&ibv_free_device_list))dlsym(handle, "ibv_free_device_list");
	struct ibv_device **devices;
	struct ibv_context *context;
	int count;

	NEED(list && open && close && free_list);
	devices = list(&count);
	NEED(devices && count == 1);
	EXPECT(!strcmp(devices[0]->name, "any0"), "%s", devices[0]->name);
	context = open(devices[0]);
	EXPECT(context && close(context) == 0, "opening and closing it");
	free_list(devices);
	dlclose(handle);
}

static void a_namespace_of_its_own(void)
{
	void *math = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW), *verbs;
	Lmid_t namespace;

	EXPECT(math && dlsym(math, "cos") && dlsym(math, "cos") != dlsym(RTLD_DEFAULT, "cos"),
	       "libm in another namespace: %s", dlerror());
	NEED(math && dlinfo(math, RTLD_DI_LMID, &namespace) == 0);
	EXPECT(namespace != LM_ID_BASE, "the namespace");
	verbs = dlmopen(namespace, "libibverbs.so.1", RTLD_NOW);
	EXPECT(verbs && is_the_systems(dlsym(verbs, "ibv_get_device_list")),
	       "libibverbs in another namespace: %s", dlerror());
	dlclose(verbs);
	dlclose(math);
}

/* Exported, to be found in the program itself. */
int of_the_program(void);
__attribute__((visibility("default"))) int of_the_program(void)
{
	return 1;
}

static void the_program_itself(void)
{
	void *handle = dlopen(NULL, RTLD_NOW), *empty = dlopen("", RTLD_NOW);

	EXPECT(handle && dlsym(handle, "of_the_program") == (void *)of_the_program, "dlopen(NULL)");
	EXPECT(empty == handle, "dlopen(\"\")");
}

static void is_neighbour(void *handle)
{
	int (*neighbour)(void) = (int (*)(void))(handle ? dlsym(handle, "neighbour") : NULL);

	EXPECT(neighbour && neighbour() == 42, "%s", handle ? "its symbol" : "not found");
}

static void by_the_callers_runpath(void)
{
	void *opener, *early, *(*open_neighbour)(void);

	EXPECT(!dlopen("libtest_neighbour.so", RTLD_NOW), "the program finds it as well");
	opener = dlopen(OPENER, RTLD_NOW);
	NEED(opener);
	open_neighbour = (void *(*)(void))dlsym(opener, "open_neighbour");
	NEED(open_neighbour);
	is_neighbour(open_neighbour());
	early = dlopen(EARLY_OPENER, RTLD_NOW);
	NEED(early);
	is_neighbour(*(void **)dlsym(early, "opened_early"));
}

/* A function of ours waits for no lock of the dynamic linker's, not the first time either. */
static void beside_a_loader(void)
{
	void *waiter = dlopen(WAITER, RTLD_NOW);
	const bool *went_on = waiter ? dlsym(waiter, "thread_went_on") : NULL;

	NEED(went_on);
	EXPECT(*went_on, "a thread waits for a library that waits for it");
}

static const struct {
	const char *name;
	void (*run)(void);
	bool sanitizers_jump; /* it needs the caller's address, which their own dlopen() hides */
} rows[] = {
	/* First, since it calls functions for the first time. */
	{"a library that waits for a thread", beside_a_loader, true},
	{"every spelling of libibverbs", every_spelling, true},
	{"names that are not libibverbs", other_names, true},
	{"versions of symbols", versions, true},
	{"a device by dlsym() alone", the_device, true},
	{"another namespace", a_namespace_of_its_own, !SANITIZED},
	{"the program itself", the_program_itself, true},
	{"the caller's RUNPATH", by_the_callers_runpath, !SANITIZED},
};

int main(void)
{
	sandbox_begin(60);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!rows[i].sanitizers_jump)
			continue;
		row("%s", rows[i].name);
		rows[i].run();
	}
	EXPECT(WAIT_UNTIL(sandbox_entries() == 0, SOON), "a thread of ours stays");
	return sandbox_end();
}
