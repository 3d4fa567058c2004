# av_warnings(TARGET): the warnings every file of the project is built with.
# av_sanitizers(TARGET [LIST]): instrument for "address+undefined" or "thread".
function(av_warnings target)
  target_compile_options(${target} INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla
    -Wimplicit-fallthrough -Wformat=2 -Wwrite-strings -Wno-unused-parameter
    $<$<C_COMPILER_ID:GNU>:-Wlogical-op -Wduplicated-cond>)
  # GCC 11 warns of designated initializers, too, if a compound literal or a statement expression
  # is among them.
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
    target_compile_options(${target} INTERFACE -Wno-missing-field-initializers)
  endif()
  if(AV_WERROR)
    target_compile_options(${target} INTERFACE -Werror)
  endif()
endfunction()

function(av_sanitizers target)
  set(kind "${ARGN}")
  if(kind STREQUAL "")
    return()
  elseif(kind STREQUAL "address+undefined")
    set(flags -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  elseif(kind STREQUAL "thread")
    set(flags -fsanitize=thread -fno-omit-frame-pointer)
  else()
    message(FATAL_ERROR "AV_SANITIZE: unknown kind '${kind}'")
  endif()
  target_compile_options(${target} INTERFACE ${flags})
  target_link_options(${target} INTERFACE ${flags})
endfunction()
