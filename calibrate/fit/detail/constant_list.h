// The constants of a profile in the making.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/detail/robust_fit.h"
#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/fit_result.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

class ConstantList {
 public:
  ConstantList(const model::Profile& base, std::string source) : base_(base), source_(std::move(source)) {}

  // A value in SI; `how` it came about stands before the source. Written in the unit that the base profile uses for
  // it, or, of a name that it lacks, in that of `like`.
  void add(const std::string& name, double si, std::optional<double> uncertainty, model::Evidence kind,
           const std::string& how, const std::string& like = "");
  // Parameter `index` of a fit; one that is silent is 0.
  void add_fitted(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                  const std::string& like = "");
  // Its inverse: a rate of a fit that has seconds per byte.
  void add_rate(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                const std::string& like = "");

  // In SI: as added, else as in the base profile.
  double value(const std::string& name) const;
  bool has(const std::string& name) const;

  std::vector<model::Parameter> take() { return std::move(parameters_); }

 private:
  const model::Parameter* find(const std::string& name) const;

  const model::Profile& base_;
  std::string source_;
  std::vector<model::Parameter> parameters_;
};

// The parts of fit_profile(), each of which adds what its records tell.
void fit_memory(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_core_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result);  // after fit_memory
void fit_tile_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result);  // of a GPU, likewise
void fit_attention(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_single_times(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_interference(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void fit_transfers(const FitRecords& records, ConstantList& constants, ProfileFit& result);
void add_measured_operators(const FitRecords& records, ConstantList& constants, ProfileFit& result);

// Fits the form to records of a family and reports it; nothing and a note where they are fewer than the parameters.
std::optional<RobustFit> fit_family(const std::string& name, const Form& form, const Eigen::VectorXd& seconds,
                                    const Eigen::VectorXd& start, ProfileFit& result);

}  // namespace plumbline::calibrate
