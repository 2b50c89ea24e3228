# Shipped data: plans, models, clusters, profiles, validation cases. The command looks for them in
# share/plumbline beside its own binary, then in the install prefix; so the build tree gets links.
set(plumbline_data
  examples   examples
  topologies topologies
  profiles   calibrate/profiles
  cases      calibrate/cases
  probe-cases real/cuda/cases
  host-cases real/host/cases
  published  calibrate/published)

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/plumbline)
while(plumbline_data)
  list(POP_FRONT plumbline_data name folder)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/share/plumbline/${name} SYMBOLIC)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/${name} OPTIONAL
    FILES_MATCHING PATTERN "*.toml" PATTERN "*.json" PATTERN "*.csv" PATTERN "*.cases")
endwhile()
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/calibrate/kernels.toml ${PROJECT_BINARY_DIR}/share/plumbline/kernels.toml SYMBOLIC)
install(FILES calibrate/kernels.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline)

if(TARGET plumbline)
  install(TARGETS plumbline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
