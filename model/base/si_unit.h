// Units in profile, topology and device files. GB is 10^9 bytes, GiB 2^30.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::model {

enum class UnitDimension {
  count,
  seconds,
  bytes,
  bytes_per_second,
  flops_per_second,
  watts,
  joules,
  joules_per_flop,
  joules_per_byte,
  hertz,
  // Money, and the years of depreciation, have one unit each and are never converted.
  usd,
  usd_per_gpu_hour,
  usd_per_kwh,
  years
};
std::string_view to_string(UnitDimension dimension);

struct SiUnit {
  UnitDimension dimension = UnitDimension::count;
  double factor = 1;  // value * factor is in SI
};

// Fails with an input error that lists the known units for an unknown one; the caller adds file, line and key.
Result<SiUnit> si_unit(std::string_view unit);

// Reads bytes as nccl-tests do: an integer from 1 to 2^50, with K, M or G for powers of 1024; else an error about
// `key`.
Result<std::int64_t> parse_binary_size(std::string_view text, std::string key);

}  // namespace plumbline::model
