#include "cli/deadline.h"

#include <fmt/format.h>

#include <chrono>

#include "model/base/text.h"
#include "sim/search/ranking.h"

namespace plumbline::cli {
namespace {

// What no training takes is a slip of the pen: a minute, a century.
constexpr double least_days = 1.0 / 1440, most_days = 36525;

}  // namespace

std::optional<std::int64_t> first_day(const model::Plan& plan, const std::string& deadline) {
  if (plan.campaign.start) return model::parse_date(*plan.campaign.start);
  if (!model::parse_date(deadline)) return std::nullopt;
  return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch().count();
}

model::Result<double> days_until(const std::string& option, const std::string& deadline,
                                 std::optional<std::int64_t> first) {
  const auto date = model::parse_date(deadline);
  const auto duration = sim::parse_days(deadline);
  if (!date && !duration)
    return model::wrong_input(option, fmt::format("'{}' is neither a date nor a duration", deadline),
                              "2027-03-01, or a number above 0 with its unit: 60d, 36h, 8w, 90min");
  if (date && *date <= *first)
    return model::wrong_input(option, fmt::format("{} is not after the start, {}", deadline, model::date_text(*first)),
                              "campaign.start of the plan is its first day");
  const double days = date ? static_cast<double>(*date - *first) : *duration;
  if (days < least_days || days > most_days)
    return model::wrong_input(option, fmt::format("'{}' is not between a minute and 100 years", deadline),
                              "for example 60d, 36h, 8w or 90min");
  return days;
}

}  // namespace plumbline::cli
