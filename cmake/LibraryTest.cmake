# cmake -D BUILD=... -D PREFIX=... -D SOURCE=... -D GENERATOR=... -D COMPILER=... -P LibraryTest.cmake
# Installs into an empty prefix, builds the example program against that installation alone, and runs it.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX}/installed
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
# A copy, so that nothing of the source tree is within reach.
file(COPY ${SOURCE}/ DESTINATION ${PREFIX}/program)
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${PREFIX}/program -B ${PREFIX}/program/build -G ${GENERATOR}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${PREFIX}/installed
    -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${PREFIX}/program/build OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PREFIX}/program/build/step_time WORKING_DIRECTORY ${PREFIX}
  OUTPUT_VARIABLE library COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PREFIX}/installed/bin/plumbline simulate deepseek-v3-2048xh800 WORKING_DIRECTORY ${PREFIX}
  OUTPUT_VARIABLE command COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${PREFIX}/installed/bin/plumbline plan llama-2-7b --gpus 64 --cluster h100-dgx,h800-rail-fat-tree --top 1 --wide
    --set stack.name=megatron-core-2025
  WORKING_DIRECTORY ${PREFIX} OUTPUT_VARIABLE plans COMMAND_ERROR_IS_FATAL ANY)
# Both must predict and rank the same.
if(NOT library MATCHES "deepseek-v3-2048xh800: ([0-9.]+) s per step")
  message(FATAL_ERROR "the example printed: ${library}")
endif()
set(seconds ${CMAKE_MATCH_1})
if(NOT command MATCHES "from components +${seconds} s")
  message(FATAL_ERROR "the library says ${seconds} s, the command: ${command}")
endif()
foreach(place 1 2)
  if(NOT library MATCHES "${place}\\. ([a-z0-9-]+): ([0-9.]+) days")
    message(FATAL_ERROR "the example printed no place ${place}: ${library}")
  endif()
  set(cluster ${CMAKE_MATCH_1})
  set(days ${CMAKE_MATCH_2})
  if(NOT plans MATCHES "\n +${place}  ${cluster} [^\n]* ${days} ")
    message(FATAL_ERROR "the library puts ${cluster} with ${days} days in place ${place}, the command: ${plans}")
  endif()
endforeach()
