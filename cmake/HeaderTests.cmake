# Every public header is compiled alone, so that none leans on what its users happened to include.
# Headers in detail/ are private to their folder; CUDA headers need another compiler. `./dev test --all` builds this.
set(folders model topologies sim real calibrate reports cli)
list(TRANSFORM folders PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
list(TRANSFORM patterns APPEND /*.h)
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${patterns})
list(FILTER headers EXCLUDE REGEX "/detail/|^real/cuda/")

# A source that includes its own header first has shown it already.
set(sources)
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.h$" ".cc" own ${PROJECT_SOURCE_DIR}/${header})
  if(EXISTS ${own})
    file(STRINGS ${own} includes REGEX "^#include" LIMIT_COUNT 1)
    if(includes STREQUAL "#include \"${header}\"")
      continue()
    endif()
  endif()
  set(source ${PROJECT_BINARY_DIR}/header_self_compile/${header}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n" @ONLY)
  list(APPEND sources ${source})
endforeach()

add_library(header_self_compile OBJECT EXCLUDE_FROM_ALL ${sources})
target_include_directories(header_self_compile PRIVATE ${PROJECT_SOURCE_DIR})
# Only what public headers may show: formats and solvers stay in .cc files.
target_link_libraries(header_self_compile PRIVATE tl::expected fmt::fmt Eigen3::Eigen)
target_compile_options(header_self_compile PRIVATE -O0)
plumbline_warnings(header_self_compile)
