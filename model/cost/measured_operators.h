// Operators that were measured one by one: a profile's entries measured.cores<N>.<operator_key>, of a GPU
// measured.sms<N>.<operator_key>, and measured.<...>_beside.<operator_key> where something ran beside them: a transfer
// beside a computation, computations beside a transfer.
#pragma once

#include <compare>
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
  struct Place {
    std::int64_t cores = 1;  // cores or SMs: of a product those it was launched on, of others those that were free
    bool beside = false;
    auto operator<=>(const Place&) const = default;
  };
  using Entry = std::pair<Place, Constant>;  // seconds without a launch gap
  // Of the operator with this key, by rising cores.
  std::span<const Entry> find(const std::string& key) const;
  std::optional<Constant> find(const std::string& key, const Place& place) const;

  // The name of an entry: "measured.cores2.matmul-F-fp32-...", "measured.sms112_beside.dispatch-F-...".
  enum class Unit : std::uint8_t { cores, sms };
  static std::string name(std::string_view key, const Place& place, Unit unit = Unit::cores);

 private:
  std::shared_ptr<const std::unordered_map<std::string, std::vector<Entry>>> entries_;  // copies share it
};

}  // namespace plumbline::model
