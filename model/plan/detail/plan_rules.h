// What a plan's values may be, key by key: ranges and known words. Used while reading; what divides
// what is layout's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_value.h"
#include "model/base/data_type.h"
#include "model/base/error.h"

namespace plumbline::model {

// Nothing when the value is allowed, else an error with message and hint; the caller adds file, line and key.
std::optional<Error> check_plan_value(std::string_view key, std::int64_t value);
std::optional<Error> check_plan_value(std::string_view key, double value);
std::optional<Error> check_plan_value(std::string_view key, const std::string& value);
std::optional<Error> check_plan_value(std::string_view key, const std::vector<std::int64_t>& values);
std::optional<Error> check_plan_value(std::string_view key, const std::vector<std::string>& values);
inline std::optional<Error> check_plan_value(std::string_view, const std::vector<bool>&) { return std::nullopt; }
inline std::optional<Error> check_plan_value(std::string_view, bool) { return std::nullopt; }
inline std::optional<Error> check_plan_value(std::string_view, Precision) { return std::nullopt; }
// Whoever reads the model checks its keys.
inline std::optional<Error> check_plan_value(std::string_view, const ConfigValue&) { return std::nullopt; }

// "did you mean 'x'? " in front of "one of a, b, c", the first part only when a name is near.
std::string choice_hint(std::string_view found, const std::vector<std::string>& choices);

}  // namespace plumbline::model
