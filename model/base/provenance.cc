#include "model/base/provenance.h"

#include <array>
#include <cassert>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model {
namespace {

constexpr std::array evidences = {Evidence::measured, Evidence::fitted, Evidence::published, Evidence::datasheet,
                                  Evidence::assumed};

}  // namespace

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::measured:
      return "measured";
    case Evidence::fitted:
      return "fitted";
    case Evidence::published:
      return "published";
    case Evidence::datasheet:
      return "datasheet";
    case Evidence::assumed:
      return "assumed";
  }
  assert(false && "unknown evidence");
  return "";
}

Result<Evidence> parse_evidence(std::string_view text) {
  std::vector<std::string> names;
  for (const Evidence evidence : evidences) {
    if (to_string(evidence) == text) return evidence;
    names.emplace_back(to_string(evidence));
  }
  return wrong_input("", "unknown kind of evidence '" + std::string(text) + "'",
                     did_you_mean_before(text, names, "one of measured, fitted, published, datasheet, assumed"));
}

}  // namespace plumbline::model
