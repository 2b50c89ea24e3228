// What readers of configurations share: limits, and the collection of entries.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/configurations/configuration.h"

namespace plumbline::model::configurations {

inline constexpr std::size_t kMostValues = 100'000;
inline constexpr int kDeepest = 64;

// Returns "callbacks[].name" of "callbacks[0].name": tables of keys do not count the elements of a list.
inline std::string without_indices(const std::string& written) {
  std::string key;
  bool inside = false;
  for (const char letter : written) {
    if (letter == ']') inside = false;
    if (!inside) key += letter;
    if (letter == '[') inside = true;
  }
  return key;
}

inline std::string with_renames(const std::string& written, const std::vector<Rename>& renames) {
  for (const auto& [prefix, replacement] : renames) {
    const bool begins = written.starts_with(prefix) && (prefix.ends_with('.') || prefix.ends_with('_'));
    if (begins || written == prefix) return std::string(replacement) + written.substr(prefix.size());
  }
  return written;
}

// Collects entries under their renamed keys and keeps the first error.
class Collector {
 public:
  Collector(const std::string& path, const std::vector<Rename>& renames) : renames_(renames) { out_.file = path; }

  bool failed() const { return error_.has_value(); }

  // Returns whether reading may go on at this depth.
  bool enter(int depth, int line) {
    if (depth > kDeepest) fail(line, "", fmt::format("nested more than {} levels deep", kDeepest));
    return !failed();
  }

  void fail(int line, const std::string& key, std::string message) {
    if (!error_) error_ = Error{ErrorKind::input, std::move(message), out_.file, line, key, ""};
  }

  // Adds a value. Of a merge key, values that the table has itself are left out.
  void add(Entry entry, bool merged) {
    if (failed()) return;
    if (!written_.insert(entry.written).second) {
      if (!merged) fail(entry.line, entry.written, "is given twice");
      return;
    }
    if (out_.entries.size() >= kMostValues)
      return fail(entry.line, "", fmt::format("more than {} values: aliases that expand each other?", kMostValues));
    entry.key = with_renames(without_indices(entry.written), renames_);
    out_.entries.push_back(std::move(entry));
  }

  Result<Configuration> result() && {
    if (error_) return tl::unexpected(*error_);
    return std::move(out_);
  }

 private:
  const std::vector<Rename>& renames_;
  Configuration out_;
  std::set<std::string, std::less<>> written_;
  std::optional<Error> error_;
};

inline std::string joined(const std::string& prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

}  // namespace plumbline::model::configurations
