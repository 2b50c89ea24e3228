# Shipped data: plans, models, clusters, profiles, stacks, validation cases. The command looks for them in
# share/plumbline beside its own binary, then in the install prefix; so the build tree gets links.
function(plumbline_install_data)
  install(${ARGN})
  # What follows FILES_MATCHING chooses files; the component stands before it.
  list(FIND ARGN FILES_MATCHING matching)
  if(matching EQUAL -1)
    list(LENGTH ARGN matching)
  endif()
  list(INSERT ARGN ${matching} COMPONENT portable EXCLUDE_FROM_ALL)
  install(${ARGN})
endfunction()

set(plumbline_data
  examples   examples
  topologies topologies
  profiles   calibrate/profiles
  stacks     calibrate/stacks
  reliability calibrate/reliability
  recipes    calibrate/recipes
  measured   calibrate/measured
  cases      calibrate/cases
  gpu-cases  real/cuda/cases
  host-cases real/host/cases
  published  calibrate/published
  ledger     calibrate/ledger
  schema     reports/schema)

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/plumbline)
while(plumbline_data)
  list(POP_FRONT plumbline_data name folder)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/share/plumbline/${name} SYMBOLIC)
  plumbline_install_data(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/${name} OPTIONAL
    FILES_MATCHING PATTERN "*.toml" PATTERN "*.json" PATTERN "*.jsonl" PATTERN "*.csv" PATTERN "*.cases" PATTERN "*.ipynb" PATTERN "LICENSE-*")
endwhile()
foreach(file kernels.toml residuals.csv)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/calibrate/${file} ${PROJECT_BINARY_DIR}/share/plumbline/${file} SYMBOLIC)
  plumbline_install_data(FILES calibrate/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline)
endforeach()

# The revision that a recorded prediction states. It is that of the sources that are built, not configured.
add_custom_target(plumbline_revision ALL VERBATIM COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}
  -D FILE=${PROJECT_BINARY_DIR}/share/plumbline/revision -P ${PROJECT_SOURCE_DIR}/cmake/Revision.cmake)
plumbline_install_data(FILES ${PROJECT_BINARY_DIR}/share/plumbline/revision
  DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline OPTIONAL)

if(TARGET plumbline)
  add_dependencies(plumbline plumbline_revision)
  install(TARGETS plumbline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Man pages and completion come out of the command itself.
  set(manual ${PROJECT_BINARY_DIR}/share/manual)
  file(MAKE_DIRECTORY ${manual}/man)
  add_custom_command(OUTPUT ${manual}/plumbline.bash ${manual}/_plumbline ${manual}/plumbline.fish
      ${manual}/man/plumbline.1 ${manual}/man/plumbline-plan.5 VERBATIM
    COMMAND plumbline completion bash -o ${manual}/plumbline.bash
    COMMAND plumbline completion zsh -o ${manual}/_plumbline
    COMMAND plumbline completion fish -o ${manual}/plumbline.fish
    COMMAND plumbline man -o ${manual}/man)
  add_custom_target(plumbline_manual ALL DEPENDS ${manual}/man/plumbline.1)
  install(FILES ${manual}/plumbline.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME plumbline OPTIONAL)
  install(FILES ${manual}/_plumbline DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
  install(FILES ${manual}/plumbline.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
  install(DIRECTORY ${manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
  install(DIRECTORY ${manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 FILES_MATCHING PATTERN "*.5")
  # So do the JSON Schemas of outputs.
  set(schemas ${PROJECT_BINARY_DIR}/share/schemas)
  add_custom_command(OUTPUT ${schemas}/defs.schema.json VERBATIM DEPENDS plumbline ${PROJECT_SOURCE_DIR}/cmake/Schemas.cmake
    COMMAND ${CMAKE_COMMAND} -D PLUMBLINE=$<TARGET_FILE:plumbline> -D FOLDER=${schemas}
      -P ${PROJECT_SOURCE_DIR}/cmake/Schemas.cmake)
  add_custom_target(plumbline_schemas ALL DEPENDS ${schemas}/defs.schema.json)
  plumbline_install_data(DIRECTORY ${schemas}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/schema OPTIONAL
    FILES_MATCHING PATTERN "*.json")
  # The component "portable" is the command with all libraries but the C library, for a machine that has none of them:
  #
  #   cmake --install build/release --component portable --prefix plumbline-portable
  set(plumbline_libraries ${CMAKE_INSTALL_LIBDIR}/plumbline)
  install(TARGETS plumbline RUNTIME_DEPENDENCIES
      PRE_EXCLUDE_REGEXES "^linux-vdso" "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util)\\.so"
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT portable EXCLUDE_FROM_ALL
    LIBRARY DESTINATION ${plumbline_libraries} COMPONENT portable EXCLUDE_FROM_ALL)
  # The older tag holds for what these libraries need of each other, too.
  set_target_properties(plumbline PROPERTIES INSTALL_RPATH "\$ORIGIN/../${plumbline_libraries}")
  target_link_options(plumbline PRIVATE -Wl,--disable-new-dtags)
endif()
