# The installed C++ library: static libraries, headers as they are included in the tree, a package for find_package.
include(CMakePackageConfigHelpers)

set(plumbline_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plumbline)
set(plumbline_data_folder ${CMAKE_INSTALL_DATADIR}/plumbline)

foreach(name model topologies sim calibrate reports)
  add_library(plumbline::${name} ALIAS plumbline_${name})
  set_target_properties(plumbline_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS plumbline_${name} EXPORT plumblineTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.h
       ${PROJECT_SOURCE_DIR}/${name}/*.def)
  list(FILTER headers EXCLUDE REGEX "/detail/")
  foreach(header IN LISTS headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumbline/${folder} COMPONENT library)
  endforeach()
endforeach()
# The headers are C++20; all other libraries are built on this one.
target_compile_features(plumbline_model INTERFACE cxx_std_20)

install(EXPORT plumblineTargets NAMESPACE plumbline:: DESTINATION ${plumbline_package_folder}
  COMPONENT library)
configure_package_config_file(cmake/plumblineConfig.cmake.in ${PROJECT_BINARY_DIR}/plumblineConfig.cmake
  INSTALL_DESTINATION ${plumbline_package_folder} PATH_VARS plumbline_data_folder)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plumblineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plumblineConfig.cmake ${PROJECT_BINARY_DIR}/plumblineConfigVersion.cmake
  DESTINATION ${plumbline_package_folder} COMPONENT library)
install(FILES examples/library/CMakeLists.txt examples/library/main.cc DESTINATION ${plumbline_data_folder}/examples/library
  COMPONENT library)
