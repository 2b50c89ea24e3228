// The constants of a profile while it is fitted.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/profile_fit.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// Returns the value of a constant, or of a figure of a device file, in SI.
double si_value(const model::Parameter& parameter);

// Returns the fits of constants whose errors depend on each other: an entry, those that depend on it, those that depend
// on them, and so on. An entry that depends on none is a fit where it has several constants. `names` returns the
// constants of an entry, `correlation` that of the errors of two.
template <class Entry, class Names, class Correlation>
std::vector<model::ConstantFit> correlated_fits(std::vector<Entry> entries, const Names& names,
                                                const Correlation& correlation) {
  constexpr double least = 0.05;  // a correlation below it counts as none
  std::vector<model::ConstantFit> fits;
  while (!entries.empty()) {
    std::vector<Entry> group = {entries.front()};
    entries.erase(entries.begin());
    for (std::size_t i = 0; i < group.size(); ++i)
      std::erase_if(entries, [&](const Entry& other) {
        const bool depends = std::abs(correlation(group[i], other)) >= least;
        if (depends) group.push_back(other);
        return depends;
      });
    model::ConstantFit fit;
    for (std::size_t i = 0; i < group.size(); ++i) {
      fit.constants.push_back(names(group[i]));
      if (i == 0) continue;
      std::vector<double>& row = fit.correlation.emplace_back();
      for (std::size_t j = 0; j < i; ++j)
        row.push_back(std::round(100 * correlation(group[i], group[j])) / 100 + 0.0);  // no -0
    }
    if (group.size() > 1 || fit.constants.front().size() > 1) fits.push_back(std::move(fit));
  }
  return fits;
}

class ConstantList {
 public:
  ConstantList(const model::Profile& base, std::string source) : base_(base), source_(std::move(source)) {}

  // Adds a value in SI; its source begins with `how` it was found. It is written in the unit of the base profile's
  // constant, or of `like` when the base profile lacks the name.
  void add(const std::string& name, double si, std::optional<double> uncertainty, model::Evidence kind,
           const std::string& how, const std::string& like = "");
  // Adds parameter `index` of a fit; a silent one is 0.
  void add_fitted(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                  const std::string& like = "");
  // Adds the inverse of parameter `index`: a rate from a fit in seconds per byte.
  void add_rate(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                const std::string& like = "");

  // Returns the value in SI: as added, else as in the base profile.
  double value(const std::string& name) const;
  bool has(const std::string& name) const;
  const model::Profile& base() const { return base_; }

  std::vector<model::Parameter> take() { return std::move(parameters_); }

 private:
  const model::Parameter* find(const std::string& name) const;

  const model::Profile& base_;
  std::string source_;
  std::vector<model::Parameter> parameters_;
};

// The parts of fit_profile(): each adds the constants that its records determine.
void fit_memory(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_core_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result);  // after fit_memory
void fit_tile_gemms(const FitRecords& records, ConstantList& constants,
                    ProfileFit& result);  // on a GPU; after fit_memory
void fit_attention(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_single_times(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_interference(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_gpu_collectives(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_transfers(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void add_measured_operators(const FitRecords& records, ConstantList& constants, ProfileFit& result);

// Fits the form to records of a family and adds the fit to `result`; nullopt and a note when the records are fewer than
// the parameters.
std::optional<RobustFit> fit_family(const std::string& name, const Form& form, const Eigen::VectorXd& seconds,
                                    const Eigen::VectorXd& start, ProfileFit& result);

}  // namespace plumbline::calibrate
