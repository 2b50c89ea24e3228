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

// Returns the value with the first longest match, or all of them, replaced.
Letters replaced(const Letters& value, const Letters& pattern, const Letters& with, bool all);

// Returns the words of {a,b} and {1..8} in a word as it is written: the word itself where it has none.
std::vector<Letters> with_braces(const Letters& word);

}  // namespace plumbline::model::megatron
