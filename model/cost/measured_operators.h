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
#include "model/graph/graph.h"

namespace plumbline::model {

class MeasuredOperators {
 public:
  // Without any entry it is empty, and costs nothing. Input error: an entry that is no time, or not in that form.
  static Result<MeasuredOperators> read(const Profile& profile);

  bool empty() const { return !entries_; }
  struct Place {
    std::int64_t cores = 1;  // cores or SMs: of a product those it was launched on, of others those that were free
    bool overlapped = false;
    auto operator<=>(const Place&) const = default;
  };
  using Entry = std::pair<Place, Constant>;  // seconds without a launch gap
  // Of the operator with this key, by rising cores.
  std::span<const Entry> find(const std::string& key) const;
  std::optional<Constant> find(const std::string& key, const Place& place) const;

  // The name of an entry: "measured.cores2.matmul-F-fp32-...", "measured.sms112_overlapped.dispatch-F-...".
  enum class Unit : std::uint8_t { cores, sms };
  static std::string name(std::string_view key, const Place& place, Unit unit = Unit::cores);

 private:
  std::shared_ptr<const std::unordered_map<std::string, std::vector<Entry>>> entries_;  // copies share it
};

// The name under which a profile holds what an operator was measured to take: kind, phase, number format of the first
// tensor, the expected shapes of all that it reads and writes, and what else decides its time (which operands are
// turned, heads, sequence length and window of attention, ...): "matmul-F-fp32-256x128-384x128-to-256x384-tb". Equal
// shapes in a row are counted ("-2n256x128"), another format is named ("-256_int32"). Letters, digits, '_' and '-': a
// bare key of TOML. Requires an operator that reads or writes.
std::string operator_key(const Graph& graph, const Operator& op);

}  // namespace plumbline::model
