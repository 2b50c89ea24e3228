#include "model/cost/detail/sm_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "model/base/si_unit.h"
#include "model/base/text.h"

namespace plumbline::model {

namespace {

constexpr std::string_view curves = "exchange.sm_curve.";

Error unknown_family(const Profile& profile, std::string_view family) {
  std::set<std::string> known;
  for (const Parameter& parameter : profile.parameters()) {
    if (!parameter.name.starts_with(curves)) continue;
    const std::string rest = parameter.name.substr(curves.size());
    known.insert(rest.substr(0, rest.find('.')));
  }
  return {ErrorKind::input,
          fmt::format("profile '{}' has no communication kernels '{}'", profile.name(), family),
          "",
          0,
          "overlap.communication_kernels",
          fmt::format("known: {}", fmt::join(known, ", "))};
}

}  // namespace

Result<SmCurve> SmCurve::read(const Profile& profile, std::string_view family, std::string_view kernel) {
  const std::string prefix = fmt::format("{}{}.{}.", curves, family, kernel);
  std::vector<std::pair<std::int64_t, double>> points;
  for (const Parameter& parameter : profile.parameters()) {
    if (!parameter.name.starts_with(prefix)) continue;
    const auto sms = parse_number<std::int64_t>(std::string_view(parameter.name).substr(prefix.size()));
    if (!sms || *sms < 1 || parameter.value <= 0)
      return wrong_input(parameter.name, "the key must be a number of SMs and its rate positive",
                         "for example 20 = { value = 46, unit = \"GB/s\", ... }");
    const auto unit = TRY(si_unit(parameter.unit));
    points.emplace_back(*sms, parameter.value * unit.factor);
  }
  if (points.empty()) return tl::unexpected(unknown_family(profile, family));
  std::ranges::sort(points);
  const double best = std::ranges::max_element(points, {}, &std::pair<std::int64_t, double>::second)->second;
  SmCurve curve;
  double before = 0;
  for (const auto& [sms, rate] : points) {
    if (rate <= before) continue;  // a lower rate with more SMs is noise
    curve.points_.emplace_back(sms, rate / best);
    before = rate;
  }
  return curve;
}

double SmCurve::share(std::int64_t sms) const {
  std::pair<std::int64_t, double> below = {0, 0};
  for (const auto& point : points_) {
    if (sms >= point.first) {
      below = point;
      continue;
    }
    const double between = static_cast<double>(sms - below.first) / static_cast<double>(point.first - below.first);
    return below.second + between * (point.second - below.second);
  }
  return below.second;
}

}  // namespace plumbline::model
