// Where the running program lies.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace plumbline::cli {

// The absolute path of this executable; empty when the system does not tell.
std::filesystem::path executable();

// The program `name` beside the running one; nullopt when it was not built.
std::optional<std::string> find_program(const std::string& name);

}  // namespace plumbline::cli
