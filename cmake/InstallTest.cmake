# cmake -D BUILD=... -D PREFIX=... [-D PYTHON=...] -P InstallTest.cmake
# Installs into an empty prefix and uses the command from there, in a folder that is not the repository; with an
# interpreter also the Python module.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(data examples/deepseek-v3-2048xh800.toml topologies/h800-rail-fat-tree.toml profiles/h800.toml kernels.toml
        published/components/h100/gemm.csv published/components/LICENSE-Apache-2.0)
  if(NOT EXISTS ${PREFIX}/share/plumbline/${data})
    message(FATAL_ERROR "not installed: share/plumbline/${data}")
  endif()
endforeach()
foreach(file man/man1/plumbline.1 man/man1/plumbline-simulate.1 man/man5/plumbline-plan.5
        bash-completion/completions/plumbline zsh/site-functions/_plumbline fish/vendor_completions.d/plumbline.fish)
  if(NOT EXISTS ${PREFIX}/share/${file})
    message(FATAL_ERROR "not installed: share/${file}")
  endif()
endforeach()
execute_process(
  COMMAND ${PREFIX}/bin/plumbline simulate deepseek-v3-2048xh800 --fidelity closed-form
  WORKING_DIRECTORY ${PREFIX} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
if(PYTHON)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PREFIX}/lib/python3/dist-packages ${PYTHON} -B -c
      "import plumbline\nassert plumbline.data_folder() == '${PREFIX}/share/plumbline', plumbline.data_folder()\nassert plumbline.simulate('deepseek-v3-2048xh800', fidelity='closed-form', interval=False).fits"
    WORKING_DIRECTORY ${PREFIX} COMMAND_ERROR_IS_FATAL ANY)
endif()
