// Holds constants of a profile as the cost functions use them: the SI value plus the index for provenance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace plumbline::model
