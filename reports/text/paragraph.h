// Headings and running text of the reports in a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline::reports {

// Colour (bold headings as ANSI escapes) only when the caller knows that a terminal reads it.
struct Style {
  bool colour = false;
};

std::string bold(std::string_view text, Style style);     // on the same line
std::string heading(std::string_view text, Style style);  // after an empty line
std::string paragraph(std::string_view text);             // indented by two, at most 80 columns

// Lines of at most 80 columns, the indentation counted.
std::string wrapped(std::string_view text, std::size_t indent = 0);

}  // namespace plumbline::reports
