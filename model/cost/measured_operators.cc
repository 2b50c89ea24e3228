#include "model/cost/measured_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/si_unit.h"
#include "model/base/text.h"

namespace plumbline::model {

namespace {

constexpr std::string_view prefix = "measured.", beside_word = "_beside";
constexpr std::array<std::string_view, 2> unit_words = {"cores", "sms"};  // by Unit

// "cores2", "sms112_beside".
std::optional<MeasuredOperators::Place> place_of(std::string_view word) {
  MeasuredOperators::Place place;
  place.beside = word.ends_with(beside_word);
  if (place.beside) word.remove_suffix(beside_word.size());
  const auto* unit = std::ranges::find_if(unit_words, [&](std::string_view one) { return word.starts_with(one); });
  if (unit == unit_words.end()) return std::nullopt;
  const auto cores = parse_number<std::int64_t>(word.substr(unit->size()));
  if (!cores || *cores < 1) return std::nullopt;
  place.cores = *cores;
  return place;
}

tl::unexpected<Error> wrong(const Parameter& parameter, std::string message, std::string hint) {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), "", 0, parameter.name, std::move(hint)});
}

}  // namespace

std::string MeasuredOperators::name(std::string_view key, const Place& place, Unit unit) {
  return fmt::format("{}{}{}{}.{}", prefix, unit_words[static_cast<std::size_t>(unit)], place.cores,
                     place.beside ? beside_word : "", key);
}

Result<MeasuredOperators> MeasuredOperators::read(const Profile& profile) {
  const auto& all = profile.parameters();
  auto entries = std::make_shared<std::unordered_map<std::string, std::vector<Entry>>>();
  auto at = std::ranges::lower_bound(all, prefix, {}, [](const Parameter& p) { return std::string_view(p.name); });
  for (; at != all.end() && at->name.starts_with(prefix); ++at) {
    const std::string_view rest = std::string_view(at->name).substr(prefix.size());
    const std::size_t dot = rest.find('.');
    const bool complete = dot != std::string_view::npos && dot + 1 < rest.size();
    const auto place = complete ? place_of(rest.substr(0, dot)) : std::nullopt;
    if (!place) return wrong(*at, "not the name of a measured operator", "measured.cores1.<kind>-<phase>-<format>-...");
    const Result<SiUnit> unit = si_unit(at->unit);
    if (!unit || unit->dimension != UnitDimension::seconds || at->value <= 0)
      return wrong(*at, "a measured operator takes a time above 0", "for example value = 12.5, unit = \"us\"");
    const auto index = static_cast<std::int32_t>(at - all.begin());
    (*entries)[std::string(rest.substr(dot + 1))].emplace_back(*place, Constant{index, at->value * unit->factor});
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

std::optional<Constant> MeasuredOperators::find(const std::string& key, const Place& place) const {
  const std::span<const Entry> entries = find(key);
  const auto found = std::ranges::find(entries, place, &Entry::first);
  return found == entries.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace plumbline::model
