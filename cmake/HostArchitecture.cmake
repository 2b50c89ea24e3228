# The instruction set of code that uses Eigen. Real arithmetic on this machine is three to four times as fast with AVX2
# as with what every x86-64 has, but Eigen's inline code comes out differently for each set, down to how it aligns
# memory: two kinds of it in one program would break the one-definition rule. So the option belongs to Eigen itself,
# and everything that includes it is compiled alike. Products and sums are not contracted where the source does not
# say so: inline code that other libraries share gives the same bits whoever compiled it.
include(CheckCXXCompilerFlag)
set(plumbline_host_arch "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  check_cxx_compiler_flag(-march=x86-64-v3 PLUMBLINE_HAS_X86_64_V3)
  if(PLUMBLINE_HAS_X86_64_V3)
    set(plumbline_host_arch x86-64-v3)
  endif()
endif()
set(PLUMBLINE_HOST_ARCH "${plumbline_host_arch}" CACHE STRING
  "Instruction set of code that uses Eigen (-march); empty: the compiler's default, for processors without AVX2")
if(PLUMBLINE_HOST_ARCH)
  set_property(TARGET Eigen3::Eigen APPEND PROPERTY
    INTERFACE_COMPILE_OPTIONS -march=${PLUMBLINE_HOST_ARCH} -ffp-contract=off)
endif()
