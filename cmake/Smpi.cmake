# Ranks on a simulated network: SimGrid's SMPI runs an MPI program for real, each rank in turn, and counts the time that
# its computation took and its messages would have taken. PLUMBLINE_SMPI says whether it is there.
find_path(PLUMBLINE_SMPI_INCLUDE smpi/smpi_helpers.h)
find_library(PLUMBLINE_SIMGRID_LIBRARY simgrid)
find_program(PLUMBLINE_SMPIRUN smpirun)
mark_as_advanced(PLUMBLINE_SMPI_INCLUDE PLUMBLINE_SIMGRID_LIBRARY PLUMBLINE_SMPIRUN)
set(PLUMBLINE_SMPI OFF)
set(PLUMBLINE_SMPI_STATE "no simulated MPI (SimGrid's SMPI was not found, or is not to be linked)")
# Sanitizers follow neither its stacks nor its copies of the program; a static SimGrid in it would be a second one.
if(PLUMBLINE_SMPI_INCLUDE AND PLUMBLINE_SIMGRID_LIBRARY AND PLUMBLINE_SMPIRUN AND NOT PLUMBLINE_SANITIZE
   AND NOT PLUMBLINE_SIMGRID_ARCHIVE)
  set(PLUMBLINE_SMPI ON)
  set(PLUMBLINE_SMPI_STATE "simulated MPI (SMPI)")
endif()

# plumbline_smpi_program(name SOURCES file... LINKS library...): a program for smpirun. It is a library with a main() of
# which every rank loads its own copy, variables included. Sources see SMPI's mpi.h, in which sleep, exit, malloc and
# the like are macros (so no std::exit); LINKS are ordinary static libraries that know nothing of MPI.
function(plumbline_smpi_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES} ${PLUMBLINE_MPI_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX "")
  target_include_directories(${name} SYSTEM BEFORE PRIVATE ${PLUMBLINE_SMPI_INCLUDE}/smpi ${PLUMBLINE_SMPI_INCLUDE})
  target_compile_options(${name} PRIVATE "SHELL:-include smpi/smpi_helpers.h")
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} ${PLUMBLINE_SIMGRID_LIBRARY})
  target_link_options(${name} PRIVATE -Wl,-z,defs)
  plumbline_warnings(${name})
endfunction()

# How it is run: smpirun -np <ranks> -platform <xml> -hostfile <file> ${PLUMBLINE_SMPI_FLAGS} <program> <arguments>.
# Hosts of the platform have speed="1f", so that a second that was measured is a simulated second. The flags:
#   smpi/host-speed:1f                 the machine that measures is as fast as those hosts
#   smpi/cpu-threshold:0               every stretch of computation counts, however short
#   smpi/send-is-detached-thresh       a send of any size (up to 2 GB) returns at once,
#   smpi/async-small-thresh            and travels before its receiver asks for it
#   network/model:CM02                 a message takes latency + bytes / bandwidth, links share fairly; without it, SMPI
#                                      bends both by factors of its own, from a cluster with Gigabit Ethernet
#   network/crosstraffic:no            no 5 % off for acknowledgements in the other direction
#   network/TCP-gamma:0                no limit from TCP windows
# smpi/os, or, ois (time per call) are 0 unless set. Whoever receives must wait in MPI (MpiWaiting::blocking): MPI_Test
# and MPI_Probe advance the simulated time by themselves.
set(PLUMBLINE_SMPI_FLAGS
  --cfg=smpi/host-speed:1f
  --cfg=smpi/cpu-threshold:0
  --cfg=smpi/send-is-detached-thresh:2000000000
  --cfg=smpi/async-small-thresh:2000000000
  --cfg=network/model:CM02
  --cfg=network/crosstraffic:no
  --cfg=network/TCP-gamma:0
  --log=root.thres:critical)
