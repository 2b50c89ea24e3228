# Ranks as processes: what is built where an MPI is found. PLUMBLINE_MPI says whether one is.
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI QUIET COMPONENTS CXX)
set(PLUMBLINE_MPI OFF)
set(PLUMBLINE_MPI_STATE "no ranks as processes (MPI was not found)")
if(MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
  set(PLUMBLINE_MPI ON)
  set(PLUMBLINE_MPI_STATE "MPI ${MPI_CXX_VERSION}")
endif()

# Sources that include mpi.h. Who builds against another MPI compiles them again.
set(PLUMBLINE_MPI_SOURCES ${PROJECT_SOURCE_DIR}/real/host/mpi/mpi_transport.cc)

# plumbline_mpi_program(name SOURCES file... LINKS library...): an executable for mpirun.
function(plumbline_mpi_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE plumbline_real_mpi ${ARG_LINKS})
  plumbline_warnings(${name})
endfunction()

# plumbline_mpi_command(result ranks): the words before a program's name that start it on this machine, in a container
# and as root too, with more ranks than cores.
function(plumbline_mpi_command result ranks)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
  set(command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks})
  if(version MATCHES "Open MPI|OpenRTE")
    # plm isolated: no remote shell is looked for; btl: messages within the machine only; yield: waiting ranks leave the
    # core to others.
    set(command ${CMAKE_COMMAND} -E env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ${command}
      --oversubscribe --mca plm isolated --mca btl self,vader --mca mpi_yield_when_idle 1)
  endif()
  set(${result} ${command} PARENT_SCOPE)
endfunction()
