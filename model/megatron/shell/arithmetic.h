// Evaluates integer arithmetic of a shell, as in $((TP * PP)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/text.h"

namespace plumbline::model::megatron {

// Evaluates + - * / % comparisons && || ! and brackets over decimal numbers, names and NAME[KEY], whose texts
// `value_of` returns. Returns nothing when the text has other content, a name has no such number, or a result does not
// fit 64 bits.
std::optional<std::int64_t> arithmetic(std::string_view text,
                                       const std::function<std::optional<std::string>(std::string_view)>& value_of);

// Parses a text that is a decimal integer.
inline std::optional<std::int64_t> integer(std::string_view text) { return parse_number<std::int64_t>(text); }

}  // namespace plumbline::model::megatron
