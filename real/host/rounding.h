// Number formats of 16 bits, emulated in floats: round to nearest, ties to even.
#pragma once

#include <span>

#include "model/base/data_type.h"

namespace plumbline::real::host {

// Each value as the format holds it; formats of 32 bits and whole numbers stay as they are.
void round_to(model::DataType type, std::span<float> values);
bool is_16_bit(model::DataType type);  // bf16 or fp16

}  // namespace plumbline::real::host
