# Packages, made by ./dev package: for Debian the command with its data and documentation (plumbline), the same as ranks
# under MPI (plumbline-mpi), and the C++ library (libplumbline-dev); and a tarball of the component "portable", which brings its libraries along.
install(DIRECTORY docs TYPE DOC)
install(FILES README.md CHANGELOG.md TYPE DOC)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY docs TYPE DOC COMPONENT portable EXCLUDE_FROM_ALL)
install(FILES README.md CHANGELOG.md LICENSE TYPE DOC COMPONENT portable EXCLUDE_FROM_ALL)

# What they are made of, which ./dev package writes.
install(FILES ${PROJECT_BINARY_DIR}/plumbline.spdx.json TYPE DOC OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/plumbline.spdx.json TYPE DOC COMPONENT portable EXCLUDE_FROM_ALL OPTIONAL)

set(CPACK_PACKAGE_VENDOR "the plumbline contributors")
set(CPACK_PACKAGE_CONTACT "the plumbline contributors <plumbline@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL command library)
if(PLUMBLINE_MPI)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME plumbline)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "The command, its Python module, the shipped plans, models, clusters and cost
profiles, and the documentation.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
if(TARGET plumbline_python)
  # The module is built for this Python alone.
  math(EXPR plumbline_next_python "${Python3_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS
    "python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${plumbline_next_python})")
endif()
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "python3-pandas, python3-matplotlib")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME plumbline-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "plumbline (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_MPI_DESCRIPTION "The command as ranks of an MPI program.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libplumbline-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Static libraries, headers and a CMake package.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "plumbline (= ${PROJECT_VERSION}), libsimgrid-dev, libfmt-dev, libpugixml-dev, \
libsimdjson-dev, libtbb-dev, libexpected-dev, libtomlplusplus-dev, \
libyaml-cpp-dev, zlib1g-dev")
include(CPack)
