# Said once, at the end of configuring: what is built with what, and what is left out.
get_filename_component(plumbline_preset ${PROJECT_BINARY_DIR} NAME)
message(STATUS "plumbline ${PROJECT_VERSION}: ${plumbline_preset} (${CMAKE_BUILD_TYPE}), "
  "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}; optional parts: ${PLUMBLINE_CUDA_STATE}; "
  "${PLUMBLINE_MPI_STATE}; ${PLUMBLINE_SMPI_STATE}; ${PLUMBLINE_PYTHON_STATE}; ${PLUMBLINE_PLAYGROUND_STATE}")
