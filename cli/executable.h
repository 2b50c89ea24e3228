// Where the running program lies.
#pragma once

#include <filesystem>

namespace plumbline::cli {

// The absolute path of this executable; empty when the system does not tell.
std::filesystem::path executable();

}  // namespace plumbline::cli
