# av_module(NAME [LOWER...]): the library av_NAME of all sources in src/NAME, which may use the
# LOWER modules. Linking enforces the layers: a module that calls upward does not link its tests.
function(av_module name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  add_library(av_${name} STATIC ${sources})
  target_link_libraries(av_${name} PUBLIC av_options)
  foreach(lower ${ARGN})
    target_link_libraries(av_${name} PUBLIC av_${lower})
  endforeach()
endfunction()
