# cmake -D BUILD=... -D PREFIX=... -P PortableTest.cmake
# Installs the portable command, and looks at where it and its libraries find theirs: beside it, but for the C library.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component portable --prefix ${PREFIX}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH LD_TRACE_LOADED_OBJECTS=1 ${PREFIX}/bin/plumbline
  OUTPUT_VARIABLE loaded COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" loaded "${loaded}")
list(FILTER loaded EXCLUDE REGEX "linux-vdso|ld-linux|[ \t]lib(c|m|dl|rt|pthread|resolv|util)\\.so")
list(FILTER loaded EXCLUDE REGEX "=> ${PREFIX}/|^[ \t]*$")
if(loaded)
  message(FATAL_ERROR "not carried along: ${loaded}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ${PREFIX}/bin/plumbline measure --dry-run
  WORKING_DIRECTORY ${PREFIX} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
