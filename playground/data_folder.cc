// The shipped data of the WebAssembly module: they are files in its memory (playground/wasm/CMakeLists.txt).
#include "cli/data.h"

namespace plumbline::cli {

model::Result<std::string> data_folder() { return std::string("/plumbline"); }

}  // namespace plumbline::cli
