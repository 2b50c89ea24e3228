// Expands alternatives in braces: "span.{attn,mlp}.{1,2}" stands for four texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

struct Alternative {
  std::string text;
  std::vector<std::string> choices;  // the choice from each pair of braces
};

// Returns all texts; the last pair of braces varies fastest. Input error when braces do not match, are nested or empty,
// or stand for more than 10,000 texts.
model::Result<std::vector<Alternative>> alternatives(std::string_view text);

// Replaces "{1}" in `text` by the first choice, "{2}" by the second, ...
std::string with_choices(std::string text, const std::vector<std::string>& choices);

}  // namespace plumbline::calibrate
