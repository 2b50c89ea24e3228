// Reads an input file as text, with errors that state the problem of the path, and lists a folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

// Returns the whole file without a byte-order mark, which spreadsheets and editors put before its text. A missing file,
// a folder, an unreadable file, one in UTF-16 or one above 1 GiB is an input error naming the path. For what has other
// bytes than text: logs, into which processes write at once, and files that are no text.
Result<std::string> read_file(const std::string& path);

// Returns the same of a file in UTF-8, and refuses others with the line.
Result<std::string> read_text_file(const std::string& path);

// Refuses text that is not UTF-8. `first_line` is the text's line in the file.
Result<void> check_utf8(std::string_view text, const std::string& path, int first_line = 1);

// Whether the path is a regular file, or a link to one; not where that cannot be seen.
bool is_file(const std::string& path);
// Likewise of a folder.
bool is_folder(const std::string& path);

// Refuses JSON and TOML whose brackets or dotted keys are nested deeper than any file of ours. Parsed values are walked
// and destroyed recursively, so every reader calls this before its parser. `first_line` is the text's line in the file.
Result<void> check_nesting(std::string_view text, const std::string& path, int first_line = 1);

// Returns the sorted names, without extension, of the files in a folder with that extension; empty if unreadable.
std::vector<std::string> names_in_folder(const std::string& folder, std::string_view extension);

// Returns the 1-based line of a byte offset; an offset past the end gives the last line.
int line_of_offset(std::string_view text, std::size_t offset);

}  // namespace plumbline::model
