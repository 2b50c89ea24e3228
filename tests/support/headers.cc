// Nothing but what CMake puts before every test: its precompiled headers.
