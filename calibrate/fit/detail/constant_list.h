// The constants of a profile while it is fitted.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/detail/robust_fit.h"
#include "calibrate/fit/fit_records.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

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
