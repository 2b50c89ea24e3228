#include "model/cost/measured_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/si_unit.h"

namespace plumbline::model {

namespace {

constexpr std::string_view prefix = "measured.", cores_word = "cores";

tl::unexpected<Error> wrong(const Parameter& parameter, std::string message, std::string hint) {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), "", 0, parameter.name, std::move(hint)});
}

}  // namespace

std::string MeasuredOperators::name(std::string_view key, std::int64_t cores) {
  return fmt::format("{}{}{}.{}", prefix, cores_word, cores, key);
}

Result<MeasuredOperators> MeasuredOperators::read(const Profile& profile) {
  const auto& all = profile.parameters();
  auto entries = std::make_shared<std::unordered_map<std::string, std::vector<Entry>>>();
  auto at = std::ranges::lower_bound(all, prefix, {}, [](const Parameter& p) { return std::string_view(p.name); });
  for (; at != all.end() && at->name.starts_with(prefix); ++at) {
    const std::string_view rest = std::string_view(at->name).substr(prefix.size());
    const std::size_t dot = rest.find('.');
    std::int64_t cores = 0;
    const char* last = rest.data() + std::min(dot, rest.size());
    const bool named = rest.starts_with(cores_word) && dot != std::string_view::npos && dot + 1 < rest.size() &&
                       std::from_chars(rest.data() + cores_word.size(), last, cores).ptr == last && cores > 0;
    if (!named) return wrong(*at, "not the name of a measured operator", "measured.cores1.<kind>-<phase>-<format>-...");
    const Result<SiUnit> unit = si_unit(at->unit);
    if (!unit || unit->dimension != UnitDimension::seconds || at->value <= 0)
      return wrong(*at, "a measured operator takes a time above 0", "for example value = 12.5, unit = \"us\"");
    const auto index = static_cast<std::int32_t>(at - all.begin());
    (*entries)[std::string(rest.substr(dot + 1))].emplace_back(cores, Constant{index, at->value * unit->factor});
  }
  MeasuredOperators measured;
  if (entries->empty()) return measured;
  for (auto& [key, of_key] : *entries) std::ranges::sort(of_key, {}, &Entry::first);
  measured.entries_ = std::move(entries);
  return measured;
}

std::span<const MeasuredOperators::Entry> MeasuredOperators::find(const std::string& key) const {
  if (empty()) return {};
  const auto found = entries_->find(key);
  return found == entries_->end() ? std::span<const Entry>() : std::span<const Entry>(found->second);
}

std::optional<Constant> MeasuredOperators::find(const std::string& key, std::int64_t cores) const {
  const std::span<const Entry> entries = find(key);
  const auto found = std::ranges::find(entries, cores, &Entry::first);
  return found == entries.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace plumbline::model
