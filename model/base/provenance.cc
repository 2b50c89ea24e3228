#include "model/base/provenance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

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

// The Cholesky factor, each of whose rows is scaled to length 1 where rounding made it longer.
std::vector<std::vector<double>> factor_of(const ConstantFit& fit) {
  constexpr double least = 1e-6;  // of a diagonal element that is divided by
  std::vector<std::vector<double>> factor;
  for (std::size_t i = 0; i < fit.constants.size(); ++i) {
    std::vector<double> row(i + 1, 0.0);
    double length = 0;
    for (std::size_t j = 0; j < i; ++j) {
      double rest = fit.correlation[i - 1][j];
      for (std::size_t k = 0; k < j; ++k) rest -= row[k] * factor[j][k];
      row[j] = factor[j][j] > least ? rest / factor[j][j] : 0;
      length += row[j] * row[j];
    }
    row[i] = std::sqrt(std::max(0.0, 1 - length));
    if (length > 1)
      for (double& value : row) value /= std::sqrt(length);
    factor.push_back(std::move(row));
  }
  return factor;
}

std::vector<ConstantFit> kept(const std::vector<ConstantFit>& fits,
                              const std::function<bool(const std::string& constant)>& keeps) {
  std::vector<ConstantFit> result;
  for (const ConstantFit& fit : fits) {
    ConstantFit part;
    std::vector<std::size_t> entries;
    std::size_t constants = 0;
    for (std::size_t i = 0; i < fit.constants.size(); ++i) {
      std::vector<std::string> entry;
      std::ranges::copy_if(fit.constants[i], std::back_inserter(entry), keeps);
      if (entry.empty()) continue;
      constants += entry.size();
      if (!entries.empty()) {
        part.correlation.emplace_back();
        for (const std::size_t before : entries) part.correlation.back().push_back(fit.correlation[i - 1][before]);
      }
      entries.push_back(i);
      part.constants.push_back(std::move(entry));
    }
    if (constants > 1) result.push_back(std::move(part));
  }
  return result;
}

}  // namespace plumbline::model
