// The one source that is compiled with the paths of this machine: the objects of all others are the same wherever the
// repository lies, so that checkouts share what a compiler cache has.
#include "tests/support/folders.h"

namespace plumbline::tests {

std::string source_folder() { return PLUMBLINE_SOURCE_DIR; }

std::string build_folder() { return PLUMBLINE_BINARY_DIR; }

}  // namespace plumbline::tests
