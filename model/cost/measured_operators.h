// Operators that were measured one by one: a profile's entries measured.cores<N>.<operator_key>.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/cost/constants.h"

namespace plumbline::model {

class MeasuredOperators {
 public:
  // Without any entry it is empty, and costs nothing. Input error: an entry that is no time, or not in that form.
  static Result<MeasuredOperators> read(const Profile& profile);

  bool empty() const { return !entries_; }
  using Entry = std::pair<std::int64_t, Constant>;  // cores (SMs) it ran on; seconds without a launch gap
  // Of the operator with this key, by rising cores.
  std::span<const Entry> find(const std::string& key) const;
  std::optional<Constant> find(const std::string& key, std::int64_t cores) const;

  // The name of an entry: "measured.cores2.matmul-F-fp32-...".
  static std::string name(std::string_view key, std::int64_t cores);

 private:
  std::shared_ptr<const std::unordered_map<std::string, std::vector<Entry>>> entries_;  // copies share it
};

}  // namespace plumbline::model
