// Looks for parts of a text.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <regex>
#include <string>

namespace plumbline::tests {

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Expects each part in the text.
inline void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_TRUE(has(text, part)) << part << "\n" << text;
}

// Returns the text in one line with single blanks, so that sentences are found wherever they wrap.
inline std::string one_line(const std::string& text) { return std::regex_replace(text, std::regex("\\s+"), " "); }

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Returns the code points of the longest line.
inline std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0, line = 0;
  for (const char c : text) {
    line = c == '\n' ? 0 : line + ((static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0);
    longest = line > longest ? line : longest;
  }
  return longest;
}

}  // namespace plumbline::tests
