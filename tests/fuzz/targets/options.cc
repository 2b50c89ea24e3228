// Values of options of the command, which people write by hand.
#include <cmath>

#include "sim/analysis/measured_step.h"
#include "sim/search/ranking.h"
#include "sim/whatif/range.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {
namespace {

void require_amount(const model::Result<double>& value) {
  require_words(value);
  require(!value || (std::isfinite(*value) && *value > 0), "an impossible amount is accepted");
}

}  // namespace

void read_option_values(std::string_view input) {
  for (const auto& axis : {sim::parse_axis(input), sim::parse_ends(input)}) {
    require_words(axis);
    require(!axis || (!axis->values.empty() && axis->values.size() <= sim::most_points), "an axis has no such size");
  }
  require_amount(sim::parse_days(input));
  require_amount(sim::parse_usd(input));
  require_amount(sim::parse_tokens(input));
  require_amount(sim::parse_measured_peak(input));
  const auto measured = sim::parse_measurement(input);
  require_words(measured);
  require(!measured || (std::isfinite(measured->step.value) && measured->step.value > 0),
          "an impossible step is accepted");
}

}  // namespace plumbline::fuzz
