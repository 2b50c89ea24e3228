// CMake precompiles the headers of every test with this empty source.
