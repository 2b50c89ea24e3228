// The help of the command and of its verbs, at most 80 columns wide.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace plumbline::cli {

// Descriptions wrap in their column, lists of values at commas, commands of examples as a shell continues them.
std::shared_ptr<CLI::Formatter> help_formatter();

}  // namespace plumbline::cli
