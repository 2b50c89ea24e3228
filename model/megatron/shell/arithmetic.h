// Evaluates integer arithmetic of a shell, as in $((TP * PP)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/text.h"

namespace plumbline::model::megatron {

// The variables of an expression, by name: their text, and what an assignment sets.
struct NumberScope {
  std::function<std::optional<std::string>(std::string_view)> value_of;
  std::function<void(std::string_view, std::int64_t)> assign;
};

// Evaluates + - * / % ** comparisons && || ! ?: and assignments over numbers, names and NAME[KEY]. Returns nothing when
// the text has other content, a name has no number or an octal one, or a result does not fit 64 bits.
std::optional<std::int64_t> arithmetic(std::string_view text, const NumberScope& scope);

// Parses a text that is a decimal integer.
inline std::optional<std::int64_t> integer(std::string_view text) { return parse_number<std::int64_t>(text); }

}  // namespace plumbline::model::megatron
