#include "cli/plan_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;

constexpr std::array objectives = {Objective::time, Objective::cost, Objective::gpu_hours};

tl::unexpected<Error> wrong(std::string key, std::string message, std::string hint) {
  return tl::make_unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

// The number at the front and what follows it.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value <= 0) return std::nullopt;
  return std::pair(value, text.substr(static_cast<std::size_t>(end - text.data())));
}

bool same_site(const SiteName& a, const SiteName& b) {
  return a.cluster == b.cluster && a.profile == b.profile && a.gpus == b.gpus;
}

}  // namespace

std::string_view to_string(Objective objective) {
  if (objective == Objective::time) return "time";
  return objective == Objective::cost ? "cost" : "gpu-hours";
}

model::Result<Objective> parse_objective(std::string_view text) {
  for (const Objective objective : objectives) {
    if (to_string(objective) == text) return objective;
  }
  const std::string nearest = model::nearest_name(text, {"time", "cost", "gpu-hours"});
  return wrong("--objective", fmt::format("unknown objective '{}'", text),
               (nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest)) + "one of time, cost, gpu-hours");
}

model::Result<double> parse_days(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> units = {
      {{"w", 7.0}, {"d", 1.0}, {"h", 1.0 / 24}, {"min", 1.0 / 1440}}};
  if (const auto parsed = number_and_unit(text)) {
    for (const auto& [unit, days] : units) {
      if (parsed->second == unit) return parsed->first * days;
    }
  }
  return wrong("--deadline", fmt::format("'{}' is not a duration", text),
               "a number above 0 with its unit: 60d, 36h, 8w, 90min");
}

model::Result<double> parse_usd(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> units = {
      {{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}}};
  if (const auto parsed = number_and_unit(text)) {
    for (const auto& [unit, usd] : units) {
      if (parsed->second == unit) return parsed->first * usd;
    }
  }
  return wrong("--budget", fmt::format("'{}' is not an amount of money", text),
               "USD above 0: 6e6, 6000000, 5.5M, 800k");
}

model::Result<std::vector<SiteName>> sites_of(const std::vector<std::string>& clusters,
                                              const std::vector<std::int64_t>& gpus) {
  std::vector<SiteName> sites;
  const std::vector<std::string> names = clusters.empty() ? std::vector<std::string>{""} : clusters;
  const std::vector<std::int64_t> sizes = gpus.empty() ? std::vector<std::int64_t>{0} : gpus;
  for (const std::string& name : names) {
    const std::size_t colon = name.rfind(':');
    const bool split = colon != std::string::npos;
    if (!clusters.empty() && (name.empty() || colon == 0 || (split && colon + 1 == name.size())))
      return wrong("--cluster", fmt::format("'{}' is not NAME or NAME:PROFILE", name),
                   "for example --cluster h800-rail-fat-tree,h100-dgx:h100-public");
    for (const std::int64_t size : sizes) {
      if (!gpus.empty() && size < 1)
        return wrong("--gpus", fmt::format("{} GPUs train nothing", size), "give numbers from 1 on: --gpus 1024,2048");
      SiteName site{name.substr(0, colon), split ? name.substr(colon + 1) : "", size};
      const bool fresh = std::ranges::none_of(sites, [&](const SiteName& known) { return same_site(known, site); });
      if (fresh) sites.push_back(std::move(site));
    }
  }
  return sites;
}

}  // namespace plumbline::cli
