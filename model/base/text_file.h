// Reads an input file as text, with errors that state the problem of the path, and lists a folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

// Returns the whole file. A missing file, a folder or an unreadable file is an input error naming the path, and so is a
// JSON, TOML or XML file that is nested deeper than 256 levels, whose parsers would exhaust the stack.
Result<std::string> read_text_file(const std::string& path);

// Returns the sorted names, without extension, of the files in a folder with that extension; empty if unreadable.
std::vector<std::string> names_in_folder(const std::string& folder, std::string_view extension);

// Returns the 1-based line of a byte offset; an offset past the end gives the last line.
int line_of_offset(std::string_view text, std::size_t offset);

}  // namespace plumbline::model
