# Settings and helpers that every folder uses, and that need nothing but CMake.
include(GNUInstallDirs)
# What is installed belongs to the command unless it names the component "library" (C++) or "portable".
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME command)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Programs for a simulated MPI are loaded as libraries, with all that they are linked from.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# What each object costs to compile, in build/PRESET/compile_times.txt; ./dev build-report reads it.
set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE
  "${PROJECT_SOURCE_DIR}/cmake/timed-compile ${PROJECT_BINARY_DIR}/compile_times.txt <OBJECT>")
# A compiler cache, where there is one: checkouts on one machine share their objects.
find_program(PLUMBLINE_CCACHE ccache)
mark_as_advanced(PLUMBLINE_CCACHE)
foreach(language CXX CUDA)
  if(PLUMBLINE_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${PLUMBLINE_CCACHE})
  endif()
endforeach()
if(PLUMBLINE_MOLD)
  find_program(PLUMBLINE_MOLD_PROGRAM mold)
  mark_as_advanced(PLUMBLINE_MOLD_PROGRAM)
  if(PLUMBLINE_MOLD_PROGRAM)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# The library's check of format strings takes a seventh of the time that a source with many of them is compiled in.
if(NOT PLUMBLINE_CHECK_FORMATS)
  add_compile_definitions(FMT_CONSTEVAL=)
endif()

# GCC collects garbage from 256 MB of memory on, each time that it has doubled, which is a twentieth of the time of a
# joined source. From 1 GB on it rarely does, and takes a third more of memory.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>")

# What most sources include. Sources name what they need all the same: other presets compile them without this.
set(plumbline_common_headers <algorithm> <array> <cmath> <cstddef> <cstdint> <functional> <map> <memory> <numeric>
  <optional> <set> <string> <string_view> <utility> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)

# plumbline_library(name HOT folder... DEPENDS other... PRIVATE imported... EXCEPT file... SOURCES file...)
# A static library for one folder. DEPENDS lists the plumbline libraries it may include. Its sources are all .cc files
# below the folder but those of EXCEPT; a folder whose sources depend on what is installed lists them as SOURCES.
# In a release, HOT folders, whose loops a step or a search spends its time in, are compiled with -O2, and other sources
# with -Og, which takes half the time. A search spends its time in many short functions without long loops over numbers,
# which are what -O3 is for: a library of such loops is HOT as a whole (.) and keeps the build type's -O3.
function(plumbline_library name)
  cmake_parse_arguments(ARG "" "" "HOT;DEPENDS;PUBLIC;PRIVATE;EXCEPT;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB_RECURSE ARG_SOURCES RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc)
    list(REMOVE_ITEM ARG_SOURCES ${ARG_EXCEPT})
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  if(NOT ARG_HOT STREQUAL ".")
    set_property(SOURCE ${ARG_SOURCES} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-Og>")
    foreach(folder IN LISTS ARG_HOT)
      set(hot ${ARG_SOURCES})
      list(FILTER hot INCLUDE REGEX "^${folder}/")
      set_property(SOURCE ${hot} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")
    endforeach()
  endif()
  if(PLUMBLINE_UNITY STREQUAL "LIBRARY")
    plumbline_join_sources(${name} KILOBYTES 300 SOURCES ${ARG_SOURCES})
  elseif(PLUMBLINE_UNITY)
    plumbline_join_sources(${name} BY_FOLDER KILOBYTES 100 SOURCES ${ARG_SOURCES})
  endif()
  # They are read in a tenth of the time. Small libraries, and large ones of a few units, would take longer to precompile
  # them than to read them.
  list(LENGTH ARG_SOURCES count)
  if(PLUMBLINE_PRECOMPILE AND NOT PLUMBLINE_UNITY STREQUAL "LIBRARY" AND count GREATER 40
      AND "fmt::fmt" IN_LIST ARG_PRIVATE)
    target_precompile_headers(${name} PRIVATE ${plumbline_common_headers})
  endif()
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${plumbline_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/plumbline>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} ${ARG_PUBLIC})
  foreach(library IN LISTS ARG_PRIVATE)
    plumbline_is_headers_only(${library} headers_only)
    if(headers_only)
      set(library $<BUILD_INTERFACE:${library}>)
    endif()
    target_link_libraries(${name} PRIVATE ${library})
  endforeach()
  # No symbol of position-independent code is replaced at run time, so calls within a source may be inlined.
  if(ARG_HOT AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fno-semantic-interposition)
  endif()
  plumbline_warnings(${name})
endfunction()

# plumbline_embed(library header scope::name file): the std::string_view of the header with the content of the file
# becomes a part of the library.
function(plumbline_embed library header variable file)
  set(text ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  string(REGEX REPLACE ".*::" "" name ${variable})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  add_custom_command(OUTPUT ${source} VERBATIM DEPENDS ${text} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
    COMMAND ${CMAKE_COMMAND} -D FROM=${text} -D TO=${source} -D HEADER=${header} -D NAME=${variable}
      -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake)
  target_sources(${library} PRIVATE ${source})
endfunction()

# plumbline_join_sources(name [BY_FOLDER] KILOBYTES n SOURCES file...): the sources, or those of each folder with its
# detail/, become one translation unit, or several of about n KB, so that a first build reads headers and instantiates
# templates once per unit instead of once per file; sources with options of their own are joined among themselves. Names
# in anonymous namespaces must therefore differ among them, also where there are several units: a new file moves others
# from one unit to the next. The units are written here rather than by CMake, which writes absolute paths into them: the
# same unit of two checkouts would be two different ones to a compiler cache.
function(plumbline_join_sources name)
  cmake_parse_arguments(ARG "BY_FOLDER" "KILOBYTES" "SOURCES" ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The warning takes the joined sources for headers.
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
  set(folders)
  set(compiled)
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(path ${source} ABSOLUTE)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(NOT path MATCHES "\\.cc$")
      list(APPEND compiled ${source})
      continue()
    endif()
    file(SIZE ${path} size)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(folder ${name})
    if(ARG_BY_FOLDER)
      get_filename_component(folder ${path} DIRECTORY)
      string(REGEX REPLACE "/detail$" "" folder ${folder})
      string(MAKE_C_IDENTIFIER ${folder} folder)
    endif()
    if(options)
      string(REGEX MATCH "O[0-9g]" level "${options}")
      string(APPEND folder _${level})
      set(options_of_${folder} ${options})
    endif()
    list(APPEND folders ${folder})
    list(APPEND sources_of_${folder} ${path} ${size})
    math(EXPR size_of_${folder} "0${size_of_${folder}} + ${size}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    # Units of like size, of which two cores compile one each.
    math(EXPR units "${size_of_${folder}} / (${ARG_KILOBYTES} * 1000) + 1")
    set(place 0)
    while(sources_of_${folder})
      list(POP_FRONT sources_of_${folder} source size)
      math(EXPR unit "(${place} + ${size} / 2) * ${units} / ${size_of_${folder}}")
      math(EXPR place "${place} + ${size}")
      string(APPEND unit_${folder}_${unit} "#include \"${source}\"\n")
    endwhile()
    math(EXPR last "${units} - 1")
    foreach(unit RANGE ${last})
      set(joined ${CMAKE_CURRENT_BINARY_DIR}/joined/${name}/${folder}_${unit}.cc)
      file(CONFIGURE OUTPUT ${joined} CONTENT "${unit_${folder}_${unit}}" @ONLY)
      if(options_of_${folder})
        set_property(SOURCE ${joined} PROPERTY COMPILE_OPTIONS ${options_of_${folder}})
      endif()
      list(APPEND compiled ${joined})
    endforeach()
  endforeach()
  get_target_property(sources ${name} SOURCES)
  list(REMOVE_ITEM sources ${ARG_SOURCES})
  set_property(TARGET ${name} PROPERTY SOURCES ${sources} ${compiled})
endfunction()

# Whether nothing of an imported library is left to link: who uses an installed plumbline does not need it.
function(plumbline_is_headers_only library result)
  set(${result} FALSE PARENT_SCOPE)
  if(TARGET ${library})
    get_target_property(type ${library} TYPE)
    get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
    if(type STREQUAL "INTERFACE_LIBRARY" AND NOT links)
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

function(plumbline_warnings name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    # "literal" + string warns wrongly at -O3 (GCC bug 105651); of a precompiled <string>, in two other ways as well.
    target_compile_options(${name} PRIVATE -Wno-restrict $<$<BOOL:${PLUMBLINE_PRECOMPILE}>:-Wno-stringop-overflow>
      $<$<BOOL:${PLUMBLINE_PRECOMPILE}>:-Wno-array-bounds>)
  endif()
  if(PLUMBLINE_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  if(PLUMBLINE_SANITIZE)
    # Without checks of every reference: they make up two thirds of the object code, and what they find ends in a report
    # of the address sanitizer or a fault.
    target_compile_options(${name} PUBLIC -fsanitize=${PLUMBLINE_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize=null,alignment,object-size,vptr)
    target_compile_definitions(${name} PUBLIC _GLIBCXX_ASSERTIONS)
    target_link_options(${name} PUBLIC -fsanitize=${PLUMBLINE_SANITIZE})
  endif()
endfunction()
