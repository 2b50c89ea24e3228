// Keys of a model's config.json that a plan replaces.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace plumbline::model {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;
using ConfigOverrides = std::map<std::string, ConfigValue>;  // by the key's name in the config.json

}  // namespace plumbline::model
