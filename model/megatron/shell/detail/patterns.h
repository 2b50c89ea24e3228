// Patterns of a shell: * ? [...] match, quoted letters stand for themselves.
#pragma once

#include <string_view>

#include "model/megatron/shell/detail/letters.h"

namespace plumbline::model::megatron {

// Whether the whole text matches.
bool matches(const Letters& pattern, const Letters& text);

// Returns the value without the shortest or longest (`sign` doubled) part that matches: # from its beginning, % from
// its end.
Letters trimmed(const Letters& value, std::string_view sign, const Letters& pattern);

}  // namespace plumbline::model::megatron
