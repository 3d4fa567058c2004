# av_newer_header(TARGET): define what the installed <infiniband/verbs.h> has beyond that of
# rdma-core 39. The library offers the same with either (src/base/newer_verbs.h); where the header
# has it, the two are compared.
include(CheckCSourceCompiles)

function(av_newer_header target)
  set(CMAKE_REQUIRED_INCLUDES ${IBVERBS_INCLUDE_DIRS})
  check_c_source_compiles("#include <infiniband/verbs.h>
    int main(void) { return IBV_WR_ATOMIC_WRITE; }" AV_HEADER_HAS_ATOMIC_WRITE)
  check_c_source_compiles("#include <infiniband/verbs.h>
    int main(void) { return IBV_WR_FLUSH; }" AV_HEADER_HAS_FLUSH)
  check_c_source_compiles("#include <infiniband/verbs.h>
    int main(void) { return IBV_REG_MR_MASK_DMAH; }" AV_HEADER_HAS_REG_MR_EX)
  check_c_source_compiles("#include <infiniband/verbs.h>
    int main(void) { return IBV_REG_MR_MASK_BUF; }" AV_HEADER_HAS_BUF)
  check_c_source_compiles("#include <infiniband/verbs.h>
    int main(void) { return IBV_COMP_CNTR_TYPE_WRS; }" AV_HEADER_HAS_COMP_CNTR)
  foreach(name AV_HEADER_HAS_ATOMIC_WRITE AV_HEADER_HAS_FLUSH AV_HEADER_HAS_REG_MR_EX
    AV_HEADER_HAS_BUF AV_HEADER_HAS_COMP_CNTR)
    if(${name})
      target_compile_definitions(${target} INTERFACE ${name})
    endif()
  endforeach()
endfunction()
