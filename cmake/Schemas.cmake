# Writes the JSON Schema of every output, as the command prints it, to FOLDER/OUTPUT.schema.json:
# cmake -D PLUMBLINE=... -D FOLDER=... -P Schemas.cmake.
execute_process(COMMAND ${PLUMBLINE} show schema OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[a-z-]+" names "${names}")
# What is installed is the folder: an output that is no more leaves no schema there.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
foreach(name ${names})
  execute_process(COMMAND ${PLUMBLINE} show schema ${name} OUTPUT_FILE ${FOLDER}/${name}.schema.json
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
