# Writes the git revision of SOURCE into FILE: cmake -D SOURCE=... -D FILE=... -P Revision.cmake. A tree that is not the
# top of a git repository, as an unpacked archive, has none.
execute_process(COMMAND git rev-parse --show-cdup WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE above ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
set(revision unknown)
if(failed EQUAL 0 AND above STREQUAL "")
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(written "")
if(EXISTS ${FILE})
  file(READ ${FILE} written)
endif()
if(NOT written STREQUAL "${revision}\n")
  file(WRITE ${FILE} "${revision}\n")
endif()
