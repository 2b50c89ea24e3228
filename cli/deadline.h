// The end of a training as options take it: a date or a duration. A date counts from the first day of the training,
// which is campaign.start of its plan, else today.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::cli {

// Returns the first day of the training, in days since 1970-01-01; nothing where the plan states none and the deadline
// is no date, which does not ask for it.
std::optional<std::int64_t> first_day(const model::Plan& plan, const std::string& deadline);

// Returns the days from the first one to a deadline: "2027-03-01", "60d", "8w". A date on the first day or before it,
// what is less than a minute or more than a century, and what is neither date nor duration, are input errors of
// `option`.
model::Result<double> days_until(const std::string& option, const std::string& deadline,
                                 std::optional<std::int64_t> first);

}  // namespace plumbline::cli
