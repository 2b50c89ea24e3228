#include "model/profile/constant_change.h"

#include <fmt/format.h>

namespace plumbline::model {

bool name_fits(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t skipped = star; skipped <= name.size(); ++skipped) {
    if (name_fits(name.substr(skipped), rest)) return true;
  }
  return false;
}

Result<void> apply_change(const ConstantChange& change, const std::vector<Parameter*>& constants) {
  bool found = false;
  for (Parameter* constant : constants) {
    if (!name_fits(constant->name, change.name)) continue;
    found = true;
    const double before = constant->value;
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
