// The option --trace-ranks of the verbs that write a trace.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

// `what`: what the ranks are, and more about them, for the help.
void add_trace_ranks(CLI::App& verb, std::string& text, const std::string& what);

// Returns the ranks of "0,3,8-11", ascending, each once; none for "". Input errors: what is no list, and ranks that are
// not below `ranks`.
model::Result<std::vector<std::int32_t>> parse_trace_ranks(const std::string& text, std::int64_t ranks);

}  // namespace plumbline::cli
