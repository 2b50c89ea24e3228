#include "model/profile/constant_change.h"

#include <fmt/format.h>

namespace plumbline::model {

// Every * takes as few characters as it can; where the rest does not fit, the last one takes another.
bool name_fits(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, in_pattern = 0, last_star = std::string_view::npos, after_star = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      last_star = in_pattern++;
      after_star = at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[at]) {
      ++in_pattern;
      ++at;
    } else if (last_star != std::string_view::npos) {
      in_pattern = last_star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

namespace {

// gemm.tile, gemm.<kind>.tile_m and .tile_n. The rates of GEMMs are times of one tile.
bool is_tile(std::string_view name) {
  return name == "gemm.tile" || name_fits(name, "gemm.*.tile_m") || name_fits(name, "gemm.*.tile_n");
}

}  // namespace

Result<void> apply_change(const ConstantChange& change, const std::vector<Parameter*>& constants) {
  bool found = false;
  for (Parameter* constant : constants) {
    if (!name_fits(constant->name, change.name)) continue;
    found = true;
    const double before = constant->value;
    if (const double after = change.is_factor() ? before * change.value : change.value;
        is_tile(constant->name) && after != before)
      return wrong_input(
          change.name,
          fmt::format("{} cannot change alone: k_time and wave_overhead are times of a tile", constant->name),
          "change profile.gemm.*.k_time, or give a profile that states the tile with its times");
    constant->value = change.is_factor() ? before * change.value : change.value;
    constant->kind = Evidence::assumed;
    constant->source =
        fmt::format("given for this prediction; was {} {}: {}", before, constant->unit, constant->source);
    constant->relative_uncertainty.reset();
  }
  if (found) return {};
  std::vector<std::string> names;
  for (const Parameter* constant : constants) names.push_back(constant->name);
  return wrong_input(change.name, "unknown constant",
                     did_you_mean(change.name, names, "plumbline show profile and show topology list them"));
}

}  // namespace plumbline::model
