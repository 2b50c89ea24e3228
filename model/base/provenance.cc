#include "model/base/provenance.h"

#include <algorithm>
#include <array>

namespace plumbline::model {
namespace {

// The words are in the order of Evidence.
constexpr std::array<std::string_view, 5> evidences = {"measured", "fitted", "published", "datasheet", "assumed"};

}  // namespace

std::string_view to_string(Evidence evidence) { return evidences[static_cast<std::size_t>(evidence)]; }

Result<Evidence> parse_evidence(std::string_view text) {
  const auto* found = std::ranges::find(evidences, text);
  if (found != evidences.end()) return static_cast<Evidence>(found - evidences.begin());
  return wrong_input("", "unknown kind of evidence '" + std::string(text) + "'",
                     did_you_mean_before(text, {evidences.begin(), evidences.end()},
                                         "one of measured, fitted, published, datasheet, assumed"));
}

}  // namespace plumbline::model
