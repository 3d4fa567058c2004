# Programs of tests: one of many tests for each folder, which builds and links faster than one for
# each test, and some of one test alone.

# A test that is alone defines functions of the C library, of a sanitizer or of ours, or needs
# sources that others must not have.
set(tests_alone
  test_atomic_op test_copy_fork test_cq_events_model test_deferred_free test_descriptors
  test_dontfork test_fork test_fork_guard test_heap_handler test_heap_region test_hooks
  test_klm_copy test_klm_iter test_last_thread test_lock test_lock_order test_odp_implicit
  test_odp_register test_odp_touch test_odp_uffd test_pin test_poll test_populate
  test_revoke test_xfer test_xfer_atomic)

# The subjects of a folder's fixtures: SUBJECT_fixture.c is what test_SUBJECT.c and all
# test_SUBJECT_*.c beside it share.
file(GLOB fixtures CONFIGURE_DEPENDS unit/*/*_fixture.c multi/*/*_fixture.c exp/*_fixture.c)
set(fixture_root ${CMAKE_CURRENT_LIST_DIR})

# Sets ${fixture} to those that the test has, and ${subject} to that of the most tests; or both to
# "".
function(find_fixture source)
  get_filename_component(path ${source} ABSOLUTE)
  get_filename_component(test ${path} NAME_WE)
  get_filename_component(folder ${path} DIRECTORY)
  set(found)
  set(subject)
  foreach(file ${fixtures})
    get_filename_component(name ${file} NAME_WE)
    get_filename_component(beside ${file} DIRECTORY)
    string(REGEX REPLACE "_fixture$" "" name ${name})
    if(beside STREQUAL folder AND test MATCHES "^test_${name}(_|$)")
      list(APPEND found ${file})
      list(APPEND subject ${name})
    endif()
  endforeach()
  list(SORT subject)
  if(subject)
    list(GET subject 0 subject)
  endif()
  set(subject "${subject}" PARENT_SCOPE)
  set(fixture "${found}" PARENT_SCOPE)
endfunction()

# many_program(TARGET SOURCE...): "TARGET test_x ARGUMENT..." runs the main() of test_x.c; so do
# programs that it starts as /proc/self/exe (lib/many.c).
function(many_program target)
  set(declared "")
  set(rows "")
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    if(name MATCHES "^test_")
      string(APPEND declared "int main_${name}();\n")
      string(APPEND rows "\t{\"${name}\", main_${name}},\n")
      # main() needs no prototype, and has two forms.
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS main=main_${name}
        COMPILE_OPTIONS -Wno-missing-prototypes)
    endif()
  endforeach()
  set(main ${CMAKE_CURRENT_BINARY_DIR}/${target}.c)
  file(CONFIGURE OUTPUT ${main} CONTENT [=[
#include "lib/many.h"

@declared@
static const struct many_test tests[] = {
@rows@	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return many_run(tests, argc, argv);
}
]=] @ONLY)
  set_source_files_properties(${main} ${fixture_root}/lib/many.c
    PROPERTIES COMPILE_OPTIONS -Wno-strict-prototypes)
  add_executable(${target} ${main} ${fixture_root}/lib/many.c ${ARGN})
  target_include_directories(${target} PRIVATE ${fixture_root})
  set_property(GLOBAL APPEND PROPERTY many_programs $<TARGET_FILE:${target}>)
endfunction()

# many_tests(PREFIX FOLDER SOURCE...): the programs PREFIX_FOLDER of many tests,
# PREFIX_FOLDER_SUBJECT of those that share a fixture, and PREFIX_test_x of those that are alone.
# Sets ${targets} to the programs, ${command_test_x} to what runs test_x, and ${path_test_x} to the
# same for scripts.
function(many_tests prefix folder)
  set(targets)
  set(groups)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    find_fixture(${source})
    if(name IN_LIST tests_alone OR name MATCHES "nomem")
      set(target ${prefix}_${name})
      add_executable(${target} ${source} ${fixture})
      list(APPEND targets ${target})
      set(command_${name} ${target} PARENT_SCOPE)
      set(path_${name} $<TARGET_FILE:${target}> PARENT_SCOPE)
      if(name MATCHES "nomem")
        # Not in a library, since it goes before the C library; and it runs before ThreadSanitizer
        # does.
        set(fail_alloc ${fixture_root}/lib/fail_alloc.c)
        set_source_files_properties(${fail_alloc} PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
        target_sources(${target} PRIVATE ${fail_alloc})
      endif()
    else()
      set(target ${prefix}_${folder})
      if(subject)
        string(APPEND target _${subject})
        list(APPEND of_${target} ${fixture})
      endif()
      list(APPEND of_${target} ${source})
      list(APPEND groups ${target})
      set(command_${name} ${target} ${name} PARENT_SCOPE)
      set(path_${name} $<TARGET_FILE:${target}> ${name} PARENT_SCOPE)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(target ${groups})
    list(REMOVE_DUPLICATES of_${target})
    many_program(${target} ${of_${target}})
  endforeach()
  set(targets ${targets} ${groups} PARENT_SCOPE)
endfunction()
