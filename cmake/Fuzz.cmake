# The preset fuzz: what readers are made of, compiled by clang with the address and undefined-behaviour sanitizers, the
# checks of the standard library, libFuzzer's counters and those of llvm-cov, and the fuzz targets. Searches, execution
# on cores and GPUs, the command and the ordinary tests stay out, and so does oneTBB.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "libFuzzer is clang's, this is ${CMAKE_CXX_COMPILER_ID}: cmake --preset fuzz")
endif()
add_compile_options(-O1 -gline-tables-only -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined
  -fno-sanitize-recover=all -fprofile-instr-generate -fcoverage-mapping)
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options(-fsanitize=address,undefined -fprofile-instr-generate)
find_package(pugixml 1.12 REQUIRED)
include(SimGrid)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium>=1.0.18)
include(Data)
add_subdirectory(tests/fuzz)
