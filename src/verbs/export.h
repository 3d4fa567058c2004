/* SPDX-License-Identifier: MIT */
/*
 * Exported symbols. Everything is hidden (-fvisibility=hidden) but what carries AV_EXPORT. Names
 * listed in libanyverbs.map get the field's version nodes (IBVERBS_1.0 ...); an exported name that
 * is not listed stays unversioned, and the dynamic linker lets it satisfy a reference with any
 * version: that is how the few private or C library symbols that we answer for are provided without
 * depending on one release's version name.
 */
#ifndef AV_VERBS_EXPORT_H
#define AV_VERBS_EXPORT_H

#define AV_EXPORT __attribute__((visibility("default")))

/**
 * av_next() - the definition of a public verb behind ours: the system's libibverbs
 * @version: its version node, e.g. "IBVERBS_1.1"; NULL for the default version
 * Return:   function pointer, or NULL if that library is too old to have it
 */
void *av_next(const char *name, const char *version);

/* The same as a typed expression, looked up once: AV_NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context). */
#define AV_NEXT(name, version)                                                               \
	({                                                                                   \
		static void *next_;                                                          \
		if (!__atomic_load_n(&next_, __ATOMIC_RELAXED))                              \
			__atomic_store_n(&next_, av_next(#name, version), __ATOMIC_RELAXED); \
		(__typeof__(&(name)))__atomic_load_n(&next_, __ATOMIC_RELAXED);              \
	})

/*
 * A call of a verb that the library behind us may be too old to have; @missing: the value then.
 * AV_NEXT_OR(av_fail_null(EOPNOTSUPP), ibv_alloc_dmah, "IBVERBS_1.15", context, attr)
 */
#define AV_NEXT_OR(missing, name, version, ...)                    \
	({                                                         \
		__typeof__(&name) newer_ = AV_NEXT(name, version); \
		newer_ ? newer_(__VA_ARGS__) : (missing);          \
	})

#endif
