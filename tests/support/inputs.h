// Shipped inputs and expectations on errors, shared by the tests of readers.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model/base/error.h"
#include "tests/support/folders.h"

namespace plumbline::tests {

// Returns the path of a file of the repository, e.g. shipped("examples/models/deepseek-v3.json").
inline std::string shipped(const std::string& path) { return source_folder().append("/").append(path); }

// Returns what a result or an optional value holds; without a value the test fails and ends.
template <class Holder>
auto value_of(const Holder& holder) {
  if constexpr (requires { holder.error(); }) {
    EXPECT_TRUE(holder) << to_string(holder.error());
  }
  return holder.value();
}

// Returns the error that a result has to be.
template <class Value>
model::Error error_of(const model::Result<Value>& result) {
  EXPECT_FALSE(result);
  return result ? model::Error() : result.error();
}

// Expects an error at a place; `text` must occur in its message or hint.
inline void expect_error(const model::Error& error, model::ErrorKind kind, const std::string& file, int line,
                         const std::string& key, const std::string& text) {
  EXPECT_EQ(error.kind, kind) << to_string(error);
  EXPECT_EQ(error.file, file) << to_string(error);
  EXPECT_EQ(error.line, line) << to_string(error);
  EXPECT_EQ(error.key, key) << to_string(error);
  EXPECT_NE((error.message + " " + error.hint).find(text), std::string::npos)
      << "'" << text << "' is not in: " << to_string(error);
}

// Expects an error about a key, wherever that is.
inline void expect_error(const model::Error& error, model::ErrorKind kind, const std::string& key,
                         const std::string& text = "") {
  expect_error(error, kind, error.file, error.line, key, text);
}

// Expects that there is such an error in place of a value.
template <class T>
void expect_error(const model::Result<T>& result, model::ErrorKind kind, const std::string& file, int line,
                  const std::string& key, const std::string& text) {
  ASSERT_FALSE(result) << text;
  expect_error(result.error(), kind, file, line, key, text);
}
template <class T>
void expect_error(const model::Result<T>& result, model::ErrorKind kind, const std::string& key,
                  const std::string& text = "") {
  ASSERT_FALSE(result) << text;
  expect_error(result.error(), kind, key, text);
}

}  // namespace plumbline::tests
