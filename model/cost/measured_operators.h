// Holds the times of operators that were measured one by one: entries measured.cores<N>.<operator_key> of a profile, on
// a GPU measured.sms<N>.<operator_key>. Those of computations measured during a transfer, and of transfers measured
// during a computation, are measured.<...>_beside.<operator_key>.
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
#include "model/graph/graph.h"

namespace plumbline::model {

class MeasuredOperators {
 public:
  // The result is empty for a profile without such entries. An entry that is no time, or of another form, is an input
  // error.
  static Result<MeasuredOperators> read(const Profile& profile);

  bool empty() const { return !entries_; }
  struct Place {
    std::int64_t cores = 1;  // cores or SMs: those that a GEMM was launched on, or that were free for others
    bool overlapped = false;
    auto operator<=>(const Place&) const = default;
  };
  using Entry = std::pair<Place, Constant>;  // seconds without a launch gap
  // Returns the entries of the operator with this key, by rising number of cores.
  std::span<const Entry> find(const std::string& key) const;
  std::optional<Constant> find(const std::string& key, const Place& place) const;

  // Returns the name of an entry: "measured.cores2.matmul-F-fp32-...", "measured.sms112_beside.dispatch-F-...".
  enum class Unit : std::uint8_t { cores, sms };
  static std::string name(std::string_view key, const Place& place, Unit unit = Unit::cores);

 private:
  std::shared_ptr<const std::unordered_map<std::string, std::vector<Entry>>> entries_;  // copies share it
};

// Returns the name under which a profile holds the measured time of an operator: kind, phase, number format of the
// first tensor, expected shapes of all tensors, and whatever else determines the time (which operands are transposed,
// heads, sequence length and window of attention, ...): "matmul-F-fp32-256x128-384x128-to-256x384-tb". Consecutive
// equal shapes are counted ("-2n256x128"), another format is named ("-256_int32"). All characters are letters, digits,
// '_' or '-', as in a bare TOML key. Requires an operator that reads or writes.
std::string operator_key(const Graph& graph, const Operator& op);

}  // namespace plumbline::model
