// Text with alternatives in braces stands for several: "span.{attn,mlp}.{1,2}" for four.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

struct Alternative {
  std::string text;
  std::vector<std::string> choices;  // what was taken from each pair of braces
};

// The last pair of braces varies fastest. Input error when braces do not match, are nested or hold nothing,
// or stand for more than 10,000 texts.
model::Result<std::vector<Alternative>> alternatives(std::string_view text);

// "{1}" in `text` becomes the first choice, "{2}" the second, ...
std::string with_choices(std::string text, const std::vector<std::string>& choices);

}  // namespace plumbline::calibrate
