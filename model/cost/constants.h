// Holds constants of a profile as the cost functions use them: the SI value plus the index for provenance; and factors
// on the times of single kernel shapes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "model/profile/profile.h"

namespace plumbline::model {

struct Constant {
  std::int32_t index = -1;  // into Profile::parameters(); -1: none
  double value = 0;         // in SI (seconds, bytes/s, FLOP/s) or a plain number
};

// Seconds that depend on one constant.
struct Share {
  std::int32_t index = -1;
  double seconds = 0;
};

// Looks constants up by name and keeps the error of the first that is missing.
class ConstantReader {
 public:
  explicit ConstantReader(const Profile& profile) : profile_(profile) {}

  Constant require(std::string_view name);
  // Returns the first of the two that the profile has; it is an error when there is neither.
  Constant require_either(std::string_view name, std::string_view fallback);
  // Returns the constant, or nullopt when the profile lacks it.
  std::optional<Constant> find(std::string_view name);
  // Returns whether the profile has a constant whose name begins so.
  bool any(std::string_view prefix) const;
  // Returns the constant's value, or `absent` when the profile lacks it.
  double value(std::string_view name, double absent = 0);

  // Returns the error of the first missing or unreadable constant, if any.
  const std::optional<Error>& error() const { return error_; }

 private:
  const Profile& profile_;
  std::optional<Error> error_;
};

// Shapes have factors: how far a cost function may be off for one shape, which all launches of
// that shape share. Predictions without factors are those of the cost functions as they are.

// Families of cost functions whose errors are known apart (constants residual.<family> of a profile); small: of few
// rows, in a pass of inference.
enum class CostFamily : std::uint8_t {
  gemm,
  grouped_gemm,
  attention,
  memory_bound,
  collective,
  all_to_all,
  small_gemm,
  small_grouped_gemm,
  cached_attention
};
inline constexpr std::size_t cost_families = 9;
std::string_view to_string(CostFamily family);  // "gemm", "grouped_gemm", ... as in the constants' names

// A shape: its family, and a hash of all that the cost function reads of it (sizes, format, direction, ranks), the same
// on every machine.
struct ShapeKey {
  CostFamily family = CostFamily::gemm;
  std::uint64_t hash = 0;
  auto operator<=>(const ShapeKey&) const = default;
};

// Returns the key of a shape that is described by numbers, each of which is rounded to whole ones.
ShapeKey shape_key(CostFamily family, std::initializer_list<double> numbers);

struct ShapeKeyHash {
  std::size_t operator()(const ShapeKey& key) const {
    return static_cast<std::size_t>(key.hash ^ (static_cast<std::uint64_t>(key.family) << 56));
  }
};

// For one thread at a time.
class ShapeFactors {
 public:
  void set(const ShapeKey& key, double factor) { factors_[key] = factor; }
  void clear() { factors_.clear(); }
  // Returns the factor on the time of a shape, 1 where none is set.
  double factor(const ShapeKey& key) const {
    const auto found = factors_.find(key);
    if (found != factors_.end()) return found->second;
    if (records_) factors_.emplace(key, 1);
    return 1;
  }
  const std::unordered_map<ShapeKey, double, ShapeKeyHash>& all() const { return factors_; }
  // Keeps every shape whose factor is asked for, with factor 1.
  void record() { records_ = true; }

 private:
  mutable std::unordered_map<ShapeKey, double, ShapeKeyHash> factors_;
  bool records_ = false;
};

}  // namespace plumbline::model
