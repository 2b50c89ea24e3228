// Checks what the degrees of a plan must divide in a model; each rule has its reason.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// Keeps the first error about degrees that do not satisfy their rules: infeasible, with the key, the rule and the
// nearest degrees that do.
class Divisions {
 public:
  using Allowed = std::function<bool(std::int64_t)>;

  explicit Divisions(const Plan& plan) : plan_(plan) {}

  // Records an error about `degree` at `key` unless `allowed` accepts it.
  void require(const std::string& key, std::int64_t degree, const Allowed& allowed, std::string rule);
  void require_divides(const std::string& key, std::int64_t degree, std::int64_t whole, std::string_view what);
  // Requires that the heads of attention divide over tensor ranks, and those of keys and values or their copies.
  void require_heads(const std::string& key, std::int64_t tensor, const Architecture& model);

  const std::optional<Error>& error() const { return error_; }

 private:
  const Plan& plan_;
  std::optional<Error> error_;
};

// Returns an infeasible error with the key, the rule and the nearest degrees that satisfy it, or nothing.
std::optional<Error> check_divisions(const Plan& plan, const Architecture& architecture);

}  // namespace plumbline::model
