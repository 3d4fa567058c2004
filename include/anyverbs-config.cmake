# find_package(anyverbs): anyverbs::anyverbs, the library in front of libibverbs;
# anyverbs::exp, with the experimental verbs.
include(${CMAKE_CURRENT_LIST_DIR}/anyverbs-targets.cmake)
