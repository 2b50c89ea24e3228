// Emulates number formats of 16 bits in floats: rounds to nearest, ties to even.
#pragma once

#include <span>

#include "model/base/data_type.h"

namespace plumbline::real::host {

// Rounds each value to the format; formats of 32 bits and integer formats leave it unchanged.
void round_to(model::DataType type, std::span<float> values);
bool is_16_bit(model::DataType type);  // bf16 or fp16

}  // namespace plumbline::real::host
