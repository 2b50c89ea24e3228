// Reads the keys of one TOML table strictly: every key that was not read is an error. The first error of a file is
// kept, and values after it are not used. The TOML library stays in table_reader.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

class TableReader {
 public:
  using Visit = std::function<void(TableReader&)>;
  struct Table;  // of the TOML library

  TableReader(const Table& table, std::string prefix, const std::string& path, std::optional<Error>& error)
      : table_(table), prefix_(std::move(prefix)), path_(path), error_(error) {}

  std::string text(std::string_view key);
  std::string optional_text(std::string_view key);  // empty when missing
  double positive(std::string_view key);
  std::optional<double> optional_positive(std::string_view key);
  // Returns a whole number from 1 to a billion, so that products of three stay finite; required without a fallback.
  std::int64_t whole(std::string_view key, std::optional<std::int64_t> fallback);
  bool flag(std::string_view key, bool fallback);
  // Returns a list of two shares, the smaller one first: [0.7, 0.9].
  std::optional<std::pair<double, double>> optional_shares(std::string_view key);
  std::vector<std::string> texts(std::string_view key);           // not empty
  std::vector<std::string> optional_texts(std::string_view key);  // empty when missing
  std::vector<std::string> text_or_texts(std::string_view key);   // one string, or a list that is not empty
  std::string word(std::string_view key);                         // a whole number, or a text without blanks, "#", "="

  // Read into a field, whose type gives what the key holds: a text, texts, a number above 0, a whole one, several of
  // these (one stands for a list of one), a flag. Where the key is missing, a required one is an error, and the field
  // of another stays.
  template <class Field>
  void required(std::string_view key, Field& field) {
    require(key);
    optional(key, field);
  }
  void optional(std::string_view key, std::string& field) { field = optional_text(key); }
  void optional(std::string_view key, std::vector<std::string>& field) { field = optional_texts(key); }
  void optional(std::string_view key, std::optional<double>& field) { field = optional_positive(key); }
  void optional(std::string_view key, double& field) { field = optional_positive(key).value_or(field); }
  void optional(std::string_view key, std::int64_t& field) { field = whole(key, field); }
  void optional(std::string_view key, std::vector<std::int64_t>& field);
  void optional(std::string_view key, bool& field) { field = flag(key, field); }

  // Calls visit with a reader of the table under the key, if there is one.
  void optional_table(std::string_view key, const Visit& visit);
  // Calls visit with a reader of every table of the list under the key, if there is one; the list is not empty.
  void optional_tables(std::string_view key, const Visit& visit);
  void require(std::string_view key);

  bool has(std::string_view key);           // also marks the key as known
  int line() const;                         // of the table
  int line_of(std::string_view key) const;  // 0 when it does not have the key
  std::vector<std::string> keys() const;    // those that the table has
  // An empty key is the table itself.
  void fail(std::string_view key, int line, std::string message, std::string hint);
  // Fails for every key that was not read. Called after all reads.
  void finish();

 private:
  void read_inner(const Table& table, std::string_view key, const Visit& visit);

  const Table& table_;
  std::string prefix_;
  const std::string& path_;
  std::optional<Error>& error_;
  std::vector<std::string> known_;
};

// FOR_EACH(macro, a, b, c) is macro(a) macro(b) macro(c).
#define PLUMBLINE_EXPAND(...) PLUMBLINE_EXPAND3(PLUMBLINE_EXPAND3(PLUMBLINE_EXPAND3(__VA_ARGS__)))
#define PLUMBLINE_EXPAND3(...) PLUMBLINE_EXPAND2(PLUMBLINE_EXPAND2(PLUMBLINE_EXPAND2(__VA_ARGS__)))
#define PLUMBLINE_EXPAND2(...) PLUMBLINE_EXPAND1(PLUMBLINE_EXPAND1(PLUMBLINE_EXPAND1(__VA_ARGS__)))
#define PLUMBLINE_EXPAND1(...) __VA_ARGS__
#define PLUMBLINE_PARENTHESES ()
#define PLUMBLINE_ONE(macro, name, ...) macro(name) __VA_OPT__(PLUMBLINE_NEXT PLUMBLINE_PARENTHESES(macro, __VA_ARGS__))
#define PLUMBLINE_NEXT() PLUMBLINE_ONE
#define FOR_EACH(macro, ...) PLUMBLINE_EXPAND(PLUMBLINE_ONE(macro, __VA_ARGS__))

// Read keys into the fields of the same names.
#define READ_REQUIRED(reader, of, ...) \
  [](auto& read_by, auto& read_into) { FOR_EACH(PLUMBLINE_READ_REQUIRED, __VA_ARGS__) }(reader, of)
#define READ_OPTIONAL(reader, of, ...) \
  [](auto& read_by, auto& read_into) { FOR_EACH(PLUMBLINE_READ_OPTIONAL, __VA_ARGS__) }(reader, of)
#define PLUMBLINE_READ_REQUIRED(name) read_by.required(#name, read_into.name);
#define PLUMBLINE_READ_OPTIONAL(name) read_by.optional(#name, read_into.name);

// Reads a TOML file, or the text of one, with `visit`; an input error names file, line and key.
Result<void> read_table_text(std::string_view text, const std::string& path, const TableReader::Visit& visit);
Result<void> read_table_file(const std::string& path, const TableReader::Visit& visit);
// Whether the file has the key; no for a file that is missing or no TOML, whose error is left to its reader.
bool table_file_has(const std::string& path, std::string_view key);

}  // namespace plumbline::model
