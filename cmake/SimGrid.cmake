# SimGrid::SimGrid: the system's library, or a static one that was built without ns-3 (./dev package makes it), so that a
# package needs none of what Debian's is linked with. The headers are the system's in both cases: what is used of them
# does not depend on how SimGrid was built.
set(PLUMBLINE_SIMGRID_ARCHIVE "" CACHE FILEPATH "A static SimGrid to link in place of the system's library")

find_package(PkgConfig REQUIRED)
pkg_check_modules(SIMGRID REQUIRED simgrid>=3.32)
add_library(SimGrid::SimGrid INTERFACE IMPORTED GLOBAL)
target_include_directories(SimGrid::SimGrid INTERFACE ${SIMGRID_INCLUDE_DIRS})
if(PLUMBLINE_SIMGRID_ARCHIVE)
  target_link_libraries(SimGrid::SimGrid INTERFACE ${PLUMBLINE_SIMGRID_ARCHIVE} ${CMAKE_DL_LIBS} rt atomic)
else()
  target_link_libraries(SimGrid::SimGrid INTERFACE ${SIMGRID_LINK_LIBRARIES})
endif()
