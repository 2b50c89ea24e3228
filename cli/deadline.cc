#include "cli/deadline.h"

#include <fmt/format.h>

#include <chrono>

#include "model/base/text.h"
#include "sim/search/ranking.h"

namespace plumbline::cli {

std::optional<std::int64_t> first_day(const model::Plan& plan, const std::string& deadline) {
  if (plan.campaign.start) return model::parse_date(*plan.campaign.start);
  if (!model::parse_date(deadline)) return std::nullopt;
  return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch().count();
}

model::Result<double> days_until(const std::string& option, const std::string& deadline,
                                 std::optional<std::int64_t> first) {
  const auto date = model::parse_date(deadline);
  if (!date) {
    if (const auto days = sim::parse_days(deadline)) return *days;
    return model::wrong_input(option, fmt::format("'{}' is neither a date nor a duration", deadline),
                              "2027-03-01, or a number above 0 with its unit: 60d, 36h, 8w, 90min");
  }
  if (*date <= *first)
    return model::wrong_input(option, fmt::format("{} is not after the start, {}", deadline, model::date_text(*first)),
                              "campaign.start of the plan is its first day");
  return static_cast<double>(*date - *first);
}

}  // namespace plumbline::cli
